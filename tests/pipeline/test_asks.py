"""Asks: what a job asks does not depend on how it is cut into chunks, and equal questions are asked once."""

import itertools
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline.calling import Bench

from gage_eval.base.stages import StageResult
from gage_eval.engine.job import Job
from gage_eval.models.backends.dummy import Dummy
from gage_eval.models.client.types import Request
from gage_eval.pipeline import generation, stages
from gage_eval.pipeline.asks import Asks
from gage_eval.pipeline.generate_spec import Binding, PromptBinding
from gage_eval.pipeline.judge_spec import JudgeSpec
from gage_eval.pipeline.source import RolePart, RoleSource

ROWS, REPLICATES = 7, 3
OWN = {"eval_config": {"judge": {"prompt_params": {"scale": 5}}}}
UNUSABLE = {"eval_config": {"judge": {"prompt_id": "gone"}}}


def inputs(bench: Bench, own: dict[int, dict[str, Any]] | None = None) -> dict[str, StageResult]:
    """Responses to seven samples, three each; some samples set something for their judge."""
    samples = bench.samples(
        [
            {"id": f"s{row}", "messages": [{"role": "user", "content": f"Q{row}"}], **(own or {}).get(row, {})}
            for row in range(ROWS)
        ]
    )
    prepared = bench.preprocess(samples, replicates=REPLICATES)
    return {"prepared": prepared, "samples": samples, "responses": bench.infer(prepared, bench.model(mode="echo"))}


def judge(bench: Bench) -> JudgeSpec:
    return JudgeSpec("t", bench.model("judge_model", prompt="{{ sample.id }} {{ prompt_params.scale | default(1) }}"))


def opened(bench: Bench, stage_inputs: dict[str, StageResult], asks: Asks) -> tuple[RolePart, int]:
    source = RoleSource.of(asks, bench.store, {name: result.outputs[name] for name, result in stage_inputs.items()})
    ((_, count),) = source.parts
    return source.open(0), count


def of_judge(bench: Bench, stage_inputs: dict[str, StageResult]) -> Asks:
    spec = judge(bench)
    ids = {name: result.outputs[name] for name, result in stage_inputs.items()}
    (asks,) = spec.asks(spec.explicit_asks(bench.store, ids))
    return asks


@pytest.mark.parametrize("own", [{}, {2: OWN, 3: UNUSABLE, 6: OWN}])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.sets(st.integers(0, ROWS * REPLICATES)))
def test_a_chunk_may_begin_and_end_anywhere(bench: Bench, own: dict[int, Any], cuts: set[int]) -> None:
    stage_inputs = inputs(bench, own)
    asks = of_judge(bench, stage_inputs)
    assert (asks.table is None) is (not own)
    part, count = opened(bench, stage_inputs, asks)
    whole = part.render(0, count)
    assert [(request.row_index, request.replicate) for request in whole] == [
        (row, replicate) for row in range(ROWS) if own.get(row) != UNUSABLE for replicate in range(REPLICATES)
    ]
    edges = sorted({0, count, *(cut for cut in cuts if cut < count)})
    pieces: list[Request] = []
    for start, stop in itertools.pairwise(edges):
        pieces += part.render(start, stop)
    assert pieces == whole


def test_the_requests_of_one_sample_are_found_without_the_others(bench: Bench) -> None:
    stage_inputs = inputs(bench, {2: OWN, 3: UNUSABLE})
    part, count = opened(bench, stage_inputs, of_judge(bench, stage_inputs))
    whole = part.render(0, count)
    for row in range(ROWS):
        assert part.of_sample(f"s{row}") == [request for request in whole if request.row_index == row]
    assert part.of_sample("s3") == part.of_sample("nobody") == []


def test_repetitions_of_a_sample_are_draws_and_equal_verdicts_are_one(bench: Bench) -> None:
    stage_inputs = inputs(bench)
    part, count = opened(bench, {"prepared": stage_inputs["prepared"]}, Asks.implicit(bench.model().binding))
    assert [request.draw for request in part.render(0, count)] == [*range(REPLICATES)] * ROWS
    part, count = opened(bench, stage_inputs, of_judge(bench, stage_inputs))
    assert {request.draw for request in part.render(0, count)} == {0}
    result = stages.judge(bench.env, judge(bench), **stage_inputs)
    assert result.counts["sent"] == ROWS
    assert bench.artifact(result, "judgments").rows == ROWS * REPLICATES


