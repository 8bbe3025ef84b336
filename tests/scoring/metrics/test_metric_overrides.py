"""eval_config.metrics: a sample's own parameters count for it alone, and a mistake in them is told on its row."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_tables import judgments, responses, sample, samples, telemetry

import gage_eval
from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.overrides import score_samples


def own(**params: Any) -> dict[str, Any]:
    return {"eval_config": {"metrics": {"numeric_match": params}}}


def scored(configs: list[dict[str, Any]], **bound: Any) -> list[dict[str, Any]]:
    """The score rows of the answer 4.4 to the label 4, under each ``eval_config``."""
    metric = bind("numeric_match", **bound)
    table = score_samples(
        metric,
        {
            "samples": samples([sample(row, "4", **config) for row, config in enumerate(configs)]),
            "responses": responses([{"answer": "4.4"}] * len(configs)),
        },
        known=["graded"],
    )
    return [{**row, "values": dict(row["values"])} for row in table.to_pylist()]


def test_a_sample_is_scored_under_its_own_parameters_and_says_so() -> None:
    rows = scored([{}, own(tolerance=0.5), own(tolerance=0.1), own(), {"eval_config": {"rubric": "x"}}])
    assert [row["values"] for row in rows] == [{"score": value} for value in (0.0, 1.0, 0.0, 0.0, 0.0)]
    assert [row["overrides"] for row in rows] == [None, '{"tolerance":0.5}', '{"tolerance":0.1}', None, None]
    assert [row["row_index"] for row in rows] == [0, 1, 2, 3, 4]


def test_they_count_before_the_configs_and_leave_its_others() -> None:
    rows = scored([own(tolerance=0.0), own(mode="ge")], params={"tolerance": 0.5})
    assert [row["values"]["score"] for row in rows] == [0.0, 1.0]


def test_a_metric_is_named_by_its_id_before_its_implementation() -> None:
    both = {"eval_config": {"metrics": {"mine": {"tolerance": 0.5}, "numeric_match": {"tolerance": 0.1}}}}
    assert scored([both], metric_id="mine")[0]["values"] == {"score": 1.0}
    assert scored([both])[0]["explanation"].startswith("eval_config.metrics names 'mine', which is not a metric")


def test_paths_and_the_value_of_a_missing_field_can_be_set_too() -> None:
    rows = scored([own(label_field="metadata.gold", default=0.25), own(prediction_field="sample.label")])
    assert [row["values"]["score"] for row in rows] == [0.25, 1.0]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (own(tolerence=1), "eval_config.metrics: numeric_match has no parameter 'tolerence'.*'tolerance'"),
        (own(tolerance=-1), "parameter 'tolerance' is -1"),
        ({"eval_config": {"metrics": {"numeric_mach": {}}}}, "'numeric_mach', which is not a metric.*'numeric_match'"),
        ({"eval_config": {"metrics": ["numeric_match"]}}, "not a mapping of metrics to parameters"),
        ({"eval_config": {"metrics": {"numeric_match": 0.5}}}, "not a mapping of parameters"),
    ],
)
def test_a_mistake_leaves_the_row_unscored_with_the_reason(config: dict[str, Any], reason: str) -> None:
    bad, good = scored([config, {}])
    assert (bad["status"], bad["values"], good["status"]) == ("unscored", {}, "scored")
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(bad["explanation"])


def test_what_names_the_numbers_is_the_configs() -> None:
    fields = {"references": [], "eval_config": {"metrics": {"ranking": {"k": 1}}}}
    table = score_samples(
        bind("ranking"), {"samples": samples([sample(0, None, **fields)]), "responses": responses([{"answer": "a"}])}
    )
    assert table.to_pylist()[0]["explanation"].startswith("eval_config.metrics would name the numbers mrr, hit@1")


def test_other_metrics_may_be_named() -> None:
    rows = scored([{"eval_config": {"metrics": {"graded": {}, "exact_match": {"case_sensitive": True}}}}])
    assert (rows[0]["status"], rows[0]["overrides"]) == ("scored", None)


def test_rows_without_an_answer_say_so_whatever_the_overrides() -> None:
    table = score_samples(
        bind("numeric_match"),
        {
            "samples": samples([sample(0, "4", **own(tolerence=1)), sample(1, "4", **own(tolerance=1.0))]),
            "responses": responses([{"status": "error", "error_kind": "timeout"}, {"status": "skipped"}]),
        },
    )
    assert [row["explanation"] for row in table.to_pylist()] == [
        "the request failed (timeout)",
        "the request was skipped",
    ]


@settings(max_examples=30)
@given(st.lists(st.sampled_from([None, 0.0, 0.1, 0.5]), min_size=1, max_size=8), st.integers(1, 3))
def test_each_response_is_scored_as_if_it_were_alone(tolerances: list[float | None], replicates: int) -> None:
    rows = [sample(i, "4", **({} if t is None else own(tolerance=t))) for i, t in enumerate(tolerances)]
    given_ = [{"row_index": i, "replicate": k, "answer": f"4.{k}"} for i in range(len(rows)) for k in range(replicates)]
    metric = bind("numeric_match", {"tolerance": 0.1}, filters=["first_number", "last_number"])
    whole = score_samples(metric, {"samples": samples(rows), "responses": responses(given_)})
    alone = [
        score_samples(metric, {"samples": samples(rows), "responses": responses([response])}) for response in given_
    ]
    assert whole.equals(pa.concat_tables(alone).combine_chunks())


def test_filters_over_replicates_judgments_and_telemetry_go_along() -> None:
    config = {
        "eval_config": {"metrics": {"exact_match": {"case_sensitive": True}, "judge_threshold": {"threshold": 0.9}}}
    }
    rows = samples([sample(0, "a", **config), sample(1, "a")])
    answers = responses([{"row_index": i, "replicate": k, "answer": "A"} for i in range(2) for k in range(3)])
    voted = score_samples(bind("exact_match", filters=["majority_vote"]), {"samples": rows, "responses": answers})
    assert [dict(row["values"])["score"] for row in voted.to_pylist()] == [0.0, 1.0]
    verdicts = judgments([{"row_index": i, "replicate": k, "score": 0.7} for i in range(2) for k in range(3)])
    judged = score_samples(
        bind("judge_threshold"),
        {"samples": rows, "responses": answers, "judgments": verdicts, "response_telemetry": telemetry([1.0] * 2)},
    )
    assert [dict(row["values"])["score"] for row in judged.to_pylist()] == [0.0] * 3 + [1.0] * 3


def test_the_number_of_such_rows_stands_beside_the_score() -> None:
    metric = bind("numeric_match", slices=["metadata.kind"])
    rows = samples(
        [sample(i, "4", metadata={"kind": "ab"[i % 2]}, **(own(tolerance=0.5) if i < 3 else {})) for i in range(4)]
    )
    answers = responses([{"answer": "4.4"}] * 4)
    table = metric.grouping.label(
        score_samples(metric, {"samples": rows, "responses": answers}), {"samples": rows, "responses": answers}
    )
    overridden = {row["slice_value"]: row["overridden"] for row in metric.aggregate([table], {})}
    assert overridden == {None: 3, "a": 2, "b": 1}


def test_one_row_is_scored_under_its_own_parameters_too() -> None:
    def score(config: dict[str, Any]) -> gage_eval.ScoreResult:
        return gage_eval.score("numeric_match", sample={"label": 4, **config}, model_output="4.4")

    assert score(own(tolerance=0.5)).values == {"score": 1.0}
    refused = score(own(tolerence=0.5))
    assert (refused.status, refused.values) == ("unscored", {})
    assert "no parameter 'tolerence'" in refused.metadata["explanation"]
