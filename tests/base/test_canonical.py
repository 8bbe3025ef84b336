"""The one JSON form: equal values have one text, and what has none is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.base.canonical import TooDeep, canonical_json, canonical_text, decode, digest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("aé€😀"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
)


@given(JSON)
def test_a_value_comes_back_and_has_one_text(value: object) -> None:
    text = canonical_text(value)
    assert decode(text) == value
    assert canonical_text(decode(text)) == text


def test_equal_numbers_and_orders_of_keys_are_one_text() -> None:
    assert canonical_json({"b": 1.0, "a": -0.0}) == b'{"a":0,"b":1}' == canonical_json({"a": 0, "b": 1})
    assert digest({"b": 2**70, "a": 1.5}) == digest({"a": 1.5, "b": 2**70})
    assert decode(str(2**70)) == 2**70


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, {"a": {2, 3}}, "\ud800"])
def test_what_has_no_form_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"no JSON form|is not a string|surrogate pair"):
        canonical_json(value)


def test_half_a_surrogate_pair_is_named_in_the_refusal() -> None:
    with pytest.raises(ValueError, match=r"'\\ud800', one half of a surrogate pair"):
        canonical_json({"a": "x\ud800"})


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", "{'a': 1}", "[" * 5_000, "[" * 5_000 + "]" * 5_000])
def test_what_is_no_json_is_refused_however_deep(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1e999", "the number 1e999 is too large"),
        ('{"a": [-1e400]}', "the number -1e400 is too large"),
        ("1" * 5_000, "an integer of 5,000 digits is too long"),
    ],
)
def test_a_number_that_no_value_can_hold_is_refused_in_plain_words(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        decode(text)


def test_what_is_nested_too_deep_says_so() -> None:
    with pytest.raises(TooDeep, match="nested too deep"):
        decode('{"a":' * 100_000 + "1" + "}" * 100_000)
