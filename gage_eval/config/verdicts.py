"""The form of a judge's verdicts: `verdict` and `verdict_labels` of its adapter."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias

VerdictForm: TypeAlias = Literal["labels", "schema", "text", "auto"]
VerdictLabels: TypeAlias = Sequence[str] | Mapping[str, float]

_MOST_LABELS = 20


def settled_form(
    form: VerdictForm, labels: VerdictLabels | None, capabilities: Collection[str]
) -> Literal["labels", "schema", "text"]:
    """The form, or what ``auto`` is for a backend. No endpoint is asked for it.

    ``auto`` is ``labels`` for an engine that returns log probabilities of prompts, too: hosted endpoints
    do not, and have other rules for each model. For all others it is ``text``.

    Args:
        form: of the judge's adapter.
        labels: of the judge's adapter.
        capabilities: of its backend.
    """
    if form != "auto":
        return form
    reads_probabilities = {"logprobs", "likelihood"} <= {*capabilities} and wrong_labels("labels", labels) is None
    return "labels" if reads_probabilities else "text"


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
