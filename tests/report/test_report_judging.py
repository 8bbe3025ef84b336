"""What is said of verdicts: how many, what they took, and what they depend on that they should not."""

import pytest

from gage_eval.report.judging import ReadVerdict, judging


def verdict(row: int, score: float | None, by: str | None = None) -> ReadVerdict:
    """A verdict on a row; each judge's is the answer to a question of its own."""
    return ReadVerdict((str(row), 0), score, by, None if by == "rule" else f"{row} {by}")


def test_verdicts_are_counted_and_bias_is_a_number() -> None:
    lengths = {(str(row), 0): 10 * row for row in range(30)}
    # Longer answers get better scores; two verdicts on each, one of them 1 higher.
    said = [verdict(row, row + more, f"judge {more:.0f}") for row in range(30) for more in (0.0, 1.0)]
    counts = {"prompt_tokens": 90, "completion_tokens": 0, "asked_again": 30}
    found = judging([*said, verdict(31, None)], lengths, counts)
    assert (found.verdicts, found.missing, found.asked_again) == (60, 1, 30)
    assert found.decided_by == {"judge 0": 30, "judge 1": 30}
    assert (found.prompt_tokens, found.completion_tokens) == (90, None)
    assert found.length_correlation == pytest.approx(1)
    assert found.spread == pytest.approx(0.5**0.5)
    assert "90 tokens" in found.text


def test_what_a_rule_decides_is_no_verdict_of_a_judge_and_a_second_one_counts_once() -> None:
    said = [verdict(0, 1.0, "rule"), verdict(0, 1.0, "rule")]
    # The second judge's verdict stands in the seats of both first ones.
    said += [verdict(1, 0.0, "large") for _ in range(2)]
    counted = judging(said, {}, {}, ["judge 'large' is the model under test, and may prefer its answers"])
    assert (counted.verdicts, counted.spread, counted.decided_by) == (1, None, {"rule": 1, "large": 1})
    assert "by rule: 1" in counted.text
    assert "the model under test" in counted.text


def test_what_cannot_be_known_is_none() -> None:
    few = judging([verdict(1, 1.0, "judge")], {("1", 0): 3}, {})
    assert (few.length_correlation, few.spread, few.prompt_tokens) == (None, None, None)
    said = [verdict(row, 1.0, "judge") for row in range(40)]
    same = judging(said, {(str(row), 0): row for row in range(40)}, {})
    assert same.length_correlation is None
    assert judging([], {}, {}).text == "0 verdicts"
