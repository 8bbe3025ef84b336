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
    section = judging([*said, verdict(31, None)], lengths, counts)
    assert (section.verdicts, section.missing, section.asked_again) == (60, 1, 30)
    assert section.decided_by == {"judge 0": 30, "judge 1": 30}
    assert (section.prompt_tokens, section.completion_tokens) == (90, None)
    assert section.length_correlation == pytest.approx(1)
    assert section.spread == pytest.approx(0.5**0.5)
    assert "90 tokens" in section.text


def test_what_a_rule_decides_is_no_verdict_of_a_judge_and_a_second_one_counts_once() -> None:
    said = [verdict(0, 1.0, "rule"), verdict(0, 1.0, "rule")]
    # The second judge's verdict stands in the seats of both first ones.
    said += [verdict(1, 0.0, "large") for _ in range(2)]
    kin = {"large": "judge 'large' is the model under test, and may prefer its answers"}
    counted = judging(said, {}, {}, kin)
    assert (counted.verdicts, counted.spread, counted.decided_by) == (1, None, {"rule": 1, "large": 1})
    assert "by rule: 1" in counted.text
    assert "the model under test" in counted.text


def test_a_judge_of_the_models_family_is_compared_with_the_others_on_the_same_answers() -> None:
    # It gives 1 or 2 more than the mean of both others, which differ by 2 from each other.
    said = []
    for row in range(10):
        scores = {"own": 5.0 + row % 2, "one": 3.0, "two": 5.0}
        said += [verdict(row, score, judge) for judge, score in scores.items()]
    said.append(verdict(10, 9.0, "own"))
    (own,) = judging(said, {}, {}, {"own": "judge 'own' is of the family"}).self_preference
    assert (own.judge, own.against, own.answers) == ("own", "other judges", 10)
    assert own.difference == pytest.approx(1.5)
    # Student's at 9 degrees of freedom: 2.262 · sqrt(0.25 · 10 / 9 / 10)
    assert (own.ci_low, own.ci_high) == (pytest.approx(1.123, abs=1e-3), pytest.approx(1.877, abs=1e-3))
    assert "+1.500 [+1.123, +1.877] against other judges" in own.text
    assert judging(said, {}, {}, {"own": "", "one": "", "two": ""}).self_preference == []


def test_in_pairs_a_judges_wins_are_compared() -> None:
    said = [
        ReadVerdict((str(row), 0), None, judge, f"{row} {judge} {order}", outcome)
        for row in range(4)
        for judge, outcomes in (("own", (1.0, 1.0)), ("other", (1.0, row % 2)))
        for order, outcome in enumerate(outcomes)
    ]
    (own,) = judging(said, {}, {}, {"own": "said"}).self_preference
    assert own.difference == pytest.approx(0.25)
    assert own.ci_low is not None


def test_what_cannot_be_known_is_none() -> None:
    few = judging([verdict(1, 1.0, "judge")], {("1", 0): 3}, {})
    assert (few.length_correlation, few.spread, few.prompt_tokens) == (None, None, None)
    said = [verdict(row, 1.0, "judge") for row in range(40)]
    same = judging(said, {(str(row), 0): row for row in range(40)}, {})
    assert same.length_correlation is None
    assert judging([], {}, {}).text == "0 verdicts"
