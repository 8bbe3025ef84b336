"""ROUGE by the package rouge-score."""

import re
from collections.abc import Sequence

from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.scorers import rouge_scorer

_WORD = re.compile(r"[a-z0-9]+")
_KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
# The longest common subsequence fills a table of this many cells in about ten seconds.
_MOST_CELLS = 25_000_000


@metric("rouge", value=_KINDS, bounds=(0, 1), version=2, libraries=("rouge-score",))
def rouge(prediction: str, answers: Sequence[str], *, use_stemmer: bool = False) -> Score:
    """F-measures of ROUGE-1, -2, -L and -Lsum, 0..1, each the best over the references (Lin 2004; rouge-score).

    Words are runs of a–z and 0–9 in lower case, so text in other scripts scores 0. For ``rougeLsum`` sentences are
    lines. A pair of texts too long for the longest common subsequence is unscored.
    """
    if not answers:
        return Score.unscored("there is no reference")
    longest = max(_words(answer) for answer in answers)
    if (cells := longest * _words(prediction)) > _MOST_CELLS:
        return Score.unscored(f"words of answer × words of reference are {cells:,}, more than {_MOST_CELLS:,}")
    scores = rouge_scorer(_KINDS, use_stemmer=use_stemmer).score_multi(list(answers), prediction)
    return Score({kind: float(scores[kind].fmeasure) for kind in _KINDS})


def _words(text: str) -> int:
    return sum(1 for _ in _WORD.finditer(text.lower()))
