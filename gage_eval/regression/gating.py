"""A run against a baseline: the comparison of every task, and the gate's verdict on them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.observability.events import GateDecided
from gage_eval.regression.baselines import BaselineEntry, Baselines
from gage_eval.regression.compare import TaskComparison, floor_record
from gage_eval.regression.exact import AnswerChanges, Ask, answer_changes
from gage_eval.regression.looks import with_looks
from gage_eval.regression.policy import (
    Declared,
    GatePolicy,
    Tier,
    deciding,
    declared_numbers,
    fails_to_pass,
    policy_verdict,
    regresses,
)
from gage_eval.regression.scored_task import ScoredTask, identical_runs
from gage_eval.report.summary import format_value, p_text, signed_text
from gage_eval.runs.folder import list_runs
from gage_eval.runs.results.reading import RunReader
from gage_eval.stats.evidence import REPEATS_ADVISED
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.sequential import Alarm, alarm
from gage_eval.stats.verdicts import MetricVerdict, Verdict, decide


@dataclass(frozen=True)
class TaskGate:
    """One declared metric.

    Attributes:
        comparison: the rows.
        decision: the verdict.
        alarm: the sequential alarm.
        rule: tolerance, level and mode.
        allowed: which of data, prompts and scorer differ and were allowed to.
        tier: of the policy; None without one.
        changes: the answers that changed, in mode exact.
    """

    comparison: TaskComparison
    decision: MetricVerdict
    alarm: Alarm
    rule: GateRule
    allowed: tuple[str, ...] = ()
    tier: Tier | None = None
    changes: AnswerChanges | None = None

    @property
    def change(self) -> str:
        """What changed, in a few words: ``−0.100``, or in mode exact ``3 of 400 rows changed``."""
        return signed_text(self.decision.evidence.difference) if self.changes is None else self.changes.text

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know in addition to the numbers, in sentences."""
        allowed = (f"NOT THE SAME {kind}, as allowed" for kind in self.allowed)
        floor = [] if (known := self.comparison.noise_floor) is None else [known.text]
        return (
            *allowed,
            *floor,
            *self._reused(),
            *self.decision.notes,
            *self._deciding_rows(),
            *self.comparison.probes,
        )

    def _reused(self) -> Iterator[str]:
        run = self.comparison.current
        same = next((repeat.name for repeat in self.comparison.baseline if run.has_answers_of(repeat)), run.name)
        if same != run.name and self.changes is None:
            yield f"all answers are those of run {same}, from the store; --freshness asks the model again"

    @property
    def all_remarks(self) -> tuple[str, ...]:
        """The remarks, and what the alarm says where it matters."""
        return (*self.remarks, *self.alarm_remarks)

    def cells(self, bound: str) -> tuple[str, ...]:
        """As a row: task, metric, verdict, both scores, difference, its interval or bound, p, samples."""
        numbers = self.decision.evidence
        return (
            self.comparison.task_id,
            self.comparison.measure.name,
            f"{self.decision.verdict} ({self.tier})" if self.tier else self.decision.verdict,
            format_value(numbers.baseline),
            format_value(numbers.current),
            signed_text(numbers.difference),
            bound,
            p_text(self.decision.p) if numbers.test != "none" else "–",
            f"{numbers.n:,}",
        )

    def _deciding_rows(self) -> Iterator[str]:
        needed, here = self.decision.rows_needed, self.comparison.pairing.samples
        if needed is not None:
            undecidable = f", and there are {here:,}: it cannot be decided with this data set"
            yield f"about {needed:,} rows would decide{undecidable if needed > here else ''}"

    @property
    def alarm_remarks(self) -> tuple[str, ...]:
        """What the sequential alarm says, where it rings or the number regressed."""
        return (self.alarm_remark,) if self.alarm.rings or regresses(self.decision) else ()

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
            "tier": self.tier,
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
                "noise_floor": floor_record(task.noise_floor),
                "rows_needed": self.decision.rows_needed,
                "unpaired": task.pairing.unpaired,
                "worse": task.worse,
                "better": task.better,
                **({} if self.changes is None else {"changed": list(self.changes.changed)}),
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
        policy: which numbers decide; None where every task's declared metric does.
    """

    run_id: str
    entry: BaselineEntry
    rule: GateRule
    verdict: Verdict
    tasks: tuple[TaskGate, ...]
    unwatched: tuple[str, ...] = ()
    policy: GatePolicy | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know of the suite, in sentences."""
        return (*self._of_itself(), *self.unwatched_remarks, *self._of_policy())

    def notes(
        self, anchor: "GateResult | None", of_task: Callable[[TaskGate], Iterable[str]] = lambda task: task.all_remarks
    ) -> list[str]:
        """What a reader must know of each task and of the suite, in sentences.

        Args:
            anchor: the result against the first entry of the baseline, where this is another one.
            of_task: the remarks on a task.
        """
        notes = [f"{task.comparison.task_id}: {note}" for task in self.tasks for note in of_task(task)]
        notes += self.remarks
        if anchor is not None and anchor.verdict != self.verdict:
            notes.append(f"Against the anchor (entry {anchor.entry.number}) the verdict is {anchor.verdict}.")
        return notes

    @property
    def unwatched_remarks(self) -> tuple[str, ...]:
        """A sentence for each task that the baseline lacks."""
        return tuple(
            f"task '{name}' is not in the baseline, so nothing watches it: gage baseline promote {self.entry.name} "
            f"{self.run_id}"
            for name in self.unwatched
        )

    def _of_itself(self) -> Iterator[str]:
        if self.run_id in (run.run_id for run in self.entry.runs):
            yield f"run {self.run_id} is one of the baseline's repeats: it is measured against itself"

    def _of_policy(self) -> Iterator[str]:
        if self.policy is None:
            return
        supporting = [task for task in self.tasks if task.tier == "supporting"]
        if supporting:
            worse = sum(regresses(task.decision) for task in supporting)
            yield (
                f"{worse} of {len(supporting)} supporting metrics regressed; {self.policy.supporting_regressions} fail "
                "the run"
            )
        for task in self.tasks:
            if task.tier == "advisory" and regresses(task.decision):
                yield f"{task.comparison.task_id} {task.comparison.measure.name} regressed; it is advisory"
        if self.lacks_evidence:
            yield "the policy asks for evidence, so an inconclusive verdict fails the run"

    @property
    def lacks_evidence(self) -> bool:
        """Whether the run fails because nothing is decided, and the policy asks for evidence."""
        return self.verdict == "inconclusive" and self.policy is not None and self.policy.require_evidence

    @property
    def regressed(self) -> list[TaskGate]:
        """The numbers because of which the run is regressed."""
        return [self.tasks[at] for at in self._deciding(regresses)]

    @property
    def undecided(self) -> list[TaskGate]:
        """The numbers because of which the run has not passed."""
        return [self.tasks[at] for at in self._deciding(fails_to_pass) if not regresses(self.tasks[at].decision)]

    def _deciding(self, counts: Callable[[MetricVerdict], bool]) -> list[int]:
        tiers, verdicts = [task.tier for task in self.tasks], [task.decision for task in self.tasks]
        return deciding(self.policy, tiers, verdicts, counts=counts)

    @property
    def metrics(self) -> dict[str, list[str]]:
        """The declared metrics of each task."""
        names: dict[str, list[str]] = {}
        for task in self.tasks:
            names.setdefault(task.comparison.task_id, []).append(task.comparison.measure.name)
        return names

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
            "policy": self.policy and self.policy.model_dump(mode="json"),
            "tasks": [task.as_record() for task in self.tasks],
        }


