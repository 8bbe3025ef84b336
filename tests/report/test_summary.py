"""Promises of summary.json: every key typed and described, numbers and words beside each other, honest rates."""

from pathlib import Path

import pytest
from run_summaries import Stage, metric_row, summary

from gage_eval.base.canonical import canonical_text, decode
from gage_eval.report.summary import Summary, TaskSummary, format_value, json_schema, task_summary
from gage_eval.report.timings import Consumption, run_timings, run_usage


def test_the_published_schema_is_the_models_one(repo_root: Path) -> None:
    path = repo_root / "docs" / "summary.schema.json"
    assert path.read_bytes() == json_schema(), (
        "write it anew: python -c 'from gage_eval.report.summary import json_schema; "
        'open("docs/summary.schema.json", "wb").write(json_schema())\''
    )


def test_every_key_is_described() -> None:
    schema = decode(json_schema())
    for name, model in {"Summary": schema, **schema["$defs"]}.items():
        for key, about in model["properties"].items():
            assert about.get("description"), f"{name}.{key}"


def test_each_metric_has_its_raw_value_and_its_formatted_one() -> None:
    run = summary()
    (metric,) = run.metrics
    assert metric.raw_values == {"score": 0.842}
    assert metric.values == {"score": "0.842"}
    assert (metric.task_id, metric.name) == ("gsm8k", "exact_match,strict-match")
    assert run.tasks[0].metrics[0].raw_values == metric.raw_values
    assert run.sample_count == 1319


def test_a_value_key_that_says_more_than_the_metric_is_part_of_the_name() -> None:
    several = summary([metric_row(filter=None, value_key="recall"), metric_row(filter=None)])
    assert [metric.name for metric in several.metrics] == ["exact_match recall", "exact_match"]


def test_a_task_summary_survives_its_canonical_text() -> None:
    task = summary().tasks[0]
    again = TaskSummary.model_validate(decode(canonical_text(task.model_dump(mode="json"))))
    assert again == task


def test_a_summary_survives_its_file() -> None:
    run = summary()
    assert Summary.model_validate(decode(canonical_text(run.model_dump(mode="json")))) == run


def test_counts_that_are_no_status_are_left_out_and_statuses_filled_up() -> None:
    task = task_summary(task_id="t", dataset_id="d", metrics=[], sample_count=1, statuses={"ok": 1, "rows": 1})
    assert task.responses == {"ok": 1, "truncated": 0, "looped": 0, "limit": 0, "refused": 0, "error": 0, "skipped": 0}
    assert task.tokens.total is None


def test_timings_have_the_documented_names_and_sums() -> None:
    stages, started = [], 0.0
    for stage, seconds in {
        "load": 1.0, "standardize": 2.0, "preprocess": 3.0, "support": 4.0, "infer": 16.0, "judge": 32.0,
        "auto_eval": 64.0, "report": 0.5,
    }.items():  # fmt: skip
        stages.append(Stage(stage, started=started, seconds=seconds))
        started += seconds
    timings = run_timings(stages, samples={"gsm8k": 160}, wall_s=200.0).model_dump()
    expected = {
        "dataset_materialization_s": 6.0,
        "inference_s": 20.0,
        "judge_s": 32.0,
        "evaluation_s": 64.0,
        "execution_runtime_s": 84.0,
        "total_runtime_s": 90.0,
        "wall_runtime_s": 200.0,
        "throughput_total_samples_per_s": 0.8,
        "throughput_inference_samples_per_s": 10.0,
        "throughput_auto_eval_samples_per_s": 2.5,
        "latency_total_ms_per_sample": 1250.0,
        "latency_inference_ms_per_sample": 100.0,
    }
    assert {key: timings[key] for key in expected} == expected
    assert timings["judge_total_s"] == 32.0


