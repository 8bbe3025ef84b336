"""Executors whose boxes are slots: what they have in common, whatever contains the slot."""

import asyncio
import base64
import hashlib
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from gage_eval.box.slot import Slot, SlotDied
from gage_eval.box.types import Box, BoxSpec, Containment, Execution, Limits, Program

_NOTHING = BoxSpec()
# A slot that dies says nothing about the program.
_ATTEMPTS = 2


class SlotExecutor:
    """Runs programs in slots. ``start(number, image)`` makes one; a slot serves one image."""

    def __init__(
        self, name: str, containment: Containment, slots: int, start: Callable[[int, str | None], Slot]
    ) -> None:
        self.name, self.containment, self.slots = name, containment, slots
        self._start = start
        self._idle: list[tuple[int, str | None, Slot | None]] = [(number, None, None) for number in range(slots)]
        self._free = asyncio.Semaphore(slots)

    @property
    def identity(self) -> Mapping[str, str]:
        """The interpreter, the harness and what contains it."""
        return {"python": platform.python_version(), "harness": harness_digest(), "containment": self.containment}

    async def execute(self, program: Program, limits: Limits, spec: BoxSpec = _NOTHING) -> Execution:
        """Run a program with its tests. Each input of a `stdio` program is a run in a new box."""
        if program.mode != "stdio":
            return await self._execute(program, None, limits, spec)
        result, outputs = Execution("passed"), []
        for text in program.stdin:
            run = await self._execute(program, text, limits, spec)
            result = _sum(result, run)
            if run.status != "passed":
                break
            outputs.append(run.stdout)
        return replace(result, outputs=tuple(outputs))

    async def open(self, spec: BoxSpec, limits: Limits) -> Box:
        """Open a box, which takes a slot until it is closed."""
        raise NotImplementedError

    async def close(self) -> None:
        """End all slots."""
        for _, _, slot in self._idle:
            if slot is not None:
                await slot.close()

    async def _execute(self, program: Program, stdin: str | None, limits: Limits, spec: BoxSpec) -> Execution:
        message = request_of(spec, limits) | {
            "mode": program.mode,
            "code": program.code,
            "entry": program.entry,
            "stdin": stdin,
            "prelude": program.prelude,
            "tests": program.tests,
        }
        async with self._free:
            for _ in range(_ATTEMPTS):
                number, slot = await self._take(spec.image)
                try:
                    return await _run(slot, message, limits)
                except (SlotDied, TimeoutError, OSError) as error:
                    last = str(error)
                    await slot.close()
                finally:
                    self._idle.append((number, spec.image, slot))
        return Execution("box_error", "slot", last)

    async def _take(self, image: str | None) -> tuple[int, Slot]:
        """A free slot for the image: one that served it last, or a new one in the place of another."""
        places = [place for place in self._idle if place[1] == image and place[2] is not None] or self._idle
        number, served, slot = places[-1]
        self._idle.remove(places[-1])
        if slot is None or served != image:
            if slot is not None:
                await slot.close()
            slot = self._start(number, image)
        return number, slot


async def _run(slot: Slot, message: Mapping[str, Any], limits: Limits) -> Execution:
    harness = await slot.harness()
    try:
        slot.prepare()
        reply = await slot.request(harness, message, limits.wall)
    finally:
        # Cancelled or not, its processes end before the slot is used again.
        ended = await asyncio.shield(slot.finish(harness))
    if "failed" in ended:
        return Execution("box_error", "box", str(ended["failed"]))
    return _execution(reply, ended, limits) if reply else _without_reply(ended, limits)


def _without_reply(ended: Mapping[str, Any], limits: Limits) -> Execution:
    """The harness ended before it could judge: by a value of the answer that took all its time or memory."""
    cpu_s = float(ended["cpu_s"])
    if cpu_s < limits.cpu_s:
        return Execution("box_error", "harness", "the harness ended without a result", cpu_s=cpu_s)
    return Execution("timed_out", "harness", "the tests took too long with what the answer returned", cpu_s=cpu_s)


def _execution(reply: Mapping[str, Any], ended: Mapping[str, Any], limits: Limits) -> Execution:
    names = [name for name in Execution.__dataclass_fields__ if name != "outputs"]
    return Execution(**{name: reply[name] for name in names if name in reply})


def _sum(total: Execution, run: Execution) -> Execution:
    """A `stdio` program after one more run."""
    return replace(
        run,
        tests_passed=total.tests_passed + run.tests_passed,
        tests_failed=total.tests_failed + run.tests_failed,
        cpu_s=round(total.cpu_s + run.cpu_s, 3),
        wall_s=round(total.wall_s + run.wall_s, 3),
        peak_mb=max(total.peak_mb, run.peak_mb),
        is_cut=total.is_cut or run.is_cut,
        is_near_limit=total.is_near_limit or run.is_near_limit,
    )


def request_of(spec: BoxSpec, limits: Limits) -> dict[str, Any]:
    """The surroundings of a program as the harness reads them."""
    files = {path: base64.b64encode(content).decode() for path, content in spec.files.items()}
    bounds = asdict(limits) | {"wall_s": limits.wall}
    return {"limits": bounds, "files": files, "setup": spec.setup, "env": dict(spec.env)}


@cache
def harness_digest() -> str:
    """Hash of the code that runs inside the box: what could change a verdict."""
    digest = hashlib.sha256()
    for path in sorted((Path(__file__).parent / "inside").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
