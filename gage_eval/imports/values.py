"""Values of other tools' files, which may be anything: JSON that is read and never trusted to have a form."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.data.datasets.reading import document_of, lines_of, open_bytes, reading, why

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def parsed(data: bytes, where: str) -> Any:
    """JSON text as a value; NaN, infinities and integers that are too long for Python become None.

    Raises:
        InputError: it is not JSON.
    """
    try:
        return json.loads(data.decode("utf-8"), parse_constant=lambda _: None, parse_float=_finite, parse_int=_integer)
    except UnicodeDecodeError as error:
        raise InputError(f"{where} cannot be read: {why(error)}; save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{where} is not JSON: {' '.join(reason.split()).rstrip('.')}.") from error


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _integer(digits: str) -> int | None:
    try:
        return int(digits)
    except ValueError:
        return None


def rows_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON Lines file, each with its place for messages.

    Raises:
        InputError: the file cannot be read, or a line is not an object.
    """
    with reading(path.name), open_bytes(str(path)) as file:
        for number, line in enumerate(lines_of(file, path.name), 1):
            if line:
                where = f"line {number} of '{path.name}'"
                row = parsed(line, where)
                if not isinstance(row, dict):
                    raise InputError(f"{where} is not an object with fields.")
                yield where, row


def document(path: Path) -> Any:
    """A JSON file as a value.

    Raises:
        InputError: it cannot be read, is not JSON, or is longer than 512 MiB.
    """
    return parsed(document_of(str(path), path.name), f"'{path.name}'")


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """A scalar as text; None for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else None


def texts(value: Any) -> list[str]:
    """A scalar, or a list of them, as texts."""
    values = value if isinstance(value, list) else [value]
    return [known for known in map(text, values) if known is not None]


def number(value: Any) -> float | None:
    """A score as a number: a number, a truth value, or a grade (C, P, I, N); None for anything else."""
    if isinstance(value, str):
        return _LETTERS.get(value)
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None
