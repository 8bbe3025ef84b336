"""Executors whose boxes are slots: what they have in common, whatever contains the slot."""

import asyncio
import base64
import hashlib
import os
import platform
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from gage_eval.box.inside.wire import STATUS_OF_END
from gage_eval.box.slot import LISTENER, STREAM, Harness, Slot, SlotDied
from gage_eval.box.types import Beside, Box, BoxError, BoxRefused, BoxSpec, Containment, Execution, Limits, Program, Ran

_NOTHING = BoxSpec()
# A slot that dies says nothing about the program.
_ATTEMPTS = 2
_LARGEST_TAKEN = 64 << 20
# Seconds to write or read a file.
_FILE_S = 60.0
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SECRET = ("env:", "block:")
_FIELDS = frozenset(field.name for field in fields(Execution)) - {"outputs"}


class SlotExecutor:
    """Runs programs in slots. ``start(number, image)`` makes one; a slot serves one image."""

    def __init__(
        self,
        containment: Containment,
        slots: int,
        start: Callable[[int, str | None], Slot],
        resolve: Callable[[str | None], tuple[Containment, str | None]] | None = None,
    ) -> None:
        self.containment, self.slots = containment, slots
        self._start = start
        self._resolve = resolve
        self._idle: list[tuple[int, str | None, Slot | None]] = [(number, None, None) for number in range(slots)]
        self._free = asyncio.Semaphore(slots)

    @property
    def identity(self) -> Mapping[str, str]:
        """The interpreter, the harness and what contains it."""
        return executor_identity(self.containment)

    def resolve(self, image: str | None) -> tuple[Containment, str | None]:
        """What contains the programs of an image, and what its name stands for here."""
        return (self.containment, image) if self._resolve is None else self._resolve(image)

    async def execute(self, program: Program, limits: Limits, spec: BoxSpec = _NOTHING) -> Execution:
        """Run a program with its tests. Each input of a `stdio` program is a run in a new box."""
        if program.mode != "stdio":
            return await self._execute(program, None, limits, spec)
        result, outputs = Execution("passed"), []
        for text in program.stdin:
            run = await (self._command if program.command else self._execute)(program, text, limits, spec)
            result = _sum(result, run)
            if run.status != "passed":
                break
            outputs.append(run.stdout)
        return replace(result, outputs=tuple(outputs))

    async def open(self, spec: BoxSpec, limits: Limits) -> Box:
        """Open a box, which takes a slot until it is closed."""
        surroundings = surroundings_of(spec, limits) | {"has_program": False}
        async with AsyncExitStack() as stack:
            slot, harness = await stack.enter_async_context(self._harness(spec.image))
            if spec.writable and not slot.is_container:
                raise BoxError(f"image {spec.image!r} is written to, which needs a container: set executor to podman")
            reply = await slot.request(harness, surroundings, wall_s=limits.wall)
            if reply.get("status") != "open":
                raise BoxError(f"The box cannot be made: {reply.get('text') or _end(await slot.finish(harness))}")
            box = SlotBox(slot, harness, limits, "/" if spec.writable else ".")
            if kinds := [STREAM] * len(spec.starts) + [LISTENER] * spec.listens:
                try:
                    sockets = await asyncio.wait_for(slot.handed(harness, kinds), _FILE_S)
                except TimeoutError:
                    raise BoxError(f"The box cannot be made: no socket came from it in {_FILE_S:g} s") from None
                except OSError as error:
                    raise BoxError(f"The box cannot be made: {error}") from None
                for handed in sockets:
                    stack.callback(handed.close)
                box.listener = sockets.pop() if spec.listens else None
                box.started = sockets
            box.stack = stack.pop_all()
            return box
        raise AssertionError

    async def close(self) -> None:
        """End all slots."""
        for _, _, slot in self._idle:
            if slot is not None:
                await slot.close()

    async def _command(self, program: Program, stdin: str, limits: Limits, spec: BoxSpec) -> Execution:
        """Run a program of another language by its command."""
        files = {**spec.files, program.file: program.code.encode("utf-8", "surrogateescape")}
        try:
            box = await self.open(replace(spec, files=files), limits)
            try:
                ran = await box.run(program.command, stdin=stdin.encode("utf-8", "surrogateescape"))
            finally:
                await box.close()
        except BoxError as error:
            return Execution("box_error", "box", str(error))
        passed = ran.exit == 0 and not ran.reason
        return Execution(
            "passed" if passed else STATUS_OF_END.get(ran.reason, "crashed"),
            "" if passed else ran.reason or f"exit {ran.exit}",
            tests_passed=int(passed),
            tests_failed=int(not passed),
            cpu_s=ran.cpu_s,
            wall_s=ran.wall_s,
            peak_mb=ran.peak_mb,
            stdout=ran.stdout.decode("utf-8", "replace"),
            stderr=ran.stderr.decode("utf-8", "replace"),
            is_cut=len(ran.stdout) >= limits.output_kb << 10,
            is_near_limit=ran.cpu_s > limits.cpu_s / 2 or ran.peak_mb > limits.memory_mb / 2,
        )

    async def _execute(self, program: Program, stdin: str | None, limits: Limits, spec: BoxSpec) -> Execution:
        try:
            surroundings = surroundings_of(spec, limits) | {"has_program": True}
        except BoxError as error:
            return Execution("box_error", "spec", str(error))
        if spec.writable:
            return Execution("box_error", "spec", "An image that can be written runs commands only: set 'command'")
        message = {"mode": program.mode, "code": program.code, "entry": program.entry, "stdin": stdin}
        message |= {"prelude": program.prelude, "tests": program.tests}
        wall_s = limits.wall * (1 if spec.setup is None else 2)
        last = ""
        for _ in range(_ATTEMPTS):
            try:
                async with self._harness(spec.image) as (slot, harness):
                    reply = await slot.request(harness, surroundings, message, wall_s=wall_s)
                return _execution(reply, harness.ended.result(), limits)
            except SlotDied as death:
                last = str(death)
            except BoxError as refusal:
                return Execution("box_error", "image", str(refusal))
        return Execution("box_error", "slot", last)

    @asynccontextmanager
    async def _harness(self, image: str | None) -> AsyncIterator[tuple[Slot, Harness]]:
        """A harness in a slot that is free. Its processes end with the context, even where that is cancelled."""
        async with self._free:
            number, slot = await self._take(image)
            try:
                harness = slot.harness()
                try:
                    yield slot, harness
                finally:
                    await asyncio.shield(slot.finish(harness))
            except SlotDied:
                await slot.close()
                raise
            finally:
                self._idle.append((number, image, slot))

    async def _take(self, image: str | None) -> tuple[int, Slot]:
        """A free slot for the image: one that served it last, or a new one in the place of another."""
        places = [place for place in self._idle if place[1] == image and place[2] is not None] or self._idle
        number, served, slot = place = places[-1]
        if slot is None or served != image:
            new = self._start(number, image)
            self._idle.remove(place)
            if slot is not None:
                await slot.close()
            return number, new
        self._idle.remove(place)
        return number, slot


