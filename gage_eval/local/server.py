"""A local Prefect server with its UI, a worker and the viewer: started in the background, kept until they are stopped.

SQLite, loopback only, no telemetry, everything below ``.gage/prefect`` of the working folder. The worker carries out
the runs that the UI starts, in that folder. Any web page can send requests to a loopback address, so the server answers
only who has its login, which is made at its first start.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gage_eval.base.errors import InputError
from gage_eval.base.files import locked
from gage_eval.base.liveness import HEARTBEAT_S
from gage_eval.base.ports import LOOPBACK, chosen_port
from gage_eval.extend import allowed_code
from gage_eval.local import restart_on_error
from gage_eval.local.background import Server, Service, kept_token
from gage_eval.local.viewer_service import VIEWER, run_address
from gage_eval.models.client.health import answers

if TYPE_CHECKING:
    from gage_eval.runs.options import Locations

HOME = Path(".gage") / "prefect"
PORT = 4200
# A worker that ends sooner after its start is not started again.
_WORKER_LIFE_S = 10.0
# Runs that the worker carries out at once; further ones wait.
RUNS_AT_ONCE = 4
# Seconds between two polls of the worker, which says when it polls for the first time.
_QUERY_S = 2
_READY = "started!"


class PrefectServer(Server):
    """A local Prefect server."""

    @property
    def api_url(self) -> str:
        """The address of its API."""
        return f"{self.url}/api"


SERVER = Service("the Prefect server", "server", PrefectServer, 240.0)
# Its record has the port of the server that it asks for runs.
WORKER = Service("the worker", "worker", Server, 120.0)


@contextmanager
def one_at_a_time(home: Path = HOME, port: int | None = None) -> Iterator[None]:
    """Wait for other commands that start the services of this folder, and have them wait for this one.

    Args:
        home: the folder's PREFECT_HOME.
        port: where a new server is to listen, as in `start`.

    Raises:
        InputError: the port is taken, which leaves nothing behind, or the folder cannot be written.
    """
    if find(home) is None:
        chosen_port(port, PORT, "--port")
    with ExitStack() as held:
        try:
            held.enter_context(locked(home / "start.lock"))
        except OSError as error:
            raise _not_writable(home, error) from error
        yield


def start(home: Path = HOME, port: int | None = None) -> tuple[PrefectServer, bool]:
    """Start the server of this folder and wait until it answers.

    Args:
        home: its PREFECT_HOME.
        port: where to listen; 4200, or any free one when that is taken.

    Returns:
        The server, and whether it was started now (False: it was running).

    Raises:
        InputError: the port is taken, or the folder cannot be written.
        GageError: it ended, or did not start in time; the message has the end of its log.
    """
    running = find(home)
    if running is not None:
        return running, False
    port = chosen_port(port, PORT, "--port")
    try:
        home.mkdir(parents=True, exist_ok=True)
        SERVER.log(home).touch()
    except OSError as error:
        raise _not_writable(home, error) from error
    command = _prefect("server", "start", "--host", LOOPBACK, "--port", str(port))
    health = f"http://{LOOPBACK}:{port}/api/health"
    return SERVER.start(home, command, _environment(home, port), lambda: answers(health), port=port), True


def start_worker(running: PrefectServer, pool: str, home: Path = HOME) -> bool:
    """Start the worker of this folder's server and wait until it looks for runs. False: it was running.

    A worker that asks another port is stopped: the server was started again on a new one.

    Args:
        running: the server.
        pool: its work pool, which must be there.
        home: the server's PREFECT_HOME.

    Raises:
        GageError: it ended, or did not start in time; the message has the end of its log.
    """
    worker = WORKER.find(home)
    if worker is not None and worker.port == running.port:
        return False
    WORKER.stop(home)
    log = WORKER.log(home)
    log.unlink(missing_ok=True)
    options = ("--pool", pool, "--type", "process", "--name", "gage", "--limit", str(RUNS_AT_ONCE))
    # It starts again when it ends with an error.
    keeping = [sys.executable, "-P", "-m", restart_on_error.__name__, str(_WORKER_LIFE_S), str(WORKER.record(home))]
    command = [*keeping, *_prefect("worker", "start", *options)]
    environment = _environment(home, running.port)
    ready = partial(_says_it_is_ready, log)
    WORKER.start(home, command, environment, ready, port=running.port)
    return True


def login(home: Path = HOME) -> str:
    """The login of this folder's server, ``user:password``, as the UI asks for it; made when it is first needed."""
    return kept_token(login_file(home), "gage:")


def login_file(home: Path = HOME) -> Path:
    """The file of the login. Only its owner can read it."""
    return home / "server.token"


def login_at(api_url: str, home: Path = HOME) -> str | None:
    """The login of an API, if it is that of this folder's running server."""
    return login(home) if api_url.rstrip("/") == running_url(home) else None


def stop(home: Path = HOME) -> bool:
    """Stop the server, worker and viewer of this folder, with all their processes. False: no server was running."""
    WORKER.stop(home)
    VIEWER.stop(home)
    return SERVER.stop(home)


def find(home: Path = HOME) -> PrefectServer | None:
    """The running server of this folder."""
    return SERVER.find(home)


def running_url(home: Path = HOME) -> str | None:
    """API URL of the running server of this folder."""
    running = find(home)
    return running.api_url if running else None


def run_page(api_url: str | None, locations: "Locations", run_id: str, home: Path = HOME) -> str | None:
    """The address of a run's page in the team's viewer, or that of this folder's server, without the viewer's token.

    Args:
        api_url: the API that shows the run.
        locations: where the run is.
        run_id: the run.
        home: the server's PREFECT_HOME.

    Returns:
        None if another server shows the run, or no viewer is running, or it shows other runs.
    """
    from gage_eval.config.settings import load_settings

    public_url = load_settings().viewer_url
    if public_url is not None:
        return run_address(public_url, run_id)
    if api_url is None or api_url != running_url(home):
        return None
    viewer = VIEWER.find(home)
    return None if viewer is None else viewer.page_of(locations, run_id)


def _not_writable(home: Path, error: OSError) -> InputError:
    return InputError(f"{home} cannot be written ({error.strerror}): start the server in a folder that is yours.")


def _says_it_is_ready(log: Path) -> bool:
    return _READY in log.read_text(errors="replace")


def _prefect(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "prefect", *arguments]


def _environment(home: Path, port: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return {
        **kept,
        # A form may name any code, so only what stands in the user's own files is loaded.
        allowed_code.VARIABLE: ",".join(filter(None, (allowed_code.OWN, kept.get(allowed_code.VARIABLE)))),
        "PREFECT_HOME": str(home.resolve()),
        "PREFECT_API_URL": f"http://{LOOPBACK}:{port}/api",
        "PREFECT_API_AUTH_STRING": login(home),
        "PREFECT_SERVER_API_AUTH_STRING": login(home),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"http://{LOOPBACK}:{port}",
        "PREFECT_UI_API_URL": "/api",
        # Prometheus reads them at /api/metrics.
        "PREFECT_API_ENABLE_METRICS": "true",
        "PREFECT_WORKER_QUERY_SECONDS": str(_QUERY_S),
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
