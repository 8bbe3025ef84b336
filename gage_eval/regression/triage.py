"""Triage of a regression: is it there again, what differs, and which samples show it?

The samples that became worse are asked again several times. A loss by chance mostly goes away, because these samples
were chosen for their bad luck. A loss that comes from a change stays.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from gage_eval.base.errors import GageError, InputError
from gage_eval.regression.baselines import BaselineEntry
from gage_eval.regression.compare import ScoredTask, SliceChange, TaskComparison
from gage_eval.regression.definitions import Difference
from gage_eval.regression.gate import GateRule
from gage_eval.regression.gating import Gated, GatedTask, gate
from gage_eval.regression.run_diff import run_differences
from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import options_before
from gage_eval.runs.results.explain import ExplainedAnswer, explain
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import RunReader, TaskReader

Fate: TypeAlias = Literal["as bad again", "partly", "as good as the baseline"]
FATES: tuple[Fate, ...] = ("as bad again", "partly", "as good as the baseline")

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
        asked: how many of its worse samples were asked again.
        fates: how many had which fate, by the mean of their new answers.
        problem: why they could not be asked again.
        slices: those that lost most.
        cards: samples to look at.
    """

    gated: GatedTask
    asked: int
    fates: dict[Fate, int]
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
    """

    gated: Gated
    repeats: int
    tasks: tuple[TriagedTask, ...]
    differences: tuple[Difference, ...]
    problem: str | None


def triage(
    run: RunReader,
    entry: BaselineEntry,
    rule: GateRule,
    ask: Callable[[RunOptions], RunReader],
    *,
    repeats: int = 5,
    most: int = 200,
) -> Triage:
    """Look into a regression.

    Args:
        run: the run that regressed.
        entry: of the baseline it was measured against.
        rule: of the gate.
        ask: carries out a run.
        repeats: how often each worse sample is asked again.
        most: ask at most this many samples of each task again, those that lost most.

    Raises:
        InputError: the run does not compare with the baseline.
    """
    gated = gate(run, entry, rule)
    worse = [task for task in gated.tasks if task.judged.verdict == "regressed"]
    tasks = tuple(_task(run, task, ask, repeats, most) for task in worse)
    found: list[Difference] = []
    problem = None
    try:
        found = _differences(RunReader.open(run.stored.folder.locations, entry.runs[0].run_id), run)
    except InputError as error:
        problem = str(error)
    return Triage(gated, repeats, tasks, tuple(found), problem)


def _task(
    run: RunReader,
    gated: GatedTask,
    ask: Callable[[RunOptions], RunReader],
    repeats: int,
    most: int,
) -> TriagedTask:
    comparison = gated.comparison
    ids = comparison.worse[:most]
    fates, problem = dict.fromkeys(FATES, 0), None
    try:
        again = ask(_again(run, comparison.task_id, ids, repeats))
        now = ScoredTask.of_run(again, comparison.task_id)
        fates = _fates(comparison, TaskComparison(now, comparison.baseline, comparison.measure.name))
    except GageError as error:
        problem = str(error)
    losses = [one for one in comparison.slices if one.difference < 0]
    cards = _cards(comparison.baseline[0].reader, run.task(comparison.task_id), comparison.measure, ids[:_CARDS])
    return TriagedTask(gated, len(ids), fates, problem, tuple(losses[:_SLICES]), tuple(cards))


def _again(run: RunReader, task_id: str, ids: Sequence[str], repeats: int) -> RunOptions:
    """The run's own options, for a few samples of one task, asked several times."""
    options = options_before(run.stored)
    return options.model_copy(
        update={
            "run_id": None,
            "task_ids": (task_id,),
            "sample_ids": tuple(ids),
            "overrides": (*options.overrides, f"tasks.{task_id}.replicates={repeats}"),
            # Not the answers of the run itself, and not those of another triage.
            "freshness": f"{options.freshness or ''} triage of {run.run_id}".strip(),
            "resume": False,
            "only_errors": False,
            "refresh": (),
        }
    )


def _fates(first: TaskComparison, again: TaskComparison) -> dict[Fate, int]:
    """How many samples have which fate, by the mean of their new answers."""
    then = _moves(first)
    fates = dict.fromkeys(FATES, 0)
    for sample_id, move in _moves(again).items():
        lost = then.get(sample_id)
        if lost is not None:
            fates["as good as the baseline" if move >= 0 else "as bad again" if move <= lost else "partly"] += 1
    return fates


def _moves(comparison: TaskComparison) -> dict[str, float]:
    pairing = comparison.pairing
    return dict(zip(pairing.ids.to_pylist(), pairing.rows.differences.tolist(), strict=True))


def _cards(before: TaskReader, now: TaskReader, measure: Measure, ids: Sequence[str]) -> Iterator[Card]:
    for sample_id in ids:
        answers = [_answer(task, measure, sample_id) for task in (before, now)]
        if answers[1] is not None:
            yield Card(answers[0], answers[1])


def _answer(task: TaskReader, measure: Measure, sample_id: str) -> ExplainedAnswer | None:
    row = task.find(sample_id)
    return explain(row, row.responses[0], measure) if row is not None and row.responses else None


def _differences(before: RunReader, run: RunReader) -> list[Difference]:
    found: dict[tuple[str, str], Difference] = {}
    for _, one in run_differences(before, run):
        if not one.path.endswith(_OF_EVERY_NIGHT):
            found.setdefault((one.kind, one.path), one)
    return sorted(found.values(), key=_likelihood)


def _likelihood(one: Difference) -> Any:
    return _LIKELIEST.index(one.kind) if one.kind in _LIKELIEST else len(_LIKELIEST)
