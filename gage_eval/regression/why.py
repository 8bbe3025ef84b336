"""Why did it move: each answer whose score differs between two runs, with the first recorded thing that differs.

The things are looked at in the order in which they come about: sample, prompt, tokens of the prompt, sampling
parameters, the answer's tokens, its end, the judge's verdict, what was extracted, the scorer. Another engine, data type
or version is a label of the rows and not a cause, because it would explain every row of an upgrade.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import InputError
from gage_eval.base.statuses import REPLAYED, UNANSWERED
from gage_eval.models.client.token_steps import NEAR_TIE
from gage_eval.regression.compare import shared_tasks
from gage_eval.regression.definitions import WRITTEN_BY_PROMPTS, Difference, differences, is_imported, without_imported
from gage_eval.regression.first_token import equal_at_start, likelihood_change, parting, steps_of
from gage_eval.regression.run_diff import run_differences
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.report.console import counted, one_line
from gage_eval.report.details import Flip
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.runs.results.rows import SampleRow, of_replicate
from gage_eval.runs.results.sent_requests import answers_of_part

Cause: TypeAlias = str
"""A key of `MEANINGS`."""

# In the order in which they are shown.
MEANINGS: Mapping[Cause, str] = {
    "sample": "the sample: its question, reference or another field",
    "prompt": "the text of the prompt, its media or its tools",
    "prompt_tokens": "the token ids of the same prompt: chat template or tokenizer",
    "sampling": "sampling parameters",
    "failure": "a request failed in one run",
    "tools": "what a tool answered",
    "numerical": f"near tie of two tokens, less than {NEAR_TIE:g} nats apart in a run",
    "behavioural": f"another token, {NEAR_TIE:g} nats apart or more",
    "drawn": "another token, drawn at a temperature above 0",
    "token_not_known": "another token; how close the two were is not stored",
    "truncation": "the same answer, cut or ended in a loop in one run",
    "judge": "the judge's verdict on the same answer",
    "extraction": "what was extracted from the same answer",
    "scorer": "the score of the same answer",
    "not_known": "the runs do not store enough to tell",
}

_PROMPT = ("messages", "prompt", "input", "choices", "unconditioned", "tools", "tool_choice")
# Neither changes what the model answers: its name, the row of a replay, and what else is asked about the tokens.
_NOT_SAMPLING = (*_PROMPT, "model", "record", "logprobs", "top_logprobs", "token_logprobs")
_SAME_PARAMETER = {"max_tokens": "max_new_tokens", "max_completion_tokens": "max_new_tokens"}
_CUT = ("truncated", "looped", "limit")
_LABELS = ("model", "engine", "environment")
_OF_EVERY_RUN = ("host", "name", "tasks", "freshness")
_OF_EXTRACTION = ("filter", "extract")
_SHOWN = 60
# So many answers are decoded at once.
_BATCH = 512


@dataclass(frozen=True)
class TaskWhy:
    """Why the scores of a task differ.

    Attributes:
        task_id, metric: which number.
        answers: answers that both runs have.
        flips: those whose score differs, in the order of the second run.
        also_differing: recorded values of model, engine and environment that differ.
        lacking: what the runs do not store that would have said more, a sentence each.
        higher_is_better: whether more is better.
    """

    task_id: str
    metric: str
    answers: int
    flips: tuple[Flip, ...]
    also_differing: tuple[Difference, ...]
    lacking: tuple[str, ...]
    higher_is_better: bool

    @property
    def counts(self) -> dict[Cause, int]:
        """Flips by cause, in the order of `MEANINGS`."""
        counted = Counter(flip.cause for flip in self.flips)
        return {cause: counted[cause] for cause in MEANINGS if counted[cause]}

    def of_cause(self, cause: str | None) -> tuple[Flip, ...]:
        """The flips of a cause, or all of them."""
        return tuple(flip for flip in self.flips if cause in (None, flip.cause))

    def moved(self, cause: str | None = None) -> tuple[int, int, int]:
        """How many flips of a cause got worse and better, and in how many only one run has a score."""
        changes = [self._change(flip) for flip in self.of_cause(cause)]
        return (
            sum(change is not None and change < 0 for change in changes),
            sum(change is not None and change > 0 for change in changes),
            sum(change is None for change in changes),
        )

    @property
    def sentence(self) -> str:
        """``of 41 flips 29 numerical, 8 truncation``."""
        if not self.flips:
            return f"no score differs among {self.answers:,} answers"
        parts = ", ".join(f"{count:,} {cause.replace('_', ' ')}" for cause, count in self.counts.items())
        return f"of {counted(len(self.flips), 'flip')} {parts}"

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "task_id": self.task_id,
            "metric": self.metric,
            "answers": self.answers,
            "counts": self.counts,
            "flips": [flip.as_record() for flip in self.flips],
            "also_differing": [vars(x) for x in self.also_differing],
            "lacking": list(self.lacking),
        }

    def _change(self, flip: Flip) -> float | None:
        if flip.a is None or flip.b is None:
            return None
        return flip.b - flip.a if self.higher_is_better else flip.a - flip.b


def why(a: RunReader, b: RunReader, *, task_id: str | None = None, metric: str | None = None) -> list[TaskWhy]:
    """Find for each answer whose score differs the first thing that differs.

    Args:
        a, b: scored runs; a change is one from ``a`` to ``b``.
        task_id: only this task.
        metric: name of the number; the first of each task by default.

    Raises:
        InputError: the runs share no task, or a task has no such metric.
    """
    return [
        _TaskCauses(ScoredTask.of_run(a, name), ScoredTask.of_run(b, name), metric).result(_also_differing(a, b, name))
        for name in shared_tasks(a, b, task_id)
    ]


def _also_differing(a: RunReader, b: RunReader, task_id: str) -> tuple[Difference, ...]:
    return tuple(
        difference
        for name, difference in run_differences(a, b, task_id=task_id)
        if difference.kind in _LABELS and difference.path.rpartition(".")[2] not in _OF_EVERY_RUN
    )


@dataclass(frozen=True)
class _Answer:
    """One answer with all that led to it."""

    row: SampleRow
    replicate: int
    request: Mapping[str, Any]
    response: Mapping[str, Any]
    telemetry: Mapping[str, Any]
    judgments: Sequence[Mapping[str, Any]]
    score: Mapping[str, Any]
    execution: Mapping[str, Any]

    @property
    def is_replayed(self) -> bool:
        return self.response.get("finish_reason") == REPLAYED

    @property
    def said(self) -> dict[str, Any]:
        """What the model gave."""
        names = ("answer", "reasoning", "tool_calls", "logprobs" if self.is_likelihood else "answer", "artifacts")
        return {name: self.response[name] for name in names if self.response.get(name) not in (None, "")}

    @property
    def is_likelihood(self) -> bool:
        return "choices" in self.request

    @property
    def text(self) -> str:
        return (self.response.get("reasoning") or "") + (self.response.get("answer") or "")

    @property
    def status(self) -> str:
        return str(self.response.get("status"))


class _TaskCauses:
    """The causes of one task's flips."""

    def __init__(self, a: ScoredTask, b: ScoredTask, metric: str | None) -> None:
        self._runs = (a, b)
        self._tasks: tuple[TaskReader, TaskReader] = (a.reader, b.reader)
        number = b.reader.number(metric)
        # The name of a number holds its filter, which may be what has changed.
        named = {measure.name for measure in a.reader.measures}
        self._measures = (a.reader.number(number.name if number.name in named else number.metric_id), number)
        self._differences = differences(
            a.definition(self._measures[0].metric_id), b.definition(self._measures[1].metric_id)
        )
        differing = {difference.kind for difference in self._differences}
        self._ignored = WRITTEN_BY_PROMPTS if "prompts" in differing else ()
        self._reads_verdicts = all(map(_reads_verdicts, self._tasks, self._measures))
        self._lacks: Counter[tuple[int, str]] = Counter()

    def result(self, also_differing: tuple[Difference, ...]) -> TaskWhy:
        values = [task.values(measure) for task, measure in zip(self._tasks, self._measures, strict=True)]
        both = values[1].join(values[0], ["sample_id", "replicate"], right_suffix="_a", join_type="inner")
        changed = both.filter(_differ(both["value_a"], both["value"])).sort_by([("at", "ascending")])
        labels = tuple(dict.fromkeys(difference.path.rpartition(".")[2] for difference in also_differing))
        flips = tuple(
            flip
            for start in range(0, changed.num_rows, _BATCH)
            for flip in self._flips(changed.slice(start, _BATCH).to_pylist(), labels)
        )
        higher = self._measures[1].scale.higher_is_better is not False
        name = self._measures[1].name
        return TaskWhy(
            self._tasks[1].task_id, name, both.num_rows, flips, also_differing, tuple(self._lacking(flips)), higher
        )

    def _flips(self, rows: Sequence[Mapping[str, Any]], labels: tuple[str, ...]) -> Iterator[Flip]:
        answers = [
            _answers(task, measure, [(row[f"part{suffix}"], row[f"row_index{suffix}"]) for row in rows])
            for task, measure, suffix in zip(self._tasks, self._measures, ("_a", ""), strict=True)
        ]
        for row in rows:
            key = (row["sample_id"], row["replicate"])
            a, b = answers[0][key], answers[1][key]
            cause, detail = self._cause(a, b)
            yield Flip(*key, row["value_a"], row["value"], cause, detail, (*labels, *_row_labels(a, b)))

    def _cause(self, a: _Answer, b: _Answer) -> tuple[Cause, str]:
        looks: tuple[Callable[[_Answer, _Answer], tuple[Cause, str] | None], ...] = (
            self._sample, self._prompt, self._sampling, self._answer, self._end, self._judge, self._extraction,
        )  # fmt: skip
        for look in looks:
            cause = look(a, b)
            if cause is not None:
                return cause
        if not a.said and not b.said and not (a.row.responses and a.response.get("turns")):
            self._lack(a, b, lambda answer: not answer.said, "answer")
            return "not_known", "neither run stores an answer"
        return "scorer", self._scorer_detail(a, b)

    def _sample(self, a: _Answer, b: _Answer) -> tuple[Cause, str] | None:
        mine, other = (without_imported(answer.row.sample) for answer in (a, b))
        # In a log of another tool, the messages of a sample are the prompt as it was sent.
        ignored = WRITTEN_BY_PROMPTS if is_imported(a.row.sample) and is_imported(b.row.sample) else self._ignored
        fields = [
            name for name in dict.fromkeys([*mine, *other]) if name not in ignored and mine.get(name) != other.get(name)
        ]
        return ("sample", ", ".join(fields)) if fields else None

    def _prompt(self, a: _Answer, b: _Answer) -> tuple[Cause, str] | None:
        fields = [name for name in _PROMPT if (a.request.get(name) or None) != (b.request.get(name) or None)]
        if fields:
            return "prompt", ", ".join([*fields, *self._paths("prompts")])
        digests = [answer.telemetry.get("prompt_digest") for answer in (a, b)]
        counts = [answer.response.get("prompt_tokens") for answer in (a, b)]
        if None not in digests:
            if digests[0] != digests[1]:
                return "prompt_tokens", f"other token ids ({counts[0]} and {counts[1]} tokens) of the same prompt"
            return None
        self._lack(a, b, lambda answer: "prompt_digest" not in answer.telemetry, "prompt_digest")
        if None in counts:
            self._lack(a, b, lambda answer: answer.response.get("prompt_tokens") is None, "prompt_tokens")
        elif counts[0] != counts[1]:
            return "prompt_tokens", f"{counts[0]} and {counts[1]} tokens of the same prompt"
        return None

    def _sampling(self, a: _Answer, b: _Answer) -> tuple[Cause, str] | None:
        if a.is_replayed or b.is_replayed:
            self._lack(a, b, lambda answer: answer.is_replayed, "sampling")
            return None
        mine, other = _parameters(a.request), _parameters(b.request)
        fields = [name for name in dict.fromkeys([*mine, *other]) if mine.get(name) != other.get(name)]
        told = [f"{name}: {_shown(mine.get(name))} → {_shown(other.get(name))}" for name in fields]
        return ("sampling", ", ".join(told)) if fields else None

    def _answer(self, a: _Answer, b: _Answer) -> tuple[Cause, str] | None:
        failed = [answer.status in UNANSWERED for answer in (a, b)]
        if failed[0] != failed[1]:
            return "failure", f"{a.status} → {b.status}: {(a, b)[failed[1]].response.get('error_kind') or 'no reason'}"
        turn = _first_turn(a, b)
        if turn is not None:
            return turn
        if a.said == b.said:
            return None
        if a.is_likelihood and b.is_likelihood and (change := likelihood_change(a.response, b.response)) is not None:
            near = change < NEAR_TIE
            return ("numerical" if near else "behavioural"), f"log-likelihoods differ by up to {change:.3g} nats"
        if _is_cut_short(a, b):
            return "truncation", f"{a.status} → {b.status}"
        if any(_number(_parameters(answer.request).get("temperature")) > 0 for answer in (a, b)):
            return "drawn", _where_texts_part(a.text, b.text)
        at = parting(*(steps_of(answer.response, answer.telemetry) for answer in (a, b)))
        if at is None or at.is_near_tie is None:
            self._lack(a, b, lambda answer: not steps_of(answer.response, answer.telemetry), "token_logprobs")
            return "token_not_known", at.text if at is not None else _where_texts_part(a.text, b.text)
        return ("numerical" if at.is_near_tie else "behavioural"), at.text

    def _end(self, a: _Answer, b: _Answer) -> tuple[Cause, str] | None:
        if a.status != b.status and {a.status, b.status} & {*_CUT}:
            return "truncation", f"{a.status} → {b.status}"
        return None

    def _judge(self, a: _Answer, b: _Answer) -> tuple[Cause, str] | None:
        if not self._reads_verdicts:
            return None
        mine, other = ({_slot(verdict): _verdict(verdict) for verdict in answer.judgments} for answer in (a, b))
        if mine == other:
            return None
        told = [
            f"{_shown(mine.get(slot))} → {_shown(other.get(slot))}"
            for slot in dict.fromkeys([*mine, *other])
            if mine.get(slot) != other.get(slot)
        ]
        return "judge", "; ".join([*told, *self._paths("scorer", "judge")])

    def _extraction(self, a: _Answer, b: _Answer) -> tuple[Cause, str] | None:
        mine, other = ((answer.score.get("extracted"), answer.score.get("status") == "unparsed") for answer in (a, b))
        paths = [path for path in self._paths("scorer", "metric") if any(name in path for name in _OF_EXTRACTION)]
        if mine != other or (mine[0] is None and paths):
            return "extraction", "; ".join([f"{_shown(mine[0])} → {_shown(other[0])}", *paths])
        return None

    def _scorer_detail(self, a: _Answer, b: _Answer) -> str:
        ran = [answer.execution.get("status") for answer in (a, b)]
        if ran[0] != ran[1]:
            return f"the program: {ran[0]} → {ran[1]}"
        paths = self._paths("scorer", "metric")
        reasons = [answer.score.get("reason") or answer.score.get("explanation") for answer in (a, b)]
        if paths or reasons[0] == reasons[1]:
            return "; ".join(paths) or "the same answer, scored otherwise"
        return f"{_shown(reasons[0])} → {_shown(reasons[1])}"

    def _paths(self, kind: str, start: str = "") -> list[str]:
        """Where the definitions of the two runs differ."""
        return [x.path for x in self._differences if x.kind == kind and x.path.startswith(start)]

    def _lack(self, a: _Answer, b: _Answer, lacks: Callable[[_Answer], bool], what: str) -> None:
        for number, answer in enumerate((a, b)):
            if lacks(answer):
                self._lacks[number, what] += 1

    def _lacking(self, flips: Sequence[Flip]) -> Iterator[str]:
        words = {
            "token_logprobs": "no log-probabilities of tokens, so near ties are not known: set token_logprobs: 2",
            "prompt_digest": "no token ids of prompts, so only the number of tokens was compared",
            "prompt_tokens": "no number of prompt tokens",
            "sampling": "no sampling parameters",
            "answer": "no answer",
        }
        for (number, what), count in sorted(self._lacks.items()):
            yield f"{self._runs[number].name} stores {words[what]} ({count:,} of {len(flips):,} flips)"


