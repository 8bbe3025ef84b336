"""A running Prefect server as tests see it: through its API, from another process."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

ROOT = Path(__file__).parents[2]
_TRIES = 10


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
    def env(self) -> dict[str, str]:
        return {
            **os.environ,
            "PREFECT_API_URL": self.api_url,
            "PREFECT_HOME": str(self.home / "client"),
            "DO_NOT_TRACK": "1",
        }

    def script(self, code: str, *arguments: str) -> Any:
        """Run Python code as a Prefect client of its own; its last line of output is JSON."""
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    def states(self, flow_run: str) -> dict[str, tuple[str, str]]:
        """(state type, state name) of the task runs, by name, of a flow run: of an id, or the newest of a name."""
        return {name: (kind, state) for name, kind, state in self.script(READ_STATES, flow_run)}

    def flow_state(self, flow_run: str) -> tuple[str, str]:
        """(state type, message) of a flow run: of an id, or the newest of a name."""
        kind, message = self.script(READ_FLOW, flow_run)
        return kind, message

    def cancel(self, flow_run_id: str) -> None:
        """Cancel a flow run, as the button in the UI does."""
        reply = self._post(f"/flow_runs/{flow_run_id}/set_state", {"state": {"type": "CANCELLING"}})
        assert reply["status"] == "ACCEPT"

    def running_stages(self, flow_run_id: str) -> list[str]:
        """Names of the task runs that the API shows as running, from one quick request."""
        found = self._post("/task_runs/filter", {"flow_runs": {"id": {"any_": [flow_run_id]}}})
        return sorted(run["name"] for run in found if run["state_type"] == "RUNNING")

    def submit(self, deployment: str, parameters: dict[str, Any], name: str | None = None) -> str:
        """Start a deployment, as its form in the UI does. Returns the id of the flow run.

        Raises:
            urllib.error.HTTPError: the server refuses the parameters.
        """
        there = self.deployment(deployment)
        body = {"parameters": parameters, "state": {"type": "SCHEDULED"}, **({"name": name} if name else {})}
        return str(self._post(f"/deployments/{there['id']}/create_flow_run", body)["id"])

    def deployment(self, name: str) -> dict[str, Any]:
        """A deployment by ``flow/name``."""
        found: dict[str, Any] = self._ask(f"/deployments/name/{name}")
        return found

    def flow_run(self, flow_run_id: str) -> dict[str, Any]:
        """A flow run as the API has it, from one quick request."""
        found: dict[str, Any] = self._ask(f"/flow_runs/{flow_run_id}")
        return found

    def wait_until(self, flow_run_id: str, *states: str, within_s: float = 200.0) -> dict[str, Any]:
        """Wait until a flow run has one of these states, such as ``Completed``."""
        deadline = time.monotonic() + within_s
        while (run := self.flow_run(flow_run_id))["state"]["name"] not in states:
            assert time.monotonic() < deadline, f"it is {run['state']['name']}: {run['state']['message']}"
            time.sleep(0.1)
        return run

    def artifacts(self, flow_run_id: str) -> list[dict[str, Any]]:
        """The artifacts on the page of a flow run."""
        found: list[dict[str, Any]] = self._post("/artifacts/filter", {"flow_runs": {"id": {"any_": [flow_run_id]}}})
        return found

    def log(self, flow_run_id: str) -> list[str]:
        """The log lines of gage-eval on the page of a flow run, oldest first."""
        filter_ = {"flow_run_id": {"any_": [flow_run_id]}}
        found = self._post("/logs/filter", {"logs": filter_, "sort": "TIMESTAMP_ASC"})
        return [line["message"] for line in found if line["name"].startswith("gage_eval")]

    def _ask(self, path: str) -> Any:
        with build_opener(ProxyHandler({})).open(self.api_url + path, timeout=30) as reply:
            return json.loads(reply.read())

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        request = Request(self.api_url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        for left in range(_TRIES, 0, -1):
            try:
                with build_opener(ProxyHandler({})).open(request, timeout=30) as reply:
                    return json.loads(reply.read())
            except HTTPError as error:
                # The server's SQLite is locked for a moment; Prefect's own client tries again too.
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE or left == 1:
                    raise
                time.sleep(1)
        raise AssertionError("the attempts have no end")

    def results(self) -> list[Path]:
        """What clients have written to Prefect's result storage."""
        return [file for folder in self.home.rglob("storage") for file in folder.rglob("*") if file.is_file()]


FIND = """
import json, sys
from uuid import UUID
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.sorting import FlowRunSort
def filter_of(name):
    try:
        return FlowRunFilter(id={"any_": [UUID(name)]})
    except ValueError:
        return FlowRunFilter(name={"any_": [name]})
"""

READ_STATES = (
    FIND
    + """
with get_client(sync_client=True) as client:
    runs = client.read_flow_runs(flow_run_filter=filter_of(sys.argv[1]), sort=FlowRunSort.START_TIME_DESC)
    assert runs, f"no flow run {sys.argv[1]}"
    found = client.read_task_runs(flow_run_filter=FlowRunFilter(id={"any_": [runs[0].id]}), limit=200)
print(json.dumps([(run.name, run.state.type.value, run.state.name) for run in found]))
"""
)

READ_FLOW = (
    FIND
    + """
with get_client(sync_client=True) as client:
    runs = client.read_flow_runs(flow_run_filter=filter_of(sys.argv[1]), sort=FlowRunSort.START_TIME_DESC)
    assert runs, f"no flow run {sys.argv[1]}"
    state = runs[0].state
print(json.dumps([state.type.value, state.message or ""]))
"""
)

RUN_DEPLOYMENT = """
import json, sys
from prefect.deployments import run_deployment
run = run_deployment("evaluate/evaluate", parameters=json.loads(sys.argv[1]), timeout=200, poll_interval=1)
print(json.dumps([str(run.id), run.name, run.state.type.value, run.state.message or ""]))
"""

RETRY = """
import json, subprocess, sys, time
from uuid import UUID
from prefect.client.orchestration import get_client
command = [sys.executable, "-m", "prefect", "flow-run", "retry", sys.argv[1]]
done = subprocess.run(command, capture_output=True, text=True)
assert done.returncode == 0, done.stdout + done.stderr
deadline = time.monotonic() + 200
with get_client(sync_client=True) as client:
    while time.monotonic() < deadline:
        run = client.read_flow_run(UUID(sys.argv[1]))
        if run.run_count > 1 and run.state.is_final():
            break
        time.sleep(1)
print(json.dumps([run.name, run.state.type.value, run.state.message or ""]))
"""
