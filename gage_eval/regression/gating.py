"""A run against a baseline: the comparison of every task, and the gate's verdict on them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.observability.events import GateDecided
from gage_eval.regression.baselines import BaselineEntry, Baselines
from gage_eval.regression.compare import ScoredTask, TaskComparison
from gage_eval.regression.looks import with_looks
from gage_eval.runs.results.reading import RunReader
from gage_eval.stats.sequential import Alarm, alarm
from gage_eval.stats.verdicts import GateRule, MetricVerdict, Verdict, decide, suite_verdict


@dataclass(frozen=True)
class TaskGate:
    """One declared metric.

    Attributes:
        comparison: the rows.
        decision: the verdict.
        alarm: the sequential alarm.
        allowed: which of data, prompts and scorer differ and were allowed to.
    """

    comparison: TaskComparison
    decision: MetricVerdict
    alarm: Alarm
    allowed: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know in addition to the numbers, in sentences."""
        allowed = (f"NOT THE SAME {kind}, as allowed" for kind in self.allowed)
        return (*allowed, *self.decision.notes, *self._deciding_rows())

    def _deciding_rows(self) -> Iterator[str]:
        needed, here = self.decision.rows_needed, self.comparison.pairing.samples
        if needed is not None:
            undecidable = f", and there are {here:,}: it cannot be decided with this data set"
            yield f"about {needed:,} rows would decide{undecidable if needed > here else ''}"

    @property
    def alarm_remark(self) -> str:
        """What the sequential alarm says, in one sentence."""
        if self.alarm.rings:
            return "the sequential alarm rings: significant even after correcting for 365 nightly looks"
        if self.alarm.withheld is not None:
            return f"the sequential alarm is withheld: {self.alarm.withheld}"
        return f"the sequential alarm is quiet: it rings at a loss with p ≤ {self.alarm.level:.2g} from row noise alone"

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        numbers, task = self.decision.evidence, self.comparison
        known = numbers.difference is not None and numbers.test != "none"
        return {
            "task_id": task.task_id,
            "metric": task.measure.name,
            "verdict": self.decision.verdict,
            "baseline_score": numbers.baseline,
            "current_score": numbers.current,
            "delta": numbers.delta,
            "regressed": self.decision.verdict == "regressed",
            "details": {
                "n": numbers.n,
                "test": numbers.test,
                "better_by": numbers.difference,
                "low": numbers.low if known else None,
                "high": numbers.high if known else None,
                "p_worse": self.decision.p_worse,
                "p_better": self.decision.p_better,
                "detectable_loss": self.decision.detectable,
                "rows_needed": self.decision.rows_needed,
                "unpaired": task.pairing.unpaired,
                "worse": task.worse,
                "better": task.better,
                "alarm": {"rings": self.alarm.rings, "level": self.alarm.level, "withheld": self.alarm.withheld},
                "allowed_different": list(self.allowed),
                "notes": list(self.decision.notes),
            },
        }


@dataclass(frozen=True)
class GateResult:
    """The gate's result for a run.

    Attributes:
        run_id: the run.
        entry: the entry of the baseline that it was compared with.
        rule: tolerance and level.
        verdict: on the suite.
        tasks: on each task's declared metric.
        unwatched: tasks of the run that the baseline lacks; with one of them, the verdict is at best inconclusive.
    """

    run_id: str
    entry: BaselineEntry
    rule: GateRule
    verdict: Verdict
    tasks: tuple[TaskGate, ...]
    unwatched: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know of the suite, in sentences."""
        return tuple(
            f"task '{name}' is not in the baseline, so nothing watches it: gage baseline promote {self.entry.name} "
            f"{self.run_id}"
            for name in self.unwatched
        )

    @property
    def metrics(self) -> dict[str, str]:
        """The declared metric of each task."""
        return {task.comparison.task_id: task.comparison.measure.name for task in self.tasks}

    def event(self) -> GateDecided:
        """The answer as an event of the run."""
        names = ("task_id", "metric", "verdict", "baseline_score", "current_score", "delta")
        tasks = [
            {name: record[name] for name in names} | {"allowed_different": list(task.allowed)}
            for task, record in ((task, task.as_record()) for task in self.tasks)
        ]
        return GateDecided(self.entry.name, self.entry.number, self.verdict, tuple(tasks))

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "run": self.run_id,
            "baseline": self.entry.name,
            "entry": self.entry.number,
            "suite": self.entry.suite,
            "rule": self.rule.model_dump(),
            "verdict": self.verdict,
            "regressed": self.verdict == "regressed",
            "unwatched": list(self.unwatched),
            "tasks": [task.as_record() for task in self.tasks],
        }


def gate_with_anchor(
    run: RunReader,
    baseline: str,
    rule: GateRule | None = None,
    *,
    metric: str | None = None,
    allowed: Collection[str] = (),
) -> tuple[GateResult, GateResult | None]:
    """Compare a run with the newest entry of a baseline of its suite, and with the anchor.

    Args:
        run: a scored run.
        baseline: the baseline's name.
        rule, metric, allowed: as for `gate`.

    Returns:
        The result against the newest entry, and that against the anchor; None if the anchor is the newest entry.

    Raises:
        InputError: there is no such baseline, or the run is not comparable with it.
    """
    history = Baselines(run.store).history(run.stored.record.name, baseline, run_id=run.run_id)
    newest = gate(run, history[-1], rule, metric=metric, allowed=allowed)
    anchor = gate(run, history[0], rule, metric=metric, allowed=allowed) if len(history) > 1 else None
    return newest, anchor


def gate(
    run: RunReader,
    entry: BaselineEntry,
    rule: GateRule | None = None,
    *,
    metric: str | None = None,
    allowed: Collection[str] = (),
) -> GateResult:
    """Compare a run with a baseline, and decide.

    Args:
        run: a scored run of the baseline's suite.
        entry: of the baseline.
        rule: tolerance and level.
        metric: the declared number; each task's first by default.
        allowed: which of data, prompts and scorer may differ.

    Raises:
        InputError: the run lacks a task of the baseline, or is not comparable with it.
    """
    rule = rule or GateRule()
    comparisons = [
        TaskComparison(ScoredTask.of_run(run, task_id), entry.tasks(run.store, task_id), metric)
        for task_id in entry.runs[0].tasks
    ]
    for comparison in comparisons:
        if comparison.scale.higher_is_better is None:
            raise InputError(
                f"task '{comparison.task_id}': {comparison.measure.name} does not say which values are better, so "
                "no run can be worse. Name another metric with --metric."
            )
        comparison.check_comparable(allowed)
    decisions = decide(
        {comparison.task_id: comparison.evidence(rule.alpha) for comparison in comparisons},
        rule,
        unpaired={comparison.task_id: comparison.pairing.unpaired_share for comparison in comparisons},
    )
    decisions = with_looks(decisions, {comparison.task_id: comparison for comparison in comparisons}, rule)
    year = run.stored.record.created.year
    tasks = tuple(
        TaskGate(
            comparison,
            decisions[comparison.task_id],
            alarm(decisions[comparison.task_id].evidence, rule, year=year, repeats=len(entry.runs)),
            comparison.allowed_differences(allowed),
        )
        for comparison in comparisons
    )
    unwatched = tuple(name for name in run.task_ids if name not in entry.runs[0].tasks)
    return GateResult(run.run_id, entry, rule, suite_verdict(decisions, unwatched), tasks, unwatched)
