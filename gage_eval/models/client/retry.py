"""The retry policy: which failures are retried, how often, and when a call is given up."""

import random
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum

from gage_eval.models.client.payload import A_PAGE, SHOWN, Malformed, is_page, parse_json, shown

_RETRIED = frozenset({408, 409, 425, 429})
# Server errors that no wait heals: the server does not know the method or the protocol.
_NOT_MADE_FOR_IT = frozenset({501, 505})
_CONTEXT_LENGTH = (
    "context length",
    "context_length",
    "context window",
    "context size",
    "maximum context",
    "max_model_len",
    "prompt is too long",
    "exceed_context",
)
# Some endpoints answer with a 400 and this message instead of a 401 or 404.
_NO_CALL_CAN = frozenset({"model_not_found", "invalid_model", "invalid_api_key"})
_NO_SUCH_MODEL = re.compile(r"\bmodel\b.{0,200}\b(does not exist|not found|is not supported)", re.IGNORECASE)
# A longer wait than a day is never meant.
_LONGEST_S = 86_400.0


class Action(Enum):
    """What to do after a failed attempt.

    ``retry``: another attempt; ``row``: an error of this row; ``refused``: an error of this row if other rows succeed,
    else of the whole run; ``fatal``: the run ends.
    """

    RETRY = "retry"
    ROW = "row"
    REFUSED = "refused"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt.

    Attributes:
        action: what follows.
        kind: the row's `error_kind` when the call is given up.
        message: what happened, for the row's list of errors.
        retry_after_s: how long the endpoint asks to wait; None when it does not say.
    """

    action: Action
    kind: str
    message: str
    retry_after_s: float | None = None

    @property
    def is_refusal(self) -> bool:
        """Whether the endpoint works but takes no more requests for now."""
        return self.kind == "rate_limited" or self.retry_after_s is not None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter, bounded by attempts and by elapsed time.

    Attributes:
        max_attempts: most requests sent for one call.
        max_elapsed_s: no attempt starts later than this after the first one.
        base_s: wait before the second attempt; doubles with each one.
        cap_s: longest backoff. An endpoint's `Retry-After` may be longer.
    """

    max_attempts: int = 10
    max_elapsed_s: float = 1800.0
    base_s: float = 0.5
    cap_s: float = 30.0

    def wait_s(self, attempts: int, elapsed_s: float, failure: Failure, jitter: float | None = None) -> float | None:
        """Seconds to wait before the next attempt; None to give up the call.

        Args:
            attempts: attempts made so far.
            elapsed_s: time since the first attempt began.
            failure: the last attempt's failure.
            jitter: in 0..1; drawn at random by default.
        """
        remaining = self.max_elapsed_s - elapsed_s
        if failure.action is not Action.RETRY or attempts >= self.max_attempts or remaining <= 0:
            return None
        draw = random.random() if jitter is None else jitter  # noqa: S311 - spreads load, guards nothing
        backoff = min(self.cap_s, self.base_s * 2.0 ** min(attempts - 1, 32)) * (0.5 + draw / 2)
        if failure.retry_after_s is not None:
            # Never earlier than asked. Spread out, so that rows that waited together do not return together.
            backoff = failure.retry_after_s * (1 + draw / 10) + draw * self.base_s / 10
        return min(backoff, remaining)


def classify(status: int, body: bytes, wait: str | None = None) -> Failure:
    """Classify an answer with a status other than 200.

    Args:
        status, body: the answer.
        wait: its header `Retry-After`.
    """
    code, text = error_text(body)
    message = f"{status} ({text})" if text else str(status)
    if status == 429 and code == "insufficient_quota":
        return Failure(Action.FATAL, "quota", message)
    if status in {400, 422} and (code in _NO_CALL_CAN or _NO_SUCH_MODEL.search(text)):
        return Failure(Action.REFUSED, "http_404" if code != "invalid_api_key" else "http_401", message)
    if status in _NOT_MADE_FOR_IT:
        return Failure(Action.REFUSED, f"http_{status}", message)
    if status in _RETRIED or status >= 500:
        kind = "rate_limited" if status == 429 else f"http_{status}"
        return Failure(Action.RETRY, kind, message, retry_after(wait))
    if status in {401, 403, 404} or 300 <= status < 400:
        return Failure(Action.REFUSED, f"http_{status}", message)
    lowered = text.lower()
    if status in {400, 413, 422} and any(phrase in lowered for phrase in _CONTEXT_LENGTH):
        return Failure(Action.ROW, "context_too_long", message)
    if status < 400:
        # A 2xx other than 200, with an unspecified body.
        return Failure(Action.RETRY, "malformed", message)
    return Failure(Action.ROW, f"http_{status}", message)


def error_text(body: bytes) -> tuple[str, str]:
    """(code, message) of an error body: OpenAI's form, a similar one, or the beginning of the text."""
    try:
        parsed = parse_json(body)
    except Malformed:
        return "", A_PAGE if is_page(body) else shown(body[:SHOWN].decode(errors="replace"))
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if isinstance(error, dict):
        code, message = error.get("code"), error.get("message", error.get("detail"))
        return code if isinstance(code, str) else "", shown(message if isinstance(message, str) else error)
    return "", shown(error)


def retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds a `Retry-After` header asks for (RFC 9110: seconds or an HTTP date), at most a day; None without one."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), _LONGEST_S)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return min(max(0.0, (date - (now or datetime.now(UTC))).total_seconds()), _LONGEST_S)
