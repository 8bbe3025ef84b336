"""A model session is a document in the store; whoever serves it pulls chunks, and each request is sent once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.endpoint import MockEndpoint, mock_endpoint
from support.runs import write_config

from gage_eval.base.canonical import digest
from gage_eval.base.errors import BudgetSpent, EndpointFailed, InputError
from gage_eval.base.stages import StageResult
from gage_eval.engine.runtime import Runtime
from gage_eval.engine.session import ModelSession, SessionFolder
from gage_eval.models.backends.base import BackendContext
from gage_eval.observability.observer import Observers
from gage_eval.pipeline import stages
from gage_eval.pipeline.action import Env, Served
from gage_eval.pipeline.asks import Asks
from gage_eval.pipeline.keys import action_document
from gage_eval.pipeline.plan import make_plan
from gage_eval.pipeline.sharing import engine_of, files_of, serve, step_of
from gage_eval.pipeline.specs import TaskPlan
from gage_eval.runs.options import RunOptions, load
from gage_eval.store import Store

ROWS = 330
SHARDS = 3


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

    def env(self, runtime: Runtime, served: Served | None = None) -> Env:
        env = Env(self.store, runtime, Observers([]), "shared")
        if served is not None:
            env.served[self.key] = served
        return env

    @property
    def inputs(self) -> dict[str, str]:
        return {"prepared": self.prepared.outputs["prepared"]}

    @property
    def key(self) -> str:
        return digest(action_document("infer", self.task.infer, self.inputs, self.store))

    def session(self, attempt: str = "first") -> ModelSession:
        asks = Asks.implicit(self.task.infer.binding)
        step = step_of(asks, stage="infer", key=self.key, work_key=self.key, inputs=self.inputs)
        return ModelSession(engine_of(self.task.infer), SHARDS, attempt, (step,))

    def serve(self, session: ModelSession | None = None) -> int:
        """Serve the session in this process, until all chunks are answered."""
        with Runtime() as runtime:
            return serve(session or self.session(), self.store, runtime, BackendContext(self.folder))

    def gather(self, attempt: str = "first", error: EndpointFailed | BudgetSpent | None = None) -> StageResult:
        """What the parent does: the stage, with all answers in the store."""
        with Runtime() as runtime:
            return stages.infer(self.env(runtime, Served(attempt, error)), self.task.infer, prepared=self.prepared)

    def statuses(self, result: StageResult) -> dict[str, int]:
        statuses = self.store.artifact(result.outputs["responses"]).table(columns=["status"])["status"].to_pylist()
        return {status: statuses.count(status) for status in set(statuses)}


@pytest.fixture
def endpoint() -> Iterator[MockEndpoint]:
    with mock_endpoint() as running:
        yield running


def test_the_parent_assembles_without_a_request_what_a_shard_has_answered(
    tmp_path: Path, endpoint: MockEndpoint
) -> None:
    shared = Shared(tmp_path, endpoint)
    assert shared.serve() == ROWS
    requests = endpoint.stats()["requests"]
    result = shared.gather()
    assert endpoint.stats()["requests"] == requests == ROWS
    assert result.counts["sent"] == ROWS
    rows = shared.store.artifact(result.outputs["responses"]).table(columns=["row_index"])
    assert rows["row_index"].to_pylist() == list(range(ROWS))
    assert shared.store.wips() == [], "nothing of the unfinished work is left"


def test_a_session_gives_the_same_responses_as_a_run_that_asks_by_itself(
    tmp_path: Path, endpoint: MockEndpoint
) -> None:
    shared = Shared(tmp_path, endpoint)
    shared.serve()
    ours = shared.gather().outputs["responses"]
    (tmp_path / "alone").mkdir()
    alone = Shared(tmp_path / "alone", endpoint)
    with Runtime() as runtime:
        result = stages.infer(alone.env(runtime), alone.task.infer, prepared=alone.prepared)
    assert result.outputs["responses"] == ours


def test_whoever_comes_when_all_is_done_sends_nothing(tmp_path: Path, endpoint: MockEndpoint) -> None:
    shared = Shared(tmp_path, endpoint)
    session = shared.session()
    shared.serve(session)
    assert shared.serve(session) == 0, "every chunk is answered"
    shared.gather()
    assert shared.serve(session) == 0, "the action is committed"
    assert endpoint.stats()["requests"] == ROWS


def test_a_machine_that_would_ask_something_else_answers_nothing(tmp_path: Path, endpoint: MockEndpoint) -> None:
    shared = Shared(tmp_path, endpoint)
    session = shared.session()
    (step,) = session.steps
    binding = {**step.requests["bindings"][0], "params": {"temperature": 0.5}}
    other = replace(step, requests={**step.requests, "bindings": [binding]})
    with pytest.raises(InputError, match=r"step infer of task .* has other bindings on this machine"):
        shared.serve(replace(session, steps=(other,)))
    assert endpoint.stats()["requests"] == 0


def test_rows_in_error_are_committed_with_their_attempt_and_asked_again_by_the_next(tmp_path: Path) -> None:
    with mock_endpoint(fault={"context": 0.05}, fault_attempts=1) as endpoint:
        shared = Shared(tmp_path, endpoint, tasks=[{"task_id": "t", "dataset_id": "sums", "max_error_share": 1.0}])
        shared.serve()
        wrong = endpoint.stats()["faults"]["context"]
        assert wrong
        result = shared.gather()
        assert shared.statuses(result) == {"ok": ROWS - wrong, "error": wrong}
        assert not shared.store.artifact(result.outputs["responses"]).complete

        action = shared.store.find_action("infer", shared.key)
        assert action is not None
        earlier = action.outputs["responses"], action.outputs["response_telemetry"]
        session = shared.session("second")
        again = replace(session, steps=(replace(session.steps[0], earlier=earlier),))
        assert shared.serve(again) == wrong, "only the rows in error are asked again"
        assert shared.statuses(shared.gather("second")) == {"ok": ROWS}


def test_chunks_that_no_shard_answered_end_the_stage_with_the_shards_own_words(
    tmp_path: Path, endpoint: MockEndpoint
) -> None:
    shared = Shared(tmp_path, endpoint)
    with pytest.raises(EndpointFailed, match=r"infer stopped: shard 0: boom 0 of 330 responses are kept\."):
        shared.gather(error=EndpointFailed("shard 0: boom"))
    assert endpoint.stats()["requests"] == 0


def test_a_limit_that_the_shards_have_reached_ends_the_stage_as_in_a_run_without(
    tmp_path: Path, endpoint: MockEndpoint
) -> None:
    shared = Shared(tmp_path, endpoint)
    limit = "limits.tokens (10) is reached: 12 tokens were used"
    with pytest.raises(
        BudgetSpent, match=r"used\. 0 of 330 responses are kept\. To resume with the same limits again:"
    ):
        shared.gather(error=BudgetSpent(limit))


def test_a_session_is_the_same_after_its_way_through_the_store(tmp_path: Path, endpoint: MockEndpoint) -> None:
    prompt = {"prompt_id": "ask", "template": [{"role": "user", "content": "{{ sample.messages[0] }}"}]}
    adapter = {"adapter_id": "dut", "role_type": "dut_model", "prompt_id": "ask", "sampling_params": {"top_p": 0.5}}
    session = Shared(tmp_path, endpoint, name="prompted.yaml", prompts=[prompt], role_adapters=[adapter]).session()
    place = SessionFolder.create(Store.open(str(tmp_path / ".gage")), session)
    assert SessionFolder.at(place.url).session() == session
    assert str(tmp_path) not in session.to_json(), "no folder of the submitter's machine"
    (binding,) = session.steps[0].requests["bindings"]
    assert binding["params"] == {"top_p": 0.5}
    assert binding["prompt"]["template"] == prompt["template"]


def test_a_session_that_is_over_is_named_in_one_sentence(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path / ".gage"))
    with pytest.raises(InputError, match=r"there is no model session at .*/sessions/gone: its run has ended\."):
        SessionFolder.at(f"{store.url}/sessions/gone").session()
    with pytest.raises(InputError, match="does not name a model session"):
        SessionFolder.at(store.url)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 3}', '{"format": 9}', '{"format": 3, "engine": {}}'])
def test_a_text_that_is_not_a_session_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InputError, match="model session"):
        ModelSession.from_json(text)


HOOKS = """
from neighbour import LOUD

