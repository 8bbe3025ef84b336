"""Answers to GAIA's questions are compared by the rules of its leaderboard."""

import pytest

from gage_eval.scoring.metrics.builtin.gaia import gaia


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ("Let me see. FINAL ANSWER: 17", "17", True),
        ("17", "17.0", True),
        ("$1,234.50", "1234.5", True),
        ("25%", "25", True),
        ("17 apples", "17", False),
        ("", "0", False),
        ("FINAL ANSWER: 3. No: FINAL ANSWER: 4", "4", True),
        ("final answer: 4", "4", False),
        ("St Petersburg", "St. Petersburg", True),
        ("sea gull", "Seagull", True),
        ("Seagulls", "Seagull", False),
        ("a, b; c", "A,B,C", True),
        ("a, b", "a, b, c", False),
        ("b, a", "a, b", False),
        ("1.0, $2", "1, 2", True),
        ("St Petersburg, 2", "St. Petersburg, 2", False),
        ("1,234", "1,234", True),
        ("1234", "1,234", False),
    ],
)
def test_numbers_lists_and_texts_have_rules_of_their_own(answer: str, reference: str, right: bool) -> None:
    assert gaia(answer, reference) is right
