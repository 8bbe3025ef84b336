"""Rows are scored while others are asked, once, and only what fits the committed responses is used."""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from stages.calling import Bench
from support.runs import write_sums
from support.waiting import wait_for

import gage_eval
from gage_eval.metrics import bind
from gage_eval.metrics.processes import ScoringProcesses
from gage_eval.metrics.score_rows import FEWEST_ROWS
from gage_eval.planning.specs import ScoreSpec
from gage_eval.runs.scoring import scoring_processes
from gage_eval.stages import StageResult
from gage_eval.stages.scores_ahead import ScoresAhead
from gage_eval.store import parquet_bytes

PATIENT = """
import asyncio, time
from pathlib import Path
from gage_eval.backends.base import BackendConfig, BaseBackend
from gage_eval.client.types import Response
from gage_eval.registry import backends

@backends.register("patient", version=1, config=BackendConfig)
class Patient(BaseBackend[BackendConfig]):
    "Answers the last question when answers to others have been scored."
    type = "patient"
    capabilities = frozenset({"chat"})

    async def call(self, request, body):
        deadline = time.monotonic() + 120
        while request.row_index == ROWS - 1 and not Path("FOLDER/scored").exists():
            assert time.monotonic() < deadline, "no row was scored"
            await asyncio.sleep(0.02)
        return Response("ok", answer=f"The answer is {3 * request.row_index + 1}.", attempts=1)
"""
METRIC = """
import os
from pathlib import Path

def noted(prediction: str, reference: str) -> float:
    with Path("FOLDER/scored").open("a") as file:
        file.write(f"{os.getpid()} {reference}\\n")
    return float(reference in prediction)
"""
ROWS = 400
KEY = "ab" * 32


def test_rows_are_scored_once_while_others_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_AUTOEVAL_WORKERS", "2")
    for name, code in {"patient.py": PATIENT, "noted.py": METRIC}.items():
        (tmp_path / name).write_text(code.replace("FOLDER", str(tmp_path)).replace("ROWS", str(ROWS)))
    config = {
        "datasets": [{"dataset_id": "sums", "params": {"path": str(write_sums(tmp_path / "sums.jsonl", ROWS))}}],
        "backends": [{"backend_id": "patient", "type": f"{tmp_path}/patient.py:Patient"}],
        "metrics": [f"{tmp_path}/noted.py:noted"],
    }
    (tmp_path / "patient.yaml").write_text(yaml.safe_dump(config))
    done = gage_eval.run(tmp_path / "patient.yaml", store=str(tmp_path / "store"), inline=True)
    assert [(metric.value, metric.n) for metric in done.summary.metrics] == [(1.0, ROWS)]
    scored = Counter(line.split()[1] for line in (tmp_path / "scored").read_text().splitlines())
    assert scored == Counter({str(3 * row + 1): 1 for row in range(ROWS)})


@pytest.fixture
def processes(bench: Bench) -> Iterator[ScoringProcesses]:
    with scoring_processes(bench.store, 2) as scoring:
        assert scoring is not None
        bench.env = replace(bench.env, processes=scoring)
        yield scoring


@pytest.fixture
def inputs(bench: Bench) -> dict[str, StageResult]:
    rows = range(2 * FEWEST_ROWS)
    samples = bench.samples([{"id": f"s{row}", "question": f"Q{row}", "answer": f"Q{row}"} for row in rows])
    responses = bench.infer(bench.preprocess(samples), bench.model(mode="echo"))
    return {"samples": samples, "responses": responses}


def settled(ahead: ScoresAhead, pieces: int) -> None:
    """Wait until so many pieces are scored, or could not be."""
    wait_for(lambda: len(ahead._begun) == pieces, f"{pieces} pieces begin", every_s=0.01)
    for one in ahead._begun:
        one.scored.exception()


def no_thread_is_left() -> None:
    """Wait until no thread submits rows or waits for some."""
    wait_for(
        lambda: all(thread.name != "gage-eval-scores-ahead" for thread in threading.enumerate()),
        "the thread ends",
        every_s=0.01,
    )


def put(bench: Bench, responses: pa.Table, start: int, stop: int) -> None:
    """Store responses as a finished chunk."""
    chunk = {"responses": parquet_bytes(responses.slice(start, stop - start))}
    assert bench.store.wip(KEY).put_chunk(0, start, stop, chunk)


