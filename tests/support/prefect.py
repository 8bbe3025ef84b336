"""A running Prefect server as tests see it: through its API, from another process."""

import json
import os
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener
from uuid import UUID

from gage_eval.local import server
from support.waiting import PATIENCE_S, Stopwatch, wait_for

ROOT = Path(__file__).parents[2]
FINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED", "CRASHED"})
_TRIES = 10
# What a server has not taken in after this time, it was not sent.
_LAG_S, _LONG_LAG_S = 1.5, 10.0


@dataclass
class Prefect:
    """A server with its deployments and a worker.

    Attributes:
        folder: working folder of both; `gage` started there finds the server.
        api_url: the server's API.
        home: its PREFECT_HOME, with the database and its log.
    """

    folder: Path
    api_url: str
    home: Path

    @property
    def login(self) -> str | None:
        """``user:password`` of the server, if it has a login."""
        file = server.login_file(self.home)
        return file.read_text() if file.exists() else None

    @property
    def headers(self) -> dict[str, str]:
        """What a request to the API carries."""
        login = self.login
        return {} if login is None else {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}

    @property
    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "PREFECT_API_URL": self.api_url,
            "PREFECT_HOME": str(self.home / "client"),
            "DO_NOT_TRACK": "1",
            **({} if self.login is None else {"PREFECT_API_AUTH_STRING": self.login}),
        }

    def script(self, code: str, *arguments: str) -> Any:
        """Run Python code as a Prefect client of its own; its last line of output is JSON."""
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """A request to the API; its answer from JSON. A busy server is asked again, as Prefect's own client does.

        Raises:
            urllib.error.HTTPError: the server refuses it; a note has the reason.
        """
        data = None if body is None else json.dumps(body).encode()
        request = Request(
            self.api_url + path, data, {"Content-Type": "application/json", **self.headers}, method=method
        )
        for left in range(_TRIES, 0, -1):
            try:
                with build_opener(ProxyHandler({})).open(request, timeout=PATIENCE_S) as reply:
                    text = reply.read()
                    return json.loads(text) if text else None
            except HTTPError as error:
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE or left == 1:
                    error.add_note(f"{method} {path}: {error.read().decode(errors='replace')[:2000]}")
                    raise
                time.sleep(1)
            except OSError as error:
                self.check()
                error.add_note(f"{method} {path}: the server does not answer")
                raise
        raise AssertionError("the last attempt returns or raises")

    def submit(self, deployment: str, parameters: Mapping[str, Any], name: str | None = None) -> str:
        """Start a deployment (``flow/name``), as its form in the UI does. Returns the id of the flow run.

        Args:
            deployment: its name.
            parameters: what is filled in.
            name: of the flow run; a random one by default.

        Raises:
            urllib.error.HTTPError: the server refuses the parameters.
        """
        body = {"parameters": parameters, "state": {"type": "SCHEDULED"}} | ({} if name is None else {"name": name})
        return str(self.api("POST", f"/deployments/{self.deployment(deployment)['id']}/create_flow_run", body)["id"])

    def cancel(self, flow_run_id: str) -> None:
        """Cancel a flow run, as the button in the UI does."""
        reply = self.api("POST", f"/flow_runs/{flow_run_id}/set_state", {"state": {"type": "CANCELLING"}})
        assert reply["status"] == "ACCEPT"

    def retry(self, flow_run_id: str) -> dict[str, Any]:
        """Retry a flow run, as the button in the UI does. Returns it after it has ended again."""
        run = self.flow_run(flow_run_id)
        before = run["run_count"]
        # Prefect's worker ends with an error if it has a limit and gets a flow run again whose process still ends.
        process = str(run.get("infrastructure_pid") or "").rpartition(":")[2]
        wait_for(lambda: not process or not Path("/proc", process).exists(), f"process {process} ends")
        state = {"type": "SCHEDULED", "name": "AwaitingRetry", "message": "Retry from the UI"}
        self.api("POST", f"/flow_runs/{flow_run_id}/set_state", {"state": state, "force": True})
        return self.finished(flow_run_id, runs=before + 1)

    def finished(self, flow_run_id: str, within_s: float = 600.0, *, runs: int = 0) -> dict[str, Any]:
        """A flow run after it has ended.

        Args:
            within_s: fail after this time.
            runs: wait until it has begun so often. A worker may report the end of a killed process late, when the run
                was retried already.
        """

        def ended() -> dict[str, Any] | None:
            self.check()
            run = self.flow_run(flow_run_id)
            return run if run["state_type"] in FINAL and run["run_count"] >= runs else None

        run: dict[str, Any] = wait_for(ended, f"flow run {flow_run_id} ends", within_s, every_s=0.5)
        return run

    def check(self) -> None:
        """Fail if the server has ended; here its processes are not ours to look at."""

    def deployment(self, name: str) -> dict[str, Any]:
        """A deployment by ``flow/name``."""
        deployment: dict[str, Any] = self.api("GET", f"/deployments/name/{name}")
        return deployment

    def flow_run(self, flow_run: str) -> dict[str, Any]:
        """A flow run as the API shows it: of an id, or the newest of a name."""
        if _is_id(flow_run):
            run: dict[str, Any] = self.api("GET", f"/flow_runs/{flow_run}")
            return run
        query = {"flow_runs": {"name": {"any_": [flow_run]}}, "sort": "START_TIME_DESC", "limit": 1}
        runs: list[dict[str, Any]] = self.api("POST", "/flow_runs/filter", query)
        assert runs, f"no flow run {flow_run}"
        return runs[0]

    def flow_state(self, flow_run: str) -> tuple[str, str]:
        """(state type, message) of a flow run: of an id, or the newest of a name."""
        state = self.flow_run(flow_run)["state"]
        return state["type"], state["message"] or ""

    def states(self, flow_run: str) -> dict[str, tuple[str, str]]:
        """(state type, state name) by name of the task runs of a flow run: of an id, or the newest of a name.

        Of the task runs of several attempts the newest counts.

        The server takes in what happened to task runs after the flow run has ended. So this waits until nothing more
        comes: for a moment where all have ended, for longer where one is open.
        """
        states: dict[str, tuple[str, str]] = {}
        since = 0.0
        with Stopwatch() as watch:
            while True:
                now = {run["name"]: (run["state_type"], run["state_name"]) for run in self._task_runs(flow_run)}
                if now != states or not now:
                    states, since = now, watch.seconds
                is_over = all(kind in FINAL for kind, _ in states.values())
                if states and watch.seconds - since >= (_LAG_S if is_over else _LONG_LAG_S):
                    return states
                time.sleep(0.2)

    def running_stages(self, flow_run_id: str) -> list[str]:
        """Names of the task runs that the API shows as running."""
        return sorted(run["name"] for run in self._task_runs(flow_run_id) if run["state_type"] == "RUNNING")

    def _task_runs(self, flow_run: str) -> list[dict[str, Any]]:
        id_ = flow_run if _is_id(flow_run) else self.flow_run(flow_run)["id"]
        runs: list[dict[str, Any]] = self.api(
            "POST",
            "/task_runs/filter",
            {"flow_runs": {"id": {"any_": [id_]}}, "limit": 200, "sort": "EXPECTED_START_TIME_ASC"},
        )
        return runs

    def artifacts(self, flow_run_id: str) -> list[dict[str, Any]]:
        """The artifacts on the page of a flow run."""
        query = {"flow_runs": {"id": {"any_": [flow_run_id]}}}
        artifacts: list[dict[str, Any]] = self.api("POST", "/artifacts/filter", query)
        return artifacts

    def log(self, flow_run_id: str) -> list[str]:
        """The log lines of gage-eval on the page of a flow run, oldest first."""
        query = {"logs": {"flow_run_id": {"any_": [flow_run_id]}}, "sort": "TIMESTAMP_ASC"}
        lines = self.api("POST", "/logs/filter", query)
        return [line["message"] for line in lines if line["name"].startswith("gage_eval")]

    def results(self) -> list[Path]:
        """What clients have written to Prefect's result storage."""
        return [file for folder in self.home.rglob("storage") for file in folder.rglob("*") if file.is_file()]


def _is_id(flow_run: str) -> bool:
    try:
        UUID(flow_run)
    except ValueError:
        return False
    return True
