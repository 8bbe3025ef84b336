"""The filter for a judge's choice between two answers."""

from gage_eval.extract import brackets
from gage_eval.metrics.base import text_filter


@text_filter("pairwise_verdict", version=1)
def pairwise_verdict(text: str) -> str | None:
    """``A``, ``B`` or ``tie`` for ``[[A]]``, ``[[B]]`` or ``[[C]]``, searched in this order anywhere in the text.

    The rule of MT-bench (Zheng et al. 2023, arXiv:2306.05685; ``run_judge_pair`` of lm-sys/FastChat).
    """
    return brackets.pairwise_verdict(text)
