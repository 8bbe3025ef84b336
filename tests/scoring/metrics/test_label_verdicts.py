"""Promises of verdicts by labels: probabilities of the first token, and None or a reason where there is no verdict."""

import json
import math
from typing import Any

import orjson
import pytest

from gage_eval.config.verdicts import possible_forms, wrong_labels
from gage_eval.scoring.metrics.label_verdicts import LabelVerdicts
from gage_eval.scoring.metrics.verdicts import Verdict

YES_NO = LabelVerdicts("labels", {"yes": 1, "no": 0})


def _row(top: dict[str, float], first: str | None = None) -> dict[str, Any]:
    tops = [{"token": token, "logprob": math.log(p)} for token, p in top.items()]
    chosen = {"token": first or tops[0]["token"], "logprob": tops[0]["logprob"], "top_logprobs": tops}
    return {"logprobs": orjson.dumps({"content": [chosen]}).decode(), "answer": "x"}


def test_the_verdict_is_the_probability_of_each_label() -> None:
    # A label is written in several ways, and a token may be its beginning.
    verdict = YES_NO.read_row(_row({"Yes": 0.4, " yes": 0.2, "ye": 0.1, "No": 0.1, "Maybe": 0.1}))
    assert verdict is not None
    assert verdict.answer == "yes"
    assert verdict.score == pytest.approx(0.7 / 0.8)
    assert verdict.fields["outside"] == pytest.approx(0.2)
    assert verdict.fields["probabilities"] == pytest.approx({"yes": 0.7 / 0.8, "no": 0.1 / 0.8})
    assert verdict.unread is None
    rating = LabelVerdicts("labels", {str(number): number for number in range(1, 6)})
    verdict = rating.read_row(_row({"4": 0.5, "5": 0.5}))
    assert verdict is not None
    assert verdict.score == pytest.approx(4.5)
    verdict = LabelVerdicts("labels", {"A": None, "B": None}).read_row(_row({"B": 0.9}))
    assert verdict is not None
    assert (verdict.answer, verdict.score) == ("B", None)


def test_little_probability_on_the_labels_is_no_verdict_and_is_kept() -> None:
    verdict = YES_NO.read_row(_row({"<think>": 0.6, "yes": 0.3, "yesterday": 0.1}))
    assert verdict is not None
    assert (verdict.answer, verdict.score) == (None, None)
    assert verdict.fields["outside"] == pytest.approx(0.7)
    assert "70%" in (verdict.unread or "")


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        "",
        "[]",
        "{}",
        "null",
        '{"content": []}',
        '{"content": [3]}',
        '{"content": [{"token": 1, "logprob": "x"}]}',
    ],
)
def test_an_answer_without_log_probabilities_is_no_verdict(logprobs: str | None) -> None:
    verdict = YES_NO.read_row({"logprobs": logprobs, "answer": "yes"})
    assert verdict is None or verdict.unread is not None


def test_a_probability_above_one_is_not_believed() -> None:
    verdict = _read("yes", 5.0, {"token": "no", "logprob": -0.1})
    assert verdict.score == 0
    assert verdict.fields["outside"] == pytest.approx(1 - math.exp(-0.1))


def test_probabilities_whose_sum_is_above_one_are_no_verdict() -> None:
    verdict = _read("no", -0.1, {"token": "no", "logprob": -0.1}, {"token": "no", "logprob": 0})
    assert (verdict.answer, verdict.score) == (None, None)
    assert "1.90" in (verdict.unread or "")


def test_the_chosen_token_counts_once_however_it_is_rounded() -> None:
    verdict = _read("yes", -0.105, {"token": "yes", "logprob": -0.1053}, {"token": "no", "logprob": -(10**400)})
    assert verdict.fields["probabilities"] == {"yes": 1, "no": 0}
    assert verdict.fields["outside"] == pytest.approx(1 - math.exp(-0.1053))


def _read(token: str, logprob: float, *tops: dict[str, Any]) -> Verdict:
    entry = {"token": token, "logprob": logprob, "top_logprobs": tops}
    verdict = YES_NO.read_row({"logprobs": json.dumps({"content": [entry]})})
    assert verdict is not None
    return verdict


def test_a_verdict_by_schema_is_one_of_the_labels() -> None:
    by_schema = LabelVerdicts("schema", {"good": 1, "bad": 0})
    verdict = by_schema.read_row({"answer": '{"reasoning": "so", "verdict": "good"}'})
    assert verdict is not None
    assert (verdict.answer, verdict.score) == ("good", 1)
    for text in (None, "", "good", '{"verdict": "fine"}', '{"verdict": ["good"]}', "[1]", "[" * 100_000):
        assert by_schema.read_row({"answer": text}) is None
    assert by_schema.params["response_format"] is not None


def test_labels_that_cannot_be_told_apart_are_refused() -> None:
    assert "different characters" in (wrong_labels("labels", ["1", "10"]) or "")
    assert "different characters" in (wrong_labels("labels", ["Yes", "yet"]) or "")
    assert wrong_labels("schema", ["1", "10"]) is None
    assert "2 to 20" in (wrong_labels("labels", ["a"]) or "")
    assert "2 to 20" in (wrong_labels("schema", ["a", "a"]) or "")
    assert "empty" in (wrong_labels("labels", ["a", " b"]) or "")
    assert "finite" in (wrong_labels("labels", {"a": 1, "b": math.inf}) or "")
    assert "needs" in (wrong_labels("auto", None) or "")


def test_auto_may_be_what_the_backend_can_give_and_the_labels_allow() -> None:
    can = {"chat", "logprobs", "schema"}
    assert possible_forms("auto", ["yes", "no"], can) == ["labels", "schema", "text"]
    assert possible_forms("auto", ["1", "10"], can) == ["schema", "text"]
    assert possible_forms("auto", ["yes", "no"], {"chat"}) == ["text"]
    assert possible_forms("schema", ["yes", "no"], can) == ["schema"]
