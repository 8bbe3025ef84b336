"""A local Prefect server with its UI and a worker: started in the background, kept until they are stopped.

SQLite, loopback only, no telemetry, everything below ``.gage/prefect`` of the working folder. The worker carries out
the runs that the UI starts, in that folder.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from gage_eval import allowed_code
from gage_eval.canonical import canonical_json, decode
from gage_eval.client.health import answers
from gage_eval.errors import GageError, InputError
from gage_eval.ports import free_port, is_free
from gage_eval.processes import alive, born

HOME = Path(".gage") / "prefect"
PORT = 4200
START_LIMIT_S = 240.0
STOP_LIMIT_S = 30.0
WORKER_START_LIMIT_S = 120.0
# Runs that the worker carries out at once; further ones wait.
RUNS_AT_ONCE = 4
_LOG_TAIL = 12
# The worker looks for new runs so often, in seconds, and says when it does so for the first time.
_QUERY_S = 2
_READY = "started!"


@dataclass(frozen=True)
class Process:
    """A background process, the leader of its group.

    Attributes:
        pid: its process id.
        born: start of that process in clock ticks since boot, so that another process with the same pid is not taken
            for it.
    """

    pid: int
    born: int


@dataclass(frozen=True)
class Running(Process):
    """A local server.

    Attributes:
        port: where it listens on loopback.
    """

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
    if port is not None and not is_free(port):
        raise InputError(f"port {port} is taken: give another --port, or none for a free one.")
    port = port or (PORT if is_free(PORT) else free_port())
    log = home / "server.log"
    try:
        home.mkdir(parents=True, exist_ok=True)
        log.touch()
    except OSError as error:
        raise InputError(
            f"{home} cannot be written ({error.strerror}): start the server in a folder that is yours."
        ) from error
    process = _prefect("server", "start", "--host", "127.0.0.1", "--port", str(port), log=log, home=home, port=port)
    running = Running(process.pid, born(process.pid), port)
    _record(home / "server.json", running)
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


def start_worker(running: Running, pool: str, home: Path = HOME) -> bool:
    """Start the worker of this folder's server and wait until it looks for runs. False: it was running.

    Args:
        running: the server.
        pool: its work pool, which must be there.
        home: the server's PREFECT_HOME.

    Raises:
        GageError: it ended, or did not start in time; the message has the end of its log.
    """
    if find_worker(home) is not None:
        return False
    log = home / "worker.log"
    log.unlink(missing_ok=True)
    options = ("--pool", pool, "--type", "process", "--name", "gage", "--limit", str(RUNS_AT_ONCE))
    process = _prefect("worker", "start", *options, log=log, home=home, port=running.port)
    _record(home / "worker.json", Process(process.pid, born(process.pid)))
    deadline = time.monotonic() + WORKER_START_LIMIT_S
    while _READY not in log.read_text(errors="replace"):
        if process.poll() is not None:
            raise GageError(f"the worker ended at its start (exit code {process.returncode}):\n{_tail(log)}")
        if time.monotonic() > deadline:
            _stop_worker(home)
            raise GageError(f"the worker did not start within {WORKER_START_LIMIT_S:.0f} s. Its log:\n{_tail(log)}")
        time.sleep(0.1)
    return True


def stop(home: Path = HOME) -> bool:
    """Stop the server of this folder and its worker, with all their processes. False: no server was running."""
    running = find(home)
    _stop_worker(home)
    (home / "server.json").unlink(missing_ok=True)
    if running is None:
        return False
    _end(running, "the Prefect server")
    return True


def _stop_worker(home: Path) -> None:
    worker = find_worker(home)
    (home / "worker.json").unlink(missing_ok=True)
    if worker is not None:
        _end(worker, "the worker")


def _end(process: Process, name: str) -> None:
    """End a process and its group.

    Raises:
        GageError: it does not end.
    """
    for kind, limit in ((signal.SIGTERM, STOP_LIMIT_S), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            if not _alive(process):
                return
            time.sleep(0.05)
    raise GageError(f"{name} (process {process.pid}) does not end; kill it by hand.")


def find(home: Path = HOME) -> Running | None:
    """The running server of this folder, by its record and its live process."""
    try:
        record = decode((home / "server.json").read_bytes())
        running = Running(int(record["pid"]), int(record["born"]), int(record["port"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    return running if _alive(running) else None


def find_worker(home: Path = HOME) -> Process | None:
    """The running worker of this folder's server."""
    try:
        record = decode((home / "worker.json").read_bytes())
        worker = Process(int(record["pid"]), int(record["born"]))
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    return worker if _alive(worker) else None


def running_url(home: Path = HOME) -> str | None:
    """API URL of the running server of this folder."""
    running = find(home)
    return running.api_url if running else None


def _prefect(*arguments: str, log: Path, home: Path, port: int) -> "subprocess.Popen[bytes]":
    """Start a Prefect command in the background."""
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603  # our own interpreter, our own arguments
            [sys.executable, "-m", "prefect", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=_environment(home, port),
        )


def _record(file: Path, process: Process) -> None:
    file.write_bytes(canonical_json(asdict(process)))


def _environment(home: Path, port: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return {
        # The server is the user's own: a retry from its UI loads what the user's command did.
        allowed_code.VARIABLE: allowed_code.ANY,
        **kept,
        "PREFECT_HOME": str(home.resolve()),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_UI_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_WORKER_QUERY_SECONDS": str(_QUERY_S),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }


def _alive(process: Process) -> bool:
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
