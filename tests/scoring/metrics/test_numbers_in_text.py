"""Promises of numbers in text: found as written, compared exactly, never an attack."""

import random
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_tables import score

from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.numbers import Number, _in_words, _matches, _number, exact, first_number, last_number


def find_numbers(text: str) -> list[Number]:
    """All numbers of a text in order, by the rule of which `first_number` and `last_number` take one."""
    return list(filter(None, map(_number, _matches(text)))) or _in_words(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", "42"),
        ("The answer is 18.", "18"),
        ("$1,234.50", "1234.5"),
        ("1_000", "1000"),
        ("12,34,567", "1234567"),
        ("1\u202f000\u202f000", "1000000"),
        ("70000", "70000"),
        ("**42**", "42"),
        ("_42_", "42"),
        (".5", "0.5"),
        ("-3", "-3"),
        ("−3", "-3"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("x=-5", "-5"),
        ("(-5)", "-5"),
        ("+7", "7"),
        ("3/4", "3/4"),
        ("-3/4", "-3/4"),
        ("1 1/2", "3/2"),
        ("½", "1/2"),
        ("2½", "5/2"),
        (r"\frac{1}{2}", "1/2"),
        (r"2\dfrac{1}{2}", "5/2"),
        ("1.2e-3", "0.0012"),
        ("3 × 10^5", "300000"),
        (r"3 \times 10^{5}", "300000"),
        ("答案是-5", "-5"),
        ("４２", "42"),
        ("٤٢", "42"),
        ("5kg", "5"),
        ("US$5", "5"),
        # Powers, and units with exponents.
        ("42 m^2", "42"),
        (r"$42\,\text{m}^2$", "42"),
        (r"42\text{ cm}^3", "42"),
        ("9.8 m/s^2", "9.8"),
        ("4 s^{-1}", "4"),
        ("4 m**-2", "4"),
        ("42 m²", "42"),
        ("10^{3}", "1000"),
        ("$5^2$", "25"),
        ("2**10", "1024"),
        ("-2^2", "-4"),
        ("10⁻³", "0.001"),
        ("1.5×10⁻³ m", "0.0015"),
        ("x^2 = 9", "9"),
        # Separators of other countries.
        ("1 234", "1234"),
        ("1 000 000,75", "1000000.75"),
        ("€ 1.000,50", "1000.50"),
        ("1.234,5", "1234.5"),
        ("1.000.000", "1000000"),
        ("3,14", "3.14"),
        ("0,125", "0.125"),
        ("1{,}234", "1234"),
        ("1.000", "1"),
        ("In 2020 100 people", "100"),
        ("0.125,0.250", "0.25"),
        ("1,2,3", "3"),
        # Signs.
        ("–3", "-3"),
        ("minus 3", "-3"),
        ("a negative $5", "-5"),
        ("负5", "-5"),
        ("5 minus 3", "3"),
        ("5–10", "10"),
        # Scales.
        ("3万", "30000"),
        ("2.5亿元", "250000000"),
        ("3千万", "30000000"),
        ("1.5 million", "1500000"),
        ("3,5 Milliarden Euro", "3500000000"),
        ("4 millones", "4000000"),
        ("3k", "3000"),
        ("$20K", "20000"),
        ("300K", "300"),
        ("5千克", "5"),
        ("5 millimetres", "5"),
        # Words.
        ("seven", "7"),
        ("The answer is seven.", "7"),
        ("two hundred and five", "205"),
        ("minus twenty-one", "-21"),
        ("one", "1"),
        ("四十二", "42"),
        ("答案是七", "7"),
        ("三分之二", "2/3"),
        ("百分之五十", "50"),
    ],
)
def test_a_number_is_read_as_people_write_it(text: str, value: str) -> None:
    number = last_number(text)
    assert number is not None
    assert number.value == Fraction(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "nan",
        "inf",
        "-Infinity",
        "H2O",
        "1/0",
        "²",
        "e5",
        "$",
        "m^2",
        "x**2",
        "only one of them",
        "一些",
        "十分好",
        "千万不要",
    ],
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert last_number(text) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("20-5 = 15", [20, 5, 15]),
        ("3/4/2020", [3, 4, 2020]),
        ("- 5 apples\n- 6 pears", [5, 6]),
        ("between 5-10", [5, 10]),
        ("--5", [-5]),
    ],
)
def test_signs_between_operands_bullets_and_dates_are_no_signs_and_fractions(text: str, values: list[int]) -> None:
    assert [number.value for number in find_numbers(text)] == values


def test_the_last_number_counts_and_the_first_on_request() -> None:
    assert score(bind("numeric_match"), [("5 + 3 = 8", "8")]) == [("scored", {"score": 1.0})]
    assert score(bind("numeric_match", {"take": "first"}), [("5 + 3 = 8", "5")]) == [("scored", {"score": 1.0})]
    first = first_number("5 then 8")
    assert first is not None
    assert first.text == "5"


