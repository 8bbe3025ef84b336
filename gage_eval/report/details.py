"""What report.html shows besides the summary: samples, distributions, the config, and the comparison. Plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias

from gage_eval.report.trend_chart import TrendPoint

Kind: TypeAlias = Literal[
    "error", "refused", "truncated", "unparsed", "unscored", "wrong", "right", "lowest", "highest"
]
Tone: TypeAlias = Literal["good", "bad", "warn", "plain"]
KINDS: Mapping[Kind, tuple[Tone, str]] = {
    "error": ("bad", "No answer: the request failed."),
    "refused": ("warn", "The model or the endpoint refused."),
    "truncated": ("warn", "Cut at the token limit."),
    "unparsed": ("warn", "The metric could not read an answer out of the text."),
    "unscored": ("warn", "The metric gave no score."),
    "wrong": ("bad", "Read, and worse than what counts as right."),
    "right": ("good", "Full credit, or at least the pass threshold."),
    "lowest": ("plain", "The lowest values."),
    "highest": ("plain", "The highest values."),
}
"""Tone and meaning of each kind of answer, the failures first."""


_LONGEST_PROMPT, _LONGEST_ANSWER, _LONGEST_FIELD, _MESSAGES = 3000, 2400, 800, 24


def trimmed(text: str, limit: int) -> str:
    """A text of at most that many characters: the end, where answers stand, keeps more than the beginning.

    >>> trimmed("a" * 500, 100)
    'aaaaaaaaaaaaaaaaaaa […419 characters left out…] aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
    """
    if len(text) <= limit:
        return text
    room = max(limit - len(f" […{len(text):,} characters left out…] "), 0)
    head = room * 3 // 10
    tail = room - head
    left_out = len(text) - head - tail
    return f"{text[:head]} […{left_out:,} characters left out…] {text[len(text) - tail :]}"


# Characters and messages of a prompt that is shown whole, and characters of the end of a longer one.
_SHOWN_WHOLE, _SHOWN_MESSAGES, _SHOWN_END = 1200, 4, 600


@dataclass(frozen=True)
class Message:
    """A part of a prompt."""

    role: str
    text: str


def folded(prompt: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What of a prompt is folded away, and what is shown: of a long one the end, where the question is."""
    last = max((number for number, one in enumerate(prompt) if one.role != "choice"), default=0)
    if last < _SHOWN_MESSAGES and sum(len(one.text) for one in prompt) <= _SHOWN_WHOLE:
        return (), tuple(prompt)
    question, choices = prompt[last], prompt[last + 1 :]
    # From the start of a line on.
    cut = question.text.rfind("\n", 0, max(len(question.text) - _SHOWN_END, 0)) + 1
    before = [*prompt[:last], *([Message(question.role, question.text[:cut])] if cut else [])]
    return tuple(before), (Message(question.role, question.text[cut:]), *choices)


