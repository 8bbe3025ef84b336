"""Which executor a run uses, and which of them this machine has."""

import asyncio
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from gage_eval.box.bubblewrap import bubblewrap_slot
from gage_eval.box.programs import SlotExecutor
from gage_eval.box.slot import Slot, usable_cpus
from gage_eval.box.types import BoxError, BoxUnavailable, Execution, Executor, Limits, Program
from gage_eval.box.unsafe import unsafe_slot
from gage_eval.extend.allowed_code import allowed_entries

ExecutorName: TypeAlias = Literal["auto", "bubblewrap"]

_TRIAL = Program("calls", "def answer(): return 42", entry="answer", tests="assert answer() == 42")
_TRIAL_LIMITS = Limits(cpu_s=1.0, wall_s=30.0, memory_mb=256)


@dataclass(frozen=True, slots=True)
class ExecutorSettings:
    """Where programs run. Nothing of it is in a key, except what `Executor.identity` says."""

    executor: ExecutorName = "auto"
    slots: int | None = None
    """Programs at a time. None: one per processor."""
    allow_unsafe: bool = False
    """Run programs as plain processes of this user, which may do what this user may."""
    roots: Mapping[str, Path] = field(default_factory=dict)
    """Unpacked root folders by the name of their image, for bubblewrap."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether this machine has an executor."""

    name: str
    problem: str | None = None
    """What is missing, with the command that installs or allows it. None: programs can run."""


def open_executor(settings: ExecutorSettings) -> Executor:
    """The executor of the settings, after a trial run.

    Raises:
        BoxUnavailable: it is not there, or does not contain programs. Nothing is run without containment unless
            ``allow_unsafe`` says so.
    """
    if allowed_entries() is not None and (settings.allow_unsafe or settings.roots):
        raise BoxUnavailable("execution: this worker takes neither 'allow_unsafe' nor 'roots' from a config")
    slots = settings.slots or usable_cpus()
    if settings.allow_unsafe and settings.executor == "auto":
        return SlotExecutor("unsafe", "none", slots, lambda number, image: unsafe_slot(image))
    problem = _bubblewrap_problem()
    if problem is not None:
        raise BoxUnavailable(f"Programs cannot be run: {problem}")
    roots = settings.roots

    def start(number: int, image: str | None) -> Slot:
        if image is not None and image not in roots:
            raise BoxError(f"image {image!r}: bubblewrap needs its unpacked root folder; name it under execution.roots")
        return bubblewrap_slot(number, None if image is None else roots[image])

    return SlotExecutor("bubblewrap", "namespaces", slots, start)


def probe() -> list[Availability]:
    """The executors, and what each lacks on this machine."""
    return [Availability("bubblewrap", _bubblewrap_problem())]


def _bubblewrap_problem() -> str | None:
    """What keeps bubblewrap from containing a program, as one sentence."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed: apt-get install bubblewrap"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "setpriv is not installed: apt-get install util-linux"
    with ThreadPoolExecutor(1) as thread:
        # This thread may have a running event loop.
        trial = thread.submit(asyncio.run, _trial()).result()
    return None if trial.status == "passed" else _explained(trial)


async def _trial() -> Execution:
    executor = SlotExecutor("bubblewrap", "namespaces", 1, lambda number, image: bubblewrap_slot(number))
    try:
        return await executor.execute(_TRIAL, _TRIAL_LIMITS)
    finally:
        await executor.close()


def _explained(trial: Execution) -> str:
    return f"bubblewrap cannot make a box here: {trial.text}"
