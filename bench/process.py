"""Run one child process and measure its time and memory."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import orjson

HERE = Path(__file__).parent
_open = build_opener(ProxyHandler({})).open


@dataclass(frozen=True)
class ProcessUsage:
    """Wall and CPU seconds of a process (with its children), peak resident MiB, and its output."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    output: bytes


class BenchFailed(Exception):
    """A measured process failed or gave an unexpected result."""


def run(arguments: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> ProcessUsage:
    """Run Python with these arguments and wait for it.

    The kernel counts peak memory for that child alone. It starts at the size of this process, which therefore imports
    nothing large.

    Raises:
        BenchFailed: the process failed; the message ends with its last lines.
    """
    with (folder / "output.txt").open("w+b") as output:
        began = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**environment(), **(env or {})},
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if child.returncode:
        raise BenchFailed(
            f"{' '.join(arguments)} ended with {child.returncode}:\n{text[-2000:].decode(errors='replace')}"
        )
    return ProcessUsage(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def environment() -> dict[str, str]:
    """The environment without variables that would change the measurement: other stores, servers, recompiled code."""
    left_out = ("GAGE_EVAL_", "PREFECT_", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


@dataclass(frozen=True)
class Mock:
    """A running mock endpoint."""

    root: str

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    def answered(self) -> int:
        """Requests it has answered so far."""
        with _open(f"{self.root}/stats", timeout=30) as reply:
            stats: dict[str, Any] = orjson.loads(reply.read())
        return int(stats["answered"])


@contextmanager
def mock(*options: str) -> Iterator[Mock]:
    """Context of a running mock endpoint."""
    command = [sys.executable, str(HERE / "mock_endpoint.py"), "--idle-s", "600", *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        assert server.stdout is not None
        word, _, port = server.stdout.readline().partition(" ")
        if word != "PORT":
            raise BenchFailed("the mock endpoint did not start")
        yield Mock(f"http://127.0.0.1:{int(port)}")
    finally:
        server.terminate()
        server.wait(timeout=30)
        if server.stdout is not None:
            server.stdout.close()
