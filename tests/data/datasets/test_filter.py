"""Filters keep what they say and nothing else; drawn samples depend on what records hold alone."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.base.errors import InputError
from gage_eval.data.datasets import Filter, Record, reservoir
from gage_eval.data.sample.record import unreadable

RECORD = {"n": 3, "text": "b", "cell": "3", "tags": ["x", "y"], "deep": {"a": [{"b": True}]}, "none": None, "f": 2.5}


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        ({"n": 3}, True),
        ({"n": 3.0}, True),
        ({"n": "3"}, True),
        ({"cell": 3}, True),
        ({"cell": {"ge": 3, "lt": 3.5}}, True),
        ({"cell": {"gt": 3}}, False),
        ({"n": True}, False),
        ({"deep.a.0.b": True}, True),
        ({"deep.a.0.b": 1}, False),
        ({"text": ["a", "b"]}, True),
        ({"text": ["a", "c"]}, False),
        ({"text": {"ge": "a", "le": "b"}}, True),
        ({"text": {"ge": 0}}, False),
        ({"n": {"ge": "0"}}, False),
        ({"tags": "x"}, True),
        ({"tags": {"ne": "x"}}, False),
        ({"tags": {"not_in": ["z"]}}, True),
        ({"none": None, "missing": None}, True),
        ({"missing": {"exists": False}, "n": {"exists": True}}, True),
        ({"none": {"exists": True}}, False),
        ({"n": 3, "text": "c"}, False),
        ([{"n": 4}, {"text": "b"}], True),
        ([{"n": 4}, {"text": "c"}], False),
        ({"deep": "x"}, False),
        ({"f": {"le": 2.5}}, True),
    ],
)
def test_conditions_mean_what_they_say(conditions: Any, kept: bool) -> None:
    assert Filter(conditions).keeps(RECORD) is kept


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        ("n == 3", "filter: write {field: value}, {field: [values]} or {field: {ge: 3}}, or a list of such."),
        ({}, "filter: write {field: value}"),
        ([], "filter: write {field: value}"),
        ([{}], "filter: write {field: value}"),
        ({"n": {"gte": 3}}, "filter.n: there is no operator 'gte' (eq, ne, in, not_in, lt, le, gt, ge, exists)."),
        ({"n": {}}, "filter.n: {} is empty"),
        ({"n": []}, "filter.n.in: it must be a list of values."),
        ({"n": [[1]]}, "filter.n.in: it must be one value, not a list."),
        ({"n": {"ge": True}}, "filter.n.ge: it must be a number or a text, not a boolean."),
        ({"n": {"exists": 1}}, "filter.n.exists: it must be true or false, not a number."),
    ],
)
def test_a_filter_that_says_nothing_sensible_is_refused(conditions: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        Filter(conditions)
    assert text in str(caught.value)


def test_records_that_cannot_be_read_stay_for_standardize_to_reject() -> None:
    broken = unreadable("the record is not UTF-8.", "")
    records = [(1, '{"n": 1}'), (2, broken), (3, "[1]"), (4, '{"n": 2}')]
    assert list(Filter({"n": 2}).apply(records)) == records[1:]


def test_a_filter_that_nothing_passes_says_which_fields_there_are() -> None:
    with pytest.raises(InputError) as caught:
        list(Filter({"topics": "x"}).apply([(1, '{"topic": "x", "n": 1}')]))
    assert str(caught.value) == (
        "none of 1 records passes the filter. There is no field 'topics'. Fields: topic, n. Did you mean 'topic'?"
    )
    # A record that cannot be read hides no slip of the pen.
    with pytest.raises(InputError, match=r"none of 1 records passes the filter\. There is no field 'm'"):
        list(Filter({"m": 5}).apply([(1, '{"n": 1}'), (2, "no JSON")]))
    with pytest.raises(InputError, match=r"none of 2 records passes the filter\. Loosen it\."):
        list(Filter({"n": 5}).apply([(1, '{"n": 1}'), (2, '{"n": 2}')]))


# Records come from JSON, where all numbers are finite.
@given(record=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
), condition=st.sampled_from([
    {"a": 1}, {"a": "1"}, {"a.b": None}, {"a": {"lt": 3}}, {"a": {"ge": "x"}}, {"a": {"not_in": [1, "b", None]}},
]))  # fmt: skip
def test_no_record_breaks_a_filter(record: Any, condition: Any) -> None:
    assert Filter(condition).keeps({"a": record}) in (True, False)


ROWS: list[Record] = [(number, json.dumps({"n": number})) for number in range(1, 61)]


@given(seed=st.integers(0, 2**64), size=st.integers(1, 70), order=st.integers())
def test_a_drawn_sample_depends_on_no_order_and_grows_from_smaller_ones(seed: int, size: int, order: int) -> None:
    drawn = list(reservoir(ROWS, size, seed))
    assert len(drawn) == min(size, len(ROWS))
    assert drawn == sorted(drawn)
    shuffled = random.Random(order).sample(ROWS, len(ROWS))
    assert sorted(reservoir(shuffled, size, seed)) == drawn
    assert set(drawn) <= set(reservoir(ROWS, size + 1, seed))


def test_a_row_that_is_drawn_from_all_is_drawn_from_any_share_that_holds_it() -> None:
    drawn = set(reservoir(ROWS, 10, 7))
    halves = set(reservoir(ROWS[:30], 10, 7)) | set(reservoir(ROWS[30:], 10, 7))
    assert drawn <= halves


def test_the_draw_is_fixed_for_ever() -> None:
    assert [line for line, _ in reservoir(ROWS, 5, 123)] != [line for line, _ in reservoir(ROWS, 5, 124)]
    assert [line for line, _ in reservoir(ROWS, 5, 123)] == [10, 12, 46, 55, 56]
