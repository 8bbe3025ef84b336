"""DocVQA: questions on scanned documents, scored by edit distance."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from gage_eval.scoring.extract.thinking import strip_thinking as without_thinking
from gage_eval.scoring.metrics.base import FIRST_VERSION, Score, metric


@metric(
    "docvqa_anls",
    value="anls",
    bounds=(0, 1),
    version=1,
    libraries=("rapidfuzz",),
    presets={FIRST_VERSION: {"strip_thinking": True}},
)
def docvqa_anls(
    prediction: str,
    answers: Sequence[str],
    *,
    threshold: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5,
    strip_thinking: bool = False,
    case_sensitive: bool = False,
    separator: Annotated[str, Field(min_length=1)] | None = None,
) -> Score:
    """Average normalised Levenshtein similarity in 0..1 (ANLS), the best over the accepted answers.

    After Biten et al. 2019 (arXiv:1905.13648) and the official script of the Robust Reading Competition: both
    sides stripped, lowered, white space collapsed; their Levenshtein distance is divided by the longer of the two
    *original* strings in upper case. A similarity below ``threshold`` is 0. Nothing else is stripped unless
    ``strip_thinking`` is set; then thinking that never ended is unparsed. Beyond the official rule,
    ``case_sensitive`` keeps the case of both sides, and ``separator`` splits each accepted answer into several.
    """
    if separator is not None:
        answers = [part for answer in answers for part in answer.split(separator)]
    if not answers:
        return Score.unscored("there is no accepted answer")
    text = without_thinking(prediction) if strip_thinking else prediction
    if text is None:
        return Score.unparsed("the thinking never ended")
    ratios = [_ratio(text, answer, threshold, case_sensitive=case_sensitive) for answer in answers]
    similarity = 1.0 - min(ratios)
    best = answers[ratios.index(min(ratios))]
    return Score(similarity if similarity >= threshold else 0.0, metadata={"best_reference": best})


def _ratio(prediction: str, answer: str, threshold: float, *, case_sensitive: bool) -> float:
    """Levenshtein distance of the normalised strings by the length of the longer original; 0 for two empty ones."""
    from rapidfuzz.distance import Levenshtein

    longest = max(len(prediction.upper()), len(answer.upper()))
    if longest == 0:
        return 0.0
    # Beyond the distance that the threshold allows, a lower bound is enough: long answers stay cheap.
    enough = int(longest * (1.0 - threshold)) + 1
    sides = (" ".join((text if case_sensitive else text.lower()).split()) for text in (prediction, answer))
    return Levenshtein.distance(*sides, score_cutoff=enough) / longest
