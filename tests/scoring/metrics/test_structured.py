"""Promises of metrics and filters on JSON, numbers, lists and fields."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_tables import answers, sample, samples, score

from gage_eval.base import canonical
from gage_eval.base.errors import InputError
from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.json_text import find_json

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[A-Z]"}, "age": {"type": "integer"}},
    "required": ["name"],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def row_of(metric: str, answer: str, reference: str = "x", /, **params: Any) -> tuple[str, dict[str, float]]:
    """Status and values of one answer."""
    (row,) = score(bind(metric, params), [(answer, reference)])
    return row


@pytest.mark.parametrize(
    ("answer", "whole", "inside"),
    [
        ('{"a": 1}', 1.0, 1.0),
        (" [1, 2]\n", 1.0, 1.0),
        ("3", 1.0, 1.0),
        ('```json\n{"a": 1}\n```', 0.0, 1.0),
        ('Sure: {"a": 1}.', 0.0, 1.0),
        ("{'a': 1}", 0.0, 0.0),
        ('{"a": NaN}', 0.0, 0.0),
        ('{"a": 1e999}', 0.0, 0.0),
        ("", 0.0, 0.0),
        ("none", 0.0, 0.0),
        ("[" * 100_000, 0.0, 0.0),
    ],
)
def test_json_valid_wants_json_alone_unless_told_to_look_for_it(answer: str, whole: float, inside: float) -> None:
    assert row_of("json_valid", answer) == ("scored", {"score": whole})
    assert row_of("json_valid", answer, extract=True) == ("scored", {"score": inside})


@given(JSON.filter(lambda value: isinstance(value, dict | list)), st.sampled_from(["", "Sure, here: ", "A [note]: "]))
def test_json_among_words_is_found_whatever_it_holds(value: Any, before: str) -> None:
    assert find_json(f"{before}{canonical.canonical_text(value)} That is all.") == (value,)


def test_the_last_json_of_an_answer_counts_and_the_inner_one_where_the_outer_is_none() -> None:
    assert find_json('first {"a": 1} then {"a": {"b": "}"}}') == ({"a": {"b": "}"}},)
    assert find_json("{set: [1, 2]}") == ([1, 2],)
    assert find_json('{ "a" [1]') == ([1],)


@pytest.mark.parametrize(
    ("answer", "status", "right"),
    [
        ('{"name": "Ada", "age": 36}', "scored", 1.0),
        ('Here: {"name": "Ada"}', "scored", 1.0),
        ('{"name": "ada"}', "scored", 0.0),
        ('{"age": 36}', "scored", 0.0),
        ('{"name": "Ada", "age": "36"}', "scored", 0.0),
        ("no", "unparsed", 0.0),
    ],
)
def test_json_schema_checks_the_answers_json(answer: str, status: str, right: float) -> None:
    assert row_of("json_schema", answer, schema=PERSON) == (status, {"score": right})


def test_json_schema_says_what_does_not_fit_and_where() -> None:
    table = bind("json_schema", {"schema": PERSON}).score_table(
        {"samples": samples([sample(0)]), "responses": answers(['{"name": 5}'])}
    )
    assert table.column("explanation").to_pylist() == ["$.name: 5 is not of type 'string'"]


def test_json_schema_may_be_the_samples_own() -> None:
    bound = bind("json_schema")
    table = bound.score_table(
        {
            "samples": samples([sample(0, metadata={"json_schema": PERSON}), sample(1)]),
            "responses": answers(['{"name": "Ada"}'] * 2),
        }
    )
    assert table.column("status").to_pylist() == ["scored", "unscored"]


def test_a_reference_in_a_schema_is_never_fetched() -> None:
    status, _ = row_of("json_schema", "{}", schema={"$ref": "http://127.0.0.1:9/schema.json"})
    assert status == "unscored"


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("[]", 1.0),
        ("[1, true, 0, false, null]", 1.0),
        ('[[1], [true], {"a": 1}, {"a": true}, [], {}]', 1.0),
        ("[1, 1.0]", 0.0),
        ('[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]', 0.0),
        ("[" + ",".join(f'{{"a": {number}}}' for number in range(20_000)) + "]", 1.0),
    ],
    ids=["empty", "constants", "nested", "numbers", "objects", "many"],
)
def test_items_that_must_be_unique_are_each_looked_at_once(answer: str, right: float) -> None:
    assert row_of("json_schema", answer, schema={"uniqueItems": True}) == ("scored", {"score": right})


def test_json_too_deep_for_its_schema_is_the_answers_fault() -> None:
    tree = {"type": "array", "items": {"$ref": "#"}}
    assert row_of("json_schema", "[" * 5 + "]" * 5, schema=tree) == ("scored", {"score": 1.0})
    assert row_of("json_schema", "[" * 900 + "]" * 900, schema=tree) == ("unparsed", {"score": 0.0})


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="the schema is invalid at"):
        row_of("json_schema", "{}", schema={"type": "thing"})


@pytest.mark.parametrize(
    ("answer", "reference", "params", "values"),
    [
        ("It costs $1,234.50", "1234.5", {}, (1.0, 1.0, 0.0)),
        ("105", "100", {"relative_tolerance": 0.05}, (1.0, 0.0, 5.0)),
        ("106", "100", {"tolerance": 5}, (0.0, 0.0, 6.0)),
        ("60%", "60", {"percent": True}, (1.0, 1.0, 0.0)),
    ],
)
def test_number_gives_tolerance_exactness_and_distance(
    answer: str, reference: str, params: dict[str, Any], values: tuple[float, float, float]
) -> None:
    keys = ("price_within_tol", "price_exact", "price_abs_error")
    assert row_of("number", answer, reference, name="price", **params) == (
        "scored",
        dict(zip(keys, values, strict=True)),
    )


def test_an_answer_without_a_number_is_wrong_and_has_no_distance() -> None:
    assert row_of("number", "many", "5") == ("unparsed", {"value_within_tol": 0.0, "value_exact": 0.0})
    assert row_of("number", "5", "many")[0] == "unscored"


@pytest.mark.parametrize("answer", ["1e306", "-1e4000"])
def test_an_answer_too_far_off_for_a_mean_of_distances_is_wrong_all_the_same(answer: str) -> None:
    assert row_of("number", answer, "5") == ("scored", {"value_within_tol": 0.0, "value_exact": 0.0})


@pytest.mark.parametrize(
    ("answer", "reference", "params", "values"),
    [
        ("red, green", "Red; green", {}, (1.0, 1.0, 1.0, 1.0)),
        ("- red\n- blue", '["red", "green"]', {}, (0.5, 0.5, 0.5, 0.0)),
        ('The list: ["a", "b", "b"]', "a, b", {}, (2 / 3, 1.0, 0.8, 0.0)),
        ("b, a", "a, b", {"ordered": True}, (1.0, 1.0, 1.0, 0.0)),
        ("a|b c", "a|B  c", {"separator": "|"}, (1.0, 1.0, 1.0, 1.0)),
        ("a", "A", {"case_sensitive": True}, (0.0, 0.0, 0.0, 0.0)),
        ("[]", "[]", {}, (1.0, 1.0, 1.0, 1.0)),
    ],
)
def test_list_compares_items_as_bags(
    answer: str, reference: str, params: dict[str, Any], values: tuple[float, ...]
) -> None:
    status, row = row_of("list", answer, reference, name="colours", **params)
    assert status == "scored"
    keys = ("colours_precision", "colours_recall", "colours_f1", "colours_exact")
    assert row == pytest.approx(dict(zip(keys, values, strict=True)))


def test_an_answer_that_lists_nothing_is_unparsed() -> None:
    assert row_of("list", " ", "a, b")[0] == "unparsed"


def test_field_completeness_is_the_share_of_fields_filled_in() -> None:
    bound = bind("field_completeness", {"fields": ["name", "address.city", "tags", "note"], "name": "filled"})
    table = bound.score_table(
        {
            "samples": samples([sample(0), sample(1)]),
            "responses": answers(
                ['{"name": "Ada", "address": {"city": "London"}, "tags": [], "note": " "}', "no JSON"]
            ),
        }
    )
    assert [dict(row) for row in table.column("values").to_pylist()] == [{"filled": 0.5}, {"filled": 0.0}]
    assert table.column("explanation").to_pylist() == ["not filled in: tags, note", "the answer holds no JSON"]


@pytest.mark.parametrize("name", ["", "a b", "1a", "x" * 65])
def test_the_name_of_a_calculator_is_a_word(name: str) -> None:
    with pytest.raises(InputError, match="parameter 'name'"):
        bind("number", {"name": name})
