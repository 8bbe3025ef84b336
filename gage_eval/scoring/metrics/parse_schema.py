"""Structured answers: the fields that a task's ``parse_schema`` reads, as ``model_output.parsed.<field>``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.extract.thinking import strip_thinking
from gage_eval.scoring.metrics.json_text import find_json
from gage_eval.scoring.metrics.lists import list_items
from gage_eval.scoring.metrics.numbers import Number, exact, last_number
from gage_eval.scoring.metrics.text_utils import as_text

FieldType: TypeAlias = Literal["enum", "number", "list", "text"]

_LARGEST = 2**63


@dataclass(frozen=True)
class ParseField:
    """One field of an answer.

    Attributes:
        name: its key below ``model_output.parsed``, in the answer's JSON, and in lines ``name: value``.
        type: how its value is read.
        values: the allowed values of an enum.
    """

    name: str
    type: FieldType
    values: tuple[str, ...] = ()

    def read(self, value: JsonValue) -> JsonValue:
        """Read the field's value from an answer's value; None when that is not possible.

        * ``enum``: the one of ``values`` that equals the text in any case; else the last one that occurs in it as a
          whole word.
        * ``number``: a JSON number, else the last number of the text by the rules of ``numeric_match``.
        * ``list``: a JSON list, else the text's items by the rules of ``list``, as written.
        * ``text``: the text, stripped; None when that is empty.
        """
        if value is None:
            return None
        if self.type == "enum":
            return self._enum(as_text(value))
        if self.type == "number":
            if isinstance(value, int | float) and not isinstance(value, bool):
                return value
            number = last_number(as_text(value))
            return None if number is None else _plain_number(number)
        if self.type == "list":
            return value if isinstance(value, list) else list_items(as_text(value), case_sensitive=True) or None
        return as_text(value).strip() or None

    def _enum(self, text: str) -> str | None:
        wanted = text.strip().casefold()
        exact = next((value for value in self.values if value.casefold() == wanted), None)
        if exact is not None:
            return exact
        named = [word.casefold() for word in self._words.findall(text)]
        return next((value for value in self.values if named and value.casefold() == named[-1]), None)

    @cached_property
    def _words(self) -> re.Pattern[str]:
        words = "|".join(re.escape(value) for value in sorted(self.values, key=len, reverse=True))
        return re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)


@dataclass(frozen=True)
class ParseSchema:
    """The fields of a task's answers, in order."""

    fields: tuple[ParseField, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.fields)

    def parse(self, answer: str) -> dict[str, JsonValue]:
        """The fields of an answer; missing fields are left out.

        Only the answer after any thinking counts. If it is or contains a JSON object, its keys are the fields. Else
        fields are lines ``name: value``, the last one of each name; with a single field in the schema the whole answer
        is the value.
        """
        text = strip_thinking(answer)
        if text is None:
            return {}
        texts = self._texts_of_fields(text)
        read = {item.name: item.read(texts.get(item.name)) for item in self.fields}
        return {name: value for name, value in read.items() if value is not None}

    def identity(self) -> JsonValue:
        """Its part of keys."""
        return [{"field": item.name, "type": item.type, "values": list(item.values)} for item in self.fields]

    def _texts_of_fields(self, text: str) -> Mapping[str, Any]:
        document = find_json(text)
        if document is not None and isinstance(document[0], dict):
            return document[0]
        texts: dict[str, Any] = {}
        for line in text.splitlines():
            name, colon, value = line.partition(":")
            key = name.strip(" \t-*#`\"'").casefold()
            if colon and key in self._by_key:
                texts[self._by_key[key]] = value.strip(" \t*")
        if not texts and len(self.fields) == 1:
            if document is not None and isinstance(document[0], list):
                return {self.fields[0].name: document[0]}
            return {self.fields[0].name: text}
        return texts

    @cached_property
    def _by_key(self) -> dict[str, str]:
        return {name.casefold(): name for name in self.names}


def _plain_number(number: Number) -> JsonValue:
    """A number as JSON; as text where JSON would change its value."""
    value = number.resolved(percent=False)
    if -_LARGEST < value < _LARGEST:
        shown = int(value) if value.denominator == 1 else float(value)
        if exact(shown) == value:
            return shown
    return number.text