@dataclass(frozen=True)
class SampleCard:
    """One answer of the model: what was asked, answered, read out and expected, and why it got its score.

    Attributes:
        sample_id: the sample.
        replicate: which repetition of it.
        labels: all kinds that the answer has.
        prompt: the request's messages; empty where they are not known.
        as_sent: whether the prompt is the request as it was sent, or only the sample's messages.
        answer: the model's text.
        reasoning: the model's thinking, where the endpoint returned it.
        extracted: what the metric read out of the answer.
        expected: the reference.
        explanation: the metric's reason.
        failure: kind and message of an error.
        scores: names and values of all numbers.
        judgments: the judge's words.
    """

    sample_id: str
    replicate: int = 0
    labels: tuple[Kind, ...] = ()
    prompt: tuple[Message, ...] = ()
    as_sent: bool = True
    answer: str | None = None
    reasoning: str | None = None
    extracted: str | None = None
    expected: str | None = None
    explanation: str | None = None
    failure: str | None = None
    scores: tuple[tuple[str, str], ...] = ()
    judgments: tuple[str, ...] = ()

    def trimmed(self) -> "SampleCard":
        """The card with long texts cut in their middle."""

        def cut(text: str | None, limit: int) -> str | None:
            return None if text is None else trimmed(text, limit)

        prompt = self.prompt
        if len(prompt) > _MESSAGES:
            skipped = Message("", f"[…{len(prompt) - _MESSAGES:,} messages left out…]")
            prompt = (*prompt[: _MESSAGES // 2], skipped, *prompt[-_MESSAGES // 2 :])
        # The last message is the question; examples before it share what is left.
        room = _LONGEST_PROMPT // 2
        shares = [room // max(len(prompt) - 1, 1)] * (len(prompt) - 1) + [_LONGEST_PROMPT if len(prompt) == 1 else room]
        return replace(
            self,
            prompt=tuple(
                Message(one.role, trimmed(one.text, share)) for one, share in zip(prompt, shares, strict=True)
            ),
            answer=cut(self.answer, _LONGEST_ANSWER),
            reasoning=cut(self.reasoning, _LONGEST_ANSWER),
            extracted=cut(self.extracted, _LONGEST_FIELD),
            expected=cut(self.expected, _LONGEST_FIELD),
            explanation=cut(self.explanation, _LONGEST_FIELD),
            failure=cut(self.failure, _LONGEST_FIELD),
            scores=self.scores[:12],
            judgments=tuple(trimmed(words, _LONGEST_FIELD) for words in self.judgments[:4]),
        )


@dataclass(frozen=True)
class KindOfAnswer:
    """Answers of one kind.

    Attributes:
        kind: which.
        count: how many there are among the answers that were looked at.
        cards: the first of them.
    """

    kind: Kind
    count: int
    cards: tuple[SampleCard, ...] = ()


@dataclass(frozen=True)
class Bin:
    """One bar of a chart: its label, how many answers it holds, and their mean score."""

    label: str
    count: int
    mean: float | None = None


@dataclass(frozen=True)
class TaskDetails:
    """What the report shows of a task's answers.

    Attributes:
        measure: name of the number that decides about right and wrong; None without scores.
        answers: how many answers were looked at.
        complete: whether these are all answers of the task.
        kinds: the kinds that occur, failures first.
        distribution: answers by score.
        lengths: answers by length, with the mean score of each bin.
        length_unit: ``tokens`` or ``characters``.
        reasons: why rows failed: where, the reason, how often.
        sampling: request parameters besides the messages.
    """

    measure: str | None
    answers: int
    complete: bool = True
    kinds: tuple[KindOfAnswer, ...] = ()
    distribution: tuple[Bin, ...] = ()
    lengths: tuple[Bin, ...] = ()
    length_unit: str = "tokens"
    reasons: tuple[tuple[str, str, int], ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)

    def count(self, kind: Kind) -> int:
        """How many answers are of a kind."""
        return next((one.count for one in self.kinds if one.kind == kind), 0)


@dataclass(frozen=True)
class ComparedSlice:
    """How a slice moved."""

    name: str
    n: int
    difference: float


@dataclass(frozen=True)
class ComparedTask:
    """One number of a task against the baseline.

    Attributes:
        task_id, metric: which number.
        baseline, current: the scores.
        difference: how much better this run is; negative for a loss, also where lower scores are better.
        low, high: ends of the interval of the difference.
        p: p value.
        verdict: a word such as ``regressed``; empty without a gate.
        n, test: pairs of samples, and the test's name.
        better, worse: ids of the samples that moved.
        slices: those that moved most.
        notes: what else a reader must know.
        trend: the number in this run and in those before it, oldest first.
    """

    task_id: str
    metric: str
    n: int
    baseline: float | None
    current: float | None
    difference: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    test: str = ""
    verdict: str = ""
    better: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    slices: tuple[ComparedSlice, ...] = ()
    notes: tuple[str, ...] = ()
    trend: tuple[TrendPoint, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A run against a baseline.

    Attributes:
        baseline: its name.
        tasks: one number of each task.
        level: of the intervals of the differences.
        notes: what a reader must know about all tasks.
    """

    baseline: str
    tasks: tuple[ComparedTask, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunDetails:
    """What the report shows of the run besides its numbers.

    Attributes:
        began: when it began, in UTC.
        config_source, config_digest, config_text: the config as written; references to secrets are not replaced.
        options: the run's options.
        packages: versions by package.
        digests: task, stage, key and artifact ids of each stage.
        tasks: details by task id.
        comparison: with a baseline.
    """

    began: datetime | None = None
    config_source: str = ""
    config_digest: str = ""
    config_text: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    digests: tuple[tuple[str, str, str], ...] = ()
    tasks: Mapping[str, TaskDetails] = field(default_factory=dict)
    comparison: Comparison | None = None
