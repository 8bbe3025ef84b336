"""A judge's verdict is read as MT-bench reads it, and a verdict that is none is never a number."""

from pathlib import Path
from typing import Any

import pytest
from score_tables import judgments, responses, sample, samples
from vector_differences import MT_BENCH
from vectors import references, vector_rows

from gage_eval.scoring.metrics import bind
from gage_eval.scoring.metrics.filters.extract import rating
from gage_eval.scoring.metrics.filters.verdict import pairwise_verdict, two_ratings
from gage_eval.scoring.metrics.verdicts import Verdict, read_parser


def _judged(
    metric: str, judgment: dict[str, Any], params: dict[str, Any] | None = None
) -> tuple[str, dict[str, float]]:
    table = bind(metric, params, on_missing_field="ignore").score_table(
        {"samples": samples([sample(0)]), "responses": responses([{"answer": "x"}]), "judgments": judgments([judgment])}
    )
    (row,) = table.to_pylist()
    return row["status"], dict(row["values"])


def test_every_rating_is_read_as_officially(shared: Path) -> None:
    differing = set()
    rows = [row for row in vector_rows(shared, "mt_bench_judge_parse") if row["kind"] == "single"]
    for row in rows:
        rated, expected = rating(row["judgment"]), row["expected"]
        status, values = _judged("judge_rating", {"text": row["judgment"]})
        if isinstance(expected, dict):
            assert rated is None
            differing.add(row["id"])
        elif expected == -1:
            assert (rated, status, values) == (None, "unscored", {}), row["id"]
        else:
            assert float(rated or "nan") == expected, row["id"]
            assert (status, values) == ("scored", {"rating": expected}), row["id"]
    assert len(rows) == 97
    assert differing == set(MT_BENCH)


def test_every_pairwise_verdict_is_read_as_officially(shared: Path) -> None:
    rows = [row for row in vector_rows(shared, "mt_bench_judge_parse") if row["kind"] == "pair"]
    for row in rows:
        assert (pairwise_verdict(row["judgment"]) or "error") == row["expected"], row["id"]
    assert len(rows) == 10


@pytest.mark.parametrize(
    ("score", "threshold", "value"),
    [(0.5, None, 1.0), (0.49, None, 0.0), (7.0, 7, 1.0), (-1.0, None, 0.0), (0.69, 0.7, 0.0)],
)
def test_a_score_passes_at_its_threshold_and_the_default_works(
    score: float, threshold: float | None, value: float
) -> None:
    params = {} if threshold is None else {"threshold": threshold}
    assert _judged("judge_threshold", {"score": score}, params) == ("scored", {"score": value})


@pytest.mark.parametrize(("parsed", "value"), [('{"s": "0.7"}', 1.0), ('{"s": true}', 1.0), ('{"s": false}', 0.0)])
def test_a_score_may_be_text_or_a_flag(parsed: str, value: float) -> None:
    assert _judged("judge_threshold", {"parsed": parsed}, {"judge_field": "judge_output.s"})[1] == {"score": value}


@pytest.mark.parametrize(
    ("parsed", "value"), [("7.25", 7.25), ("-3", -3.0), ('"62"', 62.0), ("true", 1.0), ("false", 0.0)]
)
def test_a_score_is_averaged_on_its_own_scale(parsed: str, value: float) -> None:
    judged = _judged("judge_score", {"parsed": f'{{"s": {parsed}}}'}, {"judge_field": "judge_output.s"})
    assert judged == ("scored", {"score": value})
    assert _judged("judge_score", {"score": value}) == judged


@pytest.mark.parametrize("metric", ["judge_threshold", "judge_score"])
@pytest.mark.parametrize("parsed", [None, "{}", '{"s": "8/10"}', '{"s": "NaN"}', '{"s": [1]}', '{"s": ""}'])
def test_no_verdict_is_unscored_not_a_failure_of_the_model(parsed: str | None, metric: str) -> None:
    assert _judged(metric, {"parsed": parsed}, {"judge_field": "judge_output.s"}) == ("unscored", {})


@pytest.mark.parametrize(
    ("metric", "filters", "judgment"),
    [
        ("exact_match", ["pairwise_verdict"], "Both are fine."),
        ("exact_match", ["two_ratings"], "8 and 9"),
        ("multi_choice_accuracy", [], "I cannot decide."),
        ("ranking", [], "  "),
    ],
)
def test_a_judge_that_decides_nothing_leaves_the_row_unscored(metric: str, filters: list[str], judgment: str) -> None:
    bound = bind(metric, {"prediction_field": "judge_output.text"}, filters=filters)
    table = bound.score_table(
        {
            "samples": samples([sample(0, "A", references=references("A"))]),
            "responses": responses([{"answer": "x"}]),
            "judgments": judgments([{"text": judgment}]),
        }
    )
    (row,) = table.to_pylist()
    assert (row["status"], row["reason"], row["values"]) == ("unscored", "no_verdict", [])
    (number, *_) = bound.aggregate([table], {"ok": 1})
    assert number["n"] == 0


@pytest.mark.parametrize(
    ("text", "answer", "ratings"),
    [
        ("8 9", "B", (8.0, 9.0)),
        ("8, 9\nAssistant 1 is short.", "B", (8.0, 9.0)),
        ("9.5,7", "A", (9.5, 7.0)),
        (" 7 7 \nEqual.", "tie", (7.0, 7.0)),
        ("8 9 10", None, None),
        ("8", None, None),
        ("Ratings: 8 9", None, None),
        ("\n8 9", None, None),
        ("8/9", None, None),
        ("nan 9", None, None),
    ],
)
def test_two_ratings_on_the_first_line_choose_an_answer(
    text: str, answer: str | None, ratings: tuple[float, float] | None
) -> None:
    assert two_ratings(text) == answer
    verdict = read_parser("two_ratings").read(text)
    if ratings is None:
        assert verdict is None
    else:
        assert verdict == Verdict(answer, fields={"rating_a": ratings[0], "rating_b": ratings[1]})


@pytest.mark.parametrize("text", ["[[" + "1" * 1_000_000, "[[1." * 250_000, "[" * 1_000_000])
def test_a_megabyte_of_almost_ratings_takes_linear_time(text: str) -> None:
    assert rating(text) is None


def test_a_pair_is_won_by_both_orders_together_and_read_in_the_form_of_arena_hard() -> None:
    from gage_eval.scoring.metrics.builtin.judging import pairwise_win

    games = (("A>>B", "B>A"), ("A>B", "A=B"), ("A>B", "A>B"), ("A=B", "A=B"))
    wins = []
    for rule in ("mean", "tie", "loss"):
        values: Any = [pairwise_win(list(pair), [0, 1], disagreement=rule).value for pair in games]
        wins.append([value["win"] for value in values])
    assert wins == [[1, 0.75, 0.5, 0.5], [1, 0.5, 0.5, 0.5], [1, 1, 0, 0]]
    turned: Any = pairwise_win(["B<<A", "A<B"], [0, 1]).value
    assert turned["win"] == 1
