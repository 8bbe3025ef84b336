"""A local Prefect server with its UI: started in the background, kept until it is stopped.

SQLite, loopback only, no telemetry, everything below ``.gage/prefect`` of the working folder.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from gage_eval.canonical import canonical_json, decode
from gage_eval.client.health import answers
from gage_eval.errors import GageError, InputError
from gage_eval.processes import alive, born

HOME = Path(".gage") / "prefect"
PORT = 4200
START_LIMIT_S = 240.0
STOP_LIMIT_S = 30.0
_LOG_TAIL = 12


@dataclass(frozen=True)
class Running:
    """A local server.

    Attributes:
        pid: its process, the leader of its group.
        born: start of that process in clock ticks since boot, so that another process with the same pid is not taken
            for the server.
        port: where it listens on loopback.
    """

    pid: int
    born: int
    port: int

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    @property
    def ui_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def start(home: Path = HOME, port: int | None = None) -> tuple[Running, bool]:
    """Start the server of this folder and wait until it answers.

    Args:
        home: its PREFECT_HOME.
        port: where to listen; 4200, or any free one when that is taken.

    Returns:
        The server, and whether it was started now (False: it was running).

    Raises:
        InputError: the port is taken, or the folder cannot be written.
        GageError: it ended, or did not answer in time; the message has the end of its log.
    """
    running = find(home)
    if running is not None:
        return running, False
    if port is not None and not _is_free(port):
        raise InputError(f"port {port} is taken: give another --port, or none for a free one.")
    port = port or (PORT if _is_free(PORT) else _free_port())
    log = home / "server.log"
    try:
        home.mkdir(parents=True, exist_ok=True)
        log.touch()
    except OSError as error:
        raise InputError(
            f"{home} cannot be written ({error.strerror}): start the server in a folder that is yours."
        ) from error
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603  # our own interpreter, our own arguments
            [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=_environment(home, port),
        )
    running = Running(process.pid, born(process.pid), port)
    (home / "server.json").write_bytes(canonical_json({"pid": running.pid, "born": running.born, "port": running.port}))
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise GageError(f"the Prefect server ended at its start (exit code {process.returncode}):\n{_tail(log)}")
        if answers(f"{running.api_url}/health", timeout=2.0):
            return running, True
        time.sleep(0.2)
    stop(home)
    raise GageError(
        f"the Prefect server did not answer within {START_LIMIT_S:.0f} s. Its log {log} ends:\n{_tail(log)}"
    )


def stop(home: Path = HOME) -> bool:
    """Stop the server of this folder with all its processes. False: none was running."""
    running = find(home)
    (home / "server.json").unlink(missing_ok=True)
    if running is None:
        return False
    for kind, limit in ((signal.SIGTERM, STOP_LIMIT_S), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(running.pid, kind)
        except ProcessLookupError:
            return True
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if not _alive(running):
                return True
            time.sleep(0.05)
    raise GageError(f"the Prefect server (process {running.pid}) does not end; kill it by hand.")


def find(home: Path = HOME) -> Running | None:
    """The running server of this folder, by its record and its live process."""
    try:
        record = decode((home / "server.json").read_bytes())
        running = Running(int(record["pid"]), int(record["born"]), int(record["port"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    return running if _alive(running) else None


def running_url(home: Path = HOME) -> str | None:
    """API URL of the running server of this folder."""
    running = find(home)
    return running.api_url if running else None


def _environment(home: Path, port: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return {
        **kept,
        "PREFECT_HOME": str(home.resolve()),
        "PREFECT_UI_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }


def _alive(running: Running) -> bool:
    _reap(running.pid)
    return alive(running.pid, running.born)


def _reap(pid: int) -> None:
    """Reap the server if it is a child of this process and has ended; otherwise it would stay a zombie."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_TAIL:])
