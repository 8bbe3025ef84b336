"""docvqa_anls gives the scores of the official DocVQA script."""

from pathlib import Path

import pytest
from score_tables import answers, sample, samples
from vectors import references, score_one, vector_rows

from gage_eval.scoring.metrics import bind


def test_every_question_gets_the_official_score(shared: Path) -> None:
    rows = [row for row in vector_rows(shared, "docvqa_anls_official") if row["group"] != "corpus"]
    for row in rows:
        scored = score_one(
            "docvqa_anls",
            {"references": references(*row["answers"])},
            {"answer": row["prediction"]},
            {"threshold": row["threshold"]},
        )
        assert scored["values"]["anls"] == pytest.approx(row["expected"], abs=1e-9), row["id"]
    assert len(rows) == 343


def test_the_mean_of_a_corpus_is_the_official_one(shared: Path) -> None:
    rows = [row for row in vector_rows(shared, "docvqa_anls_official") if row["group"] == "corpus"]
    for row in rows:
        metric = bind("docvqa_anls", {"threshold": row["threshold"]})
        table = metric.score_table(
            {
                "samples": samples(
                    [sample(i, None, references=references(*gold)) for i, (_, gold) in enumerate(row["items"])]
                ),
                "responses": answers([prediction for prediction, _ in row["items"]]),
            }
        )
        (number,) = metric.aggregate([table], {"ok": len(row["items"])})
        assert number["value"] == pytest.approx(row["expected_mean"], abs=1e-9), row["id"]
    assert len(rows) == 4


def test_thinking_counts_unless_it_is_stripped() -> None:
    fields, answer = {"references": references("Paris")}, {"answer": "<think>London?</think>Paris"}
    assert score_one("docvqa_anls", fields, answer)["values"] == {"anls": 0.0}
    assert score_one("docvqa_anls", fields, answer, {"strip_thinking": True})["values"] == {"anls": 1.0}
    unended = score_one("docvqa_anls", fields, {"answer": "<think>Paris"}, {"strip_thinking": True})
    assert (unended["status"], unended["values"]) == ("unparsed", {"anls": 0.0})


def test_a_question_without_answers_is_unscored() -> None:
    assert score_one("docvqa_anls", {"metadata": {"answers": []}}, {"answer": "x"})["status"] == "unscored"


def test_a_megabyte_is_far_from_a_word() -> None:
    scored = score_one("docvqa_anls", {"references": references("Paris")}, {"answer": "Paris " * 170_000})
    assert scored["values"] == {"anls": 0.0}
