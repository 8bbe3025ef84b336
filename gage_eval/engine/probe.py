"""Does a model answer alone as it does in a crowd? Measured with pinned prompts, and kept in the store.

An engine that batches requests adds numbers up in another order when the batch has another size. So the same prompt may
get other log probabilities, and where two tokens are nearly equal, another answer.

    <store>/probes/<digest of the identity>.json
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.base.statuses import ANSWERED
from gage_eval.base.strict_model import StrictModel
from gage_eval.engine.outside import ask_together, reason
from gage_eval.models.backends.base import Backend, BackendContext, KeyedConfig, without_freshness
from gage_eval.models.backends.build import build_backend, parse_config
from gage_eval.models.backends.gpus import device_name
from gage_eval.models.client.token_steps import NEAR_TIE, steps_in
from gage_eval.models.client.types import Request, Response
from gage_eval.store import Store
from gage_eval.store.identified import ByIdentity, Identified

ProbeVerdict: TypeAlias = Literal["exact", "near", "drifting"]

CROWDS = (8, 64)
NEAR_SHARE = 0.1
"""At most so many of the near answers differ."""

REFUSALS = frozenset({"http_400", "http_413", "http_422"})
"""Error kinds of requests that an endpoint does not take."""

_TOKENS = 32
# Fields that say how the probe asks, and nothing of the engine. Another freshness is the same engine.
_OF_REQUESTS = {*KeyedConfig.model_fields} - {"default_params"}

QUESTIONS = (
    "Name one fact about {0}.",
    "Write one sentence about {0} and {1}.",
    "What do {0} and {1} have in common?",
    "A child asks you: what is the use of {0}? Answer in two sentences, and mention {1}.",
    "Here is a list: {0}, {1}, bread, seven stones, a blue door. Sort it by the alphabet, then say which item "
    "is heavy.",
    "You are the editor of a small newspaper. A reader has sent a letter about {0}, and another one about "
    "{1}. Which of "
    "the two would you print first, and why? Think of your readers, who are mostly farmers.",
    "Count from one to ten. After each number write one word that has to do with {0}; do not use a word twice. "
    "At the end, say how many of the words have to do with {1} as well. Use no punctuation but commas.",
    "In a town there are {0} on the left side of the river and {1} on the right side. A bridge was built in "
    "1873, and a "
    "second one in 1911; the first one was closed in 1950 because of a flood. A traveller comes from the left in 1951 "
    "and wants to go to the right. Explain step by step how the traveller can do that, and what may go wrong "
    "on the way.",
)
"""Of different lengths; each is about two topics."""

_TOPICS = (
    ("bicycles", "rain"), ("libraries", "salt"), ("clocks", "apples"), ("maps", "thunder"),
    ("windmills", "paper"), ("trains", "honey"), ("chess", "mountains"), ("candles", "numbers"),
)  # fmt: skip
PROMPTS: tuple[str, ...] = tuple(question.format(*topics) for topics in _TOPICS for question in QUESTIONS)
"""The 64 prompts. They are of different lengths, so that a crowd is not uniform."""


class CrowdResult(StrictModel):
    """How the answers in a crowd differ from those to the same prompts alone.

    Attributes:
        size: requests at once.
        changed: answers with another text or other tokens, of all the prompts.
        largest_gap: the largest difference between log probabilities of the same token after the same tokens, in nats;
            None where the endpoint gives none.
    """

    size: int
    changed: int
    largest_gap: float | None


class Verdict(Identified):
    """What the probe of a model found.

    Attributes:
        verdict: ``exact``: every text, token and log probability is the same in every crowd. ``near``: at most a tenth
            of the answers differ, and log probabilities by less than 0.1 nat. ``drifting``: they differ by more.
        prompts: how many were asked.
        crowds: the results by size.
        fingerprints: what the endpoint called the model while it was probed.
        identity: see `probe_identity`.
    """

    verdict: ProbeVerdict
    prompts: int
    crowds: tuple[CrowdResult, ...]
    fingerprints: tuple[str, ...]

    @property
    def text(self) -> str:
        """``near: 3 of 64 answers differ in a crowd of 64, log probabilities by 0.012 nat at most``."""
        gaps = [crowd.largest_gap for crowd in self.crowds if crowd.largest_gap is not None]
        sizes = " and ".join(str(crowd.size) for crowd in self.crowds)
        again = f"alone and {sizes} at once" if self.crowds[-1].size > 1 else "asked twice, one at a time"
        if self.verdict == "exact":
            what = "answers and log probabilities" if gaps else "answers (it gives no log probabilities)"
            return f"exact: {what} to {self.prompts} prompts are the same {again}"
        worst = max(self.crowds, key=lambda crowd: crowd.changed)
        by = f", log probabilities by up to {max(gaps):.2g} nat" if gaps else ", no log probabilities"
        return f"{self.verdict}: {worst.changed} of {self.prompts} answers differ with {worst.size} at once{by}"


@dataclass(frozen=True)
class Observation:
    """What a model said to one prompt.

    Attributes:
        texts: its answer and its thinking.
        tokens: its tokens, where the endpoint names them.
        logprobs: their log probabilities; or the log-likelihood of a pinned continuation.
    """

    texts: tuple[str | None, ...]
    tokens: tuple[str, ...] = ()
    logprobs: tuple[float, ...] = ()

    def is_other(self, other: "Observation") -> bool:
        """Whether the text or the tokens differ."""
        return (self.texts, self.tokens) != (other.texts, other.tokens)

    def gap(self, other: "Observation") -> float | None:
        """The largest difference of log probabilities up to the first other token; None without any."""
        largest = None
        for at, (mine, theirs) in enumerate(zip(self.logprobs, other.logprobs, strict=False)):
            if self.tokens[at : at + 1] != other.tokens[at : at + 1]:
                break
            largest = max(largest or 0.0, 0.0 if mine == theirs else abs(mine - theirs))
        return largest


def probe_identity(
    type_: str, config: Mapping[str, Any], context: BackendContext, *, concurrency: int | None = None
) -> dict[str, JsonValue]:
    """What a verdict holds for: the model, the engine's version, the device, all settings, and the concurrency.

    Args:
        type_, config, context: of the backend.
        concurrency: overrides the backend's own `max_concurrency`.

    Raises:
        InputError: the config is wrong, or the model is not there.
    """
    parsed = parse_config(type_, config)
    backend = build_backend(type_, parsed, context)
    model = without_freshness(backend.identity())
    starts = getattr(backend, "engine_key", lambda: None)() is not None
    place = context.placement
    return {
        "model": model,
        "engine": getattr(backend, "engine_version", lambda: None)() if place is None else None,
        "device": None if not starts else device_name(context.env) if place is None else place.work_pool,
        "settings": parsed.model_dump(mode="json", exclude=_OF_REQUESTS),
        "concurrency": concurrency or parsed.max_concurrency,
    }


def probed(store: Store) -> ByIdentity[Verdict]:
    """The verdicts of a store, each on exactly one model, engine, device, settings and concurrency."""
    return ByIdentity(store.objects, "probes", Verdict)


async def probe(backend: Backend, identity: Mapping[str, JsonValue], *, crowds: Sequence[int] = CROWDS) -> Verdict:
    """Ask all prompts alone, one after the other, and then in crowds that stay together.

    All requests of a crowd are sent before the first answer is read. A backend that takes fewer at once is asked as
    many as it takes.

    Args:
        backend: an open backend.
        identity: see `probe_identity`.
        crowds: sizes of the crowds.

    Raises:
        InputError: the model serves neither chat nor completions.
        EndpointFailed: a prompt got no answer.
    """
    requests = _requests(backend)
    alone = await ask_together(backend, requests[:1])
    # Some endpoints refuse requests for log probabilities, and some every temperature but their own.
    for refused in (("logprobs", "top_logprobs"), ("temperature",), ("logprobs", "top_logprobs", "temperature")):
        if alone[0].error_kind not in REFUSALS:
            break
        fewer = [replace(each, params=_without(each.params, refused)) for each in requests]
        alone = await ask_together(backend, fewer[:1])
        if alone[0].status in ANSWERED:
            requests = fewer
    _observed(alone)
    alone += [(await ask_together(backend, (request,)))[0] for request in requests[1:]]
    heard = list(alone)
    first = _observed(alone)
    results = []
    for size in sorted({min(size, backend.limiter.cap, len(PROMPTS)) for size in crowds}):
        # The first crowd opens the connections; the answers to it are not compared.
        await ask_together(backend, [replace(r, params={**r.params, "max_new_tokens": 1}) for r in requests[:size]])
        responses = []
        for begin in range(0, len(requests), size):
            responses += await ask_together(backend, requests[begin : begin + size])
        heard += responses
        pairs = list(zip(first, _observed(responses), strict=True))
        gaps = [gap for before, after in pairs if (gap := before.gap(after)) is not None]
        # A request for a likelihood has the prompt of the request for its answer.
        changed = {at % len(PROMPTS) for at, (before, after) in enumerate(pairs) if before.is_other(after)}
        results.append(CrowdResult(size=size, changed=len(changed), largest_gap=max(gaps, default=None)))
    return Verdict(
        verdict=_verdict(results),
        prompts=len(PROMPTS),
        crowds=tuple(results),
        fingerprints=tuple(sorted({x.model_fingerprint for x in heard if x.model_fingerprint})),
        identity=dict(identity),
        created=datetime.now(UTC),
    )


def asked_kind(backend: Backend) -> Literal["chat", "completion"]:
    """How a model is asked: in a chat where it serves that, else by a text to complete.

    Raises:
        InputError: it serves neither.
    """
    if "chat" in backend.capabilities:
        return "chat"
    if "completion" in backend.capabilities:
        return "completion"
    raise InputError("the model serves neither chat nor completions, so it cannot be probed.")


def _verdict(results: Sequence[CrowdResult]) -> ProbeVerdict:
    changed = max(result.changed for result in results)
    gap = max(result.largest_gap or 0.0 for result in results)
    if not changed and not gap:
        return "exact"
    return "near" if changed <= NEAR_SHARE * len(PROMPTS) and gap < NEAR_TIE else "drifting"


def _requests(backend: Backend) -> list[Request]:
    """One request a prompt; and one for a likelihood where answers have no log probabilities."""
    can, kind = backend.capabilities, asked_kind(backend)
    params: dict[str, Any] = {"temperature": 0, "max_new_tokens": _TOKENS}
    if "logprobs" in can:
        params |= {"logprobs": True, "top_logprobs": 1} if kind == "chat" else {"logprobs": 1}
    requests = [
        Request("chat", messages=[{"role": "user", "content": text}], params=params, sample_id=f"probe-{at}")
        if kind == "chat"
        else Request("completion", prompt=text, params=params, sample_id=f"probe-{at}")
        for at, text in enumerate(PROMPTS)
    ]
    if "logprobs" not in can and "likelihood" in can:
        following = [*PROMPTS[1:], PROMPTS[0]]
        requests += [
            Request("likelihood", prompt=text, choices=[f" {other}"], sample_id=f"probe-{at}")
            for at, (text, other) in enumerate(zip(PROMPTS, following, strict=True))
        ]
    return requests


def _without(params: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in names}


def _observed(responses: Sequence[Response]) -> list[Observation]:
    """What was said.

    Raises:
        EndpointFailed: a prompt got no answer.
    """
    failed = [response for response in responses if response.status not in ANSWERED]
    if failed:
        raise EndpointFailed(
            f"the probe has no verdict: {len(failed)} of {len(responses)} requests got no answer. The first: "
            f"{reason(failed[0])}"
        )
    return [_observation(response) for response in responses]


def _observation(response: Response) -> Observation:
    tokens, logprobs = _scored_tokens(response.logprobs)
    return Observation((response.answer, response.reasoning, response.tool_calls), tokens, logprobs)


def _scored_tokens(text: str | None) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Tokens and log probabilities in any of the forms that backends give; empty for what cannot be read."""
    try:
        value = None if text is None else decode(text.encode())
    except ValueError:
        value = None
    choices = value.get("choices") if isinstance(value, dict) else None
    if isinstance(choices, list):
        pairs = [(str(item.get("tokens")), item.get("ll")) for item in choices if isinstance(item, dict)]
    else:
        pairs = [
            (step.token, step.known.get(step.token)) for step in steps_in(value if isinstance(value, dict) else None)
        ]
    known = [
        (token, float(logprob))
        for token, logprob in pairs
        if isinstance(logprob, int | float) and math.isfinite(logprob)
    ]
    return tuple(token for token, _ in known), tuple(logprob for _, logprob in known)
