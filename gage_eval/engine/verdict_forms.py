"""Which forms of verdicts a model gives: found out by asking it, and kept in the store for its identity."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import EndpointFailed
from gage_eval.base.statuses import ANSWERED
from gage_eval.engine.outside import ask_together, reason
from gage_eval.models.backends.base import Backend
from gage_eval.models.client.types import Request, Response
from gage_eval.scoring.metrics.label_verdicts import LabelVerdicts, SettledForm
from gage_eval.store import Store
from gage_eval.store.identified import ByIdentity, Identified

_QUESTION = "Is 2 + 2 equal to 4? Answer with one word, yes or no, and nothing else."
_LABELS = {"yes": None, "no": None}
# The capability of a backend that each form needs, the better form first; text needs none.
_NEEDED: Mapping[Literal["labels", "schema"], str] = {"labels": "logprobs", "schema": "schema"}
# How endpoints refuse parameters. Others say with these codes that the key or the model is wrong: then they refuse a
# question without parameters as well. All other errors may pass, so nothing follows from them.
_REFUSED = {"unsupported", *(f"http_{code}" for code in (400, 401, 403, 404, 405, 415, 422, 501))}


class VerdictForms(Identified):
    """The forms of verdicts that a model gives.

    Attributes:
        forms: the best one first; ``text`` is always there.
    """

    forms: tuple[SettledForm, ...]


def known_forms(store: Store) -> ByIdentity[VerdictForms]:
    """The forms that models gave, by what identifies them."""
    return ByIdentity(store.objects, "verdict_forms", VerdictForms)


async def ask_forms(backend: Backend, identity: Mapping[str, JsonValue], params: Mapping[str, Any]) -> VerdictForms:
    """Ask a model one question in each form that its backend may give: two requests, or three.

    Args:
        backend: an open backend.
        identity: what the forms hold for.
        params: the judge's sampling parameters.

    Raises:
        EndpointFailed: a request failed for a reason that may pass, or the question is refused in any form.
    """
    forms: list[SettledForm] = []
    is_answered = False
    for form, capability in _NEEDED.items():
        if capability not in backend.capabilities:
            continue
        reader = LabelVerdicts(form, _LABELS)
        response = await _ask(backend, {**params, **reader.params})
        is_answered |= response.status in ANSWERED
        verdict = reader.read_row({"answer": response.answer, "logprobs": response.logprobs})
        if verdict is not None and verdict.unread is None:
            forms.append(form)
    if not is_answered:
        response = await _ask(backend, params)
        if response.status not in ANSWERED:
            raise EndpointFailed(reason(response))
    return VerdictForms(forms=(*forms, "text"), identity=dict(identity), created=datetime.now(UTC))


async def _ask(backend: Backend, params: Mapping[str, Any]) -> Response:
    """The answer, or a refusal of this form.

    Raises:
        EndpointFailed: nothing follows from the error.
    """
    messages = [{"role": "user", "content": _QUESTION}]
    request = Request("chat", messages=messages, params=dict(params), sample_id="verdict-form")
    (response,) = await ask_together(backend, [request])
    if response.status not in ANSWERED and response.error_kind not in _REFUSED:
        raise EndpointFailed(reason(response))
    return response
