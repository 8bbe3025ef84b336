"""The form of a judge's verdicts: `verdict` and `verdict_labels` of its adapter."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from gage_eval.scoring.metrics.label_verdicts import SettledForm

VerdictForm: TypeAlias = Literal["labels", "schema", "text", "auto"]
VerdictLabels: TypeAlias = Sequence[str] | Mapping[str, float]

_MOST_LABELS = 20


def possible_forms(
    form: VerdictForm, labels: VerdictLabels | None, capabilities: Collection[str]
) -> "list[SettledForm]":
    """The forms that a judge's verdicts may have, the best one first. Of several, the judge is asked which it gives.

    Args:
        form: of the judge's adapter.
        labels: of the judge's adapter.
        capabilities: of its backend.
    """
    if form != "auto":
        return [form]
    forms: list[SettledForm] = []
    if "logprobs" in capabilities and wrong_labels("labels", labels) is None:
        forms.append("labels")
    if "schema" in capabilities:
        forms.append("schema")
    return [*forms, "text"]


def wrong_labels(form: VerdictForm, labels: VerdictLabels | None) -> str | None:
    """What is wrong with the labels of a form, as the end of a sentence; None where nothing is."""
    if labels is None:
        return "needs 'verdict_labels', the verdicts that the judge may give"
    names = [*labels]
    if not 2 <= len(names) <= _MOST_LABELS or len({*names}) < len(names):
        return f"needs 2 to {_MOST_LABELS} different labels"
    if any(not name or name != name.strip() for name in names):
        return "has a label that is empty, or begins or ends with a space"
    if isinstance(labels, Mapping) and not all(map(math.isfinite, labels.values())):
        return "has a label whose score is not a finite number"
    if form == "labels" and len({name[0].casefold() for name in names}) < len(names):
        return "reads the judge's first token, so its labels must begin with different characters"
    return None
