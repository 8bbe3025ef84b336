"""A plan says what a run then does: nothing more is computed, nothing more is sent."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.base.tables import RESPONSES
from gage_eval.config.load import parse_config
from gage_eval.engine.wal import LogWriter
from gage_eval.models.client.types import Response
from gage_eval.pipeline import outputs
from gage_eval.pipeline.asks import Asks
from gage_eval.pipeline.differences import differing, in_config_words
from gage_eval.pipeline.forecast import Forecast, forecast, rendered
from gage_eval.pipeline.plan import make_plan
from gage_eval.pipeline.source import RoleSource
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.stored import uses_of
from gage_eval.store import Chunk, Store, parquet_bytes
from gage_eval.store.wip import Wip
from tests.support.workspace import JUDGED, ROWS, config, write_config, write_rows


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    return tmp_path


def run(here: Path, run_id: str, **changes: Any) -> dict[str, bool]:
    """Run a config; which stages were cached."""
    write_config(here, **changes)
    outcome = run_inline(RunOptions(config="mine.yaml", store="store", run_id=run_id))
    return {stage: result.cached for (_, stage), result in outcome.results.items()}


def plan(**changes: Any) -> dict[str, Forecast]:
    """The forecast of each stage of a config."""
    loaded = parse_config(yaml.safe_dump(config(**changes)))
    forecasts = forecast(
        Store.open("store"),
        make_plan(loaded),
        uses=lambda: uses_of(Locations.at("store")),
    )
    return {stage.stage: stage for stage in forecasts}


def states(**changes: Any) -> dict[str, str]:
    return {stage: planned.state for stage, planned in plan(**changes).items()}


def dummy(**changes: Any) -> list[dict[str, Any]]:
    return [{"backend_id": "model", "type": "dummy", "config": {"answer": "2", **changes}}]


CHANGES: list[dict[str, Any]] = [
    {},
    {"metrics": ["exact_match", "contains"]},
    {"metrics": [{"exact_match": {"default": 0.5}}]},
    {"backends": dummy(answer="7")},
    {"backends": dummy(latency_ms=1.0)},
    {"datasets": [{"dataset_id": "sums", "params": {"path": "rows.jsonl", "limit": 3}}]},
    {"datasets": [{"dataset_id": "other", "params": {"path": "rows.jsonl"}}]},
    {"tasks": [{"task_id": "sums", "dataset_id": "sums", "sampling_params": {"top_p": 0.5}}]},
    {"metadata": {"name": "renamed"}},
]


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: next(iter(changes), "none"))
def test_a_hit_is_cached_and_a_miss_is_computed(here: Path, changes: dict[str, Any]) -> None:
    run(here, "first")
    planned = states(**changes)
    cached = run(here, "second", **changes)
    for stage, state in planned.items():
        if state != "after":
            assert cached[stage] == (state == "cached"), stage


def test_a_new_store_has_nothing_and_no_earlier_run() -> None:
    planned = plan()
    assert planned["load"].state == "missing"
    assert planned["load"].why == "no earlier run"
    assert {planned[stage].why for stage in planned if stage != "load"} == {"after load"}


def test_everything_is_a_hit_after_the_run(here: Path) -> None:
    run(here, "first")
    assert set(states().values()) == {"cached"}


def test_a_miss_names_what_changed_and_since_which_run(here: Path) -> None:
    run(here, "calm-heron")
    changed = plan(backends=dummy(default_params={"temperature": 1}))["infer"]
    assert changed.why.startswith("backend config.default_params.temperature")
    assert changed.why.endswith("changed since run calm-heron")


def test_a_changed_prompt_is_named_as_in_the_config(here: Path) -> None:
    run(here, "calm-heron", **JUDGED)
    prompts = [{"prompt_id": "verdict", "template": "Right? {{ model_answer }}"}]
    judge = plan(**{**JUDGED, "prompts": prompts})["judge"]
    assert judge.why == "prompts.verdict.template changed since run calm-heron"


def test_new_rows_are_the_only_requests_left(here: Path) -> None:
    run(here, "first")
    write_rows(here, ROWS + 2)
    run(here, "more-samples-without-answers", backends=dummy(answer="other"))
    infer = plan()["infer"]
    assert (infer.state, infer.responses, infer.to_send) == ("partial", ROWS + 2, 2)
    assert infer.why == f"{ROWS} of {ROWS + 2} responses reusable"


def test_rows_in_error_are_asked_again(here: Path) -> None:
    flaky = {
        "backends": dummy(fail_sample_ids=["s1"]),
        "tasks": [{"task_id": "sums", "dataset_id": "sums", "max_error_share": 1.0}],
    }
    run(here, "first", **flaky)
    infer = plan(**flaky)["infer"]
    assert (infer.state, infer.to_send) == ("partial", 1)


def test_the_same_requests_for_another_task_are_reused(here: Path) -> None:
    run(here, "first")
    write_rows(here, 3, name="few.jsonl")
    datasets = [{"dataset_id": "few", "params": {"path": "few.jsonl"}}]
    run(here, "second", datasets=datasets, backends=dummy(answer="9"))
    few = plan(datasets=datasets)["infer"]
    assert (few.state, few.to_send) == ("partial", 0)


def test_a_new_metric_computes_itself_alone(here: Path) -> None:
    run(here, "first")
    scores = plan(metrics=["exact_match", "contains"])["auto_eval"]
    assert (scores.state, scores.metrics) == ("partial", ("contains",))
    assert scores.why == "1 metric stored; computes contains"


def test_time_and_tokens_are_told_from_earlier_answers_only(here: Path) -> None:
    slow = {"backends": dummy(latency_ms=20.0, max_concurrency=2)}
    assert (plan(**slow)["load"].seconds, plan(**slow)["load"].tokens) == (None, None)
    run(here, "first", **slow)
    write_rows(here, 4, first=100)
    run(here, "other-model", backends=dummy(answer="other"))
    infer = plan(**slow)["infer"]
    assert infer.seconds == pytest.approx(4 / 2 * 0.020)
    assert infer.tokens == 4 * 6


def test_answers_a_killed_run_logged_are_not_asked_again(here: Path) -> None:
    run(here, "first")
    changed = {"backends": dummy(answer="other")}
    before = plan(**changed)["infer"]
    assert (before.state, before.to_send) == ("missing", ROWS)
    store = Store.open("store")
    task = make_plan(parse_config(yaml.safe_dump(config(**changed)))).tasks[0]
    prepared = next(iter(store.actions.all("preprocess"))).outputs["prepared"]
    source = RoleSource.of(Asks.implicit(task.infer.binding), store, {"prepared": prepared})
    requests = rendered(task.infer, source.open(0).render(0, ROWS))
    with LogWriter(store.scratch(before.key or "")) as log:
        log.append(requests[0].key, Response("ok", answer="other").to_bytes())
        log.append(requests[3].key, Response("ok", answer="other").to_bytes())
    after = plan(**changed)["infer"]
    assert (after.state, after.to_send) == ("partial", ROWS - 2)


def test_planning_beside_a_run_that_clears_its_work_away_takes_it_for_sent(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(here, "first")
    changed = {"backends": dummy(answer="other")}
    key = plan(**changed)["infer"].key or ""
    wip = Store.open("store").wip(key)
    wip.put_chunk(0, 0, 1, {"responses": parquet_bytes(RESPONSES.empty())})
    listed = Wip.chunks

    def cleared(self: Wip, part: int) -> list[Chunk]:
        chunks = listed(self, part)
        self.discard()
        return chunks

    monkeypatch.setattr(Wip, "chunks", cleared)
    assert plan(**changed)["infer"].to_send == ROWS


def test_planning_writes_nothing(here: Path) -> None:
    run(here, "first")
    before = sorted((path, path.stat().st_mtime_ns) for path in here.rglob("*") if path.is_file())
    plan(backends=dummy(answer="other"), metrics=["contains"])
    assert sorted((path, path.stat().st_mtime_ns) for path in here.rglob("*") if path.is_file()) == before


def test_differences_are_leaves_inputs_first() -> None:
    old = {"spec": {"kwargs": {}, "a": [1, 2]}, "inputs": {"raw": "x"}}
    new = {"spec": {"kwargs": {"b": 1}, "a": [1, 3]}, "inputs": {"raw": "y"}}
    assert differing(old, new) == [("inputs", "raw"), ("spec", "kwargs", "b"), ("spec", "a", "1")]
    assert differing(old, old) == []


def test_options_are_listed_only_where_no_prompt_shows_them_and_no_likelihood_compares_them() -> None:
    def lists_options(**changed: Any) -> bool:
        return make_plan(parse_config(yaml.safe_dump(config(**changed)))).tasks[0].preprocess.lists_options

    prompt = {"prompt_id": "p", "template": "{{ history[-1].content }}"}
    adapter = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model", "prompt_id": "p"}
    assert lists_options()
    assert not lists_options(prompts=[prompt], role_adapters=[adapter])
    scores = {
        "backend_id": "model",
        "type": "openai_http",
        "config": {"base_url": "http://127.0.0.1:9/v1", "model": "m", "echo_logprobs": True},
    }
    compares = {"task_id": "t", "dataset_id": "sums", "mode": "likelihood"}
    assert not lists_options(backends=[scores], tasks=[compares], metrics=["acc"])


def test_what_a_stage_found_in_its_inputs_is_told_as_what_it_is() -> None:
    task = make_plan(parse_config(yaml.safe_dump(config()))).tasks[0]
    assert in_config_words("judge", ("asks",), task) == "what samples set for the judge"
    assert (
        in_config_words("auto_eval", ("unknown_metrics", "0"), task) == "metrics that samples name and the config lacks"
    )
    assert in_config_words("preprocess", ("files", "samples", "files"), task) == "the media files"


def test_responses_and_their_telemetry_are_found_by_their_names() -> None:
    other = outputs.of_other_judge("careful")
    received = outputs.received(other)
    stored = {"judgments": "1", received: "2", other: "3", outputs.telemetry_of(received): "4", "judge_responses": "5"}
    assert list(outputs.with_telemetry(stored)) == [("3", "4")]
    assert {outputs.table_of(name) for name in (received, other)} == {"responses"}
    assert outputs.table_of(outputs.telemetry_of(other)) == "response_telemetry"