def test_stages_of_tasks_side_by_side_count_each_second_once() -> None:
    stages = [
        Stage("load", "a", started=100.0, seconds=1.0),
        Stage("infer", "a", started=101.0, seconds=20.0, counts={"sent": 200}),
        Stage("infer", "b", started=103.0, seconds=10.0, counts={"sent": 100}),
        Stage("infer", "c", started=119.0, seconds=8.0, counts={"sent": 160}),
        Stage("auto_eval", "b", started=113.0, seconds=2.0),
        Stage("auto_eval", "c", started=127.0, seconds=1.0),
    ]
    timings = run_timings(stages, samples={"a": 200, "b": 100, "c": 160}, wall_s=28.5)
    assert timings.inference_s == 26.0
    assert timings.model_dump()["infer_total_s"] == 26.0
    assert timings.evaluation_s == 3.0
    assert timings.execution_runtime_s == 27.0, "scoring of b ran while a was asked"
    assert timings.total_runtime_s == 28.0
    assert timings.throughput_inference_samples_per_s == pytest.approx(460 / 26)


def test_a_rate_is_null_when_its_stage_was_cached() -> None:
    stages = [Stage("infer", cached=True), Stage("auto_eval", cached=False)]
    timings = run_timings(stages, samples={"gsm8k": 10}, wall_s=1.0)
    assert timings.throughput_inference_samples_per_s is None
    assert timings.latency_inference_ms_per_sample is None
    assert timings.throughput_auto_eval_samples_per_s == 10.0


def test_reused_responses_do_not_flatter_the_rate() -> None:
    stages = [Stage("infer", seconds=2.0, counts={"sent": 10, "reused": 9_990})]
    timings = run_timings(stages, samples={"gsm8k": 10_000}, wall_s=3.0)
    assert timings.throughput_inference_samples_per_s == 5.0
    assert timings.latency_inference_ms_per_sample == 200.0


def test_usage_counts_what_this_run_asked_for_and_the_share_that_was_there_already() -> None:
    stages = [
        Stage("support", cached=True, counts={"support_responses": 100}),
        Stage("infer", "a", started=10.0, seconds=20.0, counts={"responses": 200, "sent": 160, "reused": 50}),
        Stage("infer", "b", started=20.0, seconds=20.0, counts={"responses": 100, "sent": 100}),
        Stage("judge", "a", started=45.0, seconds=10.0, counts={"judgments": 100, "reused": 100}),
        Stage("auto_eval", started=60.0, seconds=9.0),
    ]
    usage = run_usage(stages, Consumption(3_000, 1_500, 0.25, 80.0))
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cost, usage.gpu_seconds) == (3_000, 1_500, 0.25, 80.0)
    assert usage.completion_tokens_per_s == 1_500 / 30, "two steps side by side for 30 s; the judge asked nothing"
    assert usage.cached_share == (100 + 50 + 100) / 500


def test_usage_is_null_where_nothing_was_asked() -> None:
    usage = run_usage([Stage("infer", cached=True, counts={"responses": 10})], Consumption())
    assert usage.model_dump() == {
        "prompt_tokens": None, "completion_tokens": None, "completion_tokens_per_s": None, "cost": None,
        "cached_share": 1.0, "gpu_seconds": None,
    }  # fmt: skip
    assert run_usage([], Consumption()).cached_share is None


def test_a_rate_is_null_when_its_denominator_is_zero() -> None:
    timings = run_timings([Stage("infer", seconds=0.0)], samples={}, wall_s=0.0)
    assert timings.throughput_total_samples_per_s is None
    assert timings.throughput_inference_samples_per_s is None
    assert timings.latency_total_ms_per_sample is None


def test_tasks_cached_and_computed_are_told_apart() -> None:
    stages = [Stage("infer", "a", cached=True, seconds=0.1), Stage("infer", "b", started=0.1, seconds=2.0)]
    timings = run_timings(stages, samples={"a": 1000, "b": 10}, wall_s=5.0)
    assert timings.throughput_inference_samples_per_s == 5.0
    assert timings.inference_s == pytest.approx(2.1)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.8612, "0.861"), (0.0, "0.000"), (-0.5, "-0.500"), (99.9, "99.900"), (15234.56, "15,234.6"), (None, "–")],
)
def test_numbers_are_formatted_for_reading(value: float | None, text: str) -> None:
    assert format_value(value) == text