class Shouting:
    version = 1
    def parse(self, response):
        response.answer = (response.answer or "") + LOUD
        return response
    def prepare(self, request, context):
        request.messages[-1]["content"] += LOUD
        return request
"""


def test_plugin_files_travel_with_the_session(tmp_path: Path, endpoint: MockEndpoint) -> None:
    (tmp_path / "hooks.py").write_text(HOOKS)
    (tmp_path / "neighbour.py").write_text("LOUD = '!'\n")
    adapter = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "mock", "class_path": "hooks.py:Shouting"}
    shared = Shared(tmp_path, endpoint, role_adapters=[adapter])
    files = files_of(shared.task.infer)
    assert sorted(files) == ["hooks.py", "neighbour.py"]
    session = replace(shared.session(), engine=engine_of(shared.task.infer, files))
    place = SessionFolder.create(shared.store, session, files)
    elsewhere = tmp_path / "elsewhere"
    SessionFolder.at(place.url).unpack(session, elsewhere)
    assert (elsewhere / "hooks.py").read_text() == HOOKS


def test_a_model_beside_the_config_is_refused_before_anything_is_sent(tmp_path: Path, endpoint: MockEndpoint) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    engine = {"backend_id": "engine", "type": "transformers", "config": {"model_path": "checkpoint"}}
    shared = Shared(tmp_path, endpoint)
    spec = replace(shared.task.infer, backend_type=engine["type"], backend_config=engine["config"])
    with pytest.raises(InputError, match=r"model_path 'checkpoint' is a path on this machine.*absolute path"):
        files_of(spec)
