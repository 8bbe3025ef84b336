"""`json_fields` compares fields by their types, and counts an answer that cannot be read as wrong in every field."""

import json
from typing import Any

import pytest
from score_tables import responses, sample, samples

from gage_eval.base.errors import InputError
from gage_eval.scoring.metrics import bind

REFERENCE = {
    "name": "Ann  Lee",
    "total": 12.5,
    "paid": True,
    "day": "2024-03-05",
    "items": ["Tea", 2],
    "address": {"city": "Rome", "zip": None},
    "extra": {},
}


def values(answer: Any, reference: Any = REFERENCE, **params: Any) -> dict[str, float]:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    (row,) = bind("json_fields", params).score_row([text, json.dumps(reference)])
    return dict(row["values"])


def test_types_are_those_of_the_reference() -> None:
    assert set(values(REFERENCE).values()) == {1.0}
    changed = {**REFERENCE, "name": "ann lee", "total": "12.50 €", "paid": "yes", "items": [2, "tea"]}
    assert values(f"Here it is:\n```json\n{json.dumps(changed)}\n```") == values(REFERENCE)
    wrong = {**REFERENCE, "total": 12.51, "address": {"city": "Milan"}, "unasked": 1}
    got = values(wrong)
    assert (got[".total"], got[".address.city"], got[".address.zip"], got[".extra"]) == (0, 0, 1, 1)
    assert (got["all"], got["fields"]) == (0, pytest.approx(6 / 8))


@pytest.mark.parametrize(
    ("rule", "said", "true", "right"),
    [
        ({"type": "number", "tolerance": 0.1}, 12.6, 12.5, True),
        ({"type": "number", "tolerance": 0.1}, 12.7, 12.5, False),
        ({"type": "number", "relative_tolerance": 0.01}, "1,009", 1000, True),
        ("number", "about 5", "five", True),
        ("number", True, 1, False),
        ("number", "unknown", "Unknown", True),
        ("exact", "a", "A", False),
        ("date", "March 5, 2024", "2024-03-05", True),
        ("date", "2024-03-05T10:00:00Z", "05.03.2024", True),
        ({"type": "date", "tolerance": 1}, "2024-03-06", "2024-03-05", True),
        ("date", "2024-03-06", "2024-03-05", False),
        ("list", "tea, milk", ["Milk", "tea"], True),
        ("list", ["tea", "tea"], ["tea"], False),
        ("json", {"a": [1.0]}, {"a": [1]}, True),
        ("text", None, "", False),
        ("boolean", "no", False, True),
    ],
)
def test_a_named_type_decides(rule: Any, said: Any, true: Any, right: bool) -> None:
    assert values({"x": said}, {"x": true}, fields={"x": rule})[".x"] == right


def test_unreadable_answers_are_wrong_in_every_field_and_fields_have_wilsons_interval() -> None:
    bound = bind("json_fields", filters=[{"regex": {"pattern": "(\\{.*\\})"}}])
    tables = {
        "samples": samples([sample(at, '{"a": 1, "b": "x"}') for at in range(3)]),
        "responses": responses(
            [{"row_index": at, "answer": text} for at, text in enumerate(('{"a": 1, "b": "y"}', "none", "{no}"))]
        ),
    }
    rows = bound.aggregate([bound.score_table(tables)], {})
    assert {row["value_key"]: (row["value"], row["n"], row["interval"]) for row in rows} == {
        "all": (0, 3, "wilson"),
        "fields": (pytest.approx(1 / 6), 3, "t"),
        ".a": (pytest.approx(1 / 3), 3, "wilson"),
        ".b": (0, 3, "wilson"),
    }


def test_a_reference_that_is_no_object_is_unscored_and_a_wrong_rule_is_refused() -> None:
    assert bind("json_fields").score_row(["{}", "[1]"])[0]["status"] == "unscored"
    for rule in ("float", {"type": "number", "tolerance": -1}, {"kind": "text"}):
        with pytest.raises(InputError, match="parameter 'fields'"):
            bind("json_fields", {"fields": {"a": rule}})
