"""Answer types and score cards: how a task is scored by what kind of answer it has.

A task that says ``answer_type: number`` is scored by the preset its scoring profile has for numbers, and its results
are summed up in a `ScoreCard`: one primary score, and whether it passes.
"""

from gage_eval.scoring.scorecards.answer import ANSWER_TYPES, AnswerMeta, AnswerType, CanonicalAnswer
from gage_eval.scoring.scorecards.card import CardRule, Preset, ScoreCard, find_primary

__all__ = [
    "ANSWER_TYPES",
    "AnswerMeta",
    "AnswerType",
    "CanonicalAnswer",
    "CardRule",
    "Preset",
    "ScoreCard",
    "find_primary",
]