@pytest.mark.parametrize(
    ("answer", "reference", "params", "right"),
    [
        ("180001", "180000", {}, False),
        ("0.30000000000000000001", "0.3", {"relative_tolerance": 0}, False),
        ("1.4700000000000002", "1.47", {}, True),
        ("3.999999999999999", "4", {}, True),
        ("1.5e3", "1500.001", {}, True),
        ("1.471", "1.47", {}, False),
        ("1000001", "1000000", {}, False),
        ("1000000.4", "1000000", {}, True),
        ("1000000.4", "1000000", {"relative_tolerance": 0}, False),
        ("1.4700000000000002", "1.47", {"tolerance": 1e-20}, False),
        ("百分之六十", "0.6", {}, True),
        ("1234.00", "1234", {}, True),
        ("0.30", "0.3", {}, True),
        ("5.1", "5", {"tolerance": 0.1}, True),
        ("5.11", "5", {"tolerance": 0.1}, False),
        ("101", "100", {"relative_tolerance": 0.01}, True),
        ("-101", "-100", {"relative_tolerance": 0.01}, True),
        ("101.01", "100", {"relative_tolerance": 0.01}, False),
        ("60%", "60", {}, False),
        ("60%", "60%", {}, True),
        ("60%", "0.6", {}, True),
        ("60%", "60", {"percent": True}, True),
        ("60", "60%", {"percent": True}, True),
        ("1e999999999", "1", {}, None),
        ("nan", "5", {}, None),
        ("inf", "5", {"tolerance": 1e300}, None),
        ("7", "5", {"mode": "ge"}, True),
        ("5", "5", {"mode": "ge"}, True),
        ("4", "5", {"mode": "ge"}, False),
        ("4", "5", {"mode": "le"}, True),
        ("5.05", "5", {"mode": "le", "tolerance": 0.05}, True),
    ],
)
def test_whole_numbers_are_compared_exactly_and_others_but_for_the_noise_of_floats(
    answer: str, reference: str, params: dict[str, object], right: bool | None
) -> None:
    ((status, values),) = score(bind("numeric_match", params), [(answer, reference)])
    expected = ("unparsed", {"score": 0.0}) if right is None else ("scored", {"score": float(right)})
    assert (status, values) == expected


def test_an_answer_without_a_number_gets_the_fallback() -> None:
    assert score(bind("numeric_match", {"fallback": 0.5}), [("many", "5")]) == [("unparsed", {"score": 0.5})]


def test_a_reference_without_a_number_is_no_fault_of_the_model() -> None:
    assert score(bind("numeric_match"), [("5", "many"), ("inf", "inf")]) == [("unscored", {})] * 2


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9))
def test_every_decimal_is_found_as_itself_with_or_without_separators(value: Decimal) -> None:
    for text in (f"{value:f}", f"{value:,f}", f"so the answer is ${value:,f}."):
        number = last_number(text)
        assert number is not None
        assert number.value == Fraction(value)


def test_a_number_in_words_counts_only_without_one_in_digits() -> None:
    assert [number.value for number in find_numbers("Of two hundred, 40 are left, which is the one")] == [40]
    first, last = first_number("two of three"), last_number("two of three")
    assert first is not None
    assert last is not None
    assert (first.value, last.value) == (2, 3)


_PIECES = [
    *"0123456789-+.,/_ %$eE×^*{}()½²⁻k万千百一二十分之负",
    "frac",
    "million",
    "minus ",
    "seven",
    "hundred ",
    "\\",
    "\\,",
]


@settings(max_examples=5 * settings().max_examples)
@given(st.lists(st.sampled_from(_PIECES), max_size=40).map("".join))
def test_any_text_gives_only_finite_values(text: str) -> None:
    for number in find_numbers(text):
        assert isinstance(number.value, int | Fraction)
        assert number.text


def test_ten_thousand_made_answers_have_a_finite_number_or_none() -> None:
    draw = random.Random(20261126)
    for _ in range(10_000):
        text = "".join(draw.choices(_PIECES, k=draw.randrange(1, 30)))
        for number in (first_number(text), last_number(text)):
            assert number is None or isinstance(number.value, int | Fraction), text


@pytest.mark.parametrize(
    ("piece", "first"),
    [
        ("1", None),
        ("-", None),
        ("1,", "1"),
        ("1 ", "1"),
        ("$ ", None),
        ("1/", "1"),
        ("1e", "1e1"),
        (" ", None),
        ("1 1/", "1 1/1"),
        ("1×10^", "1×10^1"),
        ("½", "1"),
        ("11,", "11"),
        ("1.111.", "1.111"),
        ("1.111,1.", "1.111"),
        ("1 111 1", "1 111"),
        ("2^", "2^2"),
        ("one-", None),
        ("one ", "one " * 20 + "one"),
        ("是一", "一"),
        ("一分之", "一分之一"),
        ("minus ", None),
    ],
)
def test_a_long_hostile_answer_costs_linear_time(piece: str, first: str | None) -> None:
    # Quadratic work on 200,000 characters would outlast the test's time limit many times over.
    texts = [number.text for number in find_numbers(piece * (200_000 // len(piece)))]
    assert next(iter(texts), None) == first


def test_a_configured_number_is_the_decimal_it_was_written_as() -> None:
    assert exact(0.1) == Fraction(1, 10)
