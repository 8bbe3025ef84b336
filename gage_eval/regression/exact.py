"""The gate's mode ``exact``: which answers of a run are not those of the baseline. A diff, and not a statistic.

An answer has changed if its content hash is another one. Only on an engine that repeats its answers is that a finding
about the model: so `gage probe` must have found the engines of both runs exact before they were asked, the repeats of
the baseline must have the same answers, and each changed answer must come again when it is asked again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow.compute as pc

from gage_eval.base.canonical import digest
from gage_eval.base.errors import GageError, InputError
from gage_eval.base.statuses import UNANSWERED
from gage_eval.regression.again import options_again
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.runs.options import RunOptions
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.rows import read_part
from gage_eval.stats.verdicts import MetricVerdict, Verdict

Ask: TypeAlias = Callable[[RunOptions], RunReader]
"""Carries out a run."""

# What a model gave. Likelihoods are in the log-probabilities; those of an answer's tokens do not make another answer.
_CONTENT = ("status", "answer", "reasoning", "tool_calls", "artifacts")
_OF_ROW, _WHERE_PRESENT = ("sample_id", "replicate"), ("logprobs", "turns")
_OF_TURN = ("actor", "answer", "reasoning", "tool_calls", "tool_outputs")
_LIKELIHOODS = '{"choices"'
_NAMED = 10


@dataclass(frozen=True)
class AnswerChanges:
    """Which answers of a task changed.

    Attributes:
        samples: that both the run and the baseline have answers to.
        changed: those with another content hash, in the order of the run.
        missing: samples that only one of both has answers to.
        not_asked: samples whose answers the run took from the store.
        doubts: why the engine is not known to be exact, in sentences.
    """

    samples: int
    changed: tuple[str, ...]
    missing: int = 0
    not_asked: int = 0
    doubts: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """``regressed`` if answers changed on an exact engine; ``passed`` only if all were asked and are there."""
        if self.doubts:
            return "inconclusive"
        if self.changed:
            return "regressed"
        return "inconclusive" if self.missing or self.not_asked or not self.samples else "passed"

    @property
    def text(self) -> str:
        """``2 of 14,042 rows changed``."""
        return f"{len(self.changed):,} of {self.samples:,} rows changed"

    @property
    def notes(self) -> tuple[str, ...]:
        """All of it, in sentences."""
        more = f" and {len(self.changed) - _NAMED:,} more" if len(self.changed) > _NAMED else ""
        named = f": {', '.join(self.changed[:_NAMED])}{more}" if self.changed else ""
        return (self.text + named, *self.doubts, *self._gaps())

    def _gaps(self) -> Iterator[str]:
        if self.missing:
            yield f"{self.missing:,} rows have an answer in one of the runs only"
        if self.not_asked:
            yield (
                f"{self.not_asked:,} answers were taken from the store, so nothing was asked: run it with --freshness"
            )

    def decide(self, decision: MetricVerdict) -> MetricVerdict:
        """The verdict on a number of the task, in place of that of a test."""
        none = replace(
            decision.evidence, test="none", p_worse=1.0, p_better=1.0, p=1.0, row_p_worse=1.0, too_skewed=None
        )
        return MetricVerdict(none, self.verdict, self.verdict == "passed", p_worse=1, p_better=1, notes=self.notes)


def answer_changes(run: RunReader, task: ScoredTask, baseline: Sequence[ScoredTask], ask: Ask | None) -> AnswerChanges:
    """Find the answers that changed; where the engine is said to be exact, ask for each of them again.

    Args:
        run: the run.
        task: its task.
        baseline: the task in each repeat of the baseline.
        ask: carries out a run; without it nothing is asked, so that changed answers are in doubt.

    Raises:
        InputError: a run stopped early, so that the rows are not those of the baseline.
    """
    for scored in (*baseline, task):
        if scored.part == "look":
            raise InputError(
                f"task '{task.reader.task_id}' of {scored.name} stopped early (stop_when), and mode exact compares all "
                "rows. Leave out stop_when, or gate with mode significance."
            )
    now, (before, *repeats) = _digests(task), [_digests(repeat) for repeat in baseline]
    unlike = {name for other in repeats for name in before.keys() & other.keys() if before[name] != other[name]}
    shared = [name for name in now if name in before]
    changes = AnswerChanges(
        len(shared),
        tuple(name for name in shared if now[name] != before[name]),
        len(now) - len(shared) + (0 if task.part == "quick" else len(before.keys() - now.keys())),
        _not_asked(task, baseline),
        tuple(_doubts(task, baseline, len(unlike))),
    )
    if changes.changed and not changes.doubts:
        doubts = tuple(_asked_again(run, task, {name: now[name] for name in changes.changed}, ask))
        changes = replace(changes, doubts=doubts)
    return changes


def _doubts(task: ScoredTask, baseline: Sequence[ScoredTask], unlike: int) -> Iterator[str]:
    for scored in (*baseline, task):
        if scored.probe is None:
            yield (
                f"nothing shows that the engine of run {scored.name} is exact: probe it (gage probe), then run it again"
            )
        elif scored.probe.verdict != "exact":
            yield f"this engine is not exact, by the probe before run {scored.name}"
    if unlike:
        yield f"this engine is not exact: the repeats of the baseline differ in {unlike:,} rows"


def _asked_again(run: RunReader, task: ScoredTask, changed: Mapping[str, str], ask: Ask | None) -> Iterator[str]:
    """Why changed answers may be chance: they do not come again."""
    if ask is None:
        yield "the changed rows were not asked again"
        return
    why = f"{datetime.now(UTC).isoformat()} gate of {task.name}"
    task_id = task.reader.task_id
    try:
        again = _digests(ScoredTask.of_run(ask(options_again(run, task_id, list(changed), why)), task_id))
    except GageError as error:
        yield f"the changed rows could not be asked again: {error}"
        return
    unanswered = len(changed.keys() - again.keys())
    others = sum(again.get(name, hash_) != hash_ for name, hash_ in changed.items())
    if unanswered:
        yield f"{unanswered:,} of {len(changed):,} changed rows got no answer when they were asked again"
    if others:
        yield f"this engine is not exact: asked again, {others:,} of {len(changed):,} changed rows have another answer"


def _digests(task: ScoredTask) -> dict[str, str]:
    """The content hash of each sample's answers, of all its replicates; without samples that lack an answer."""
    hashes: dict[str, list[str]] = {}
    unanswered = set()
    responses = task.reader.artifact("responses")
    # A run of an earlier version lacks the newer ones.
    columns = [name for name in (*_OF_ROW, *_CONTENT, *_WHERE_PRESENT) if name in responses.schema.arrow.names]
    for part in task.reader.parts:
        for row in read_part(responses, part, columns).to_pylist():
            name = row["sample_id"]
            if row["status"] in UNANSWERED:
                unanswered.add(name)
            hashes.setdefault(name, []).append(digest(_content(row)))
    return {name: digest([*sorted(parts)]) for name, parts in hashes.items() if name not in unanswered}


def _content(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a model gave, of a row of `tables.RESPONSES`."""
    content = {name: row.get(name) for name in _CONTENT} | {"replicate": row["replicate"]}
    if (logprobs := row.get("logprobs")) is not None and logprobs.startswith(_LIKELIHOODS):
        content["logprobs"] = logprobs
    if turns := row.get("turns"):
        content["turns"] = [{name: turn.get(name) for name in _OF_TURN} for turn in turns]
    return content


def _not_asked(task: ScoredTask, baseline: Sequence[ScoredTask]) -> int:
    """Samples whose answers are those of the baseline itself, or of another run."""
    telemetry = task.reader.artifact("response_telemetry")
    if any(repeat.reader.artifact("response_telemetry").id == telemetry.id for repeat in baseline):
        return len(_digests(task))
    table = telemetry.table(columns=["sample_id", "source"])
    return len(table.filter(pc.equal(table["source"], "reused"))["sample_id"].unique())
