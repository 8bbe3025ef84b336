"""Answer types, scoring profiles and score cards: how a task is scored by what kind of answer it has.

A task that says ``answer_type: number`` is scored by the preset its scoring profile has for numbers, and its results
are summed up in a `ScoreCard`: one primary score, and whether it passes.
"""

from gage_eval.metrics.normalization import NormalizationConfig
from gage_eval.scorecards.answer import ANSWER_TYPES, AnswerMeta, AnswerType, CanonicalAnswer
from gage_eval.scorecards.card import CardRule, ScoreCard, build_score_card, find_primary
from gage_eval.scorecards.profile import (
    MetricRule,
    ScorerPreset,
    ScoringProfile,
    load_profile,
    resolve_metrics,
)
from gage_eval.scorecards.regression import RegressionResult, check_regression

__all__ = [
    "ANSWER_TYPES",
    "AnswerMeta",
    "AnswerType",
    "CanonicalAnswer",
    "CardRule",
    "MetricRule",
    "NormalizationConfig",
    "RegressionResult",
    "ScoreCard",
    "ScorerPreset",
    "ScoringProfile",
    "build_score_card",
    "check_regression",
    "find_primary",
    "load_profile",
    "resolve_metrics",
]