def _differ(a: pa.ChunkedArray, b: pa.ChunkedArray) -> pa.ChunkedArray:
    one_sided = pc.xor(pc.is_valid(a), pc.is_valid(b))
    return pc.or_(one_sided, pc.fill_null(pc.not_equal(a, b), fill_value=False))


def _answers(task: TaskReader, measure: Measure, places: Sequence[tuple[int, int]]) -> dict[tuple[str, int], _Answer]:
    """The answers to the samples at some places (part, row index), by sample and replicate."""
    return {
        (answer.row.sample_id, answer.replicate): _Answer(
            *answer,
            [entry for entry in answer.row.judgments if entry.get("replicate") == answer.replicate],
            of_replicate(answer.row.scores_by(measure), answer.replicate),
            of_replicate(answer.row.executions, answer.replicate),
        )
        for part, group in groupby(sorted(set(places)), key=lambda place: place[0])
        for answer in answers_of_part(task, part, [row for _, row in group])
    }


def _reads_verdicts(task: TaskReader, measure: Measure) -> bool:
    """Whether a metric reads verdicts of a judge; yes where the run's config can no longer be used."""
    try:
        plan = task.plan
    except InputError:
        return True
    metrics = () if plan is None or plan.auto_eval is None else plan.auto_eval.metrics
    return any("judgments" in metric.inputs for metric in metrics if metric.metric_id == measure.metric_id)


