"""auto_eval: one scores artifact a metric, each computed once."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from pipeline.calling import Bench

from gage_eval.base.errors import InputError, RunFailed
from gage_eval.base.stages import StageResult
from gage_eval.pipeline import stages
from gage_eval.pipeline.specs import ScoreSpec
from gage_eval.runs.scoring import scoring_processes
from gage_eval.scoring.metrics import BoundMetric, bind

RECORDS = [{"id": f"s{row}", "question": f"Q{row}", "answer": f"Q{row}" if row % 2 else "no"} for row in range(6)]
MATCH = bind("exact_match")
LENGTH = bind("text_length")


def answered(bench: Bench, **model: object) -> dict[str, StageResult]:
    samples = bench.samples(RECORDS)
    prepared = bench.preprocess(samples)
    return {"samples": samples, "responses": bench.infer(prepared, bench.model(mode="echo", **model))}


def evaluated(bench: Bench, metrics: list[BoundMetric], inputs: dict[str, StageResult]) -> tuple[int, dict[str, str]]:
    """Metrics that were computed, and the scores artifact of each."""
    result = bench.auto_eval(metrics, **inputs)
    rows = bench.rows(result, "metrics")
    return result.counts.get("computed_metrics", 0), {row["metric_id"]: row["scores"] for row in rows}


def test_a_new_metric_computes_itself_only(bench: Bench) -> None:
    inputs = answered(bench)
    computed, first = evaluated(bench, [MATCH], inputs)
    assert computed == 1
    computed, both = evaluated(bench, [LENGTH, MATCH], inputs)
    assert computed == 1
    assert both["exact_match"] == first["exact_match"] != both["text_length"]


def test_a_refresh_scores_every_row_again_and_its_scores_stand(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = answered(bench)
    _, first = evaluated(bench, [MATCH], inputs)
    bench.env.refresh = frozenset({("t", "auto_eval")})
    score_table = BoundMetric.score_table

    def explained(metric: BoundMetric, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Other scores under the same key, as of a metric that asks a service."""
        scored = score_table(metric, tables)
        column = scored.schema.get_field_index("explanation")
        return scored.set_column(column, "explanation", [["anew"] * scored.num_rows])

    monkeypatch.setattr(BoundMetric, "score_table", explained)
    computed, again = evaluated(bench, [MATCH], inputs)
    assert computed == 1
    assert again != first
    bench.env.refresh = frozenset()
    assert evaluated(bench, [MATCH, LENGTH], inputs)[1]["exact_match"] == again["exact_match"]


def test_another_aggregation_or_name_scores_no_row_again(bench: Bench) -> None:
    inputs = answered(bench)
    _, first = evaluated(bench, [MATCH], inputs)
    named = bind("exact_match", metric_id="mine", aggregation="identity")
    computed, second = evaluated(bench, [named], inputs)
    assert (computed, second["mine"]) == (0, first["exact_match"])


def test_another_parameter_scores_its_metric_again(bench: Bench) -> None:
    inputs = answered(bench)
    _, first = evaluated(bench, [MATCH], inputs)
    computed, second = evaluated(bench, [bind("exact_match", {"case_sensitive": True})], inputs)
    assert computed == 1
    # Another question with the same result is the same artifact.
    assert second == first


def test_each_scores_artifact_has_the_rows_of_its_metric_alone(bench: Bench) -> None:
    _, ids = evaluated(bench, [MATCH, LENGTH], answered(bench))
    values = {name: bench.store.artifact(id_).table()["values"].to_pylist() for name, id_ in ids.items()}
    assert [dict(value) for value in values["exact_match"]] == [{"score": float(row % 2)} for row in range(6)]
    assert all(len(rows) == len(RECORDS) for rows in values.values())


def test_error_rows_are_out_of_n_and_counted(bench: Bench) -> None:
    inputs = answered(bench, fail_sample_ids=["s0", "s1", "s2"], max_error_share=1.0)
    result = bench.auto_eval([MATCH], **inputs)
    (row,) = bench.rows(result, "metrics")
    assert (row["n"], row["error"], row["value"]) == (3, 3, pytest.approx(2 / 3))


def test_a_metric_that_refuses_missing_fields_ends_the_stage_and_leaves_no_scores(bench: Bench) -> None:
    inputs = answered(bench)
    strict = bind("exact_match", {"label_field": "sample.metadata.gold"}, on_missing_field="error")
    with pytest.raises(InputError, match=r"sample\.metadata\.gold"):
        bench.auto_eval([LENGTH, strict], **inputs)
    assert list(bench.store.actions.all("scores")) == []
    assert list(bench.store.objects.leftovers()) == []


