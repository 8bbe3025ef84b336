"""Why an answer is wrong: each answer of a run with its question, reference, extracted text and the reason."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gage_eval.base.field_paths import MISSING, resolve
from gage_eval.data.sample.rules import content_text
from gage_eval.runs.results.outcomes import Measure, Outcome, RowFilter, outcome_mask
from gage_eval.runs.results.reading import TaskReader
from gage_eval.runs.results.rows import SampleRow, of_replicate
from gage_eval.scoring.metrics.trajectories import calls_text

_SHOWN_OUTCOMES: tuple[Outcome, ...] = ("unparsed", "truncated", "looped")


@dataclass(frozen=True)
class Tally:
    """How many answers of a task have an outcome.

    Attributes:
        matching: answers with this outcome.
        answers: all answers.
        among: how many of those answers are unparsed, truncated and looped.
        unscored: answers without a score, which are neither right nor wrong.
    """

    matching: int
    answers: int
    among: dict[Outcome, int]
    unscored: int


@dataclass(frozen=True)
class ExplainedAnswer:
    """One answer with its score and the reason.

    Attributes:
        task_id, sample_id: the sample.
        replicate: which repetition of the sample.
        question: text of the sample's last user message, media as their type in brackets.
        expected: as `expected_of` gives it.
        answer: the model's answer; of one without text the tools that it calls, with their arguments.
        status: of the response: `statuses.ResponseStatus`.
        extracted: what the metric extracted from the answer.
        score_status: scored, unparsed or unscored; None without a score.
        value: the score.
        explanation: the metric's reason.
        failure: for an error response, the kind of error and the last attempt's message.
        completion_tokens: length of the answer, if known.
    """

    task_id: str
    sample_id: str
    replicate: int
    question: str
    expected: str | None
    answer: str | None
    status: str
    extracted: str | None
    score_status: str | None
    value: float | None
    explanation: str | None
    failure: str | None
    completion_tokens: int | None


def tally(task: TaskReader, where: RowFilter) -> Tally:
    """Count the answers of a task that match, reading only small columns."""
    matching = answers = unscored = 0
    among: Counter[Outcome] = Counter()
    for part in task.parts:
        table = task.answers(part, where.measure)
        fitting = where.fitting(table)
        answers += table.num_rows
        matching += fitting.num_rows
        if where.measure is not None:
            unscored += outcome_mask("unscored", table, where.measure).to_pylist().count(True)
        for outcome in _SHOWN_OUTCOMES:
            mask = outcome_mask(outcome, fitting, where.measure)
            among[outcome] += mask.to_pylist().count(True)
    return Tally(matching, answers, {name: count for name, count in among.items() if count}, unscored)


def explained(
    task: TaskReader, where: RowFilter, *, limit: int | None = None
) -> Iterator[tuple[SampleRow, ExplainedAnswer]]:
    """The answers of a task that match, in row order, each with its sample.

    Args:
        task: the task.
        where: the filter. Its measure is the metric that explains the answers.
        limit: at most this many.
    """
    return islice(_explained(task, where), limit)


def _explained(task: TaskReader, where: RowFilter) -> Iterator[tuple[SampleRow, ExplainedAnswer]]:
    part, fitting = -1, frozenset[tuple[int, int]]()
    for row in task.rows(where):
        if row.part != part:
            part = row.part
            table = where.fitting(task.answers(part, where.measure))
            fitting = frozenset(zip(table["row_index"].to_pylist(), table["replicate"].to_pylist(), strict=True))
        for response in row.responses:
            if (row.row_index, response["replicate"]) in fitting:
                yield row, explain(row, response, where.measure)


def explain(row: SampleRow, response: dict[str, Any], measure: Measure | None) -> ExplainedAnswer:
    """One response of a sample, explained by a metric."""
    replicate = response["replicate"]
    score: Mapping[str, Any] = {}
    if measure is not None:
        score = of_replicate(row.scores_by(measure), replicate)
    return ExplainedAnswer(
        row.task_id,
        row.sample_id,
        replicate,
        question_of(row.sample),
        expected_of(row.sample),
        response.get("answer") or _called(response) or response.get("answer"),
        response["status"],
        score.get("extracted"),
        score.get("status"),
        None if measure is None else score.get("values", {}).get(measure.value_key),
        score.get("explanation"),
        _failure(row, response),
        response.get("completion_tokens"),
    )


def question_of(sample: dict[str, Any]) -> str:
    """Text of a sample's question, with a marker for each medium; empty without one.

    It is the last user message; of a conversation that the model is still to answer, all its user messages.
    """
    messages = list(sample.get("messages") or ())
    answered = max((place for place, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    users = [message for message in messages if message["role"] == "user"]
    questions = [message for message in messages[answered + 1 :] if message["role"] == "user"] or users[-1:]
    return "\n".join(map(_message_text, questions))


def _message_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    return content or "" if content is None or isinstance(content, str) else content_text(content)


def expected_of(sample: dict[str, Any]) -> str | None:
    """A sample's reference as text: its label, else its references, else the calls of its golden trajectories.

    None without any.
    """
    label = resolve("label", sample=sample)
    targets = resolve("targets", sample=sample)
    several = [str(target) for target in targets] if isinstance(targets, list) else []
    if sample.get("label") is None and len(several) > 1:
        return " | ".join(several)
    if label is not MISSING and label is not None:
        return str(label)
    return " | ".join(filter(None, map(calls_text, sample.get("golden_trajectories") or ()))) or None


def _called(response: dict[str, Any]) -> str:
    return calls_text(response.get("turns") or [{"tool_calls": response.get("tool_calls")}])


def _failure(row: SampleRow, response: dict[str, Any]) -> str | None:
    if response["status"] != "error":
        return None
    errors = of_replicate(row.telemetry, response["replicate"]).get("errors")
    kind = response.get("error_kind") or "error"
    return f"{kind}: {errors[-1]}" if errors else str(kind)
