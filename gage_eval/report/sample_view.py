"""One answer with everything that explains its score, as pages show it. Plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import dropwhile, takewhile
from typing import Any, Literal, TypeAlias

from gage_eval.report.messages import ANSWER, Candidate, Message, Part, Token, ToolCall, tokens, trimmed

Kind: TypeAlias = Literal[
    "error", "refused", "truncated", "looped", "unparsed", "unscored", "wrong", "right", "lowest", "highest"
]
Tone: TypeAlias = Literal["good", "bad", "warn", "plain"]
KINDS: Mapping[Kind, tuple[Tone, str]] = {
    "error": ("bad", "No answer: the request failed."),
    "refused": ("warn", "The model or the endpoint refused."),
    "truncated": ("warn", "Cut at the token limit."),
    "looped": ("warn", "Repeated itself until it was cut."),
    "unparsed": ("warn", "The metric could not read an answer out of the text."),
    "unscored": ("warn", "The metric gave no score."),
    "wrong": ("bad", "Read, and worse than what counts as right."),
    "right": ("good", "Full credit, or at least the pass threshold."),
    "lowest": ("plain", "The lowest values."),
    "highest": ("plain", "The highest values."),
}
"""Tone and meaning of each kind of answer, the failures first."""

OF_SAMPLE = "of the sample"
"""The form of messages that were not asked yet."""

_LONGEST_PROMPT, _LONGEST_ANSWER, _LONGEST_FIELD, _MESSAGES = 3000, 2400, 800, 24
# Characters and messages of a prompt that is shown whole, and characters of the end of a longer one.
_SHOWN_WHOLE, _SHOWN_MESSAGES, _SHOWN_END = 1200, 4, 600


@dataclass(frozen=True)
class ShownScore:
    """A metric's score of the answer, with its reasons."""

    name: str
    values: tuple[tuple[str, str], ...]
    status: str = "scored"
    extracted: str | None = None
    reason: str = ""
    explanation: str = ""
    metadata: str = ""
    overrides: str = ""
    good: bool | None = None


@dataclass(frozen=True)
class ShownJudgment:
    """A judge's verdict, its words, and what it was asked. ``name`` tells several verdicts apart."""

    name: str
    text: str
    explanation: str = ""
    status: str = ""
    parsed: str = ""
    score: str = ""
    messages: tuple[Message, ...] = ()
    raw: str = ""

    @property
    def words(self) -> str:
        """The judge's reason; where it is not told apart, all that the judge said."""
        return self.explanation or self.text


@dataclass(frozen=True)
class ShownExecution:
    """How the program of the answer ended.

    Attributes:
        status: passed, failed, timed_out, …
        text: the first failing assertion, or why it ended.
        code: the program as it was run; None if the answer holds none.
        tests: what it was tested with.
        stdout, stderr: what it printed.
        facts: tests passed, seconds, memory, what contained it.
    """

    status: str
    text: str = ""
    code: str | None = None
    tests: str = ""
    stdout: str = ""
    stderr: str = ""
    facts: Sequence[tuple[str, str]] = ()

    @property
    def title(self) -> str:
        """The status as it is shown."""
        return self.status.replace("_", " ")

    @property
    def texts(self) -> list[tuple[str, str]]:
        """Program, tests and output, as far as there are any."""
        pairs = [("program", self.code or ""), ("tests", self.tests), ("stdout", self.stdout), ("stderr", self.stderr)]
        return [(name, text) for name, text in pairs if text]