def _parameters(request: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a request by their canonical names, without its prompt."""
    return {
        _SAME_PARAMETER.get(name, name): value
        for name, value in request.items()
        if name not in _NOT_SAMPLING and value is not None
    }


def _first_turn(a: _Answer, b: _Answer) -> tuple[Cause, str] | None:
    """What differs first in the turns of an episode."""
    turns = [answer.response.get("turns") or [] for answer in (a, b)]
    for number, (mine, other) in enumerate(zip(*turns, strict=False), start=1):
        if any(mine.get(name) != other.get(name) for name in ("answer", "reasoning", "tool_calls")):
            return "token_not_known", f"turn {number}"
        if mine.get("tool_outputs") != other.get("tool_outputs"):
            return "tools", f"turn {number}"
    if len(turns[0]) != len(turns[1]):
        return "truncation", f"{len(turns[0])} and {len(turns[1])} turns: {a.status} → {b.status}"
    return None


def _is_cut_short(a: _Answer, b: _Answer) -> bool:
    """Whether one answer is the beginning of the other, cut at a limit or in a loop."""
    short, long = sorted((a, b), key=lambda answer: len(answer.text))
    return short.status in _CUT and long.text.startswith(short.text)


def _where_texts_part(a: str, b: str) -> str:
    shared = equal_at_start(a, b)
    pieces = [_shown(text[shared : shared + 20] or "the end") for text in (a, b)]
    return f"character {shared + 1}: {pieces[0]} or {pieces[1]}"


def _row_labels(a: _Answer, b: _Answer) -> Iterator[str]:
    if a.status != b.status:
        yield f"{a.status} → {b.status}"
    names = [answer.telemetry.get("model_fingerprint") for answer in (a, b)]
    if names[0] != names[1]:
        yield "fingerprint"


def _slot(verdict: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(verdict.get(name) for name in ("judge", "slot", "draw"))


def _verdict(verdict: Mapping[str, Any]) -> Any:
    """What a metric may read of a verdict."""
    return next(
        (verdict[name] for name in ("score", "parsed", "answer") if verdict.get(name) is not None),
        verdict.get("status"),
    )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _shown(value: Any) -> str:
    text = "nothing" if value is None else value if isinstance(value, str) else canonical_text(value)
    return one_line(text, _SHOWN)
