"""People's labels of answers, one JSON object per line:

    {"task_id": "sums", "sample_id": "s1", "replicate": 0, "label": 1, "probability": 0.1}

``label`` is a number on the metric's scale, true or false; null while the answer has no label.
``probability`` is that of having been drawn (`gage labels suggest`); labels without it were chosen freely.
What else such a file holds is for the people who label: question, answer, reference, and the ends of the scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue, decode, encode, json_fault
from gage_eval.base.errors import ConfigError, InputError, Problem

_MOST_BYTES = 64 * 2**20
"""The largest file of labels that is read."""

_MOST_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Label:
    """A person's label of an answer. ``value`` is None where there is none yet."""

    sample_id: str
    replicate: int
    value: float | None
    probability: float | None = None

    @property
    def answer(self) -> tuple[str, int]:
        """Which answer it is about."""
        return self.sample_id, self.replicate


@dataclass(frozen=True, slots=True)
class LabelScale:
    """The lowest and the highest label; with ``binary``, there is nothing between them."""

    low: float
    high: float
    binary: bool

    @property
    def text(self) -> str:
        """As messages say it."""
        return f"{self.low:g} or {self.high:g}" if self.binary else f"from {self.low:g} to {self.high:g}"


def read_labels(file: Path, shown: str, task_id: str, scale: LabelScale) -> tuple[Label, ...]:
    """The labels of one task, in the order of the file.

    Args:
        file: JSON lines.
        shown: how messages call the file.
        task_id: rows of other tasks are left out.
        scale: of the metric.

    Raises:
        InputError: the file cannot be read, all of it is about other tasks, or rows are not labels on the scale; the
            first 20 are named.
    """
    labels, problems = [], []
    other: JsonValue = None
    for number, line in enumerate(read_lines(file, shown), start=1):
        if not line.strip():
            continue
        try:
            row = label_row(line)
            if row.get("task_id") in (None, task_id):
                labels.append(_label(row, scale))
            else:
                other = row["task_id"]
        except InputError as error:
            problems.append(Problem("", str(error), number))
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        rest = [Problem("", f"{more:,} more lines are wrong.")] if more > 0 else []
        raise ConfigError(shown, [*problems[:_MOST_PROBLEMS], *rest])
    if other is not None and not labels:
        such = encode(other).decode()[:80]
        raise InputError(f"labels: '{shown}' has none of task '{task_id}', only those of other tasks, such as {such}.")
    return tuple(labels)


def read_lines(file: Path, shown: str) -> list[str]:
    """The lines of a file of labels.

    Args:
        file: JSON lines.
        shown: how messages call it.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        if not file.is_file() or file.stat().st_size > _MOST_BYTES:
            raise InputError(
                f"labels: '{shown}' is not a file of labels, or is larger than {_MOST_BYTES // 2**20} MiB. "
                "gage labels suggest RUN writes one."
            )
        return file.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"labels: '{shown}' is not UTF-8 text (byte {error.start}); save it as UTF-8.") from error
    except OSError as error:
        raise InputError(f"labels: '{shown}' cannot be read: {error.strerror}.") from error


def label_row(line: str) -> Mapping[str, Any]:
    """The object of a line.

    Raises:
        InputError: it is none, or names no answer.
    """
    try:
        row = decode(line)
        # Samples have no ids with half a character in them, and nothing can store one.
        encode(row)
    except ValueError as error:
        raise InputError(f"not JSON: {json_fault(error)}.") from error
    if not isinstance(row, Mapping) or not isinstance(row.get("sample_id"), str):
        raise InputError("a label is an object with a 'sample_id' and a 'label'.")
    return row


def label_value(value: JsonValue, scale: LabelScale) -> float | None:
    """A label as a number; None for none.

    Raises:
        InputError: it is not a number on the scale.
    """
    if value is None or value == "":
        return None
    is_number = isinstance(value, bool | int | float) and scale.low <= value <= scale.high
    if not is_number or (scale.binary and value not in (scale.low, scale.high)):
        shown = encode(value).decode()[:40]
        raise InputError(f"the label {shown} is not on the scale of the metric, a number {scale.text}.")
    return float(value)


def _label(row: Mapping[str, Any], scale: LabelScale) -> Label:
    replicate, probability = row.get("replicate", 0), row.get("probability")
    if isinstance(replicate, bool) or not isinstance(replicate, int) or replicate < 0:
        raise InputError("'replicate' counts a sample's answers from 0.")
    is_number = isinstance(probability, int | float) and not isinstance(probability, bool)
    if probability is not None and not (is_number and 0 < probability <= 1):
        raise InputError("'probability' is above 0 and at most 1, or left out.")
    return Label(row["sample_id"], replicate, label_value(row.get("label"), scale), probability)