class SlotBox:
    """An open box in a slot."""

    def __init__(self, slot: Slot, harness: Harness, limits: Limits, root: str = ".") -> None:
        self._slot, self._harness, self._limits = slot, harness, limits
        self.root = root
        self.listener: socket.socket | None = None
        self.started: Sequence[socket.socket] = ()
        # What ends with the box.
        self.stack = AsyncExitStack()
        self._turn = asyncio.Lock()

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", limits: Limits | None = None) -> Ran:
        """Run a command in the work folder. What it leaves running is ended with it."""
        bounds = limits or self._limits
        reply = await self._ask(
            {"run": list(argv), "stdin": base64.b64encode(stdin).decode(), "limits": _bounds(bounds)}, bounds.wall
        )
        streams = {name: base64.b64decode(reply[name]) for name in ("stdout", "stderr")}
        return Ran(**(reply | streams))

    async def state(self, number: int) -> Beside:
        """What is known of a command of `BoxSpec.starts`."""
        return Beside(**await self._ask({"state": number}))

    async def put(self, path: str, content: bytes) -> None:
        """Write a file, by its path in the work folder."""
        await self._ask({"put": path, "content": base64.b64encode(content).decode()})

    async def take(self, path: str) -> bytes:
        """Read a regular file of the work folder. Links are refused."""
        return base64.b64decode((await self._ask({"take": path, "largest": _LARGEST_TAKEN}))["content"])

    async def close(self) -> None:
        """End all its processes and remove its files."""
        await self.stack.aclose()

    async def _ask(self, message: Mapping[str, Any], wall_s: float = _FILE_S) -> dict[str, Any]:
        async with self._turn:
            reply = await self._slot.request(self._harness, message, wall_s=wall_s)
        if not reply:
            raise BoxError("The box ended while a command ran")
        if "error" in reply:
            raise BoxRefused(f"The box refused: {reply['error']}")
        return reply


def _execution(reply: Mapping[str, Any], ended: Mapping[str, Any], limits: Limits) -> Execution:
    if reply:
        return Execution(**{name: value for name, value in reply.items() if name in _FIELDS})
    if "failed" in ended:
        return Execution("box_error", "box", str(ended["failed"]))
    # A value of the answer may have taken all the time of the harness.
    cpu_s = float(ended["cpu_s"])
    if cpu_s < limits.cpu_s:
        return Execution("box_error", "harness", "the harness ended without a result", cpu_s=cpu_s)
    return Execution("timed_out", "harness", "the tests took too long with what the answer returned", cpu_s=cpu_s)


def _end(ended: Mapping[str, Any]) -> str:
    """How a harness ended that has not replied."""
    if "failed" in ended or "status" not in ended:
        return str(ended.get("failed", "its harness ended"))
    code = os.waitstatus_to_exitcode(ended["status"])
    return f"its harness ended by signal {-code}" if code < 0 else f"its harness ended with exit code {code}"


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


def surroundings_of(spec: BoxSpec, limits: Limits) -> dict[str, Any]:
    """The surroundings of a program as the harness reads them.

    Raises:
        BoxError: a variable is not a literal, or not a variable.
    """
    for name, value in spec.env.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise BoxError(f"env: {name!r} cannot be a variable; use letters, digits and _")
        if value.startswith(_SECRET):
            raise BoxError(f"env.{name}: a foreign program would read the secret; give a literal value")
    files = {path: base64.b64encode(content).decode() for path, content in spec.files.items()}
    return {
        "limits": _bounds(limits),
        "files": files,
        "setup": spec.setup,
        "env": dict(spec.env),
        "listens": spec.listens,
        "starts": [list(argv) for argv in spec.starts],
        "writable": spec.writable,
    }


def _bounds(limits: Limits) -> dict[str, Any]:
    return asdict(limits) | {"wall_s": limits.wall}


def executor_identity(containment: Containment) -> Mapping[str, str]:
    """What can change a verdict in all boxes of this interpreter and this version of gage-eval."""
    # A container has its image's.
    python = {} if containment == "container" else {"python": platform.python_version()}
    return {**python, "harness": harness_digest(), "containment": containment}


@cache
def harness_digest() -> str:
    """Hash of the code that runs inside the box: what could change a verdict."""
    digest = hashlib.sha256()
    for path in sorted((Path(__file__).parent / "inside").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
