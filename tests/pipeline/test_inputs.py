"""A new kind of input is one entry in `gage_eval.base.inputs`: no stage, key or signature knows its name."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pipeline.calling import Bench

from gage_eval.base import tables
from gage_eval.base.errors import InputError
from gage_eval.base.inputs import INPUTS, Input
from gage_eval.base.stages import StageResult
from gage_eval.base.tables import TableSchema
from gage_eval.pipeline import stages
from gage_eval.pipeline.dag import run_dag
from gage_eval.pipeline.specs import ScoreSpec
from gage_eval.scoring.metrics import BoundMetric, bind

RECORDS = [{"id": f"s{row}", "question": f"Q{row}", "answer": "Q1"} for row in range(4)]
RESULTS = TableSchema(
    "sandbox_results",
    1,
    pa.schema(
        [
            ("row_index", pa.int64()),
            ("replicate", pa.int32()),
            ("passed", pa.float64()),
            ("details", pa.string()),
            ("reason", pa.string()),
        ]
    ),
)
DIFFICULTY = TableSchema("difficulty", 1, pa.schema([("sample_id", pa.string()), ("level", pa.float64())]))
SANDBOX = Input(
    "sandbox_results",
    "sandbox",
    RESULTS,
    "infer",
    json_columns=frozenset({"details"}),
    open_column="details",
    missing="not_measured",
)
LEVELS = Input("difficulty", "difficulty", DIFFICULTY, "infer", "sample", join=("sample_id",))


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    for declared_input in (SANDBOX, LEVELS):
        monkeypatch.setitem(tables.ALL, declared_input.name, declared_input.table)
        monkeypatch.setitem(INPUTS, declared_input.name, declared_input)


def read_from(path: str, **options: Any) -> BoundMetric:
    """A metric that gives the number at a path."""
    return bind("latency", {"target_field": path}, value_key="number", **options)


def answered(bench: Bench, records: list[dict[str, str]] = RECORDS) -> dict[str, StageResult]:
    samples = bench.samples(records)
    return {"samples": samples, "responses": bench.infer(bench.preprocess(samples), bench.model(mode="echo"))}


def written(bench: Bench, own: Input, rows: list[dict[str, Any]]) -> StageResult:
    """The input's artifact, as if a stage had written it."""
    writer = bench.store.writer(own.table)
    writer.write(0, pa.Table.from_pylist(rows, schema=own.table.arrow))
    return StageResult("infer", "t", "", {own.name: writer.commit().id}, cached=False)


def results(bench: Bench, passed: float = 1.0) -> StageResult:
    """Results of three of four answers, in another order; the third says why it has none."""
    rows = [
        {"row_index": 2, "replicate": 0, "reason": "metric_failed"},
        {"row_index": 1, "replicate": 0, "passed": 0.0, "details": '{"time":{"s":2.5}}'},
        {"row_index": 0, "replicate": 0, "passed": passed, "details": '{"time":{"s":0.5}}'},
    ]
    return written(bench, SANDBOX, rows)


def values(bench: Bench, result: StageResult, metric_id: str) -> list[tuple[float | None, str | None]]:
    """Number and reason of each score row."""
    (scores,) = {row["scores"] for row in bench.rows(result, "metrics") if row["metric_id"] == metric_id}
    rows = bench.store.artifact(scores).table().to_pylist()
    return [(dict(row["values"]).get("number"), row["reason"]) for row in rows]


def test_a_table_of_its_own_is_joined_to_the_answers(bench: Bench) -> None:
    metrics = [
        read_from("sandbox.passed", metric_id="passed"),
        read_from("sandbox.time.s", metric_id="seconds"),
        read_from("difficulty.level", metric_id="level"),
    ]
    assert [entry.name for entry in ScoreSpec("t", tuple(metrics)).inputs] == [
        "samples", "responses", "sandbox_results", "difficulty",
    ]  # fmt: skip
    levels = written(bench, LEVELS, [{"sample_id": "s3", "level": 3.0}, {"sample_id": "s0", "level": 1.0}])
    answers = answered(bench)
    result = bench.auto_eval(metrics, **answers, sandbox_results=results(bench), difficulty=levels)
    assert [number for number, _ in values(bench, result, "passed")] == [1.0, 0.0, None, None]
    assert [number for number, _ in values(bench, result, "seconds")] == [0.5, 2.5, None, None]
    assert [number for number, _ in values(bench, result, "level")] == [1.0, None, None, 3.0]


def test_its_rows_or_its_entry_say_why_a_score_is_missing(bench: Bench) -> None:
    spec = ScoreSpec("t", (bind("exact_match", {"prediction_field": "sandbox.passed"}),), max_unscored_share=1.0)
    result = stages.auto_eval(bench.env, spec, **answered(bench), sandbox_results=results(bench))
    reasons = [reason for _, reason in values(bench, result, "exact_match")]
    assert reasons == [None, None, "metric_failed", "not_measured"]


def test_only_metrics_that_read_it_are_scored_again_when_it_changes(bench: Bench) -> None:
    metrics = [read_from("sandbox.passed", metric_id="passed"), bind("exact_match")]
    answers = answered(bench)
    first = bench.auto_eval(metrics, **answers, sandbox_results=results(bench))
    again = bench.auto_eval(metrics, **answers, sandbox_results=results(bench, passed=0.5))
    assert (first.counts["computed_metrics"], again.counts["computed_metrics"]) == (2, 1)
    assert [number for number, _ in values(bench, again, "passed")] == [0.5, 0.0, None, None]


def test_it_slices_scores_too(bench: Bench) -> None:
    metric = bind("exact_match", slices=["sandbox.passed"])
    result = bench.auto_eval([metric], **answered(bench), sandbox_results=results(bench))
    sliced = {row["slice_value"]: row["n"] for row in bench.rows(result, "metrics") if row["slice_field"]}
    assert sliced == {"0.0": 1, "1.0": 1, None: 2}


def test_a_path_that_ends_at_its_root_is_refused() -> None:
    with pytest.raises(InputError, match=r"path 'sandbox' names no field\. sandbox has details, passed"):
        read_from("sandbox")
    with pytest.raises(InputError, match=r"difficulty has no 'lvel'\. It has level, sample_id\. Did you mean 'level'"):
        read_from("difficulty.lvel")


def test_the_dag_hands_it_on_from_the_stage_that_writes_it() -> None:
    inputs_of: dict[str, Any] = {}

    def call(stage: str, task: Any, /, **inputs: Any) -> str:
        inputs_of[stage] = {name: value for name, value in inputs.items() if value is not None}
        return stage

    task = SimpleNamespace(
        pool=None,
        support=None,
        infer=SimpleNamespace(reads_samples=False),
        judge=SimpleNamespace(reads_support=False, generate=None),
        auto_eval=ScoreSpec("t", (read_from("sandbox.passed"),)),
    )
    run_dag(task, call)  # type: ignore[arg-type, type-var]
    assert inputs_of["auto_eval"] == {"samples": "standardize", "responses": "infer", "sandbox_results": "infer"}


def test_a_metric_that_reads_no_field_of_samples_keeps_its_scores_when_labels_change(bench: Bench) -> None:
    metrics = [bind("exact_match"), bind("text_length")]
    bench.auto_eval(metrics, **answered(bench))
    relabelled = answered(bench, [{**record, "answer": "Q2"} for record in RECORDS])
    assert bench.auto_eval(metrics, **relabelled).counts["computed_metrics"] == 1
