"""Background processes of a folder: started once, found again by their record, and ended with all they started."""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gage_eval.base.errors import GageError
from gage_eval.base.processes import alive

STOP_LIMIT_S = 30.0
_LOG_TAIL = 12


class Process(BaseModel):
    """A background process, the leader of its group.

    Attributes:
        pid: its process id.
        born: start of that process in clock ticks since boot, so that another process with the same pid is not taken
            for it.
    """

    model_config = ConfigDict(frozen=True)

    pid: int
    born: int


P = TypeVar("P", bound=Process)


def launch(command: Sequence[str], log: Path, env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start a command in the background, in its own process group; its output goes to the end of a log."""
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603  # our own interpreter, our own arguments
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, env=env
        )


def wait_until(
    ready: Callable[[], bool], name: str, process: "subprocess.Popen[bytes]", log: Path, limit_s: float
) -> None:
    """Wait until a process that was just started is ready.

    Raises:
        GageError: it ended, or was not ready in time; the message has the end of its log.
    """
    deadline = time.monotonic() + limit_s
    while not ready():
        if process.poll() is not None:
            raise GageError(f"{name} ended at its start (exit code {process.returncode}):\n{_tail(log)}")
        if time.monotonic() > deadline:
            raise GageError(f"{name} did not start within {limit_s:.0f} s. Its log {log} ends:\n{_tail(log)}")
        time.sleep(0.1)


def record(file: Path, process: Process) -> None:
    """Write the record by which `find` finds a process."""
    file.write_text(process.model_dump_json(), encoding="utf-8")


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


def find(file: Path, kind: type[P]) -> P | None:
    """The running process of a record; None without a record, with a damaged one, or when it has ended."""
    try:
        process = kind.model_validate_json(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
    return process if is_alive(process) else None


def stop(file: Path, kind: type[Process], name: str) -> bool:
    """Remove a record, and end its process with the process's group. Returns whether one was running.

    Raises:
        GageError: it does not end.
    """
    process = find(file, kind)
    file.unlink(missing_ok=True)
    if process is None:
        return False
    _end(process, name)
    return True


def _end(process: Process, name: str) -> None:
    for kind, limit in ((signal.SIGTERM, STOP_LIMIT_S), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if not is_alive(process):
                return
            time.sleep(0.05)
    raise GageError(f"{name} (process {process.pid}) does not end; kill it by hand.")


def is_alive(process: Process) -> bool:
    """Whether a process is still running."""
    _reap(process.pid)
    return alive(process.pid, process.born)


def _reap(pid: int) -> None:
    """Reap a process if it is a child of this process and has ended; otherwise it would stay a zombie."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_TAIL:])
