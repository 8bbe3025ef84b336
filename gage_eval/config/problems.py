"""Problems of a config with their locations."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from gage_eval.base.errors import closest

Loc: TypeAlias = tuple[str | int, ...]

# Of more names than these a message gives the number.
_MOST_SHOWN = 50


@dataclass(frozen=True)
class ConfigProblem:
    """A problem at a location of a config, before its line is known.

    Attributes:
        loc: keys and indexes from the top, such as ``("tasks", 1, "dataset_id")``.
        message: what is wrong and how to fix it, one sentence.
        cause: the error raised by a user's code, if any; ``--debug`` shows it.
    """

    loc: Loc
    message: str
    cause: BaseException | None = field(default=None, compare=False)


def path_text(loc: Loc) -> str:
    """``("tasks", 1, "dataset_id")`` as ``tasks[1].dataset_id``."""
    out = ""
    for part in loc:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            out += f".{part}" if out else part
    return out


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for a reference to an unknown name."""
    names = list(known)
    if not names:
        return f"no {kind} '{name}' here; there are none at all."
    more = f" and {len(names) - _MOST_SHOWN:,} more" if len(names) > _MOST_SHOWN else ""
    return f"no {kind} '{name}' here. Known: {', '.join(names[:_MOST_SHOWN])}{more}.{closest(name, names)}"
