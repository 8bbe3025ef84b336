"""Classification: the answer names a label."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from gage_eval.scoring.extract.thinking import strip_thinking
from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.parse_schema import ParseField
from gage_eval.scoring.metrics.text_utils import normalise_text


@metric("classification", value="acc", aggregate=("mean", "macro_f1", "class_f1", "confusion"), binary=True, version=1)
def classification(
    prediction: str,
    reference: str,
    *,
    labels: Annotated[Sequence[str], Field(min_length=2)] | None = None,
    case_sensitive: bool = False,
) -> Score:
    """1 when the answer names the reference's label, else 0; F1 by class and over classes come from the same answers.

    With ``labels`` the label of an answer is the one that it equals in any case, else the last one that occurs in it as
    a whole word; an answer without one is unparsed, and a reference that is none of them leaves its row unscored.
    Without ``labels`` the whole answer is the label. White space is collapsed, case lowered unless it counts, and
    thinking removed. Other aggregations are ``micro_f1``, ``weighted_f1``, ``macro_precision``, ``macro_recall``,
    ``mcc``, ``class_precision`` and ``class_recall``.
    """
    wanted = _label(reference, labels, case_sensitive=case_sensitive)
    if not wanted:
        return Score.unscored("the reference is none of the labels")
    answer = strip_thinking(prediction)
    label = None if answer is None else _label(answer, labels, case_sensitive=case_sensitive)
    components = {"reference": wanted}
    if not label:
        return Score(0.0, "unparsed", explanation="the answer names no label", components=components)
    return Score(float(label == wanted), extracted=label, components=components)


def _label(text: str, labels: Sequence[str] | None, *, case_sensitive: bool) -> str | None:
    if labels is None:
        return normalise_text(text, case_sensitive=case_sensitive, collapse_whitespace=True)
    label = _field(tuple(labels)).read(" ".join(text.split()))
    return label if isinstance(label, str) else None


@lru_cache(maxsize=64)
def _field(labels: tuple[str, ...]) -> ParseField:
    return ParseField("label", "enum", labels)