# What raises, and how much of it a run bears

PLUGIN = """
def picky(prediction: str, reference: str) -> float:
    if prediction == "Q0":
        raise ValueError("no Q0, please")
    return 1.0
"""


@pytest.fixture
def picky(tmp_path: Path) -> BoundMetric:
    """A metric that raises on one row of six."""
    (tmp_path / "plugin.py").write_text(PLUGIN)
    return bind(f"{tmp_path}/plugin.py:picky", metric_id="picky")


def limited(bench: Bench, metric: BoundMetric, share: float, inputs: dict[str, StageResult]) -> StageResult:
    return stages.auto_eval(bench.env, ScoreSpec("t", (metric,), max_unscored_share=share), **inputs)


def test_a_row_that_breaks_a_metric_is_unscored_and_counted(bench: Bench, picky: BoundMetric) -> None:
    result = limited(bench, picky, 0.2, answered(bench))
    (row,) = bench.rows(result, "metrics")
    assert (row["n"], row["unscored"], row["value"]) == (5, 1, 1.0)
    broken = bench.store.artifact(row["scores"]).table().to_pylist()[0]
    assert (broken["status"], broken["reason"]) == ("unscored", "metric_failed")
    assert broken["explanation"] == "plugin.py:picky() raised ValueError: no Q0, please (plugin.py, line 4)"


def test_above_the_share_the_run_fails_and_keeps_the_scores(bench: Bench, picky: BoundMetric) -> None:
    inputs = answered(bench)
    for _ in range(2):  # computed, and then from the store
        with pytest.raises(RunFailed, match=r"picky has no score for 1 of 6 answers.*ValueError: no Q0, please"):
            limited(bench, picky, 0.05, inputs)
    assert limited(bench, picky, 1 / 6, inputs).cached


def test_missing_fields_and_answers_are_for_other_limits(bench: Bench) -> None:
    inputs = answered(bench, fail_sample_ids=["s0"], max_error_share=1.0)
    lacking = bind("exact_match", {"label_field": "sample.metadata.gold"}, on_missing_field="ignore")
    inputs["response_telemetry"] = inputs["responses"]
    metrics = (replace(lacking, metric_id="lacking"), MATCH, bind("latency"))
    result = stages.auto_eval(bench.env, ScoreSpec("t", metrics, max_unscored_share=0.0), **inputs)
    counts = {row["metric_id"]: (row["error"], row["unscored"]) for row in bench.rows(result, "metrics")}
    assert counts == {"lacking": (1, 6), "exact_match": (1, 1), "latency": (1, 1)}, "a share of 0 is not exceeded"


@pytest.mark.parametrize("policy", ["ignore", "warn"])
def test_a_metric_that_scores_no_row_fails_the_run_and_says_why(
    bench: Bench, policy: Literal["ignore", "warn"]
) -> None:
    inputs = answered(bench)
    lacking = bind("exact_match", {"label_field": "sample.metadata.gold"}, on_missing_field=policy)
    for _ in range(2):  # computed, and then from the store
        with pytest.raises(
            RunFailed, match=r"exact_match scored none of the 6 answers of task 't', the first because: "
        ):
            bench.auto_eval([lacking], **inputs)
    beside = replace(lacking, metric_id="gold")
    if policy == "ignore":
        assert len(bench.rows(bench.auto_eval([beside, LENGTH], **inputs), "metrics")) == 2
    else:
        with pytest.raises(RunFailed, match=r"point the metric at a field that the samples have"):
            bench.auto_eval([beside, LENGTH], **inputs)


def test_replayed_answers_have_no_latency_and_that_is_no_failure(bench: Bench) -> None:
    inputs = answered(bench)
    unmeasured = bind("latency", {"target_field": "model_output.ttft_ms"})
    (row,) = bench.rows(bench.auto_eval([unmeasured], **inputs, response_telemetry=inputs["responses"]), "metrics")
    assert (row["value"], row["n"], row["unscored"]) == (None, 0, 6)


def test_replicates_of_a_sample_count_once(bench: Bench) -> None:
    samples = bench.samples(RECORDS)
    prepared = bench.preprocess(samples, replicates=3)
    inputs = {"samples": samples, "responses": bench.infer(prepared, bench.model(mode="echo"))}
    (row,) = bench.rows(bench.auto_eval([MATCH], **inputs), "metrics")
    assert (row["n"], row["rows"]) == (6, 18)


