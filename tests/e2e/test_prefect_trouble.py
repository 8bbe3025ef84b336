"""A server dies or hangs, a run is cancelled or killed: what the run comes to, and what the UI shows of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.endpoint import MockEndpoint, mock_endpoint
from support.prefect import Prefect
from support.runs import gage, summary, write_config
from support.slow_proxy import slow_proxy
from support.waiting import PATIENCE_S, Stopwatch, wait_for

from gage_eval.base.ports import free_port
from gage_eval.local import server

pytestmark = pytest.mark.server

ROWS = 600
STARTS = 10
IN_FLIGHT = 16
DONE = ("COMPLETED", "Completed")
# The process of a run ends so soon after the run when its server hangs or is gone, and so soon after it was cancelled.
ENDS_WITHIN_S = 15.0
CANCELLED_WITHIN_S = 10.0
# A server is away for so long, in seconds, before it comes back.
AWAY_S = 30.0


@pytest.fixture
def endpoint() -> Iterator[MockEndpoint]:
    """About forty answers a second: a run is still under way when a busy machine comes to its trouble."""
    with mock_endpoint(latency_ms=400, accuracy=0.7) as running:
        yield running


@pytest.fixture(scope="module")
def mortal_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("mortal")
    yield folder
    gage(folder, "server", "stop")


@pytest.fixture
def mortal(mortal_folder: Path) -> Prefect:
    """A server of these tests' own, which they may kill."""
    home = mortal_folder / server.HOME
    running = server.find(home)
    if running is None:
        gage(mortal_folder, "server", "start", "--no-worker", "--port", str(free_port()))
        running = server.find(home)
    assert running is not None
    return Prefect(mortal_folder, running.api_url, home)


def start(folder: Path, command: Sequence[str], env: Mapping[str, str]) -> "subprocess.Popen[str]":
    """Python in the background."""
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_until(true: Callable[[], object], process: "subprocess.Popen[str]", within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert process.poll() is None, f"it ended: {process.communicate()[0]}"
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def started(
    folder: Path,
    prefect: Prefect,
    endpoint: MockEndpoint,
    run_id: str,
    tasks: tuple[str, ...] = ("sums",),
    command: Sequence[str] = (),
) -> "subprocess.Popen[str]":
    """A run in the midst of inference, as the API shows it too."""
    command = command or ("-m", "gage_eval", "run", "sums.yaml", "--run-id", run_id)
    process = start(folder, command, prefect.env)
    wait_until(lambda: endpoint.stats()["requests"] >= 50, process)
    flow_run_id = record(folder, run_id)["prefect"]["flow_run_id"]
    wait_until(lambda: prefect.running_stages(flow_run_id) == [f"infer {task}" for task in tasks], process)
    return process


def record(folder: Path, run_id: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / ".gage" / "runs" / run_id / "run.json").read_text())
    return value


def ended(process: "subprocess.Popen[str]", within_s: float) -> str:
    """What a process said, which must end so soon."""
    with Stopwatch() as watch:
        said, _ = process.communicate(timeout=2 * PATIENCE_S)
    assert watch.seconds < within_s
    return said


def test_starts_side_by_side_leave_one_server(mortal_folder: Path) -> None:
    command = ("-m", "gage_eval", "server", "start", "--no-worker", "--no-viewer", "--port", str(free_port()))
    starts = [start(mortal_folder, command, os.environ) for _ in range(STARTS)]
    said = [process.communicate(timeout=600)[0] for process in starts]
    assert [process.returncode for process in starts] == [0] * STARTS, said
    assert sorted("Prefect server started" in text for text in said) == [False] * (STARTS - 1) + [True]
    assert sum("Prefect server already running" in text for text in said) == STARTS - 1


# What a script of a user does: its own process goes on after the run, and ends when it wants to.
SCRIPT = """
import time
import gage_eval
outcome = gage_eval.run("sums.yaml", run_id="alone", inline=False)
print("the script goes on", flush=True)
"""


