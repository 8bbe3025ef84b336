"""Prefect as a team runs it: a server on Postgres and process workers of two pools, for the end-to-end tests."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from gage_eval.base.ports import free_port
from gage_eval.base.processes import alive, born
from support.prefect import ROOT, Prefect
from support.runs import gage
from support.waiting import PATIENCE_S, wait_for

POOLS = ("local", "h100")
# A busy machine takes minutes to start a server or a worker.
START_S = 600.0
_STOP_S = 60.0
_VERSIONED = Path("/usr/lib/postgresql")
# Login of the server, as its team would choose it.
_LOGIN = "team:correct-horse"


@dataclass
class Service:
    """A program in the background with a process group of its own. It ends when the tests are killed.

    Attributes:
        name: for messages, and the name of its log.
        command: program and arguments.
        folder: its working folder, which has its log.
        env: its whole environment.
        user: the user it runs as; ours by default.
        stop_signal: what asks it to stop, also when its parent dies.
    """

    name: str
    command: list[str]
    folder: Path
    env: Mapping[str, str]
    user: str | None = None
    stop_signal: str = "TERM"
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} is not running"
        return self.process.pid

    def start(self) -> None:
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*_as_user(self.user), "setpriv", "--pdeathsig", self.stop_signal, *self.command],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def check(self) -> None:
        """Fail with the end of its log if it has ended."""
        assert self.process is not None
        code = self.process.poll()
        assert code is None, f"{self.name} ended with {code}:\n{self.log.read_text(errors='replace')[-3000:]}"

    def kill(self) -> None:
        """SIGKILL to the program alone. What it started goes on."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(_STOP_S)

    def kill_all(self) -> None:
        """SIGKILL to the program and everything it started, as when a node is lost. Runs have groups of their own."""
        assert self.process is not None
        for pid in (self.process.pid, *_descendants(self.process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(_STOP_S)

    def stop(self) -> None:
        """Ask it to stop, then kill what is left of its group and of what it started."""
        if self.process is None:
            return
        below = {pid: born(pid) for pid in _descendants(self.process.pid)}
        if self.process.poll() is None:
            self.process.send_signal(getattr(signal, f"SIG{self.stop_signal}"))
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOP_S)
        self._signal_all(signal.SIGKILL)
        for pid, born_at in below.items():
            if born_at and alive(pid, born_at):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait(_STOP_S)

    def _signal_all(self, kind: signal.Signals) -> None:
        assert self.process is not None
        try:
            os.killpg(self.process.pid, kind)
        except ProcessLookupError:
            return


def _descendants(pid: int) -> list[int]:
    """Process ids below a process."""
    below: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                below += [child, *_descendants(child)]
    return below


def postgres_programs() -> Path | None:
    """Folder of the newest installed Postgres programs; None where there are none."""
    versions = [folder for folder in _VERSIONED.glob("*/bin") if (folder / "initdb").is_file()]
    if versions:
        return max(versions, key=lambda folder: int(folder.parent.name))
    program = shutil.which("initdb")
    return Path(program).resolve().parent if program else None


@contextmanager
def postgres(programs: Path) -> Iterator[tuple[Service, str]]:
    """A database server with an empty database for Prefect, and its URL.

    Postgres refuses to run as root: there it runs as the user of its package.
    """
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="gage-postgres-"))
    port = free_port()
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(folder)}
    options = {"port": port, "unix_socket_directories": folder, "listen_addresses": "127.0.0.1", "fsync": "off"}
    command = [str(programs / "postgres"), "-D", str(folder / "data")]
    command += [f"--{name}={value}" for name, value in options.items()]
    service = Service("postgres", command, folder, env, user, stop_signal="INT")

    def client(*arguments: object) -> "subprocess.CompletedProcess[bytes]":
        command = [str(programs / "psql"), "-h", str(folder), "-p", str(port), "-U", "prefect", *map(str, arguments)]
        return subprocess.run(command, env=env, capture_output=True, timeout=PATIENCE_S, check=False)

    try:
        if user is not None:
            shutil.chown(folder, user)
        make = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", "prefect", "--auth=trust", "--no-sync"]
        done = subprocess.run([*_as_user(user), *make], env=env, capture_output=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        service.start()
        ready = [str(programs / "pg_isready"), "-h", str(folder), "-p", str(port)]

        def answers() -> bool:
            service.check()
            return subprocess.run(ready, env=env, capture_output=True, check=False).returncode == 0

        wait_for(answers, "Postgres answers")
        for statement in ("create database prefect", "create extension pg_trgm"):
            database = "postgres" if "database" in statement else "prefect"
            created = client("-d", database, "-c", statement)
            assert created.returncode == 0, created.stderr.decode()
        yield service, f"postgresql+asyncpg://prefect@127.0.0.1:{port}/prefect"
    finally:
        service.stop()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Cluster(Prefect):
    """A Prefect server on Postgres with a worker for each pool.

    Attributes:
        database: the Postgres server.
        server: the Prefect server.
        workers: a worker by pool.
        store: the artifact store of the workers.
    """

    database: Service
    server: Service
    workers: dict[str, Service]
    store: Path

    @property
    def login(self) -> str | None:
        return _LOGIN

    def gage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """``gage`` as a client of the server."""
        try:
            return gage(self.folder, *arguments, env=self.env)
        except (AssertionError, subprocess.TimeoutExpired):
            self.check()
            raise

    def check(self) -> None:
        """Fail with the end of its log if the database or the server has ended."""
        for service in (self.database, self.server):
            service.check()

    def online_workers(self, pool: str) -> list[str]:
        """Names of the workers of a pool that send heartbeats."""
        workers = self.api("POST", f"/work_pools/{pool}/workers/filter", {})
        return [worker["name"] for worker in workers if worker["status"] == "ONLINE"]

    def is_healthy(self) -> bool:
        """Whether the server answers."""
        return _is_healthy(self.api_url)

    def states_of(self, run_ids: Iterable[str]) -> list[str]:
        """State types of flow runs, from one request."""
        ids = list(run_ids)
        runs = self.api("POST", "/flow_runs/filter", {"flow_runs": {"id": {"any_": ids}}, "limit": 200})
        assert len(runs) == len(ids)
        return [run["state_type"] for run in runs]

    def deploy_on(self, pool: str, deployment: str) -> str:
        """A copy of a deployment (``flow/name``) on another pool. Returns its full name."""
        there = self.deployment(deployment)
        fields = ("flow_id", "entrypoint", "parameters", "parameter_openapi_schema", "tags", "pull_steps")
        name = f"{there['name']}-on-{pool}"
        body = {"name": name, "work_pool_name": pool, **{field: there[field] for field in fields}}
        self.api("POST", "/deployments/", body)
        return f"{deployment.partition('/')[0]}/{name}"

    def log_size(self) -> int:
        """Length of the server's log, for `errors`."""
        return self.server.log.stat().st_size

    def errors(self, since: int = 0) -> list[str]:
        """Lines of the server's log that report an error, from a position on."""
        marks = (" ERROR ", " CRITICAL ", "Traceback (most recent call last)")
        lines = self.server.log.read_bytes()[since:].decode(errors="replace").splitlines()
        return [line for line in lines if any(mark in line for mark in marks)]


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A running cluster below a folder. Everything it started ends with it.

    Args:
        folder: gets each part's home, logs and the store.
    """
    programs = postgres_programs()
    assert programs is not None, "Postgres is not installed"
    with ExitStack() as stack:
        database, database_url = stack.enter_context(postgres(programs))
        server, api_url = _server(folder, database_url)
        stack.callback(server.stop)
        running = Cluster(folder, api_url, folder / "home", database, server, {}, folder / "store")
        template = json.loads((ROOT / "deployments" / "work_pools" / "process.json").read_text())
        for pool in POOLS:
            running.api("POST", "/work_pools/", {"name": pool, "type": "process", "base_job_template": template})
            running.workers[pool] = worker = _worker(running, pool)
            stack.callback(worker.stop)
            worker.start()
        running.gage("deploy", "--pool", "local", "--gpu-pool", "h100", "--store", str(running.store))
        for pool, worker in running.workers.items():
            wait_for(lambda pool=pool: running.online_workers(pool), f"the worker of {pool} registers", START_S)
            worker.check()
        yield running


def _server(folder: Path, database_url: str) -> tuple[Service, str]:
    port = free_port()
    api_url = f"http://127.0.0.1:{port}/api"
    env = {
        **_clean_environment(),
        "PREFECT_HOME": str(_made(folder / "home")),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database_url,
        # A busy machine stalls a statement for longer than the server waits by default.
        "PREFECT_SERVER_DATABASE_CONNECTION_TIMEOUT": str(PATIENCE_S),
        "PREFECT_SERVER_DATABASE_TIMEOUT": str(PATIENCE_S),
        "PREFECT_SERVER_API_AUTH_STRING": _LOGIN,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": api_url.removesuffix("/api"),
        "PREFECT_UI_API_URL": "/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    server = Service("server", command, folder, env)
    server.start()

    def answers() -> bool:
        server.check()
        return _is_healthy(api_url)

    try:
        wait_for(answers, "the Prefect server answers", START_S)
    except BaseException:
        server.stop()
        raise
    return server, api_url


def _is_healthy(api_url: str) -> bool:
    try:
        with build_opener(ProxyHandler({})).open(f"{api_url}/health", timeout=15) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def _worker(cluster: Cluster, pool: str) -> Service:
    home = _made(cluster.folder / pool)
    env = {
        **_clean_environment(),
        "PREFECT_HOME": str(_made(home / "home")),
        "PREFECT_API_URL": cluster.api_url,
        "PREFECT_API_AUTH_STRING": _LOGIN,
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "PREFECT_WORKER_HEARTBEAT_SECONDS": "5",
        "PREFECT_LOGGING_EXTRA_LOGGERS": "gage_eval",
        "GAGE_EVAL_STORE": str(cluster.store),
        # The engine of the GPU pool has an environment of its own.
        "GAGE_EVAL_PLUGINS": "*",
    }
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", pool, "--name", f"{pool}-1"]
    return Service("worker", command, home, env)


def _clean_environment() -> dict[str, str]:
    """Our environment without settings of Prefect and of gage-eval."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "GAGE_EVAL_"))}
    return {**kept, "DO_NOT_TRACK": "1", "PREFECT_SERVER_EPHEMERAL_ENABLED": "false"}


def _as_user(user: str | None) -> list[str]:
    return [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
