"""Is this endpoint still the model? One verdict for each property of its record, against a reference.

<store>/references/<digest of the content>.json
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from pydantic import ValidationError

from gage_eval.base.canonical import canonical_text, decode, digest
from gage_eval.base.errors import InputError
from gage_eval.base.files import write_new
from gage_eval.engine.endpoint_record import EndpointRecord
from gage_eval.models.client.types import without_surrogates
from gage_eval.stats.divergence import kl_lower_bound
from gage_eval.stats.intervals import mean_stderr, t_interval
from gage_eval.store import Store

PropertyState: TypeAlias = Literal["passed", "failed", "not_known"]

TOLERANCE = 0.01
"""Nats by which log-probabilities may differ. Numerics differ by less, a model in 4 bits by more."""

# Fewer answers say too little about a mean.
_LEAST_ANSWERS = 20
# A prompt of which less is read was cut.
_READ = 0.98
# Throughput depends on who else asks, so only a much slower endpoint is another one.
_SLOWEST = 0.25


class PropertyVerdict(NamedTuple):
    """The verdict on a property of an endpoint.

    Attributes:
        property: its name.
        verdict: ``not_known`` where neither is shown.
        text: what was seen, in a sentence.
    """

    property: str
    verdict: PropertyState
    text: str


_Seen: TypeAlias = tuple[PropertyState, str]
_NO_REFERENCE = "there is no reference to compare it with"


def check_endpoint(
    seen: EndpointRecord, reference: EndpointRecord | None = None, *, tolerance: float = TOLERANCE
) -> list[PropertyVerdict]:
    """The verdicts on an endpoint, in a fixed order.

    Args:
        seen: what it does.
        reference: what the model does; without one, properties that need a comparison are not known.
        tolerance: of the log-probabilities, in nats.
    """
    checks: Mapping[str, Callable[[], _Seen]] = {
        "chat_template": lambda: _template(seen, reference),
        "stop_strings": lambda: _stop_strings(seen),
        "thinking": lambda: _thinking(seen, reference),
        "tool_calls": lambda: _tool_calls(seen, reference),
        "parameters": lambda: _parameters(seen, reference),
        "context": lambda: _context(seen, reference),
        "logprobs": lambda: _logprobs(seen, reference, tolerance),
        "determinism": lambda: _determinism(seen, reference),
        "throughput": lambda: _throughput(seen, reference),
    }
    return [PropertyVerdict(name, *check()) for name, check in checks.items()]


def read_reference(file: Path) -> tuple[EndpointRecord, str]:
    """A record that was stored as a file, and the digest of its content.

    Raises:
        InputError: there is no such file, or it holds no record of this version.
    """
    try:
        return _parsed(file.read_bytes(), str(file))
    except OSError as error:
        raise InputError(f"the reference {file} cannot be read: {error.strerror}.") from None


def stored_reference(store: Store, name: str) -> EndpointRecord:
    """A record of the store.

    Args:
        store: where `write_reference` has put it.
        name: the digest of its content.

    Raises:
        InputError: it is not there, or damaged.
    """
    path = _path(name)
    if not store.objects.exists(path):
        raise InputError(f"the store has no reference {name}. Record it in this store: gage probe CONFIG --record FILE")
    record, content = _parsed(store.objects.get(path), f"{path} in the store")
    if content != name:
        raise InputError(f"{path} in the store is damaged: its content is {content}. Delete it, and record it again.")
    return record


def write_reference(file: Path, record: EndpointRecord, store: Store) -> str:
    """Store a record as a new file, and in the store.

    Returns:
        The digest of its content.

    Raises:
        InputError: the file is there already, or cannot be written.
    """
    value = without_surrogates(record.model_dump(mode="json"))
    text, name = canonical_text(value), digest(value)
    write_new(file, text)
    store.objects.replace(_path(name), text.encode())
    return name


def _path(name: str) -> str:
    return f"references/{name}.json"


def _parsed(data: bytes, source: str) -> tuple[EndpointRecord, str]:
    try:
        value = decode(data)
        return EndpointRecord.model_validate(value), digest(value)
    except (ValueError, ValidationError, RecursionError):
        raise InputError(
            f"{source} holds no reference of this version of gage probe. Record one of the model that you trust: "
            "gage probe CONFIG --record FILE"
        ) from None


def divergences(seen: EndpointRecord, reference: EndpointRecord) -> Iterator[float]:
    """Lower bounds of KL(reference ‖ endpoint), in nats: for each prompt the mean over the tokens of its answer.

    Tokens are compared as long as all tokens before them are the same. Prompts without log-probabilities on both sides
    are left out.
    """
    for mine, its in zip(seen.answers, reference.answers, strict=False):
        bounds = []
        for token, its_token, known, its_known in zip(mine.tokens, its.tokens, mine.known, its.known, strict=False):
            if known and its_known:
                bounds.append(kl_lower_bound(its_known, known))
            if token != its_token:
                break
        if bounds:
            yield sum(bounds) / len(bounds)


def _template(seen: EndpointRecord, reference: EndpointRecord | None) -> _Seen:
    if not seen.templates:
        return "not_known", "the model serves no chat"
    if reference is None:
        return "not_known", _NO_REFERENCE
    pairs = list(zip(seen.templates, reference.templates, strict=False))
    for number, (mine, its) in enumerate(pairs, 1):
        if mine.refused != its.refused:
            who = "the endpoint" if mine.refused else "the reference"
            return "failed", f"{who} alone refuses conversation {number}"
        if None not in (mine.tokens, its.tokens) and mine.tokens != its.tokens:
            return "failed", f"conversation {number} has {mine.tokens} tokens, and {its.tokens} in the reference"
        if mine.digest is not None and its.digest is not None and mine.digest != its.digest:
            return "failed", f"conversation {number} has other token ids than in the reference"
    # Such as the one with tools, which a server that is not set up for them refuses.
    taken = [(mine, its) for mine, its in pairs if not mine.refused]
    if taken and all(mine.digest is not None and mine.digest == its.digest for mine, its in taken):
        also = f"; {len(pairs) - len(taken)} is refused by both" if len(taken) < len(pairs) else ""
        return "passed", f"{len(taken)} conversations have the token ids of the reference{also}"
    return "not_known", "no number of tokens differs, but the token ids of all conversations are not told"


def _stop_strings(seen: EndpointRecord) -> _Seen:
    return {
        "kept": ("passed", "an answer ends before its stop string"),
        "ignored": ("failed", "an answer goes on after its stop string"),
        "not_known": ("not_known", "the model did not give an answer in which a stop string shows"),
    }[seen.stop_strings]  # type: ignore[return-value]


def _thinking(seen: EndpointRecord, reference: EndpointRecord | None) -> _Seen:
    words = {
        "absent": "the model does not think",
        "apart": "the thinking is apart from the answer",
        "in_answer": "the thinking is in the answer",
        "not_known": "the model gave no answer that ends",
    }
    text = words[seen.thinking]
    if seen.thinking in ("in_answer", "not_known"):
        return ("failed" if seen.thinking == "in_answer" else "not_known"), text
    if reference is not None and reference.thinking not in (seen.thinking, "not_known"):
        return "failed", f"{text}; of the reference: {words[reference.thinking]}"
    return "passed", text


def _tool_calls(seen: EndpointRecord, reference: EndpointRecord | None) -> _Seen:
    if (tools := seen.tools) is None:
        if seen.takes_tools is None:
            return "not_known", "no question with tools has an answer"
        if reference is not None and reference.takes_tools:
            return "failed", "the endpoint takes no tools, and the reference does"
        return "not_known", "the endpoint takes no tools"
    text = f"{tools.called} of {tools.questions} answers call a tool"
    if tools.invalid:
        return "failed", f"{text}, {len(tools.invalid)} of them wrongly, such as {tools.invalid[0]}"
    if tools.called:
        return "passed", f"{text}, all of them by its schema"
    if reference is not None and reference.tools is not None and reference.tools.called:
        return "failed", f"{text}, and {reference.tools.called} of the reference"
    return "not_known", text


def _parameters(seen: EndpointRecord, reference: EndpointRecord | None) -> _Seen:
    refused = sorted(name for name, is_refused in seen.refused.items() if is_refused)
    text = f"refused: {', '.join(refused)}" if refused else "nothing is refused"
    if reference is None:
        return "not_known", f"{text}; {_NO_REFERENCE}"
    pairs = [(name, seen.refused.get(name), reference.refused.get(name)) for name in seen.refused]
    others = [name for name, mine, its in pairs if None not in (mine, its) and mine != its]
    if others:
        verb = "refuses" if seen.refused[others[0]] else "takes"
        return "failed", f"it {verb} {others[0]}, unlike the reference"
    unknown = [name for name, mine, its in pairs if None in (mine, its)]
    if unknown or not pairs:
        return "not_known", f"{text}; {', '.join(unknown) or 'nothing'} could not be tried"
    return "passed", f"{text}, as of the reference"


def _context(seen: EndpointRecord, reference: EndpointRecord | None) -> _Seen:
    if (context := seen.context) is None:
        return "not_known", "no size is declared: set --context"
    if context.refused:
        return "failed", f"it refuses a prompt of {context.sent} tokens"
    if context.problem is not None:
        return "not_known", context.problem
    if context.read is None:
        return "not_known", "the endpoint does not count the tokens of prompts"
    if context.read < _READ * context.sent:
        return "failed", f"of a prompt of {context.sent} tokens it reads {context.read}"
    text = f"it reads a prompt of {context.read} tokens"
    if context.recalled:
        return "passed", f"{text} and repeats its beginning"
    its = None if reference is None or reference.context is None else reference.context
    if its is not None and its.size == context.size and its.read is not None:
        if its.recalled:
            return "failed", f"{text} and cannot repeat its beginning, which the reference can"
        return "passed", f"{text}; like the reference it cannot repeat its beginning"
    return "not_known", f"{text}, but cannot repeat its beginning"


def _logprobs(seen: EndpointRecord, reference: EndpointRecord | None, tolerance: float) -> _Seen:
    if reference is None:
        return "not_known", _NO_REFERENCE
    for who, record in (("the endpoint", seen), ("the reference", reference)):
        if not any(answer.known for answer in record.answers):
            return "not_known", f"{who} has no log-probabilities"
    values = list(divergences(seen, reference))
    mean, stderr = mean_stderr(values)
    interval = t_interval(mean or 0.0, stderr, len(values) - 1)
    if len(values) < _LEAST_ANSWERS or interval is None:
        return "not_known", f"only {len(values)} answers can be compared, and {_LEAST_ANSWERS} are needed"
    low, high = max(0.0, interval.low), interval.high
    text = (
        f"at least {mean:.2g} nat [{low:.2g}, {high:.2g}] from the reference on {len(values)} prompts "
        f"(a lower bound; {tolerance:g} is tolerated)"
    )
    return ("failed" if low > tolerance else "passed" if high <= tolerance else "not_known"), text


def _determinism(seen: EndpointRecord, reference: EndpointRecord | None) -> _Seen:
    order = ("exact", "near", "drifting")
    if reference is not None and order.index(seen.determinism) > order.index(reference.determinism):
        return "failed", f"{seen.determinism_text}; the reference is {reference.determinism}"
    if reference is None and seen.determinism == "drifting":
        return "failed", seen.determinism_text
    return "passed", seen.determinism_text


def _throughput(seen: EndpointRecord, reference: EndpointRecord | None) -> _Seen:
    if seen.tokens_per_s is None:
        return "not_known", "the endpoint does not count the tokens of answers"
    text = f"{seen.tokens_per_s:.3g} tokens a second, {seen.concurrency} requests at once"
    if reference is None or reference.tokens_per_s is None:
        return "not_known", f"{text}; {_NO_REFERENCE}"
    text = f"{text}; of the reference: {reference.tokens_per_s:.3g}"
    if seen.concurrency != reference.concurrency:
        return "not_known", f"{text}, {reference.concurrency} at once"
    return ("passed" if seen.tokens_per_s >= _SLOWEST * reference.tokens_per_s else "failed"), text