RUN_ALONE = ("-m", "gage_eval", "run", "sums.yaml", "--run-id", "alone")


@pytest.mark.parametrize(
    ("trouble", "command"),
    [
        pytest.param(signal.SIGSTOP, RUN_ALONE, id="hangs"),
        pytest.param(signal.SIGKILL, ("-c", SCRIPT), id="dies under a script", marks=pytest.mark.slow),
    ],
)
def test_a_run_finishes_without_its_server(
    mortal: Prefect, tmp_path: Path, endpoint: MockEndpoint, trouble: signal.Signals, command: tuple[str, ...]
) -> None:
    write_config(tmp_path, endpoint.url, rows=ROWS)
    process = started(tmp_path, mortal, endpoint, "alone", command=command)
    running = server.find(mortal.home)
    assert running is not None

    os.killpg(running.pid, trouble)
    try:
        said = finished_alone(tmp_path, process)
    finally:
        if trouble == signal.SIGSTOP:
            os.killpg(running.pid, signal.SIGCONT)

    assert said.count("the Prefect API does not answer") == (command[0] == "-m"), "a script prints what it wants"
    assert ("the script goes on" in said) == (command[0] == "-c")
    if trouble == signal.SIGKILL:
        gage(mortal.folder, "server", "start", "--no-worker", "--port", str(running.port))
    is_settled_by(mortal, tmp_path, ("show", "alone"))


def test_a_server_that_was_away_has_the_run_that_ended_and_the_one_that_goes_on(
    mortal: Prefect, tmp_path: Path, endpoint: MockEndpoint
) -> None:
    running = server.find(mortal.home)
    assert running is not None
    longer = tmp_path / "longer"
    longer.mkdir()
    write_config(tmp_path, endpoint.url, rows=ROWS)
    with mock_endpoint(latency_ms=150) as held:
        write_config(longer, held.url, rows=ROWS)
        goes_on = started(longer, mortal, held, "longer")
        held.process.send_signal(signal.SIGSTOP)
        ends = started(tmp_path, mortal, endpoint, "alone")

        os.killpg(running.pid, signal.SIGKILL)
        away_since = time.monotonic()
        assert "the Prefect API does not answer" in finished_alone(tmp_path, ends)
        wait_until(lambda: time.monotonic() - away_since >= AWAY_S, goes_on)
        gage(mortal.folder, "server", "start", "--no-worker", "--port", str(running.port))
        held.process.send_signal(signal.SIGCONT)
        said = ended(goes_on, PATIENCE_S)

    assert goes_on.returncode == 0, said
    assert "Traceback" not in said
    assert record(longer, "longer")["status"] == "completed"
    flow_run_id = record(longer, "longer")["prefect"]["flow_run_id"]
    assert mortal.flow_state(flow_run_id)[0] == "COMPLETED"
    states = mortal.states(flow_run_id)
    assert {kind for kind, _ in states.values()} == {"COMPLETED"}
    assert {name.split()[0] for name in states} >= {"load", "standardize", "preprocess", "infer", "auto_eval", "report"}
    artifacts = {artifact["key"]: artifact["data"] for artifact in mortal.artifacts(flow_run_id)}
    assert artifacts.keys() >= {"sums-infer", "sums-scores", "sums-report"}
    assert artifacts["sums-infer"] == 100
    assert any(line.startswith(f"sums infer: {ROWS} rows") for line in mortal.log(flow_run_id))
    is_settled_by(mortal, tmp_path, ("list", "runs"))


def finished_alone(folder: Path, process: "subprocess.Popen[str]") -> str:
    """What a run of `RUN_ALONE` said, which must end well and soon after its report is written."""
    wait_until(lambda: record(folder, "alone")["status"] != "running", process)
    said = ended(process, ENDS_WITHIN_S)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert record(folder, "alone")["status"] == "completed"
    assert summary(folder, "alone")["metrics"][0]["n"] == ROWS
    assert (folder / ".gage" / "runs" / "alone" / "report.html").exists()
    return said


