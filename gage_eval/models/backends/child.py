"""Engines in child processes: start and watch them, end them with the run, keep their logs."""

import asyncio
import atexit
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, ClassVar, TypeVar

from gage_eval.base.errors import EndpointFailed
from gage_eval.extend.extras import install_engine
from gage_eval.models.backends import guard
from gage_eval.models.client.echoes import EchoedKey

T = TypeVar("T")

_log = logging.getLogger(__name__)
_TAIL = 600
_LINE = 160
_TELL_EVERY_S = 10.0
_STOP_S = 10.0
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
# The line of a log that says why comes before the stack of a process that only notices; one that ends in a colon
# announces another.
_CAUSE = re.compile(
    r"^\s*(?:\([^)]*\)\s*)*(?:[A-Z]+ [\d\- :]+(?:\[[^\]]*\])?\s*)?(\w*(?:Error|Exception)\b: .*[^:\s])\s*$"
)

_NO_ENGINE = re.compile(r"No module named '(vllm|transformers|torch|accelerate|peft)'")


class Child:
    """An engine's process behind a guard that ends it with this process.

    Spawn it from the loop's thread, which outlives it: the kernel's notice of a parent's death goes by thread.

    Args:
        name: what messages call it, as ``vLLM's server``.
        command: the engine's command.
        env: its environment.
        log: the file its output is appended to. None: a private file.
        hidden: texts that no message may show (an API key).
        stdin: text it reads first; what should not show in the list of processes.
        stdout: whether its standard output is a pipe to this process, not part of the log.
        pass_fds: descriptors that it inherits.
    """

    _running: ClassVar[set["Child"]] = set()

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path | None = None,
        hidden: Sequence[str] = (),
        stdin: bytes = b"",
        stdout: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        self._python = command[0]
        self._hidden = hidden
        # Every request that finds the engine dead stops it and reads its log, and many requests may do so at once.
        self._stopping = threading.Lock()
        self._reading = threading.Lock()
        self._last_output: str | None = None
        self._log: IO[bytes] = tempfile.TemporaryFile() if log is None else log.open("a+b")  # noqa: SIM115
        self._log_start = self._log.seek(0, os.SEEK_END)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a backend's own command
                [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if stdout else self._log,
                stderr=self._log,
                env=dict(env),
                pass_fds=tuple(pass_fds),
                start_new_session=True,
            )
        except BaseException:
            self._log.close()
            raise
        if not self._running:
            atexit.register(_stop_all)
        self._running.add(self)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(stdin)
            self._process.stdin.close()

    @property
    def pid(self) -> int:
        """The guard's process id."""
        return self._process.pid

    async def first_line(self, start: str, timeout_s: float) -> str:
        """The rest of the first output line that starts with ``start``. Without one, the process is stopped.

        Raises:
            EndpointFailed: the process ended, or the time is up.
        """
        try:
            line = await asyncio.wait_for(asyncio.to_thread(self._find_line, start), timeout_s)
            if line is None:
                raise await asyncio.to_thread(self.ended)
            return line
        except TimeoutError:
            raise await asyncio.to_thread(self.too_slow, timeout_s) from None
        except BaseException:
            await asyncio.to_thread(self.stop)
            raise

    def _find_line(self, start: str) -> str | None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.decode(errors="replace")
            if text.startswith(start):
                return text.removeprefix(start).strip()
        return None

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def wait(self, timeout_s: float) -> None:
        """Wait for the process to end, but no longer than the timeout."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)

    def ended(self) -> EndpointFailed:
        """The error for a process that ended, with its status and last output."""
        status = self._process.wait()
        words = self.last_words()
        missing = _NO_ENGINE.search(words)
        remedy = f". {install_engine(missing[1], self._python)}" if missing is not None else ""
        return EndpointFailed(f"{self.name} ended with status {status}. {words}{remedy}".strip())

    def too_slow(self, timeout_s: float) -> EndpointFailed:
        """End a process that was not ready in time, and return the error."""
        self.stop()
        return EndpointFailed(
            f"{self.name} has not loaded the model in {timeout_s:g} s (start_timeout). {self.last_words()}".strip()
        )

    def output(self) -> str:
        """The end of what this process logged, up to 256 KiB."""
        with self._reading:
            if self._last_output is not None:
                return self._last_output
            with open(os.dup(self._log.fileno()), "rb") as log:
                log.seek(max(self._log_start, log.seek(0, os.SEEK_END) - 2**18))
                text = log.read().decode(errors="replace")
        for secret in self._hidden:
            text = EchoedKey(secret).masked_in_error(text)
        return text

    def last_words(self) -> str:
        """The cause an engine's log names, else the end of the log."""
        lines = [line.strip() for line in self.output().splitlines() if line.strip()]
        causes = [match[1] for match in map(_CAUSE.match, lines) if match]
        shown = causes[0][:_TAIL] if causes else " | ".join(lines[-5:])[-_TAIL:]
        return f"Its last words: {shown}" if shown else ""

    def last_line(self) -> str:
        """The last line of the log; of a progress bar, its last state."""
        lines = [line.strip() for line in re.split(r"[\r\n]", self.output()) if line.strip()]
        return lines[-1][:_LINE] if lines else ""

    def stop(self) -> None:
        """End the engine and wait for it; a second call waits for the first and does nothing."""
        with self._stopping:
            if self not in self._running:
                return
            self._process.terminate()
            try:
                self._process.wait(timeout=_STOP_S)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            last_output = self.output()
            with self._reading:
                self._last_output = last_output
                self._log.close()
            self._running.discard(self)


async def watched(child: Child, loading: Awaitable[T]) -> T:
    """Wait until a child has loaded its model. Repeat the last line of its log regularly (level INFO).

    Raises:
        Exception: what `loading` raises.
    """
    task, began = asyncio.ensure_future(loading), time.monotonic()
    try:
        while not (await asyncio.wait({task}, timeout=_TELL_EVERY_S))[0]:
            waited = time.monotonic() - began
            message = f"{child.name} has been loading the model for {waited:.0f} s. {child.last_line()}"
            _log.info("%s", message.rstrip())
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


def log_file(folder: Path | None, name: str) -> Path | None:
    """The file of an engine's log; None without a folder."""
    if folder is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{_UNSAFE.sub('-', name)}.log"


def _stop_all() -> None:
    for child in list(Child._running):
        child.stop()
