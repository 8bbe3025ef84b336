"""JSON Lines: one record per line, in one file or many, plain or compressed."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gage_eval.base import canonical
from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.data.datasets.base import FileLoader, Record, Source, decode_line, record_text, text_param
from gage_eval.data.datasets.reading import content_hash, find_files, lines_of, open_bytes, stem, why
from gage_eval.extend import registry

_PARAMS = ("labels_path", "labels_field", "labels_key", "source_field", "constants")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")


@registry.loaders.register("jsonl", version=1, params=_PARAMS)
class JsonlLoader(FileLoader):
    """One JSON object per line; blank lines are skipped.

    A broken line becomes a record too: standardize rejects it with its line number and the reason.

    Parameters (``params``):
        path: file, list of files, glob pattern (files in sorted order) or address; ``.gz`` and the like are unpacked.
        labels_path: a second file whose N-th line is the gold of line N, for sets published that way.
        labels_field: the record's field for this gold. Default ``label``.
        labels_key: the field by which the lines of ``labels_path``, then JSON objects, belong to records; a record
            without such a line gets no gold. Default: the line's number.
        source_field: the record's field that takes the file's name without endings.
        constants: ``text`` reads ``NaN``, ``Infinity`` and ``-Infinity``, which Python writes though they are not JSON,
            as texts of that name. By default a record with one is rejected.

    Raises:
        InputError: a parameter is unknown or a file is not there.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        self._source = Source.of(params, base_dir, "jsonl", _PARAMS)
        self._labels_path = text_param(params, "labels_path", "jsonl")
        self._labels = find_files(self._labels_path, base_dir) if self._labels_path else []
        self._labels_field = text_param(params, "labels_field", "jsonl") or "label"
        self._labels_key = text_param(params, "labels_key", "jsonl")
        self._constants = text_param(params, "constants", "jsonl")
        if self._constants not in (None, "text"):
            raise InputError(f"loader jsonl: constants is 'text' or left out, not {self._constants!r}.")

    def identity(self) -> JsonValue:
        """sha256 of each file's bytes, in the order they are read."""
        out = {**self._source.identity(), **canonical.given(constants=self._constants)}
        if self._labels:
            out["labels"] = [content_hash(file) for file in self._labels]
            out |= canonical.given(labels_field=self._labels_field, labels_key=self._labels_key)
        return out

    def records(self) -> Iterator[Record]:
        """(line, text) of each record; line numbers continue from file to file.

        Raises:
            InputError: there is no record at all, a line is longer than 64 MiB, a compressed file is damaged,
                or the labels do not fit the records.
        """
        if not self._labels:
            records = self._named()
        else:
            records = self._labelled() if self._labels_key is None else self._labelled_by(self._labels_key)
        first = next(records, None)
        if first is None:
            raise self._source.nothing()
        yield first
        yield from records

    def _named(self) -> Iterator[Record]:
        field = self._source.field
        self.starts.clear()
        for file, number, text in _numbered_lines(self.files, self.starts.append):
            if self._constants is not None:
                text = _with_named_constants(text)
            yield number, text if field is None else _with_field(text, field, stem(file))

    def _labelled(self) -> Iterator[Record]:
        labels = _numbered_lines(self._labels)
        path, last = self._source.path, 0
        for number, text in self._named():
            label = next(labels, None)
            last = number
            if label is None or label[1] != number:
                raise InputError(f"'{self._labels_path}' has no label for line {number} of '{path}'.")
            yield number, self._with_label(text, label[2].strip(), number)
        if next(labels, None) is not None:
            raise InputError(f"'{self._labels_path}' has more lines than there are records in '{path}' (line {last}).")

    def _labelled_by(self, key: str) -> Iterator[Record]:
        """The records, each with the object of the labels' file that has the same value in the field ``key``."""
        labels = self._labels_by(key)
        fitting = False
        for number, text in self._named():
            value = (_object(text) or {}).get(key)
            label = None if value is None else labels.get(canonical.canonical_text(value))
            fitting = fitting or label is not None
            yield number, text if label is None else _with_field(text, self._labels_field, label)
        if not fitting:
            raise InputError(
                f"no record of '{self._source.path}' has the '{key}' of a line of '{self._labels_path}'; name a field "
                "of both with labels_key."
            )

    def _labels_by(self, key: str) -> dict[str, JsonValue]:
        labels: dict[str, JsonValue] = {}
        for path, number, text in _numbered_lines(self._labels):
            label = _object(text)
            if label is None or label.get(key) is None:
                raise InputError(f"line {number} of '{Path(path).name}' is not an object with a field '{key}'.")
            name = canonical.canonical_text(label[key])
            if labels.setdefault(name, label) != label:
                raise InputError(
                    f"line {number} of '{Path(path).name}' is another label for the '{key}' {name}; keep one of them."
                )
        return labels

    def _with_label(self, text: str, label: str, number: int) -> str:
        value = int(label) if _INTEGER.fullmatch(label) else label
        labelled = _with_field(text, self._labels_field, value)
        if labelled == text and self._labels_field in (_object(text) or ()):
            raise InputError(
                f"line {number} of '{self._source.path}' already has a '{self._labels_field}'; "
                f"name another labels_field for '{self._labels_path}'."
            )
        return labelled


def _object(text: str) -> dict[str, Any] | None:
    try:
        record = canonical.decode(text)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _with_named_constants(text: str) -> str:
    """The record with Python's constants as texts. Unchanged if it has none, or is broken in another way."""
    if _object(text) is not None:
        return text
    try:
        return record_text(json.loads(text, parse_constant=str))
    except (ValueError, RecursionError):
        return text


def _with_field(text: str, field: str, value: JsonValue) -> str:
    """The record with one more field, otherwise unchanged text. Unchanged if it is not an object or has the field."""
    record = _object(text)
    if record is None or field in record:
        return text
    head = text.rstrip()[:-1].rstrip()
    return f"{head}{',' if record else ''}{canonical.canonical_text({field: value})[1:]}"


def _numbered_lines(
    files: Sequence[str], begins: Callable[[int], None] = lambda _: None
) -> Iterator[tuple[str, int, str]]:
    """(file, line number continued from file to file, text) of every line that is not blank."""
    number = 0
    for path in files:
        begins(number)
        with open_bytes(path) as file:
            try:
                for line in lines_of(file, Path(path).name, number + 1):
                    number += 1
                    if line:
                        yield path, number, decode_line(line)
            except (OSError, EOFError) as error:
                raise InputError(f"'{Path(path).name}' cannot be read after line {number}: {why(error)}.") from error