@dataclass(frozen=True)
class SampleView:
    """One answer of the model: what was asked, answered, read out and expected, and why it got its score.

    Attributes:
        sample_id: the sample.
        replicate: which repetition of it.
        kind: error, unparsed, wrong, right, …
        status, score_status: of the response, and of its score by the measure.
        messages: of the request, or of the sample where nothing was asked yet; with the answers of earlier turns.
        form: whether the messages are as sent, as prepared, or of the sample.
        note: why they are not as sent.
        raw: the request's body as JSON; empty where it is not known.
        answer: the model's text.
        made: the picture or recording that the model answered with, whose address the text is.
        before: the pictures of the question, where report.html shows them with the one that was made.
        reasoning: the model's thinking, where the endpoint returned it.
        extracted: what the metric read out of the answer.
        expected: the reference.
        explanation: the metric's reason.
        failure: kind and message of an error.
        completion_tokens: length of the answer, if known.
        logprobs: of the answer, as the endpoint returned them.
        facts: length, latency and the like.
        answer_step: which step of the episode the answer is; 0 where it was one call.
        divergences: where earlier attempts differed from the journal, in sentences, and what was said until then.
    """

    sample_id: str
    replicate: int = 0
    kind: str = ""
    status: str = "ok"
    score_status: str | None = None
    messages: tuple[Message, ...] = ()
    form: str = OF_SAMPLE
    note: str = ""
    raw: str = ""
    answer: str | None = None
    made: Part | None = None
    before: tuple[Part, ...] = ()
    reasoning: str = ""
    extracted: str | None = None
    expected: str | None = None
    explanation: str | None = None
    failure: str | None = None
    completion_tokens: int | None = None
    scores: tuple[ShownScore, ...] = ()
    judgments: tuple[ShownJudgment, ...] = ()
    execution: ShownExecution | None = None
    tool_calls: Sequence[ToolCall] = ()
    logprobs: Any = None
    candidates: Sequence[Candidate] = ()
    facts: Sequence[tuple[str, str]] = ()
    attempts: Sequence[str] = ()
    answer_step: int = 0
    divergences: Sequence[tuple[str, Sequence[Message]]] = ()
    options: Sequence[tuple[str, str]] = ()
    references: Sequence[str] = ()
    sample: str = ""
    tags: Sequence[tuple[str, str]] = ()
    response_key: str = ""
    trajectories: Sequence[Sequence[Message]] = ()
    tools: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """All kinds that the answer has."""
        return tuple(dict.fromkeys(word for word in (self.kind, self.status, self.score_status or "") if word in KINDS))

    @property
    def prompt(self) -> tuple[Message, ...]:
        """The messages before the first step."""
        return tuple(takewhile(lambda message: not message.step, self.messages))

    @property
    def trajectory(self) -> tuple[Message, ...]:
        """The steps before the answer, with the user's messages between them."""
        return tuple(dropwhile(lambda message: not message.step, self.messages))

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens of the answer with their probabilities; empty if the response has none."""
        return tokens(self.logprobs)

    def trimmed(self) -> "SampleView":
        """What report.html shows of it, with long texts cut in their middle."""

        def cut(text: str | None, limit: int) -> str | None:
            return None if text is None else trimmed(text, limit)

        messages = self.messages
        if len(messages) > _MESSAGES:
            skipped = Message.plain("", f"[…{len(messages) - _MESSAGES:,} messages left out…]")
            messages = (*messages[: _MESSAGES // 2], skipped, *messages[-_MESSAGES // 2 :])
        # The last message is the question; examples before it share what is left.
        room = _LONGEST_PROMPT // 2
        count = len(messages)
        shares = [room // max(count - 1, 1)] * (count - 1) + [_LONGEST_PROMPT if count == 1 else room]
        return SampleView(
            self.sample_id,
            self.replicate,
            self.kind,
            self.status,
            self.score_status,
            messages=tuple(
                Message.plain(message.role, trimmed(message.text, share))
                for message, share in zip(messages, shares, strict=True)
            ),
            form=self.form,
            answer=cut(self.answer, _LONGEST_ANSWER),
            made=self.made,
            before=self.before,
            reasoning=trimmed(self.reasoning, _LONGEST_ANSWER),
            extracted=cut(self.extracted, _LONGEST_FIELD),
            expected=cut(self.expected, _LONGEST_FIELD),
            explanation=cut(self.explanation, _LONGEST_FIELD),
            failure=cut(self.failure, _LONGEST_FIELD),
            scores=tuple(ShownScore(score.name, score.values) for score in self.scores[:12]),
            judgments=tuple(
                ShownJudgment(judgment.name, trimmed(judgment.words, _LONGEST_FIELD))
                for judgment in self.judgments[:4]
                if judgment.words
            ),
        )


def folded(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What of a prompt is folded away, and what is shown: of a long one the end, where the question is.

    Of a conversation in several turns, it is shown from the first question on that the model answered.
    """
    last = max((number for number, message in enumerate(messages) if message.role != "choice"), default=0)
    first = next((number - 1 for number, message in enumerate(messages) if message.role == ANSWER and number), last)
    if last < _SHOWN_MESSAGES and sum(len(message.text) for message in messages[: first + 1]) <= _SHOWN_WHOLE:
        return (), tuple(messages)
    question = messages[first]
    if first < last or any(part.kind != "text" for part in question.parts) or question.calls:
        return tuple(messages[:first]), tuple(messages[first:])
    # From the start of a line on.
    cut = question.text.rfind("\n", 0, max(len(question.text) - _SHOWN_END, 0)) + 1
    before = [*messages[:first], *([Message.plain(question.role, question.text[:cut])] if cut else [])]
    return tuple(before), (replace(question, parts=(Part("text", question.text[cut:]),)), *messages[first + 1 :])