def gate_with_anchor(
    run: RunReader,
    baseline: str,
    rule: GateRule | None = None,
    *,
    metric: str | None = None,
    policy: GatePolicy | None = None,
    allowed: Collection[str] = (),
    ask: Ask | None = None,
) -> tuple[GateResult, GateResult | None]:
    """Compare a run with the newest entry of a baseline of its suite, and with the anchor.

    Args:
        run: a scored run.
        baseline: the baseline's name.
        rule, metric, policy, allowed, ask: as for `gate`. The anchor is measured by the policy of the newest entry, and
            by a test where that has mode exact: it is there for losses that add up.

    Returns:
        The result against the newest entry, and that against the anchor; None if the anchor is the newest entry.

    Raises:
        InputError: there is no such baseline, or the run is not comparable with it.
    """
    baselines, suite = Baselines(run.store), run.stored.record.name
    try:
        history = baselines.history(suite, baseline, run_id=run.run_id)
    except InputError:
        if (suite, baseline) in baselines.names() or baseline not in list_runs(run.stored.folder.locations.runs):
            raise
        raise InputError(
            f"'{baseline}' is a run, not a baseline. To compare them: gage compare {baseline} {run.run_id}. To make it "
            f"a baseline: gage baseline set NAME {baseline} --repeats {REPEATS_ADVISED}"
        ) from None
    entry = history[-1]
    alike: Mapping[str, Sequence[ScoredTask]] = {}
    if len(entry.runs) == 1:
        before = {task_id: entry.tasks(run.store, task_id)[0] for task_id in entry.runs[0].tasks}
        but = (run.run_id, entry.runs[0].run_id)
        alike = identical_runs(before, entry.suite, run.stored.folder.locations, but=but)
    newest = gate(run, entry, rule, metric=metric, policy=policy, allowed=allowed, ask=ask, alike=alike)
    if len(history) == 1:
        return newest, None
    return newest, gate(run, history[0], rule, metric=metric, policy=newest.policy, allowed=allowed, exact=False)


