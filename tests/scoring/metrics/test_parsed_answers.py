"""Structured answers and normalisation: what is read, and that no text breaks it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import InputError
from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.normalization import NormalizationConfig
from gage_eval.scoring.metrics.parse_schema import FieldType, ParseField, ParseSchema

MOOD = ParseField("mood", "enum", ("positive", "negative", "not sure"))
PRICE = ParseField("price", "number")
TAGS = ParseField("tags", "list")
NOTE = ParseField("note", "text")
ALL = ParseSchema((MOOD, PRICE, TAGS, NOTE))


@pytest.mark.parametrize(
    ("field", "answer", "value"),
    [
        (MOOD, "positive", "positive"),
        (MOOD, " POSITIVE\n", "positive"),
        (MOOD, "It is negative, not positive.", "positive"),
        (MOOD, "I am not sure.", "not sure"),
        (MOOD, "positively", None),
        (MOOD, "", None),
        (PRICE, "about $1,234.50", 1234.5),
        (PRICE, "4", 4),
        (PRICE, "60%", 0.6),
        (PRICE, "1/3", "1/3"),
        (PRICE, "0.12345678901234567890123", "0.12345678901234567890123"),
        (PRICE, "1e4000", "1e4000"),
        (PRICE, "none", None),
        (TAGS, '["A", "b"]', ["A", "b"]),
        (TAGS, "A, b", ["A", "b"]),
        (TAGS, "- A\n- b", ["A", "b"]),
        (TAGS, " ", None),
        (NOTE, "  as it is ", "as it is"),
        (NOTE, "", None),
    ],
)
def test_one_field_is_read_from_the_whole_answer(field: ParseField, answer: str, value: object) -> None:
    assert ParseSchema((field,)).parse(answer) == ({} if value is None else {field.name: value})


def test_fields_come_from_json_or_from_lines() -> None:
    wanted = {"mood": "negative", "price": 4, "tags": ["a", "b"], "note": "x: y"}
    assert ALL.parse('Here: {"mood": "Negative", "price": 4, "tags": ["a", "b"], "note": "x: y", "more": 1}') == wanted
    assert ALL.parse("**Mood**: Negative\nprice: $4\n- tags: a, b\nnote: x: y\nother: z") == wanted
    assert ALL.parse("<think>mood: positive</think>mood: negative") == {"mood": "negative"}
    assert ALL.parse("<think>mood: positive") == {}
    assert ALL.parse('{"mood": null, "price": true, "tags": {}}') == {"tags": ["{}"]}


TYPES: list[FieldType] = ["enum", "number", "list", "text"]


@given(st.text(), st.sampled_from(TYPES))
def test_whatever_is_read_has_a_canonical_form(text: str, kind: FieldType) -> None:
    values = ("a", "İ", "ß") if kind == "enum" else ()
    parsed = ParseSchema((ParseField("f", kind, values),)).parse(text)
    if "\ud800" not in text:
        canonical_text(parsed)
    if kind == "enum":
        assert parsed.get("f", "a") in values


def test_answers_of_a_megabyte_are_read_in_time() -> None:
    started = time.process_time()
    for text in ("positive " * 120_000, "{" * 1_000_000, "mood:" * 200_000, "9" * 1_000_000, "\n" * 1_000_000):
        ALL.parse(text)
        ParseSchema((MOOD,)).parse(text)
    assert time.process_time() - started < 20


def test_an_official_rule_is_not_normalised() -> None:
    lower = NormalizationConfig()
    assert bind("squad", normalization=lower).normalization is None
    assert bind("exact_match", normalization=lower).normalization == lower
    kept = bind("exact_match", {"case_sensitive": True}, normalization=lower).normalization
    assert kept is not None
    assert not kept.lowercase


def test_what_is_parsed_is_part_of_the_identity_of_a_metric_that_reads_it() -> None:
    plain = bind("exact_match").identity()["scores"]
    assert bind("exact_match", parse_schema=ALL).identity()["scores"] == plain
    reading = bind("exact_match", {"pred_field": "mood"}, parse_schema=ALL).identity()["scores"]
    assert reading["parse_schema"] == ALL.identity()
    with pytest.raises(InputError, match=r"parse_schema has no 'mod'.*Did you mean 'mood'"):
        bind("exact_match", {"pred_field": "model_output.parsed.mod"}, parse_schema=ALL)


@pytest.mark.parametrize(
    ("how", "text", "normal"),
    [
        ({}, "  A \n B ", "a b"),
        ({"lowercase": False}, " A  B", "A B"),
        ({"trim_whitespace": False}, " a  b ", " a b "),
        ({"collapse_spaces": False}, " a  b ", "a  b"),
        ({"unit_aliases": {"kg": ["kilogram", "kilograms"]}}, "5kilograms, 6 KILOGRAM", "5kg, 6 kg"),
        ({"unit_aliases": {"kg": ["kilogram"]}}, "kilogramme", "kilogramme"),
        ({"unit_aliases": {"m2": ["square metres"], "m": ["metres"]}}, "4 square metres", "4 m2"),
        ({"lowercase": False, "unit_aliases": {"kg": ["kilo"]}}, "5 Kilo", "5 Kilo"),
        ({"unit_aliases": {"s": ["sec"]}}, "5 ſec", "5 ſec"),
    ],
)
def test_each_flag_does_what_it_says(how: dict[str, object], text: str, normal: str) -> None:
    assert NormalizationConfig.model_validate(how).apply(text) == normal


@given(st.text())
def test_normal_form_is_reached_at_once(text: str) -> None:
    how = NormalizationConfig(lowercase=False, unit_aliases={"kg": ["kilogram"]})
    assert how.apply(how.apply(text)) == how.apply(text)
