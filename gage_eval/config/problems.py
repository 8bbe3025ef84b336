"""Where in a config something is, and what is wrong there."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from gage_eval.errors import closest

Loc: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True)
class ConfigProblem:
    """Something wrong at a place of a config, before lines are known.

    Attributes:
        loc: keys and indexes from the top, as ``("tasks", 1, "dataset_id")``.
        message: what is wrong and what would be right, one sentence.
        cause: the error that says so, where a user's code raised it; ``--debug`` shows it.
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
    """The message for a reference to something that is not there."""
    names = list(known)
    if not names:
        return f"no {kind} '{name}' here; there are none at all."
    return f"no {kind} '{name}' here. Known: {', '.join(names)}.{closest(name, names)}"