def gate(
    run: RunReader,
    entry: BaselineEntry,
    rule: GateRule | None = None,
    *,
    metric: str | None = None,
    policy: GatePolicy | None = None,
    allowed: Collection[str] = (),
    ask: Ask | None = None,
    exact: bool = True,
    alike: Mapping[str, Sequence[ScoredTask]] | None = None,
) -> GateResult:
    """Compare a run with a baseline, and decide.

    Args:
        run: a scored run of the baseline's suite.
        entry: of the baseline.
        rule: tolerance and level.
        metric: the declared number; each task's first by default.
        policy: which numbers decide; that of the baseline by default, unless a metric is named.
        allowed: which of data, prompts and scorer may differ.
        ask: carries out a run, to ask for changed answers again in mode exact.
        exact: False decides by a test where the mode is exact.
        alike: other runs by task that are identical with the baseline.

    Raises:
        ConfigError: the policy does not fit the run; all problems at once.
        InputError: the run lacks a task of the baseline, or is not comparable with it.
    """
    rule = rule or GateRule()
    if policy is None and metric is None:
        policy = entry.policy
    task_ids = list(entry.runs[0].tasks)
    scored = {task_id: ScoredTask.of_run(run, task_id) for task_id in task_ids}
    before = {task_id: entry.tasks(run.store, task_id) for task_id in task_ids}
    numbers = declared_numbers(policy, rule, task_ids, lambda name, of: scored[name].reader.number(of), metric)
    if not exact:
        numbers = [number.with_test for number in numbers]
    others = alike or {}
    comparisons = [
        TaskComparison(scored[x.task_id], before[x.task_id], x.metric, others.get(x.task_id, ())) for x in numbers
    ]
    for number, comparison in zip(numbers, comparisons, strict=True):
        if number.rule.mode != "exact" and comparison.scale.higher_is_better is None:
            raise InputError(
                f"task '{comparison.task_id}': {comparison.measure.name} does not say which values are better, so "
                "no run can be worse. Name another metric with --metric."
            )
        comparison.check_comparable(allowed)
    changes = {
        name: answer_changes(run, scored[name], before[name], ask)
        for name in {number.task_id: None for number in numbers if number.rule.mode == "exact"}
    }
    decisions = _decisions(numbers, comparisons, changes)
    year = run.stored.record.created.year
    tasks = tuple(
        TaskGate(
            comparison,
            decision,
            alarm(decision.evidence, number.rule, year=year, repeats=len(entry.runs)),
            number.rule,
            comparison.allowed_differences(allowed),
            number.tier,
            changes[number.task_id] if number.rule.mode == "exact" else None,
        )
        for number, comparison, decision in zip(numbers, comparisons, decisions, strict=True)
    )
    unwatched = tuple(name for name in run.task_ids if name not in entry.runs[0].tasks)
    verdict = policy_verdict(policy, [number.tier for number in numbers], decisions, unwatched)
    return GateResult(run.run_id, entry, rule, verdict, tasks, unwatched, policy)


def _decisions(
    numbers: Sequence[Declared], comparisons: Sequence[TaskComparison], changes: Mapping[str, AnswerChanges]
) -> list[MetricVerdict]:
    """The verdict on each number. The numbers of a tier that are tested are a family of Holm's method."""
    decided: dict[int, MetricVerdict] = {}
    for family in _families(numbers):
        verdicts = decide(
            {str(at): comparisons[at].evidence(numbers[at].rule.alpha) for at in family},
            unpaired={str(at): comparisons[at].pairing.unpaired_share for at in family},
            rules={str(at): numbers[at].rule for at in family},
            spreads={str(at): spread for at in family if (spread := comparisons[at].spread) is not None},
        )
        for at in family:
            if numbers[at].rule.mode == "exact":
                decided[at] = changes[numbers[at].task_id].decide(verdicts[str(at)])
            else:
                decided[at] = with_looks(verdicts[str(at)], comparisons[at], numbers[at].rule, len(family))
    return [decided[at] for at in range(len(numbers))]


def _families(numbers: Sequence[Declared]) -> list[list[int]]:
    """Positions of the numbers that are decided together."""
    families: dict[tuple[Tier | None, int | None], list[int]] = {}
    for at, number in enumerate(numbers):
        families.setdefault((number.tier, at if number.rule.mode == "exact" else None), []).append(at)
    return list(families.values())