def is_settled_by(prefect: Prefect, folder: Path, command: Sequence[str]) -> None:
    """The next command tells the API how the run ended."""
    gage(folder, *command, env=prefect.env)
    assert prefect.flow_state("alone")[0] == "COMPLETED"
    assert {kind for kind, _ in prefect.states("alone").values()} == {"COMPLETED"}


def test_a_slow_server_delays_the_start_of_a_run_but_not_the_run(
    mortal: Prefect, tmp_path: Path, endpoint: MockEndpoint
) -> None:
    write_config(tmp_path, endpoint.url, rows=ROWS)
    running = server.find(mortal.home)
    assert running is not None
    with slow_proxy(running.port, delay_s=2.0) as port:
        slow = {**mortal.env, "PREFECT_API_URL": f"http://127.0.0.1:{port}/api"}
        process = start(tmp_path, ("-m", "gage_eval", "run", "sums.yaml", "--run-id", "late"), slow)
        folder = tmp_path / ".gage" / "runs" / "late"
        wait_until(lambda: (folder / "run.json").exists() and record(tmp_path, "late")["status"] != "running", process)
        said = ended(process, ENDS_WITHIN_S)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert summary(tmp_path, "late")["metrics"][0]["n"] == ROWS
    gage(tmp_path, "list", "runs", env=mortal.env)
    assert mortal.flow_state("late")[0] == "COMPLETED"


def test_cancel_ends_a_run_as_cancelled_and_a_resume_asks_for_the_rest(
    prefect: Prefect, tmp_path: Path, endpoint: MockEndpoint
) -> None:
    tasks = [
        {"task_id": name, "dataset_id": "sums", "sampling_params": {"seed": seed}}
        for seed, name in enumerate(("left", "right"))
    ]
    write_config(tmp_path, endpoint.url, rows=ROWS, tasks=tasks)
    process = started(tmp_path, prefect, endpoint, "e2e-cancelled", ("left", "right"))

    prefect.cancel(record(tmp_path, "e2e-cancelled")["prefect"]["flow_run_id"])
    said = ended(process, CANCELLED_WITHIN_S)

    assert process.returncode == 130, said
    assert "cancelled at the Prefect API" in said
    assert "Traceback" not in said
    assert record(tmp_path, "e2e-cancelled")["status"] == "interrupted"
    assert prefect.flow_state("e2e-cancelled")[0] == "CANCELLED"
    states = prefect.states("e2e-cancelled")
    assert states["infer left"] == states["infer right"] == ("CANCELLED", "Cancelled")
    assert {name: kind for name, (kind, _) in states.items() if not name.startswith("infer")} == {
        f"{stage} {task}": "COMPLETED" for stage in ("load", "standardize", "preprocess") for task in ("left", "right")
    }

    gage(tmp_path, "resume", "e2e-cancelled", env=prefect.env)
    stats = endpoint.stats()
    assert record(tmp_path, "e2e-cancelled")["status"] == "completed"
    assert prefect.flow_state("e2e-cancelled")[0] == "COMPLETED"
    assert stats["requests"] - 2 * ROWS <= IN_FLIGHT, "answers of the cancelled run are kept"


def test_ctrl_c_ends_a_run_as_cancelled_with_the_stages_that_were_under_way(
    prefect: Prefect, tmp_path: Path, endpoint: MockEndpoint
) -> None:
    write_config(tmp_path, endpoint.url, rows=ROWS)
    process = started(tmp_path, prefect, endpoint, "e2e-ctrl-c")

    process.send_signal(signal.SIGINT)
    said = ended(process, CANCELLED_WITHIN_S)

    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert prefect.flow_state("e2e-ctrl-c")[0] == "CANCELLED"
    assert prefect.states("e2e-ctrl-c") == {
        **{f"{stage} sums": DONE for stage in ("load", "standardize", "preprocess")},
        "infer sums": ("CANCELLED", "Cancelled"),
    }
    assert prefect.results() == []


