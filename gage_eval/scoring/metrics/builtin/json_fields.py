"""Answers in JSON, compared with the reference field by field."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from datetime import date, datetime
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from gage_eval.base.canonical import JsonValue
from gage_eval.base.field_paths import MISSING, walk
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.builtin.structured import hashable
from gage_eval.scoring.metrics.json_text import find_json
from gage_eval.scoring.metrics.lists import list_items
from gage_eval.scoring.metrics.numbers import exact, last_number
from gage_eval.scoring.metrics.text_utils import as_text, normalise_text

FieldType: TypeAlias = Literal["text", "exact", "number", "boolean", "date", "list", "json"]
Tolerance: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_DATES = ("%Y/%m/%d", "%Y%m%d", "%d.%m.%Y", "%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y")
_MOST_SHOWN = 5


@with_config(ConfigDict(extra="forbid"))
class FieldRule(TypedDict, total=False):
    """How a field is compared; a tolerance is in the field's unit, days for a date."""

    type: FieldType
    tolerance: Tolerance
    relative_tolerance: Tolerance


@metric("json_fields", value=("all", "fields", ".*"), binary=("all", ".*"), bounds={"fields": (0, 1)}, version=1)
def json_fields(
    prediction: str,
    reference: str,
    *,
    fields: Annotated[Mapping[str, FieldType | FieldRule], Field(min_length=1)] | None = None,
    tolerance: Tolerance = 0.0,
    relative_tolerance: Tolerance = 0.0,
) -> Score:
    """Whether all fields of the answer's JSON are right, the share of right fields, and each field (``.address.city``).

    ``fields`` names the fields by their dotted paths, each with a type, or with ``{type: number, tolerance: 0.01}``.
    Without it they are the fields of the reference, and their types those of its values. Types: ``text`` collapses
    white space and ignores case, ``exact`` compares text as it is, ``number`` reads numbers as `numeric_match` does,
    ``boolean`` also reads yes and no, ``date`` reads ISO 8601, day.month.year and dates with a named month, ``list``
    compares items in any order, ``json`` any value. ``tolerance`` and ``relative_tolerance`` are those of fields
    without their own. A field that is null or missing on both sides is right; other fields of the answer are ignored.
    An answer without a JSON object is unparsed.
    """
    wanted = find_json(reference)
    if wanted is None or not isinstance(wanted[0], dict):
        return Score.unscored("the reference is not a JSON object")
    rules = dict(_rules(wanted[0]) if fields is None else _named(fields))
    if not rules:
        return Score.unscored("the reference has no fields")
    document = find_json(prediction)
    if document is None or not isinstance(document[0], dict):
        nothing = {"all": 0.0, "fields": 0.0, **{f".{path}": 0.0 for path in rules}}
        return Score.unparsed("the answer holds no JSON object", value=nothing)
    shared: FieldRule = {"tolerance": tolerance, "relative_tolerance": relative_tolerance}
    right: dict[str, bool] = {}
    wrong: list[str] = []
    for path, rule in rules.items():
        said, true = (_value(walk(side[0], path)) for side in (document, wanted))
        right[path] = _same(said, true, {**shared, **rule})
        if not right[path]:
            wrong.append(f"{path} is {_shown(said)}, not {_shown(true)}")
    more = f" and {len(wrong) - _MOST_SHOWN} more" if len(wrong) > _MOST_SHOWN else ""
    values = {"all": float(not wrong), "fields": sum(right.values()) / len(right)}
    return Score(
        {**values, **{f".{path}": float(same) for path, same in right.items()}},
        explanation="; ".join(wrong[:_MOST_SHOWN]) + more or None,
    )


def field_types(reference: Mapping[str, JsonValue]) -> dict[str, FieldType]:
    """The fields of a reference by their dotted paths, with the types of their values."""
    return {path: rule["type"] for path, rule in _rules(reference)}


def _named(fields: Mapping[str, FieldType | FieldRule]) -> Iterator[tuple[str, FieldRule]]:
    for path, rule in fields.items():
        yield path, {"type": rule} if isinstance(rule, str) else rule


def _rules(value: Mapping[str, JsonValue], before: str = "") -> Iterator[tuple[str, FieldRule]]:
    """The fields of a reference and their types; those of objects in it by their own fields."""
    for key, item in value.items():
        if isinstance(item, dict) and item:
            yield from _rules(item, f"{before}{key}.")
        else:
            yield f"{before}{key}", {"type": _type_of(item)}


def _type_of(value: JsonValue) -> FieldType:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "list" if isinstance(value, list) else "json" if isinstance(value, dict) else "text"


def _value(value: Any) -> JsonValue:
    return None if value is MISSING else value


def _same(said: JsonValue, true: JsonValue, rule: FieldRule) -> bool:
    if said is None or true is None:
        return said is true
    kind = rule.get("type", "text")
    if kind in ("number", "date"):
        read = _number if kind == "number" else _day
        off, target = read(said), read(true)
        if off is None or target is None:
            return _text(said) == _text(true)
        leeway = exact(rule.get("tolerance", 0.0))
        if kind == "number":
            leeway = max(leeway, exact(rule.get("relative_tolerance", 0.0)) * abs(target))
        return bool(abs(off - target) <= leeway)
    if kind == "list":
        return _items(said) == _items(true)
    if kind == "json":
        return hashable(said) == hashable(true)
    if kind == "boolean":
        return bool(_truth(said) == _truth(true))
    return as_text(said) == as_text(true) if kind == "exact" else _text(said) == _text(true)


def _number(value: JsonValue) -> Fraction | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return exact(value)
    number = last_number(value) if isinstance(value, str) else None
    return None if number is None else Fraction(number.resolved(percent=False))


def _day(value: JsonValue) -> Fraction | None:
    """The number of a day; None for what is not a date."""
    text = _text(value)
    try:
        return Fraction(date.fromisoformat(text[:10] if text[10:11] in ("t", " ") else text).toordinal())
    except ValueError:
        pass
    for form in _DATES:
        try:
            return Fraction(datetime.strptime(text, form).toordinal())  # noqa: DTZ007  # a day, not a time
        except ValueError:
            continue
    return None


def _truth(value: JsonValue) -> JsonValue:
    return value if isinstance(value, bool) else _TRUTHS.get(_text(value), _text(value))


def _items(value: JsonValue) -> Counter[Hashable]:
    """The items of a list, each as often as it is there: texts in lower case, numbers by value."""
    items = value if isinstance(value, list) else list_items(as_text(value))
    return Counter(_text(item) if isinstance(item, str) else hashable(item) for item in items)


def _text(value: JsonValue) -> str:
    return normalise_text(as_text(value), collapse_whitespace=True)


def _shown(value: JsonValue) -> str:
    text = "missing" if value is None else as_text(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
