"""What the gate could find, before a run: from the variances that baselines and earlier runs have stored."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gage_eval.base.errors import GageError, InputError
from gage_eval.pipeline.specs import Plan, TaskPlan
from gage_eval.regression.baselines import BaselineEntry, Baselines
from gage_eval.regression.compare import noise_floor
from gage_eval.regression.policy import GatePolicy, Tier, declared_numbers
from gage_eval.regression.scored_task import ScoredTask, identical_runs
from gage_eval.runs.options import Locations
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.stored import completed_runs
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.planned import LEAST_ROWS, POWER, RowSpread, planned_loss, planned_rows
from gage_eval.store import Store

# A point: so large a part of the range of values.
_POINT = 0.01
# So many baselines of a suite are looked at, and so many runs for one that can stand for a baseline.
_MOST_BASELINES, _MOST_RUNS = 5, 200


@dataclass(frozen=True)
class NumberPower:
    """What the gate could find of one number.

    Attributes:
        task_id, metric: which number.
        against: what its variance is known from, as ``baseline main (5 repeats)``.
        rows: that are planned, of those that the baseline has.
        rule: tolerance, level and mode of the gate.
        spread: how rows vary; None where nothing shows it.
        family: numbers that are decided together.
        tier: of a policy; None without one.
    """

    task_id: str
    metric: str
    against: str
    rows: int
    rule: GateRule
    spread: RowSpread | None
    family: int = 1
    tier: Tier | None = None

    @cached_property
    def loss(self) -> float | None:
        """The smallest loss that is found with a chance of 80 %; None where none is, or it is not known."""
        if self.spread is None or self.rule.mode == "exact":
            return None
        return planned_loss(self.spread, self.rows, self.rule, family=self.family)

    def rows_for(self, loss: float, rule: GateRule | None = None) -> int | None:
        """The rows on which a loss is found with a chance of 80 %; None where no number is enough."""
        return None if self.spread is None else planned_rows(loss, self.spread, rule or self.rule, family=self.family)

    @property
    def point(self) -> float | None:
        """A hundredth of the range of values; None without a range."""
        return None if self.spread is None or self.spread.width is None else _POINT * self.spread.width

    @cached_property
    def rows_for_point(self) -> int | None:
        """The rows on which a gate that tolerates nothing finds a loss of one point."""
        if self.point is None:
            return None
        return self.rows_for(self.point, self.rule.model_copy(update={"tolerance": 0.0}))

    @property
    def sentence(self) -> str:
        """All of it."""
        name = f"{self.task_id} {self.metric}"
        if self.rule.mode == "exact":
            return f"{name}: any changed answer among {self.rows:,} rows is found, on an engine that is exact"
        if self.spread is None:
            return f"{name}: {self.against} does not show how rows vary, so what the gate could find is not known"
        if self.rows < LEAST_ROWS:
            said = f"{self.rows:,} rows are too few to say what the gate could find"
        elif self.loss is None:
            said = f"on {self.rows:,} rows the gate finds no loss with a chance of {100 * POWER:.0f} %"
        else:
            said = (
                f"a loss of {self.loss:.3g} or more is found with a chance of {100 * POWER:.0f} % on {self.rows:,} rows"
            )
        if self.rows_for_point is not None:
            said += f"; a loss of {self.point:g} takes {self.rows_for_point:,} rows and a tolerance of 0"
        return f"{name}: {said} (by {self.against})"

    def shortfall(self, loss: float) -> str | None:
        """Why a loss is not found with a chance of 80 %, and what would help; None where it is, or is not known."""
        if self.rule.mode == "exact" or self.spread is None or (self.loss is not None and self.loss <= loss):
            return None
        name = f"{self.task_id} {self.metric}"
        if loss <= self.rule.tolerance:
            return (
                f"{name}: the tolerance of {self.rule.tolerance:g} accepts a loss of {loss:g}; set a smaller tolerance"
            )
        needed = self.rows_for(loss)
        if needed is None:
            return f"{name}: no number of rows finds a loss of {loss:g}, because whole runs differ by more"
        return f"{name}: a loss of {loss:g} takes {needed:,} rows, and {self.rows:,} are planned"

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "task_id": self.task_id,
            "metric": self.metric,
            "against": self.against,
            "rows": self.rows,
            "detectable_loss": self.loss,
            "point": self.point,
            "rows_for_point": self.rows_for_point,
            "tolerance": self.rule.tolerance,
            "alpha": self.rule.alpha,
        }


def plan_power(plan: Plan, store: Store, locations: Locations) -> list[NumberPower]:
    """What the gate could find in a run of a plan: against each baseline of its name, else by its newest run.

    Raises:
        InputError: a baseline is damaged, or its policy does not fit.
    """
    baselines = Baselines(store)
    names = [name for suite, name in baselines.names() if suite == plan.name]
    entries = sorted((baselines.latest(plan.name, name) for name in names), key=lambda entry: entry.created)
    if entries:
        return [power for entry in entries[-_MOST_BASELINES:] for power in entry_power(plan, store, entry, locations)]
    return newest_power(plan, locations)


def newest_power(
    plan: Plan, locations: Locations, rule: GateRule | None = None, policy: GatePolicy | None = None
) -> list[NumberPower]:
    """What the gate could find in a run of a plan, if the newest run of its name were the baseline; empty without one.

    Args:
        plan, rule, policy: as for `entry_power`.
        locations: where runs are stored.

    Raises:
        InputError: the policy does not fit.
    """
    run = _newest(plan, locations)
    if run is None:
        return []
    alone = {name: ScoredTask.of_run(run, name) for name in run.task_ids}
    tasks, runs = _with_identical(alone, plan.name, locations, run.run_id)
    return _powers(
        plan,
        tasks,
        f"run {run.run_id} {runs or 'alone, as if another run were independent of it'}",
        rule or GateRule(),
        policy,
    )


def entry_power(
    plan: Plan,
    store: Store,
    entry: BaselineEntry,
    locations: Locations,
    rule: GateRule | None = None,
    policy: GatePolicy | None = None,
) -> list[NumberPower]:
    """What the gate could find in a run of a plan, against an entry of a baseline.

    Args:
        plan: of the run.
        store: where the baseline is.
        entry: the baseline.
        locations: where runs are stored, of which identical ones count as repeats of a baseline without any.
        rule: tolerance, level and mode.
        policy: which numbers decide; that of the baseline by default.

    Raises:
        InputError: the baseline is damaged, or the policy does not fit.
    """
    tasks: Mapping[str, Sequence[ScoredTask]] = {name: entry.tasks(store, name) for name in entry.runs[0].tasks}
    repeats = f"{len(entry.runs)} repeats"
    if len(entry.runs) == 1:
        alone = {name: runs[0] for name, runs in tasks.items()}
        tasks, runs = _with_identical(alone, plan.name, locations, entry.runs[0].run_id)
        repeats = f"one run {runs}" if runs else "one run, as if another one were independent of it"
    return _powers(plan, tasks, f"baseline {entry.name} ({repeats})", rule or GateRule(), policy or entry.policy)


def _with_identical(
    alone: Mapping[str, ScoredTask], suite: str, locations: Locations, run_id: str
) -> tuple[dict[str, list[ScoredTask]], str]:
    """The tasks of a run with those of identical runs, and ``and 2 identical ones``; empty without any."""
    alike = identical_runs(alone, suite, locations, but=(run_id,))
    most = max(map(len, alike.values()), default=0)
    return {name: [task, *alike[name]] for name, task in alone.items()}, f"and {most} identical" if most else ""


def _newest(plan: Plan, locations: Locations) -> RunReader | None:
    for stored in completed_runs(locations, plan.name, _MOST_RUNS):
        with suppress(GageError):
            if not stored.record.subset:
                run = RunReader.open(locations, stored.run_id)
                if all(run.task(name).metrics for name in run.task_ids):
                    return run
    return None


def _powers(
    plan: Plan,
    tasks: Mapping[str, Sequence[ScoredTask]],
    against: str,
    rule: GateRule,
    policy: GatePolicy | None,
) -> list[NumberPower]:
    numbers = declared_numbers(policy, rule, list(tasks), lambda name, of: tasks[name][0].reader.number(of))
    planned = {task.task_id: task for task in plan.tasks}
    powers = []
    for number in numbers:
        task = planned.get(number.task_id)
        measure = tasks[number.task_id][0].reader.number(number.metric)
        # A task that may stop early has its own rule, and a number without a better end no gate.
        if task is None or task.stop is not None or measure.scale.higher_is_better is None:
            continue
        rows, spread = _spread(tasks[number.task_id], measure)
        family = sum(other.tier == number.tier for other in numbers)
        powers.append(
            NumberPower(
                number.task_id,
                measure.name,
                against,
                min([rows, *_limits(task)]),
                number.rule,
                spread,
                family,
                number.tier,
            )
        )
    return powers


def _limits(task: TaskPlan) -> list[int]:
    chosen, drawn = task.preprocess.sample_ids, task.preprocess.quick
    limits = (task.load.limit, None if drawn is None else drawn.size, len(chosen) if chosen else None)
    return [limit for limit in limits if limit is not None]


def _spread(tasks: Sequence[ScoredTask], measure: Measure) -> tuple[int, RowSpread | None]:
    """The rows of a number, and how the difference of two runs varies; None where nothing shows it."""
    row = tasks[0].reader.number_row(measure)
    rows = int(row["n"])
    width, count = measure.scale.width, len(tasks)
    binary = measure.scale.binary and row["rows"] == row["n"]
    with suppress(InputError):
        floor = noise_floor(tasks, measure.name)
        if floor is not None and floor.spread is not None:
            return rows, floor.spread
    if row["stderr"] is None:
        return rows, None
    return rows, RowSpread(2 * rows * row["stderr"] ** 2, width, binary, repeats=count)