@pytest.mark.parametrize(
    "command", ["show", pytest.param("resume", marks=pytest.mark.slow), pytest.param("run", marks=pytest.mark.slow)]
)
def test_a_killed_run_is_crashed_for_prefect_once_a_command_sees_it(
    prefect: Prefect, tmp_path: Path, endpoint: MockEndpoint, command: str
) -> None:
    write_config(tmp_path, endpoint.url, rows=ROWS)
    name = f"e2e-shot-{command}"
    process = started(tmp_path, prefect, endpoint, name)
    flow_run_id = record(tmp_path, name)["prefect"]["flow_run_id"]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert prefect.flow_state(flow_run_id)[0] == "RUNNING"

    arguments = {"show": ["show"], "resume": ["resume", name], "run": ["run", "sums.yaml", "--max-samples", "1"]}
    gage(tmp_path, *arguments[command], env=prefect.env)

    kind, message = prefect.flow_state(flow_run_id)
    assert kind == "CRASHED"
    assert f"gage resume {name}" in message
    assert prefect.states(flow_run_id)["infer sums"] == ("CRASHED", "Aborted")


@pytest.mark.slow
def test_after_a_loss_of_power_a_start_on_another_port_resumes_the_run_once(
    mortal: Prefect, endpoint: MockEndpoint
) -> None:
    """Server, worker and run are killed at one moment, each with its process group."""
    write_config(mortal.folder, endpoint.url, rows=ROWS, name="power.yaml", backend={"max_concurrency": IN_FLIGHT})
    gage(mortal.folder, "server", "start", "--no-viewer")
    flow_run_id = mortal.submit("evaluate/evaluate", {"config": "power.yaml"}, "power")
    wait_for(lambda: endpoint.stats()["requests"] > 60, "some rows are asked")
    running, worker = server.find(mortal.home), server.WORKER.find(mortal.home)
    assert running is not None
    assert worker is not None
    run = record(mortal.folder, "power")["process"]["pid"]
    for group in {os.getpgid(run), worker.group, running.group}:
        os.killpg(group, signal.SIGKILL)

    port = free_port()
    gage(mortal.folder, "server", "start", "--no-viewer", "--port", str(port))
    moved = Prefect(mortal.folder, f"http://127.0.0.1:{port}/api", mortal.home)
    replaced = server.WORKER.find(mortal.home)
    assert replaced is not None
    assert (replaced.port, replaced.pid == worker.pid) == (port, False)
    assert moved.finished(flow_run_id, runs=2)["state_type"] == "COMPLETED"
    gage(mortal.folder, "server", "start", "--no-viewer")
    assert moved.flow_run(flow_run_id)["run_count"] == 2
    assert endpoint.stats()["distinct_answered"] == ROWS
    assert endpoint.stats()["requests"] - ROWS <= IN_FLIGHT


def test_a_failed_run_leaves_its_reason_and_no_pickled_exception(prefect: Prefect, tmp_path: Path) -> None:
    with mock_endpoint() as gone:
        url = gone.url
    write_config(tmp_path, url, rows=20, backend={"max_attempts": 2, "max_elapsed_s": 2.0})

    done = gage(tmp_path, "run", "sums.yaml", "--run-id", "e2e-failed", env=prefect.env, check=False)

    assert done.returncode == 1
    kind, message = prefect.flow_state("e2e-failed")
    assert kind == "FAILED"
    assert "0 of 20 responses are kept" in message
    assert prefect.states("e2e-failed") == {
        **{f"{stage} sums": DONE for stage in ("load", "standardize", "preprocess")},
        "infer sums": ("FAILED", "Failed"),
    }
    assert prefect.results() == []
