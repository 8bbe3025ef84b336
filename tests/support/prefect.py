"""A running Prefect server as tests see it: through its API, from another process."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass
class Prefect:
    """A server with a worker.

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
        """(state type, state name) of every task run of a flow run by task run name, as the API tells."""
        return {name: (kind, state) for name, kind, state in self.script(READ_STATES, flow_run)}

    def flow_state(self, flow_run: str) -> tuple[str, str]:
        """(state type, message) of a flow run, found by name or id."""
        kind, message = self.script(READ_FLOW, flow_run)
        return kind, message


READ_STATES = """
import json, sys
from uuid import UUID
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName, TaskRunFilter
with get_client(sync_client=True) as client:
    runs = client.read_flow_runs(flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[sys.argv[1]])))
    assert runs, f"no flow run {sys.argv[1]}"
    found = client.read_task_runs(flow_run_filter=FlowRunFilter(id={"any_": [runs[0].id]}), limit=200)
print(json.dumps([(run.name, run.state.type.value, run.state.name) for run in found]))
"""

READ_FLOW = """
import json, sys
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName
with get_client(sync_client=True) as client:
    runs = client.read_flow_runs(flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[sys.argv[1]])))
    assert runs, f"no flow run {sys.argv[1]}"
    state = runs[0].state
print(json.dumps([state.type.value, state.message or ""]))
"""

RUN_DEPLOYMENT = """
import json, sys
from prefect.deployments import run_deployment
run = run_deployment("suite/e2e", parameters=json.loads(sys.argv[1]), timeout=200, poll_interval=1)
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
