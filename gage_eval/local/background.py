"""Services of a folder: background processes that are started once, found again by a record, and ended as a group."""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gage_eval.base.errors import GageError
from gage_eval.base.ports import LOOPBACK
from gage_eval.base.processes import alive, born

STOP_LIMIT_S = 30.0
_LOG_TAIL = 12


class Process(BaseModel):
    """The record of a background process.

    Attributes:
        pid: its process id.
        group: its process group, which is ended with it. Its leader may be a process that keeps it running.
        born: start of that process in clock ticks since boot, so that another process with the same pid is not taken
            for it.
    """

    model_config = ConfigDict(frozen=True)

    pid: int
    group: int
    born: int


class Server(Process):
    """The record of a server.

    Attributes:
        port: where it listens on loopback.
    """

    port: int

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://{LOOPBACK}:{self.port}"


P = TypeVar("P", bound=Process)


@dataclass(frozen=True)
class Service(Generic[P]):
    """A background process of which a folder has at most one. The folder holds its record and its log.

    Attributes:
        name: how messages call it.
        stem: of its files, ``STEM.json`` and ``STEM.log``.
        kind: what its record holds.
        start_limit_s: how long it may take until it is ready.
    """

    name: str
    stem: str
    kind: type[P]
    start_limit_s: float

    def log(self, home: Path) -> Path:
        """The file of its output."""
        return home / f"{self.stem}.log"

    def record(self, home: Path) -> Path:
        """The file of its record."""
        return home / f"{self.stem}.json"

    def find(self, home: Path) -> P | None:
        """The running process; None without a record, with a damaged one, or when it has ended."""
        try:
            process = self.kind.model_validate_json(self.record(home).read_bytes())
        except (FileNotFoundError, NotADirectoryError, ValidationError):
            return None
        return process if _is_alive(process) else None

    def start(
        self, home: Path, command: Sequence[str], env: Mapping[str, str], ready: Callable[[], bool], **values: Any
    ) -> P:
        """Start it in its own process group and wait until it is ready.

        Args:
            home: the folder.
            command: the program and its arguments.
            env: its environment.
            ready: tells whether it is ready.
            values: what its record holds in addition to the process.

        Raises:
            GageError: it ended, or was not ready in time; the message has the end of its log.
        """
        with self.log(home).open("ab") as out:
            child = subprocess.Popen(  # noqa: S603  # our own interpreter, our own arguments
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, env=env
            )
        process = self.kind(pid=child.pid, group=child.pid, born=born(child.pid), **values)
        self.record(home).write_text(process.model_dump_json(), encoding="utf-8")
        try:
            self._wait(child, ready, self.log(home))
        except BaseException:
            # Ctrl-C too: it does not reach a process in the background.
            self.stop(home)
            raise
        return process

    def stop(self, home: Path) -> bool:
        """Remove the record, and end the process with its group. Returns whether it was running.

        Raises:
            GageError: it does not end.
        """
        process = self.find(home)
        self.record(home).unlink(missing_ok=True)
        if process is None:
            return False
        for kind, limit in ((signal.SIGTERM, STOP_LIMIT_S), (signal.SIGKILL, 5.0)):
            with suppress(ProcessLookupError):
                os.killpg(process.group, kind)
            deadline = time.monotonic() + limit
            while time.monotonic() < deadline:
                if not _is_alive(process):
                    return True
                time.sleep(0.05)
        raise GageError(f"{self.name} (process {process.pid}) does not end; kill it by hand.")

    def _wait(self, child: "subprocess.Popen[bytes]", ready: Callable[[], bool], log: Path) -> None:
        deadline = time.monotonic() + self.start_limit_s
        while not ready():
            if child.poll() is not None:
                raise GageError(f"{self.name} ended at its start (exit code {child.returncode}):\n{_tail(log)}")
            if time.monotonic() > deadline:
                limit = f"{self.start_limit_s:.0f} s"
                raise GageError(f"{self.name} did not start within {limit}. Its log {log} ends:\n{_tail(log)}")
            time.sleep(0.1)


def kept_token(file: Path, prefix: str = "") -> str:
    """The token of a file that only its owner can read. The first call makes it, so that it outlives a restart.

    Args:
        file: where it is kept; its folder exists.
        prefix: what a new token begins with.
    """
    with suppress(FileExistsError), open(file, "x", opener=_for_owner) as out:
        out.write(prefix + secrets.token_urlsafe(32))
    return file.read_text(encoding="utf-8")


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _is_alive(process: Process) -> bool:
    # A child of this process that has ended would stay a zombie.
    with suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return alive(process.pid, process.born)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_TAIL:])
