"""What tests of boxes need, and an executor that runs nothing: a function says how each program ends."""

import asyncio
import json
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from gage_eval.box.executors import probe
from gage_eval.box.types import Beside, Box, BoxSpec, Containment, Execution, Limits, Program, Ran

# Why bubblewrap makes no box here; None where it does. To try it takes a moment, so it is tried once in a process.
NO_BOX = probe()[0].problem
NEEDS_BOX = pytest.mark.skipif(NO_BOX is not None, reason=f"no box: {NO_BOX}")

_BARE = BoxSpec()
Ends = Callable[[Program, BoxSpec], Execution]


def by_its_word(program: Program, spec: BoxSpec) -> Execution:
    """A program ends as its first word says; an empty word passes."""
    word = program.code.split()[0]
    status = word if word in ("failed", "timed_out", "box_error", "tampered") else "passed"
    passed = status == "passed"
    return Execution(
        status,
        "" if passed else "assertion",
        "" if passed else f"assert {word}",
        tests_passed=2 if passed else 1,
        tests_failed=0 if passed else 1,
        cpu_s=0.25,
        outputs=[f"{program.code} {line}" for line in program.stdin],
    )


class AskingBox:
    """Stands for a program that asks its model once, and prints what it says. Other commands do nothing."""

    def __init__(self, spec: BoxSpec = _BARE) -> None:
        self._folder = tempfile.TemporaryDirectory()
        for path, content in spec.files.items() if spec.starts else ():
            Path(self._folder.name, path).write_bytes(content)
        started = [self._started(argv) for argv in spec.starts]
        self._processes, self.started = [item[0] for item in started], [item[1] for item in started]
        self.listener: socket.socket | None = socket.create_server(("127.0.0.1", 0))
        self.root = "."
        self._files: dict[str, bytes] = {}

    def _started(self, argv: Sequence[str]) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, its = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003
        with its:
            return subprocess.Popen(argv, stdin=its, stdout=its, cwd=self._folder.name), ours

    async def state(self, number: int) -> Beside:
        return Beside(0, "")

    async def put(self, path: str, content: bytes) -> None:
        self._files[path] = content

    async def take(self, path: str) -> bytes:
        return b"a file"

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", limits: Limits | None = None) -> Ran:
        variables = dict(part.split("=", 1) for part in argv if part.startswith("OPENAI_"))
        if not variables:
            return Ran(0, b"", b"", cpu_s=0.1, wall_s=0.1, peak_mb=1.0)
        question = {"role": "user", "content": self._files["prompt.txt"].decode()}
        body = json.dumps({"model": "any", "messages": [question]}).encode()
        url = f"{variables['OPENAI_BASE_URL']}/chat/completions"
        reply = await asyncio.to_thread(lambda: urllib.request.urlopen(url, body).read())
        text = json.loads(reply)["choices"][0]["message"]["content"]
        return Ran(0, text.encode(), b"", cpu_s=0.1, wall_s=0.1, peak_mb=1.0)

    async def close(self) -> None:
        assert self.listener is not None
        self.listener.close()
        for process in self._processes:
            process.kill()
            await asyncio.to_thread(process.wait)
        self._folder.cleanup()


class FakeExecutor:
    """Runs nothing.

    Attributes:
        ran: the programs that it was asked to run, with their limits and surroundings.
        images: what the names of images stand for, where they do not stand for themselves.
    """

    containment: Containment = "namespaces"
    slots = 4

    def __init__(self, ends: Ends = by_its_word, version: str = "1") -> None:
        self.ran: list[tuple[Program, Limits, BoxSpec]] = []
        self.closed = 0
        self.images: dict[str, str] = {}
        self._ends = ends
        self._version = version

    @property
    def identity(self) -> Mapping[str, str]:
        return {"interpreter": self._version}

    def resolve(self, image: str | None) -> tuple[Containment, str | None]:
        return self.containment, self.images.get(image or "", image)

    async def execute(self, program: Program, limits: Limits, spec: BoxSpec = _BARE) -> Execution:
        self.ran.append((program, limits, spec))
        return self._ends(program, spec)

    async def open(self, spec: BoxSpec, limits: Limits) -> Box:
        return AskingBox(spec)

    async def close(self) -> None:
        self.closed += 1

    @property
    def codes(self) -> Sequence[str]:
        """The code of the programs that were run, in order of their text."""
        return sorted(program.code for program, _, _ in self.ran)
