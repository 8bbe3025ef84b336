"""A model session is a text; whoever serves it pulls chunks, and each request is sent once."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.endpoint import MockEndpoint, mock_endpoint
from support.runs import write_config

from gage_eval import stages
from gage_eval.canonical import digest
from gage_eval.engine.runtime import Runtime
from gage_eval.engine.session import ModelSession
from gage_eval.errors import InputError
from gage_eval.observability.observer import Observers
from gage_eval.planning.asks import Asks
from gage_eval.planning.keys import action_document
from gage_eval.planning.plan import make_plan
from gage_eval.runs.options import RunOptions, load
from gage_eval.stages import Env, StageResult, TaskPlan
from gage_eval.stages.sharing import serve, session_of, step_of
from gage_eval.store import Store

ROWS = 1319
WORKERS = 3


class Shared:
    """A task that is prepared, and the session of its infer stage."""

    def __init__(self, folder: Path, endpoint: MockEndpoint, **changes: Any) -> None:
        config = write_config(folder, endpoint.url, rows=ROWS, backend={"max_concurrency": 8}, **changes)
        self.store = Store.open(str(folder / ".gage"))
        self.task: TaskPlan = make_plan(load(RunOptions(config=str(config)))).tasks[0]
        self.folder = folder
        with Runtime() as runtime:
            env = self.env(runtime)
            samples = stages.standardize(env, self.task.standardize, raw=stages.load(env, self.task.load))
            self.prepared = stages.preprocess(env, self.task.preprocess, samples=samples)

    def env(self, runtime: Runtime) -> Env:
        return Env(self.store, runtime, Observers([]), "shared", workers=WORKERS)

    def session(self) -> ModelSession:
        inputs = {"prepared": self.prepared.outputs["prepared"]}
        key = digest(action_document("infer", self.task.infer, inputs, self.store))
        step = step_of(
            self.store,
            Asks.implicit(self.task.infer.binding),
            stage="infer",
            key=key,
            work_key=key,
            inputs=inputs,
            workers=WORKERS,
        )
        return session_of(self.store, self.task.infer, [step], WORKERS)

    def start_workers(self, count: int) -> "list[subprocess.Popen[str]]":
        """Processes that begin together, once all of them have loaded what they need."""
        file = self.folder / "session.json"
        file.write_text(self.session().to_json())
        command = [sys.executable, str(Path(__file__).with_name("serving.py")), str(file)]
        workers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
        ]
        for worker in workers:
            assert worker.stdout
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin
            worker.stdin.write("go\n")
            worker.stdin.flush()
        return workers

    def answering(self) -> int:
        """How many processes have answers in their logs."""
        logs = self.store.scratch(self.session().steps[0].work_key).glob("*.log")
        return sum(log.stat().st_size > 0 for log in logs)

    def infer(self) -> StageResult:
        with Runtime() as runtime:
            return stages.infer(self.env(runtime), self.task.infer, prepared=self.prepared)


def test_three_processes_share_the_rows_and_send_each_request_once(tmp_path: Path) -> None:
    with mock_endpoint(latency_ms=40) as endpoint:
        shared = Shared(tmp_path, endpoint)
        workers = shared.start_workers(WORKERS - 1)
        # They answer before this process begins, so that all three have a part in it.
        while shared.answering() < WORKERS - 1:
            assert all(worker.poll() is None for worker in workers)
        result = shared.infer()
        sent = [int(worker.communicate(timeout=60)[0]) for worker in workers]
        stats = endpoint.stats()
    assert (stats["requests"], stats["resent_after_answer"]) == (ROWS, 0)
    assert sum(sent) + result.counts["sent"] == ROWS
    assert all(count > 0 for count in sent)
    rows = shared.store.artifact(result.outputs["responses"]).table(columns=["row_index", "status"])
    assert rows["row_index"].to_pylist() == list(range(ROWS))
    assert set(rows["status"].to_pylist()) == {"ok"}


def test_a_killed_workers_chunks_are_taken_over_and_its_logged_answers_kept(tmp_path: Path) -> None:
    with mock_endpoint(latency_ms=20) as endpoint:
        shared = Shared(tmp_path, endpoint)
        (worker,) = shared.start_workers(1)
        while endpoint.stats()["answered"] < 60:
            assert worker.poll() is None
        worker.kill()
        worker.communicate()
        shared.infer()
        stats = endpoint.stats()
    assert stats["distinct_answered"] == ROWS
    assert stats["resent_after_answer"] <= 8, "what it had in flight"


def test_whoever_comes_when_all_is_done_sends_nothing(tmp_path: Path) -> None:
    with mock_endpoint() as endpoint:
        shared = Shared(tmp_path, endpoint)
        session = shared.session()
        assert sum(chunk.stop - chunk.start for chunk in session.steps[0].missing) == ROWS
        shared.infer()
        with Runtime() as runtime:
            assert serve(session, runtime) == 0
        assert endpoint.stats()["requests"] == ROWS


def test_a_machine_that_would_ask_something_else_answers_nothing(tmp_path: Path) -> None:
    with mock_endpoint() as endpoint:
        session = Shared(tmp_path, endpoint).session()
        (step,) = session.steps
        binding = {**step.requests["bindings"][0], "params": {"temperature": 0.5}}
        other = replace(step, requests={**step.requests, "bindings": [binding]})
        with (
            Runtime() as runtime,
            pytest.raises(InputError, match=r"step infer of task .* has other bindings on this machine"),
        ):
            serve(replace(session, steps=(other,)), runtime)
        assert endpoint.stats()["requests"] == 0


def test_a_worker_leaves_rows_in_error_to_the_one_who_holds_the_stage(tmp_path: Path) -> None:
    with mock_endpoint(fault={"context": 0.05}, fault_attempts=1) as endpoint:
        shared = Shared(tmp_path, endpoint)
        with Runtime() as runtime:
            serve(shared.session(), runtime)
        wrong = endpoint.stats()["faults"]["context"]
        shared.infer()
        stats = endpoint.stats()
    assert stats["requests"] == ROWS + wrong
    assert stats["distinct_answered"] == ROWS


def test_a_session_is_the_same_after_its_way_as_a_text(tmp_path: Path) -> None:
    prompt = {"prompt_id": "ask", "template": [{"role": "user", "content": "{{ sample.messages[0] }}"}]}
    adapter = {"adapter_id": "dut", "role_type": "dut_model", "prompt_id": "ask", "sampling_params": {"top_p": 0.5}}
    with mock_endpoint() as endpoint:
        shared = Shared(tmp_path, endpoint)
        session = shared.session()
        prompted = Shared(tmp_path, endpoint, name="prompted.yaml", prompts=[prompt], role_adapters=[adapter])
    assert ModelSession.from_json(session.to_json()) == session
    (binding,) = prompted.session().steps[0].requests["bindings"]
    assert binding["params"] == {"top_p": 0.5}
    assert binding["prompt"]["template"] == prompt["template"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 9}', '{"format": 2, "engine": {}}'])
def test_a_text_that_is_not_a_session_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InputError, match="model session"):
        ModelSession.from_json(text)
