"""Metrics on answers in JSON."""

from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from gage_eval.base import patterns
from gage_eval.base.canonical import JsonValue, canonical_text, decode
from gage_eval.base.errors import InputError
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.json_text import find_json, read_json

_MOST_ERRORS = 3


@metric("json_valid", binary=True, version=2)
def json_valid(prediction: str, *, extract: bool = False) -> Score:
    """1 when the answer is JSON and nothing else, else 0; with ``extract`` when it holds a JSON object or list.

    NaN, infinities and comments are not JSON (RFC 8259), nor are numbers too large for a float, such as 1e999.
    """
    if extract:
        return Score(float(find_json(prediction) is not None))
    try:
        read_json(prediction.strip())
    except ValueError as error:
        return Score(0.0, explanation=str(error))
    return Score(1.0)


@metric(
    "json_schema",
    binary=True,
    version=2,
    fields={"sample_schema": "sample.metadata.json_schema"},
    libraries=("jsonschema",),
)
def json_schema(
    prediction: str,
    sample_schema: JsonValue = None,
    *,
    schema: dict[str, Any] | None = None,
    extract: bool = True,
) -> Score:
    """1 when the answer's JSON fits a JSON Schema, else 0 (draft 2020-12 unless ``$schema`` says otherwise).

    The schema is the parameter ``schema``, else the sample's own. ``extract`` finds JSON in a fenced block or among
    words; without it the answer must be only JSON. A ``$ref`` is never fetched, formats are not checked, and
    patterns have a time limit. An answer without JSON, or with too deeply nested JSON, is unparsed.
    """
    wanted = sample_schema if schema is None else schema
    if not isinstance(wanted, Mapping | bool):
        return Score.unscored("there is no schema: set the parameter schema, or sample.metadata.json_schema")
    validator = _validator(canonical_text(wanted))
    document = find_json(prediction) if extract else _whole(prediction)
    if document is None:
        return Score.unparsed("the answer holds no JSON")
    try:
        errors = list(islice(validator.iter_errors(document[0]), _MOST_ERRORS))
    except RecursionError:
        return Score.unparsed("the answer's JSON is nested too deep")
    reasons = "; ".join(f"{error.json_path}: {error.message[:200]}" for error in errors)
    return Score(float(not errors), explanation=reasons or None)


def _whole(text: str) -> tuple[JsonValue] | None:
    try:
        return (read_json(text.strip()),)
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _validator(schema_text: str) -> Any:
    from jsonschema import Draft202012Validator, SchemaError, validators
    from referencing import Registry
    from referencing.jsonschema import EMPTY_REGISTRY

    schema = decode(schema_text)
    base = validators.validator_for(schema, default=Draft202012Validator)
    try:
        base.check_schema(schema)
    except SchemaError as error:
        raise InputError(f"json_schema: the schema is invalid at {error.json_path}: {error.message}.") from error
    limited: Any = validators.extend(  # type: ignore[no-untyped-call]
        base, {"pattern": _pattern, "patternProperties": _pattern_properties, "uniqueItems": _unique_items}
    )
    registry: Registry[Any] = EMPTY_REGISTRY
    return limited(schema, registry=registry)


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(instance, str) and patterns.search(pattern, instance) is None:
        yield ValidationError(f"{instance[:100]!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, schemas: Mapping[str, Any], instance: Any, _: Any) -> Iterator[Any]:
    if isinstance(instance, Mapping):
        for pattern, subschema in schemas.items():
            for key, value in instance.items():
                if patterns.search(pattern, key) is not None:
                    yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _unique_items(_: Any, wanted: bool, instance: Any, __: Any) -> Iterator[Any]:
    """Like jsonschema's own check, which compares every pair of items; this one is faster."""
    from jsonschema import ValidationError

    if wanted and isinstance(instance, list) and len(set(map(hashable, instance))) < len(instance):
        yield ValidationError("the items are not all different")


def hashable(value: JsonValue) -> Hashable:
    """A hashable form, equal for equal JSON values: 1 equals 1.0 and not true."""
    if isinstance(value, Mapping):
        return frozenset((key, hashable(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(hashable, value))
    return (bool, value) if isinstance(value, bool) else value
