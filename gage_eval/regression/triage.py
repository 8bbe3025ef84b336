"""Triage of a regression: is it there again, what differs, and which samples show it?

The samples that became worse are asked again several times. They were chosen for their bad luck, so even without a
change they do not score as in the baseline: the baseline's repeats and the night itself predict what they score.

confirmed      they score less than that, one-sided at the gate's level
gone again     they do not, and chance does not explain the night's loss: it has passed, or is thin over all samples
chance         they do not, and chance explains the night's loss
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from gage_eval.base.errors import GageError, InputError
from gage_eval.regression.again import options_again
from gage_eval.regression.baselines import BaselineEntry
from gage_eval.regression.compare import TaskComparison
from gage_eval.regression.definitions import Difference
from gage_eval.regression.exact import Ask
from gage_eval.regression.gating import GateResult, TaskGate, gate
from gage_eval.regression.policy import GatePolicy
from gage_eval.regression.run_diff import run_differences
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.regression.why import TaskWhy, why
from gage_eval.report.details import SliceChange
from gage_eval.runs.results.explain import ExplainedAnswer, explain
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.stats.evidence import Evidence, evidence
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.repeats import expected_next

Outcome: TypeAlias = Literal["confirmed", "gone again", "chance"]

# What differs most often explains a change of scores, the likeliest first.
_LIKELIEST = ("model", "engine", "sampling", "prompts", "data", "scorer", "environment")
# Differences that every two nights have.
_OF_EVERY_NIGHT = ("freshness", "host", "name")
_CARDS = 5
_SLICES = 5


@dataclass(frozen=True)
class Card:
    """A sample that became worse: its answers then and now."""

    before: ExplainedAnswer | None
    now: ExplainedAnswer


@dataclass(frozen=True)
class TriagedTask:
    """A task that regressed.

    Attributes:
        gated: the verdict.
        retried: how many of its worse samples were asked again.
        again: their new answers against what the runs before predict of them; None if they could not be asked.
        outcome: what that says; None for fewer than 5 samples.
        problem: why they could not be asked again.
        slices: those that lost more than the other samples, beyond chance.
        cards: samples to look at.
    """

    gated: TaskGate
    retried: int
    again: Evidence | None
    outcome: Outcome | None
    problem: str | None
    slices: tuple[SliceChange, ...]
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Triage:
    """What was found.

    Attributes:
        gated: the gate's answer.
        repeats: how often each worse sample was asked again.
        tasks: those that regressed.
        differences: what differs between the baseline's run and this one, the likeliest cause first.
        problem: why the differences are not known.
        moved: the first thing that differs behind each score of those tasks that moved.
    """

    gated: GateResult
    repeats: int
    tasks: tuple[TriagedTask, ...]
    differences: tuple[Difference, ...]
    problem: str | None
    moved: tuple[TaskWhy, ...] = ()


def triage(
    run: RunReader,
    entry: BaselineEntry,
    rule: GateRule,
    ask: Ask,
    *,
    repeats: int = 5,
    most: int = 200,
    policy: GatePolicy | None = None,
) -> Triage:
    """Look into a regression.

    Args:
        run: the run that regressed.
        entry: of the baseline it was measured against.
        rule: of the gate.
        ask: carries out a run.
        repeats: how often each worse sample is asked again.
        most: ask at most this many samples of each task again, those that lost most.
        policy: which numbers decided; that of the baseline by default.

    Raises:
        InputError: the run does not compare with the baseline.
    """
    # Of answers that changed, those count here that score worse.
    gated = gate(run, entry, rule, policy=policy, exact=False)
    tasks = tuple(_task(run, task, ask, repeats, most) for task in gated.regressed)
    differences: list[Difference] = []
    moved: list[TaskWhy] = []
    problem = None
    try:
        before = RunReader.open(run.stored.folder.locations, entry.runs[0].run_id)
        differences = _differences(before, run)
        for task in gated.regressed:
            compared = task.comparison
            moved += why(before, run, task_id=compared.task_id, metric=compared.measure.name)
    except InputError as error:
        problem = str(error)
    return Triage(gated, repeats, tasks, tuple(differences), problem, tuple(moved))


def _task(run: RunReader, gated: TaskGate, ask: Ask, repeats: int, most: int) -> TriagedTask:
    comparison = gated.comparison
    ids = comparison.worse[:most]
    again, problem = None, None
    try:
        replicates = f"tasks.{comparison.task_id}.replicates={repeats}"
        new = ask(options_again(run, comparison.task_id, ids, f"triage of {run.run_id}", replicates))
        now = ScoredTask.of_run(new, comparison.task_id)
        again = _against_prediction(comparison, TaskComparison(now, comparison.baseline, comparison.measure.name))
    except GageError as error:
        problem = str(error)
    losses = [change for change in comparison.slices if change.stands_out and change.difference < 0]
    cards = _cards(comparison.baseline[0].reader, run.task(comparison.task_id), comparison.measure, ids[:_CARDS])
    outcome = _outcome(gated, again)
    return TriagedTask(gated, len(ids), again, outcome, problem, tuple(losses[:_SLICES]), tuple(cards))


def _against_prediction(before: TaskComparison, again: TaskComparison) -> Evidence:
    """The new answers to the samples against what the baseline's repeats and the night predict of them."""
    rows = before.pairing.rows
    predicted = dict(zip(before.pairing.ids.to_pylist(), expected_next(rows.runs).tolist(), strict=True))
    new = again.pairing
    expected = [predicted[name] for name in new.ids.to_pylist()]
    return evidence(replace(new.rows, baseline=np.array([expected]), binary=False, numbers=None))


def _outcome(gated: TaskGate, again: Evidence | None) -> Outcome | None:
    if again is None or again.bounds is None:
        return None
    if again.p_worse <= gated.rule.alpha:
        return "confirmed"
    excluded = gated.alarm.rings or gated.decision.evidence.p_worse <= gated.alarm.level
    return "gone again" if excluded else "chance"


def _cards(before: TaskReader, now: TaskReader, measure: Measure, ids: Sequence[str]) -> Iterator[Card]:
    for sample_id in ids:
        answers = [_answer(task, measure, sample_id) for task in (before, now)]
        if answers[1] is not None:
            yield Card(answers[0], answers[1])


def _answer(task: TaskReader, measure: Measure, sample_id: str) -> ExplainedAnswer | None:
    row = task.find(sample_id)
    return explain(row, row.responses[0], measure) if row is not None and row.responses else None


def _differences(before: RunReader, run: RunReader) -> list[Difference]:
    by_place: dict[tuple[str, str], Difference] = {}
    for _, difference in run_differences(before, run):
        if not difference.path.endswith(_OF_EVERY_NIGHT):
            by_place.setdefault((difference.kind, difference.path), difference)
    return sorted(by_place.values(), key=lambda difference: _LIKELIEST.index(difference.kind))