def test_an_ordinary_judge_stage_has_no_table_of_asks_and_no_key_of_one(bench: Bench) -> None:
    stage_inputs = inputs(bench)
    spec = judge(bench)
    ids = {name: result.outputs[name] for name, result in stage_inputs.items()}
    assert spec.explicit_asks(bench.store, ids) is None
    assert spec.input_material(bench.store, ids) == {}
    assert "asks" not in stages.judge(bench.env, spec, **stage_inputs).outputs


def test_two_names_of_one_judge_are_one_binding_and_ask_once(bench: Bench) -> None:
    named = {2: {"eval_config": {"judge": {"adapter_id": "twin"}}}}
    stage_inputs = inputs(bench, named)
    plain = judge(bench)
    assert plain.generate is not None
    twin = replace(plain.generate, adapter_id="twin")
    same = PromptBinding("p", "{{ model_answer[:1] }}", None, {})
    spec = JudgeSpec("t", replace(plain.generate, prompt=same), (replace(twin, prompt=same),))
    result = stages.judge(bench.env, spec, **stage_inputs)
    judgments = bench.rows(result, "judgments")
    assert [row["judge"] for row in judgments[::REPLICATES]] == ["a", "a", "twin", "a", "a", "a", "a"]
    assert len({row["binding"] for row in judgments}) == 1
    assert result.counts["sent"] == 1, "all samples show the judge the same"


def with_rubrics(bench: Bench, rows: int) -> dict[str, StageResult]:
    """Responses to samples that each have a rubric of their own."""
    records = [
        {
            "id": f"s{row}",
            "messages": [{"role": "user", "content": "Q"}],
            "eval_config": {"judge": {"prompt_params": {"rubric": f"rubric {row}"}}},
        }
        for row in range(rows)
    ]
    samples = bench.samples(records)
    prepared = bench.preprocess(samples)
    return {"prepared": prepared, "samples": samples, "responses": bench.infer(prepared, bench.model(mode="echo"))}


def by_rubric(bench: Bench) -> JudgeSpec:
    return JudgeSpec(
        "t", bench.model("judge_model", prompt="{{ prompt_params.rubric }}\nSCORE: 1", mode="echo", seed=1)
    )


def test_a_thousand_rubrics_are_one_job_one_engine_and_a_thousand_requests(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage_inputs = with_rubrics(bench, 1000)
    jobs, opened_ = [], []
    monkeypatch.setattr(generation, "Job", lambda **fields: jobs.append(fields) or Job(**fields))

    async def open_counted(backend: Dummy, log_folder: Path | None) -> None:
        opened_.append(backend)

    monkeypatch.setattr(Dummy, "open", open_counted)
    result = stages.judge(bench.env, by_rubric(bench), **stage_inputs)
    assert (len(jobs), len(opened_), result.counts["sent"]) == (1, 1, 1000)
    judgments = bench.rows(result, "judgments")
    assert [row["text"] for row in judgments] == [f"rubric {row}\nSCORE: 1" for row in range(1000)]
    assert len({row["binding"] for row in judgments}) == 1000


def test_bindings_are_made_part_by_part(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["gage_eval.pipeline.load"], "PART_ROWS", 50)
    stage_inputs = with_rubrics(bench, 1000)
    alive: WeakSet[Binding] = WeakSet()
    most, made = 0, 0
    make = Binding.__init__

    def counted(binding: Binding, *args: Any, **fields: Any) -> None:
        nonlocal most, made
        make(binding, *args, **fields)
        alive.add(binding)
        most, made = max(most, len(alive)), made + 1

    monkeypatch.setattr(Binding, "__init__", counted)
    monkeypatch.setattr(Binding, "__hash__", object.__hash__)
    stages.judge(bench.env, by_rubric(bench), **stage_inputs)
    assert made >= 1000
    assert most <= 400, "those of the parts that are looked at, and 64 whose renderers are kept"
