"""What is said of verdicts: how many, what they took, and what they depend on that they should not."""

import pytest

from gage_eval.report.judging import judging


def test_verdicts_are_counted_and_bias_is_a_number() -> None:
    lengths = {(str(row), 0): 10 * row for row in range(30)}
    # Longer answers get better scores; two verdicts on each, one of them 1 higher.
    scores = [((str(row), 0), row + more, True, int(more)) for row in range(30) for more in (0.0, 1.0)]
    found = judging([*scores, (("0", 0), None, False, 0)], lengths, {"prompt_tokens": 90, "completion_tokens": 0})
    assert (found.verdicts, found.missing, found.asked_again) == (60, 1, 30)
    assert (found.prompt_tokens, found.completion_tokens) == (90, None)
    assert found.length_correlation == pytest.approx(1)
    assert found.spread == pytest.approx(0.5**0.5)
    assert "90 tokens" in found.text


def test_what_cannot_be_known_is_none() -> None:
    few = judging([(("1", 0), 1.0, True, 0)], {("1", 0): 3}, {})
    assert (few.length_correlation, few.spread, few.prompt_tokens) == (None, None, None)
    same = judging([((str(row), 0), 1.0, True, 0) for row in range(40)], {(str(row), 0): row for row in range(40)}, {})
    assert same.length_correlation is None
    assert judging([], {}, {}).text == "0 verdicts"
