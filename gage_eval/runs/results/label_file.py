"""A file of labels, as `gage labels suggest` writes it, while people fill it in."""

import math
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import InputError
from gage_eval.base.files import locked
from gage_eval.scoring.labels import label_row, read_lines

# More labels have no key each.
_MOST_CHOICES = 11


@dataclass(frozen=True)
class LabelRow:
    """An answer to label.

    Attributes:
        line: its place in the file, from 0.
        fields: the object of that line.
    """

    line: int
    fields: Mapping[str, Any]

    @property
    def label(self) -> float | None:
        """What people said."""
        value = self.fields.get("label")
        return _finite(value)

    @property
    def scale(self) -> tuple[float, float] | None:
        """The lowest and the highest label; None where the file does not say."""
        ends = self.fields.get("scale")
        if not isinstance(ends, Sequence) or len(ends) != 2:
            return None
        low, high = map(_finite, ends)
        return (low, high) if low is not None and high is not None and low < high else None

    @property
    def choices(self) -> list[tuple[str, int]]:
        """The whole numbers of the scale, each with its key; empty where they are too many."""
        low, high = self.scale or (0.0, math.inf)
        if high - low >= _MOST_CHOICES or not (low.is_integer() and high.is_integer()):
            return []
        values = range(int(low), int(high) + 1)
        keys = "0123456789x"[values[0] :] if values[0] >= 0 and values[-1] <= _MOST_CHOICES - 1 else "1234567890x"
        # From 1 to 10, the key 0 stands for 10.
        return list(zip("1234567890" if (low, high) == (1, 10) else keys, values, strict=False))


class LabelFile:
    """A file of labels. It is read again for each page, because others may edit it too.

    Args:
        file: JSON lines.
    """

    def __init__(self, file: Path) -> None:
        self.file = file.resolve()

    def rows(self) -> list[LabelRow]:
        """The answers, in the order in which people label them.

        Raises:
            InputError: it cannot be read, or its lines are not answers to label.
        """
        return self._rows(self._lines())

    def set(self, line: int, sample_id: str, replicate: int, text: str) -> None:
        """Write the label of an answer. The other lines stay as they are.

        Args:
            line: its place in the file.
            sample_id, replicate: which answer it is.
            text: the label; empty for none.

        Raises:
            InputError: the file has another answer there, the label is not on the scale, or it cannot be written.
        """
        try:
            # Several viewers may have it open.
            with locked(self.file.with_name(f".{self.file.name}.lock")):
                self._set(line, sample_id, replicate, text)
        except OSError as error:
            raise InputError(f"{self.file} cannot be written: {error.strerror}.") from error

    def _set(self, line: int, sample_id: str, replicate: int, text: str) -> None:
        lines = self._lines()
        row = next((row for row in self._rows(lines) if row.line == line), None)
        if row is None or (row.fields["sample_id"], row.fields.get("replicate") or 0) != (sample_id, replicate):
            raise InputError(f"{self.file.name} was changed in the meantime: open the labels again.")
        lines[line] = canonical_text({**row.fields, "label": _value(text, row.scale) if text else None})
        # Readers see the file before or after, and a kill leaves one of both.
        new = self.file.with_name(f".{self.file.name}.{uuid.uuid4().hex}")
        try:
            new.write_text("\n".join(lines), encoding="utf-8")
            new.chmod(self.file.stat().st_mode)
            os.replace(new, self.file)
        finally:
            new.unlink(missing_ok=True)

    def _lines(self) -> list[str]:
        return read_lines(self.file, str(self.file))

    def _rows(self, lines: Sequence[str]) -> list[LabelRow]:
        rows = []
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                rows.append(LabelRow(number, label_row(line)))
            except InputError as error:
                raise InputError(f"{self.file.name}, line {number + 1}: {error}") from error
        if not rows:
            raise InputError(f"'{self.file}' has no answer to label. gage labels suggest RUN writes a file with some.")
        return rows


def _finite(value: Any) -> float | None:
    """A number of the file; None for what is none, and for one that no float can be."""
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _value(text: str, scale: tuple[float, float] | None) -> float | int:
    """The label that a form holds.

    Raises:
        InputError: it is not a number on the scale.
    """
    low, high = scale or (-math.inf, math.inf)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and low <= value <= high):
        wanted = "a number" if scale is None else f"a number from {low:g} to {high:g}"
        raise InputError(f"the label '{text[:40]}' is not on the scale: give {wanted}.")
    return int(value) if value.is_integer() else value
