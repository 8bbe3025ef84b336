"""Choose what runs programs on this machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gage_eval.base.errors import GageError
from gage_eval.box.types import Executor


class BoxUnavailable(GageError):
    """This machine has no executor: one sentence and the command that installs one."""


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """Which executor runs programs, and how many at once."""

    executor: Literal["auto", "bubblewrap", "docker", "podman", "unsafe"] = "auto"
    slots: int | None = None
    allow_unsafe: bool = False
    roots: Mapping[str, str] = field(default_factory=dict)


def open_executor(settings: ExecutorSettings) -> Executor:
    """The executor of these settings.

    Raises:
        BoxUnavailable: this machine has none.
    """
    raise BoxUnavailable(f"no executor is here ({settings.executor}).")
