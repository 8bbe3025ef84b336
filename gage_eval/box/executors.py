"""Which executor a run uses, and which of them this machine has."""

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from gage_eval.box.bubblewrap import bubblewrap_slot, root_identity
from gage_eval.box.containers import ContainerSlot
from gage_eval.box.engine_api import ENGINES, Engine, EngineName
from gage_eval.box.programs import SlotExecutor
from gage_eval.box.slot import Slot
from gage_eval.box.types import BoxError, BoxUnavailable, Containment, Execution, Executor, Limits, Program
from gage_eval.box.unsafe import unsafe_slot
from gage_eval.extend.allowed_code import allowed_entries

ExecutorName: TypeAlias = EngineName | Literal["auto", "bubblewrap"]

_DIGEST = re.compile(r"(^|@)sha256:[0-9a-f]{64}$")
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
    work_pool: str | None = None
    """The work pool whose machines run the programs. None: this machine does."""
    replicas: int = 1
    """Boxes on the work pool."""


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
    slots = settings.slots or len(os.sched_getaffinity(0))
    if settings.allow_unsafe and settings.executor == "auto":
        return SlotExecutor("none", slots, lambda number, image: unsafe_slot(image))
    if settings.executor in ENGINES:
        named = Engine(settings.executor)
        if (problem := named.problem()) is not None:
            raise BoxUnavailable(f"Programs cannot be run: {problem}")
        return _container_executor(named, slots)
    problem = _bubblewrap_problem()
    engine = None if settings.executor == "bubblewrap" else _first_engine()
    if problem is None:
        return _bubblewrap_executor(settings.roots, slots, engine)
    if engine is None:
        raise BoxUnavailable(f"Programs cannot be run: {problem}")
    return _container_executor(engine, slots)


def is_pinned(image: str) -> bool:
    """Whether the name of an image is its digest, or ends with it: then it means the same on every machine."""
    return _DIGEST.search(image) is not None


def probe() -> list[Availability]:
    """The executors, and what each lacks on this machine."""
    return [
        Availability("bubblewrap", _bubblewrap_problem()),
        *(Availability(name, Engine(name).problem()) for name in ENGINES),
    ]


def _first_engine() -> Engine | None:
    return next((engine for engine in map(Engine, ENGINES) if engine.problem() is None), None)


def _container_executor(engine: Engine, slots: int) -> Executor:
    """Each program in a container of its sample's image."""

    def start(number: int, image: str | None) -> Slot:
        if image is None:
            raise BoxError(f"{engine.name} needs an image: name one that this machine has under execution.image")
        return ContainerSlot(engine, number, image)

    return SlotExecutor("container", slots, start, _resolver("container", engine, {}))


def _bubblewrap_executor(roots: Mapping[str, Path], slots: int, engine: Engine | None) -> Executor:
    """Programs in bubblewrap; those of images that have no unpacked root in containers, if there is an engine."""

    def start(number: int, image: str | None) -> Slot:
        if image is None or image in roots:
            return bubblewrap_slot(number, None if image is None else roots[image])
        if engine is not None:
            return ContainerSlot(engine, number, image)
        raise BoxError(
            f"image {image!r}: bubblewrap needs its unpacked root folder; name it under execution.roots, or install "
            "Podman or Docker"
        )

    return SlotExecutor("namespaces", slots, start, _resolver("namespaces", engine, roots))


def _resolver(
    without: Containment, engine: Engine | None, roots: Mapping[str, Path]
) -> Callable[[str | None], tuple[Containment, str | None]]:
    """What contains the programs of an image, and its name with the hash of its content."""

    def resolve(image: str | None) -> tuple[Containment, str | None]:
        if image is not None and image in roots:
            return without, f"{image}@{root_identity(roots[image])}"
        if image is None or engine is None:
            return without, image
        identifier = None if is_pinned(image) else engine.image_id(image)
        return "container", image if identifier is None else f"{image}@{identifier}"

    return resolve


def _bubblewrap_problem() -> str | None:
    """What keeps bubblewrap from containing a program, as one sentence."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed: apt-get install bubblewrap"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "setpriv is not installed: apt-get install util-linux"
    with ThreadPoolExecutor(1) as thread:
        # This thread may have a running event loop.
        trial = thread.submit(asyncio.run, _trial()).result()
    return None if trial.status == "passed" else f"bubblewrap cannot make a box here: {trial.text}"


async def _trial() -> Execution:
    executor = SlotExecutor("namespaces", 1, lambda number, image: bubblewrap_slot(number))
    try:
        return await executor.execute(_TRIAL, _TRIAL_LIMITS)
    finally:
        await executor.close()
