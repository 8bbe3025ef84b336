"""gage_eval.score: one row, as in a run and without one."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gage_eval
from gage_eval.base.errors import InputError
from gage_eval.pipeline.score_row import metric_spec
from gage_eval.scoring.metrics import bind
from tests.scoring.metrics.score_tables import answers, sample, samples


def test_a_row_is_scored_with_what_was_read_and_why() -> None:
    result = gage_eval.score("numeric_match", sample={"label": "4"}, model_output={"answer": "So it is 4."})
    assert isinstance(result, gage_eval.ScoreResult)
    assert (result.values, result.status) == ({"score": 1.0}, "scored")
    assert result.metadata["extracted"] == "4"


@pytest.mark.parametrize(
    "metric",
    [
        "numeric_match(tolerance=0.5)",
        "{numeric_match: {tolerance: 0.5}}",
        {"numeric_match": {"tolerance": 0.5}},
        {"metric_id": "x", "implementation": "numeric_match", "params": {"tolerance": 0.5}},
        {"type": "numeric_match", "name": "x", "tolerance": 0.5},
    ],
)
def test_a_metric_may_be_written_as_in_a_config(metric: Any) -> None:
    assert gage_eval.score(metric, sample={"label": "4"}, model_output="4.4").values == {"score": 1.0}
    assert gage_eval.score(metric, sample={"label": "4"}, model_output="4.4", params={"tolerance": 0.1}).values == {
        "score": 0.0
    }


@pytest.mark.parametrize(
    ("call", "status", "values"),
    [
        ({"model_output": "no number"}, "unparsed", {"score": 0.0}),
        ({"model_output": {"answer": None, "status": "error"}}, "unscored", {}),
        ({"sample": {}, "model_output": "4"}, "unscored", {}),
        ({"sample": {"references": [{"answer": "4"}]}, "model_output": "4"}, "scored", {"score": 1.0}),
        ({"model_output": "4 of 5", "filters": ["first_number"]}, "scored", {"score": 1.0}),
        ({"model_output": "none", "filters": [{"regex": {"pattern": "[0-9]"}}]}, "unparsed", {"score": 0.0}),
    ],
)
def test_every_status_is_told(call: dict[str, Any], status: str, values: dict[str, float]) -> None:
    result = gage_eval.score("numeric_match", **{"sample": {"label": "4"}, **call})
    assert (result.status, result.values) == (status, values)


def test_a_judges_own_fields_are_found() -> None:
    for judgment in ({"score": 0.5}, {"parsed": {"score": 0.5}}):
        assert gage_eval.score("judge_threshold", judge_output=judgment).values == {"score": 1.0}


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("exact_mach", "Did you mean 'exact_match'"),
        ("exact_match(case=1)", "no parameter 'case'"),
        ("exact_match(", "write values as in Python"),
        ("{exact_match: [}", "neither"),
        ("exact_match(__import__('os'))", "write values as in Python"),
    ],
)
def test_what_is_no_metric_is_refused(metric: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        gage_eval.score(metric, model_output="x")


def test_several_pipelines_are_refused() -> None:
    with pytest.raises(InputError, match="one row takes one"):
        gage_eval.score({"metric_id": "exact_match", "filters": ["first_number", "last_number"]}, model_output="4")
    with pytest.raises(InputError, match="replicates"):
        gage_eval.score("exact_match", model_output="4", filters=["majority_vote"])


@given(
    st.text(max_size=40), st.text(max_size=20), st.sampled_from(["exact_match", "contains", "numeric_match", "list"])
)
def test_one_row_scores_as_in_a_table(answer: str, label: str, name: str) -> None:
    table: pa.Table = bind(name).score_table({"samples": samples([sample(0, label)]), "responses": answers([answer])})
    row = table.to_pylist()[0]
    single = gage_eval.score(name, sample={"label": label}, model_output={"answer": answer})
    assert (single.status, single.values, single.metadata["extracted"]) == (
        row["status"],
        dict(row["values"]),
        row["extracted"],
    )


def test_a_spec_is_read_once_for_run_and_row() -> None:
    assert metric_spec("a.b:C(x=1)").metric_id == "C"