def test_a_judge_without_verdicts_fails_the_run(bench: Bench) -> None:
    samples = bench.samples(RECORDS)
    prepared = bench.preprocess(samples)
    responses = bench.infer(prepared, bench.model(mode="echo"))
    silent = bench.model("judge_model", "Right?", answer="I cannot say.")
    judgments = bench.judge(silent, prepared=prepared, samples=samples, responses=responses)
    inputs = {"samples": samples, "responses": responses, "judgments": judgments}
    with pytest.raises(RunFailed, match=r"judge_output\.score is missing"):
        limited(bench, bind("judge_threshold"), 0.05, inputs)


# Samples with parameters of their own (eval_config)


def configured(bench: Bench, *names: str) -> dict[str, StageResult]:
    """Answers to samples of which the second sets parameters for some metrics."""
    config = {"metrics": {name: {"case_sensitive": True} for name in names}}
    records = [
        {"id": f"s{row}", "messages": [{"role": "user", "content": "Q"}], "label": "q"}
        | ({"eval_config": config} if row == 1 else {})
        for row in range(3)
    ]
    samples = bench.samples(records)
    prepared = bench.preprocess(samples)
    return {"samples": samples, "responses": bench.infer(prepared, bench.model(mode="echo"))}


def values(bench: Bench, scores: str) -> list[float | None]:
    return [dict(row["values"]).get("score") for row in bench.store.artifact(scores).table().to_pylist()]


def test_a_sample_names_fields_that_no_metric_of_the_config_reads(bench: Bench) -> None:
    own = {"label_field": "metadata.other", "prediction_field": "model_output.finish_reason"}
    plain = {"messages": [{"role": "user", "content": "Q"}], "label": "no"}
    config = {"metadata": {"other": "stop"}, "eval_config": {"metrics": {"exact_match": own}}}
    samples = bench.samples([{**plain, "id": "own", **config}, {**plain, "id": "plain"}])
    responses = bench.infer(bench.preprocess(samples), bench.model(answer="yes"))
    result = bench.auto_eval([MATCH], samples=samples, responses=responses)
    assert values(bench, bench.rows(result, "metrics")[0]["scores"]) == [1.0, 0.0]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_sample_sets_parameters_of_a_metric(bench: Bench, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["gage_eval.pipeline.load"], "PART_ROWS", 2)
    inputs = configured(bench, "exact_match")
    with scoring_processes(bench.store, processes) as scoring:
        bench.env = replace(bench.env, processes=scoring)
        result = bench.auto_eval([MATCH, bind("contains")], **inputs)
    match, other = bench.rows(result, "metrics")
    assert (match["overridden"], match["value"]) == (1, pytest.approx(2 / 3))
    assert (other["overridden"], other["value"]) == (0, 1.0)
    assert values(bench, match["scores"]) == [1.0, 0.0, 1.0]


def test_whose_parameters_they_are_depends_on_the_metrics_name(bench: Bench) -> None:
    inputs = configured(bench, "mine")
    spec = ScoreSpec("t", (MATCH,), known=frozenset({"mine"}))
    first = stages.auto_eval(bench.env, spec, **inputs)
    assert bench.rows(first, "metrics")[0]["overridden"] == 0
    named = stages.auto_eval(bench.env, replace(spec, metrics=(bind("exact_match", metric_id="mine"),)), **inputs)
    assert bench.rows(named, "metrics")[0]["overridden"] == 1


def test_a_name_of_no_metric_fails_its_row_and_counts_once_it_has_one(bench: Bench) -> None:
    inputs = configured(bench, "exact_mach")
    spec = ScoreSpec("t", (MATCH,), max_unscored_share=1.0)
    row = bench.rows(stages.auto_eval(bench.env, spec, **inputs), "metrics")[0]
    assert (row["unscored"], row["n"]) == (1, 2)
    with pytest.raises(RunFailed, match=r"names 'exact_mach', which is not a metric\. Did you mean 'exact_match'\?"):
        bench.auto_eval([MATCH], **inputs)
    known = replace(spec, known=frozenset({"exact_mach"}))
    row = bench.rows(stages.auto_eval(bench.env, known, **inputs), "metrics")[0]
    assert (row["unscored"], row["n"]) == (0, 3)