def test_only_scores_of_the_committed_responses_are_used(
    bench: Bench, processes: ScoringProcesses, inputs: dict[str, StageResult]
) -> None:
    spec = ScoreSpec("t", (bind("exact_match"), bind("text_length")))
    ahead = ScoresAhead(processes, spec, inputs["samples"].outputs["samples"])
    committed = bench.artifact(inputs["responses"], "responses").table()
    at = committed.schema.get_field_index("answer")
    put(bench, committed, 0, 10)
    put(bench, committed.set_column(at, committed.schema.field(at), [["Q0"] * committed.num_rows]), 20, 30)
    for start, stop in ((0, 10), (20, 30), (40, 50)):  # The last one is not in the store.
        ahead.finished(KEY, 0, start, stop)
    settled(ahead, 3)
    bench.env.ahead["t"] = ahead
    there = bench.rows(bench.auto_eval(spec.metrics, **inputs), "metrics")
    assert [row["value"] for row in there] == [1.0, pytest.approx(2.84375)]
    bench.env = replace(bench.env, processes=None, refresh=frozenset({("t", "auto_eval")}))
    assert bench.rows(bench.auto_eval(spec.metrics, **inputs), "metrics") == there


def test_what_was_scored_ahead_for_other_inputs_is_left_out(
    bench: Bench, processes: ScoringProcesses, inputs: dict[str, StageResult]
) -> None:
    spec = ScoreSpec("t", (bind("exact_match"), bind("text_length")))
    samples = inputs["samples"].outputs["samples"]
    put(bench, bench.artifact(inputs["responses"], "responses").table(), 0, 10)

    def begun() -> ScoresAhead:
        ahead = ScoresAhead(processes, spec, samples)
        ahead.finished(KEY, 0, 0, 10)
        settled(ahead, 1)
        return ahead

    assert [one.rows.stop for one in begun().end(samples, spec.metrics)] == [10]
    assert begun().end(samples, spec.metrics[:1]) == []
    assert begun().end("other", spec.metrics) == []


@pytest.mark.parametrize(
    "metric",
    [bind("latency"), bind("exact_match", filters=[{"name": "vote", "steps": ["majority_vote"]}])],
    ids=["reads more than the chunk", "needs all answers to a sample"],
)
def test_metrics_that_need_more_than_a_chunk_wait(
    bench: Bench, processes: ScoringProcesses, inputs: dict[str, StageResult], metric: object
) -> None:
    spec = ScoreSpec("t", (metric,))  # type: ignore[arg-type]
    ahead = ScoresAhead(processes, spec, inputs["samples"].outputs["samples"])
    put(bench, bench.artifact(inputs["responses"], "responses").table(), 0, 10)
    ahead.finished(KEY, 0, 0, 10)
    assert ahead.end(inputs["samples"].outputs["samples"], spec.metrics) == []


def test_after_a_process_was_killed_nothing_more_is_scored_ahead(
    bench: Bench, processes: ScoringProcesses, inputs: dict[str, StageResult], tmp_path: Path
) -> None:
    (tmp_path / "deadly.py").write_text(
        "import os, signal\ndef deadly(prediction: str) -> float:\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    spec = ScoreSpec("t", (bind(f"{tmp_path}/deadly.py:deadly"),))
    ahead = ScoresAhead(processes, spec, inputs["samples"].outputs["samples"])
    put(bench, bench.artifact(inputs["responses"], "responses").table(), 0, 10)
    ahead.finished(KEY, 0, 0, 10)
    settled(ahead, 1)
    ahead.finished(KEY, 0, 0, 10)
    no_thread_is_left()
    assert len(ahead._begun) == 1


def test_a_run_that_ends_while_rows_are_asked_leaves_no_thread(
    bench: Bench, processes: ScoringProcesses, inputs: dict[str, StageResult]
) -> None:
    spec, samples = ScoreSpec("t", (bind("exact_match"),)), inputs["samples"].outputs["samples"]
    ahead = ScoresAhead(processes, spec, samples)
    put(bench, bench.artifact(inputs["responses"], "responses").table(), 0, 20)
    for stop in (10, 20):  # The second time, a new thread begins.
        ahead.finished(KEY, 0, stop - 10, stop)
        settled(ahead, stop // 10)
        no_thread_is_left()
    assert [one.rows.stop for one in ahead.end(samples, spec.metrics)] == [10, 20]


def test_nothing_starts_after_the_end_of_the_run(
    bench: Bench, processes: ScoringProcesses, inputs: dict[str, StageResult]
) -> None:
    spec = ScoreSpec("t", (bind("exact_match"),))
    ahead = ScoresAhead(processes, spec, inputs["samples"].outputs["samples"])
    put(bench, bench.artifact(inputs["responses"], "responses").table(), 0, 10)
    processes.close()
    ahead.finished(KEY, 0, 0, 10)
    no_thread_is_left()
    assert not ahead._begun
    assert not processes._context.started
