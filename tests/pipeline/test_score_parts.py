"""Scoring in other processes: the same scores as here, and errors in one sentence."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline.calling import Bench

from gage_eval.base.errors import InputError, RunFailed
from gage_eval.base.stages import StageResult
from gage_eval.pipeline import stages
from gage_eval.pipeline.specs import ScoreSpec
from gage_eval.runs.scoring import scoring_processes
from gage_eval.scoring.metrics import BoundMetric, bind
from gage_eval.scoring.metrics.score_rows import FEWEST_ROWS

PLUGIN = """
import os, signal

def picky(prediction: str, reference: str) -> float:
    if prediction == "Q7":
        raise ValueError("no Q7, please")
    return 1.0

def deadly(prediction: str) -> float:
    os.kill(os.getpid(), signal.SIGKILL)
"""
ROWS = 3 * FEWEST_ROWS


@pytest.fixture
def metrics(tmp_path: Path) -> list[BoundMetric]:
    """Metrics of several kinds; the last one raises on one row."""
    (tmp_path / "plugin.py").write_text(PLUGIN)
    return [
        bind("exact_match"),
        bind("text_length"),
        bind("latency"),
        bind(f"{tmp_path}/plugin.py:picky", metric_id="picky"),
    ]


@pytest.fixture
def in_processes(bench: Bench) -> Iterator[Bench]:
    """The bench, with two processes that score."""
    with scoring_processes(bench.store, 2) as processes:
        bench.env = replace(bench.env, processes=processes)
        yield bench


def answered(bench: Bench, replicates: int = 1, rows: int = ROWS) -> dict[str, StageResult]:
    """Answers to samples in several parts. Every third sample sets a parameter for a metric."""
    own = {"eval_config": {"metrics": {"exact_match": {"case_sensitive": True}}}}
    records = [
        {"id": f"s{row}", "messages": [{"role": "user", "content": f"Q{row}"}], "label": f"q{row}"}
        | (own if row % 3 == 0 else {})
        for row in range(rows)
    ]
    samples = bench.samples(records)
    responses = bench.infer(bench.preprocess(samples, replicates=replicates), bench.model(mode="echo"))
    return {"samples": samples, "responses": responses, "response_telemetry": responses}


def scored(bench: Bench, metrics: list[BoundMetric], inputs: dict[str, StageResult]) -> dict[str, str]:
    """The scores artifact of each metric."""
    bench.env.refresh = frozenset({("t", "auto_eval")})
    result = stages.auto_eval(bench.env, ScoreSpec("t", tuple(metrics), max_unscored_share=1.0), **inputs)
    return {row["metric_id"]: row["scores"] for row in bench.rows(result, "metrics")}


def test_processes_give_the_same_artifacts_and_warnings(
    in_processes: Bench,
    metrics: list[BoundMetric],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules["gage_eval.pipeline.load"], "PART_ROWS", 40)
    bench = in_processes
    inputs = answered(bench, replicates=2)
    assert len(bench.artifact(inputs["responses"], "responses").parts) > 1
    there = scored(bench, metrics, inputs)
    assert "no Q7, please" in caplog.text
    bench.env = replace(bench.env, processes=None)
    assert scored(bench, metrics, inputs) == there


def test_filters_over_replicates_see_all_answers_to_a_sample(in_processes: Bench) -> None:
    bench = in_processes
    # Pieces of equal size would divide the answers to a sample.
    inputs = answered(bench, replicates=3, rows=FEWEST_ROWS)
    votes = [bind("exact_match", filters=[{"name": "vote", "steps": ["majority_vote"]}])]
    there = scored(bench, votes, inputs)
    assert bench.store.artifact(there["exact_match"]).rows == FEWEST_ROWS
    bench.env = replace(bench.env, processes=None)
    assert scored(bench, votes, inputs) == there


def test_what_a_metric_refuses_in_a_process_is_the_same_sentence(in_processes: Bench) -> None:
    strict = bind("exact_match", {"label_field": "sample.metadata.gold"}, on_missing_field="error")
    with pytest.raises(InputError, match=r"sample\.metadata\.gold"):
        in_processes.auto_eval([strict], **answered(in_processes))


def test_a_killed_process_fails_the_stage_and_others_score_what_comes_next(
    in_processes: Bench, metrics: list[BoundMetric], tmp_path: Path
) -> None:
    inputs = answered(in_processes)
    with pytest.raises(RunFailed, match=r"a scoring process was killed.*GAGE_EVAL_AUTOEVAL_WORKERS"):
        in_processes.auto_eval([bind(f"{tmp_path}/plugin.py:deadly")], **inputs)
    assert scored(in_processes, metrics[:1], inputs)


def test_no_process_starts_after_the_end_of_the_run(in_processes: Bench, metrics: list[BoundMetric]) -> None:
    inputs = answered(in_processes)
    processes = in_processes.env.processes
    assert processes is not None
    processes.close()
    with pytest.raises(RunFailed):
        in_processes.auto_eval(metrics[:1], **inputs)
    assert not processes._context.started
