"""Filters for a judge's choice between two answers."""

from gage_eval.scoring.extract import brackets
from gage_eval.scoring.metrics.base import text_filter
from gage_eval.scoring.metrics.verdict_parsers import lines


@text_filter("pairwise_verdict", version=1)
def pairwise_verdict(text: str) -> str | None:
    """``A``, ``B`` or ``tie`` for ``[[A]]``, ``[[B]]`` or ``[[C]]``, searched in this order anywhere in the text.

    The rule of MT-bench (Zheng et al. 2023, arXiv:2306.05685; ``run_judge_pair`` of lm-sys/FastChat).
    """
    return brackets.pairwise_verdict(text)


@text_filter("two_ratings", version=1)
def two_ratings(text: str) -> str | None:
    """``A``, ``B`` or ``tie`` for two ratings alone on the first line, ``8 9`` or ``8, 9``: the higher one wins.

    The form of FastChat's first pairwise reviews; anything else on that line is not a verdict.
    """
    verdict = lines.two_ratings(text)
    return None if verdict is None else verdict.answer
