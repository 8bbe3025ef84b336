"""Filters: which records take part, by the values of their fields."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from gage_eval.base import canonical
from gage_eval.base.canonical import JsonValue, canonical_text
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import walk_or_key
from gage_eval.data.datasets.base import Record
from gage_eval.data.sample.record import RecordRejected, kind_of, parse_record

_Test: TypeAlias = Callable[[Any], bool]
_SHOWN = 12


class Filter:
    """Conditions on fields of raw records.

    A mapping holds when all of its fields do; a list of mappings holds when one of them does. A field is a dotted path.
    Its condition is a value, a list of accepted values, or operators: ``eq``, ``ne``, ``in``, ``not_in``, ``lt``,
    ``le``, ``gt``, ``ge``, ``exists``, as in ``{level: {ge: 3}, subject: [Algebra, Geometry]}``.

    Numbers are compared by value, also with texts that spell a number (cells of CSV files are text). Where the record
    holds a list, one of its items must fit. A missing or null field equals null and nothing else.

    Raises:
        InputError: a condition is none of these; the message names the field.
    """

    def __init__(self, conditions: JsonValue) -> None:
        choices = conditions if isinstance(conditions, list) else [conditions]
        if not choices or not all(isinstance(choice, Mapping) and choice for choice in choices):
            raise InputError("filter: write {field: value}, {field: [values]} or {field: {ge: 3}}, or a list of such.")
        self._choices = [[(field, _test(field, value)) for field, value in choice.items()] for choice in choices]

    def keeps(self, record: Mapping[str, Any]) -> bool:
        """Whether the record fulfils the conditions."""
        return any(all(test(walk_or_key(record, field, None)) for field, test in choice) for choice in self._choices)

    def apply(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records that pass, in their order.

        A record that cannot be parsed stays: standardize rejects it, with its line number and the reason.

        Raises:
            InputError: no record that can be parsed passes; the message names the fields.
        """
        read, kept, seen = 0, 0, dict[str, None]()
        for line, text in records:
            try:
                record = parse_record(text)
            except RecordRejected:
                yield line, text
                continue
            read += 1
            if self.keeps(record):
                kept += 1
                yield line, text
            elif not kept:
                seen.update(dict.fromkeys(record))
        if read and not kept:
            raise InputError(f"none of {read:,} records passes the filter. {self._advice(list(seen))}")

    def _advice(self, seen: list[str]) -> str:
        top_fields = [field.partition(".")[0] for choice in self._choices for field, _ in choice]
        unknown = next((field for field in top_fields if field not in seen), None)
        shown = ", ".join(seen[:_SHOWN])
        if unknown is None:
            return "Loosen it."
        return f"There is no field '{unknown}'. Fields: {shown}.{closest(unknown, seen)}"


def _test(field: str, condition: JsonValue) -> _Test:
    if isinstance(condition, Mapping):
        tests = [_operator(field, name, operand) for name, operand in condition.items()]
        if not tests:
            raise InputError(f"filter.{field}: {{}} is empty; write an operator ({', '.join(_OPERATORS)}).")
        return lambda value: all(test(value) for test in tests)
    if isinstance(condition, list):
        return _operator(field, "in", condition)
    return _operator(field, "eq", condition)


def _operator(field: str, name: str, operand: JsonValue) -> _Test:
    make = _OPERATORS.get(name)
    if make is None:
        known = ", ".join(_OPERATORS)
        raise InputError(f"filter.{field}: there is no operator '{name}' ({known}).{closest(name, _OPERATORS)}")
    try:
        return make(operand)
    except ValueError as error:
        raise InputError(f"filter.{field}.{name}: {error}.") from None


def _equal(operand: JsonValue) -> _Test:
    if isinstance(operand, list | Mapping):
        raise ValueError(f"it must be one value, not {kind_of(operand)}")
    return lambda value: any(_same(item, operand) for item in _items(value))


def _member(operand: JsonValue) -> _Test:
    if not isinstance(operand, list) or not operand:
        raise ValueError("it must be a list of values")
    tests = [_equal(item) for item in operand]
    return lambda value: any(test(value) for test in tests)


def _not(make: Callable[[JsonValue], _Test]) -> Callable[[JsonValue], _Test]:
    def negated(operand: JsonValue) -> _Test:
        test = make(operand)
        return lambda value: not test(value)

    return negated


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[JsonValue], _Test]:
    def make(operand: JsonValue) -> _Test:
        if isinstance(operand, str):
            return lambda value: any(isinstance(item, str) and compare(item, operand) for item in _items(value))
        if isinstance(operand, bool) or not isinstance(operand, int | float):
            raise ValueError(f"it must be a number or a text, not {kind_of(operand)}")
        return lambda value: any(
            (number := _number(item)) is not None and compare(number, operand) for item in _items(value)
        )

    return make


def _exists(operand: JsonValue) -> _Test:
    if not isinstance(operand, bool):
        raise ValueError(f"it must be true or false, not {kind_of(operand)}")
    return lambda value: (value is not None) == operand


_OPERATORS: Mapping[str, Callable[[JsonValue], _Test]] = {
    "eq": _equal,
    "ne": _not(_equal),
    "in": _member,
    "not_in": _not(_member),
    "lt": _ordered(lambda a, b: bool(a < b)),
    "le": _ordered(lambda a, b: bool(a <= b)),
    "gt": _ordered(lambda a, b: bool(a > b)),
    "ge": _ordered(lambda a, b: bool(a >= b)),
    "exists": _exists,
}


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _same(value: Any, wanted: JsonValue) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool) or value is None or wanted is None:
        return value is wanted
    if isinstance(value, str) and isinstance(wanted, str):
        return value == wanted
    if isinstance(value, dict | list):
        return False
    # Two numbers, or a number and a text that spells one: compare their canonical forms.
    return _spelled(value) == _spelled(wanted)


def _spelled(value: str | int | float) -> str:
    return value.strip() if isinstance(value, str) else canonical_text(value)


def _number(value: Any) -> int | float | None:
    if isinstance(value, str):
        try:
            value = canonical.decode(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
