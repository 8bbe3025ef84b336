"""The mock endpoint as a subprocess, for tests."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import orjson

from support.waiting import PATIENCE_S

SCRIPT = Path(__file__).parents[2] / "bench" / "mock_endpoint.py"
_open = build_opener(ProxyHandler({})).open


class MockEndpoint:
    """A mock endpoint that is running.

    Attributes:
        url: base URL, ending in ``/v1``.
        process: the server's process.
    """

    def __init__(self, port: int, process: "subprocess.Popen[str]") -> None:
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"
        self.process = process

    def stats(self) -> dict[str, Any]:
        """Counters since the start or the last `reset`."""
        return self._ask("/stats", "GET")

    def phase(self, name: str) -> None:
        """Count from here on under this name as well."""
        self._ask(f"/phase/{name}", "POST")

    def reset(self) -> None:
        """Forget all counts."""
        self._ask("/reset", "POST")

    def _ask(self, path: str, method: str) -> dict[str, Any]:
        with _open(Request(self.root + path, method=method), timeout=PATIENCE_S) as reply:
            value: dict[str, Any] = orjson.loads(reply.read())
        return value


@contextmanager
def mock_endpoint(*, fault: dict[str, float] | None = None, **options: Any) -> Iterator[MockEndpoint]:
    """Start a mock endpoint; it is stopped at the end.

    Args:
        fault: rate by kind, as ``{"429": 0.05}``.
        options: the script's options by name, as ``latency_ms=5``; True stands for a flag.
    """
    # It ends by itself only where nobody stops it: a test may ask nothing for minutes.
    command = [sys.executable, str(SCRIPT), "--idle-s", "1200"]
    for kind, rate in (fault or {}).items():
        command += ["--fault", f"{kind}={rate}"]
    for name, value in options.items():
        command.append("--" + name.replace("_", "-"))
        if value is not True:
            command.append(str(value))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        word, _, port = process.stdout.readline().partition(" ")
        assert word == "PORT", "the mock endpoint did not start"
        yield MockEndpoint(int(port), process)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        if process.stdout is not None:
            process.stdout.close()
