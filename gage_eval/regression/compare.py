"""Two runs on the same samples: what differs between them, and how each task's score changed."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from gage_eval.base.errors import InputError, NotComparable, closest
from gage_eval.regression.controlled import ControlledScore, controlled_score
from gage_eval.regression.corrected import CorrectedChange, corrected_change
from gage_eval.regression.definitions import (
    KINDS,
    WRITTEN_BY_PROMPTS,
    Difference,
    changed_samples,
    differences,
)
from gage_eval.regression.row_scores import Pairing, RowScores, aggregation_of, pair
from gage_eval.regression.scored_task import ScoredTask, identical_runs
from gage_eval.report.details import SliceChange
from gage_eval.runs.results.reading import RunReader
from gage_eval.scoring.metrics.scale import Scale
from gage_eval.stats.evidence import Evidence, evidence, unlike
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.multiple import holm
from gage_eval.stats.planned import RowSpread, detectable_loss
from gage_eval.stats.repeats import flips
from gage_eval.stats.verdicts import MAX_UNPAIRED_SHARE, UNKNOWN_ERROR

_MIN_SLICE = 5
_SLICE_DRAWS = 200  # of the bootstrap, for each of many slices
_ALPHA = 0.05


@dataclass(frozen=True)
class NoiseFloor:
    """What differs between runs of the same model that ask the same (A/A).

    Attributes:
        runs: how many show it.
        rows: that all of them have scored.
        flips: rows that score differently in two of them, on average.
        spread: how the difference of two of them varies.
    """

    runs: int
    rows: int
    flips: float
    spread: RowSpread | None

    @property
    def text(self) -> str:
        """``12.3 of 1,319 rows flip between two identical runs (A/A, 5 runs)``."""
        return f"{self.flips:,.3g} of {self.rows:,} rows flip between two identical runs (A/A, {self.runs} runs)"


def noise_floor(tasks: Sequence[ScoredTask], metric: str | None = None) -> NoiseFloor | None:
    """How much a number of a task moves between identical runs; None for fewer than two, or for other rows."""
    if len(tasks) < 2:
        return None
    comparison = TaskComparison(tasks[-1], tasks[:-1], metric)
    rows = comparison.pairing.rows
    flipped = flips(rows.runs)
    if not rows.n or flipped is None:
        return None
    return NoiseFloor(len(tasks), rows.n, flipped, RowSpread.of(comparison.evidence(_ALPHA), len(tasks)))


def floor_record(floor: NoiseFloor | None) -> dict[str, Any] | None:
    """For JSON."""
    return None if floor is None else {"runs": floor.runs, "rows": floor.rows, "flips": floor.flips}


class TaskComparison:
    """One number of one task in two runs.

    Args:
        current: the run to compare.
        baseline: the run to compare it with, or several repeats of it.
        metric: name of the number as it is printed, the task's first by default.
        identical: other runs that are identical with the baseline.

    Attributes:
        task_id: the task.
        measure: the number.
        current: the run.
        baseline: the run or the repeats to compare with. The scores of each are read only once.

    Raises:
        InputError: the task has no such number, or runs cannot be compared by it.
    """

    def __init__(
        self,
        current: ScoredTask,
        baseline: Sequence[ScoredTask],
        metric: str | None = None,
        identical: Sequence[ScoredTask] = (),
    ) -> None:
        self.task_id = current.reader.task_id
        self.measure = current.reader.number(metric)
        self.current, self.baseline = current, baseline
        self._identical = identical

    @cached_property
    def noise_floor(self) -> NoiseFloor | None:
        """What differs between the repeats of the baseline; None where it has none."""
        try:
            return noise_floor((*self.baseline, *self._identical), self.measure.name)
        except InputError:
            # The baseline has no such number.
            return None

    @property
    def spread(self) -> RowSpread | None:
        """How rows vary between runs of the baseline's model; None where no repeats show it."""
        return None if self.noise_floor is None else self.noise_floor.spread

    @cached_property
    def pairing(self) -> Pairing:
        """The values, sample by sample."""
        # Samples that it was not to ask are not missing.
        part = self.current.part is not None
        return pair(self.current.scores(self.measure), self._scores_before, self.scale, part=part)

    @property
    def _scores_before(self) -> list[RowScores]:
        return [repeat.scores(repeat.reader.number(self.measure.name)) for repeat in self.baseline]

    @property
    def controlled(self) -> ControlledScore | None:
        """The score of the whole benchmark; None where the run did not draw its samples."""
        if self.current.part != "quick" or any(repeat.part for repeat in self.baseline):
            return None
        current = self.current.scores(self.measure)
        return controlled_score(self.measure.name, self.pairing.rows, current, self._scores_before, self.scale)

    @property
    def scale(self) -> Scale:
        """What the number means: of a share of right answers, more is better."""
        return aggregation_of(self.task_id, self.measure).scale_of(self.measure.scale)

    @property
    def probes(self) -> list[str]:
        """Whether the models repeat their answers, in sentences; none where that was not measured before the runs."""
        names: dict[str, list[str]] = {}
        for task in (*self.baseline, self.current):
            if task.probe is not None:
                names.setdefault(task.probe.text, []).append(task.name)
        return [f"{', '.join(runs)}: {text}" for text, runs in names.items()]

    def evidence(self, alpha: float) -> Evidence:
        """Tests and one-sided bounds at a level."""
        return evidence(self.pairing.rows, alpha=alpha)

    @cached_property
    def differences(self) -> list[Difference]:
        """What differs between the definitions."""
        mine = self.current.definition(self.measure.metric_id)
        return differences(self.baseline[0].definition(self.measure.metric_id), mine)

    def check_comparable(self, allowed: Collection[str] = ()) -> None:
        """Check that the two runs are comparable.

        Args:
            allowed: which of data, prompts and scorer may differ.

        Raises:
            InputError: data, prompts or the scorer differ; the message names the field. Or no sample is in both runs,
                or a kind is unknown.
        """
        for kind in allowed:
            if kind not in KINDS:
                raise InputError(f"--allow-different '{kind}' is unknown: {', '.join(KINDS)}.{closest(kind, KINDS)}")
        baseline, current = self.baseline[0].name, self.current.name
        known = [measure.metric_id for measure in self.baseline[0].reader.measures]
        if self.measure.metric_id not in known:
            raise NotComparable(
                f"task '{self.task_id}' is not comparable: metric '{self.measure.metric_id}' of {current} is not in "
                f"{baseline}, which has {', '.join(dict.fromkeys(known))}. Name one of both with --metric."
            )
        for kind in ("prompts", "scorer"):
            different = [difference for difference in self.differences if difference.kind == kind]
            if different and kind not in allowed:
                named = different[0].text.rstrip(".")
                named += f" (and {len(different) - 1} more)" if len(different) > 1 else ""
                raise NotComparable(
                    f"task '{self.task_id}': different {kind} in {current} and {baseline}: {named}. "
                    f"The scores are not comparable. To show them side by side anyway: --allow-different {kind}"
                )
        if "data" not in allowed:
            count, first = self._changed_samples
            if count:
                raise NotComparable(
                    f"task '{self.task_id}': different data in {current} and {baseline}: {count:,} samples of the "
                    f"same id differ, '{first}' among them. The scores are not comparable. To show them side by "
                    "side anyway: --allow-different data"
                )

        if not self.pairing.shared:
            raise NotComparable(
                f"task '{self.task_id}' is not comparable: no sample of {current} is in {baseline}. Name runs on the "
                "same data."
            )

    def allowed_differences(self, allowed: Collection[str]) -> tuple[str, ...]:
        """Which of data, prompts and scorer differ and were allowed to."""
        return tuple(kind for kind in allowed if self._differs(kind))

    def _differs(self, kind: str) -> bool:
        # For data, only the samples count. The same samples may be loaded in different ways.
        if kind == "data":
            return self._changed_samples[0] > 0
        return any(difference.kind == kind for difference in self.differences)

    @cached_property
    def _changed_samples(self) -> tuple[int, str | None]:
        ignored = WRITTEN_BY_PROMPTS if self._differs("prompts") else ()
        return changed_samples(self.baseline[0].reader, self.current.reader, ignored=ignored)

    @cached_property
    def better(self) -> list[str]:
        """Samples whose value became better, the largest change first."""
        return self._moved(1)

    @cached_property
    def worse(self) -> list[str]:
        """Samples whose value became worse, the largest change first."""
        return self._moved(-1)

    @cached_property
    def slices(self) -> list[SliceChange]:
        """The slices, largest change first, without those that have few rows."""
        pairing = self.pairing
        places = {name: positions for name, positions in pairing.slices.items() if len(positions) >= _MIN_SLICE}
        inside = {
            name: evidence(pairing.rows.of_pairs(positions), alpha=0.025, draws=_SLICE_DRAWS)
            for name, positions in places.items()
        }
        rest = {name: np.setdiff1d(np.arange(pairing.rows.n), positions) for name, positions in places.items()}
        p_values = holm(
            {
                name: unlike(numbers, evidence(pairing.rows.of_pairs(rest[name]), draws=_SLICE_DRAWS))
                for name, numbers in inside.items()
            }
        )
        changes = [
            SliceChange(name, numbers.n, numbers.difference or 0.0, numbers.bounds, p_values[name] <= _ALPHA)
            for name, numbers in inside.items()
        ]
        return sorted(changes, key=lambda change: (-abs(change.difference), change.name))

    @property
    def is_unchanged(self) -> bool:
        """Whether there are pairs, and each has the same value in both runs."""
        return self.pairing.rows.n > 0 and not np.any(self.pairing.rows.differences)

    def _moved(self, sign: int) -> list[str]:
        moved = sign * self.pairing.rows.differences
        places = [place for place in np.argsort(-moved, kind="stable").tolist() if moved[place] > 0]
        ids: list[str] = self.pairing.ids.take(pa.array(places, pa.int64())).to_pylist()
        return ids


@dataclass(frozen=True)
class TaskComparisonResult:
    """A task's comparison with its numbers.

    Attributes:
        task: the comparison.
        evidence: tests; low and high are the ends of the two-sided 95 % interval.
        p: two-sided, adjusted by Holm over the tasks.
        detectable: the smallest true loss that a one-sided test finds with a chance of 80 %; None where every sample
            scores the same, so that nothing is known of how scores vary.
        allowed: kinds that differ and were allowed to.
        notes: what else a reader must know.
        corrected: the difference that people's labels give; None without labels.
        controlled: the score of the whole benchmark, where the run drew a part of it at random.
    """

    task: TaskComparison
    evidence: Evidence
    p: float
    detectable: float | None
    allowed: tuple[str, ...]
    notes: tuple[str, ...]
    corrected: CorrectedChange | None = None
    controlled: ControlledScore | None = None

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        numbers, task = self.evidence, self.task
        bounded = numbers.difference is not None and numbers.test != "none"
        return {
            "task_id": task.task_id,
            "metric": task.measure.name,
            "n": numbers.n,
            "baseline": numbers.baseline,
            "current": numbers.current,
            "difference": numbers.difference,
            "ci_low": numbers.low if bounded else None,
            "ci_high": numbers.high if bounded else None,
            "test": numbers.test,
            "p": numbers.p if bounded else None,
            "p_holm": self.p if bounded else None,
            "detectable_loss": self.detectable,
            "noise_floor": floor_record(task.noise_floor),
            "unpaired": task.pairing.unpaired,
            "better": task.better,
            "worse": task.worse,
            "slices": [
                {
                    "slice": x.name,
                    "n": x.n,
                    "difference": x.difference,
                    "ci_low": x.bounds and x.bounds[0],
                    "ci_high": x.bounds and x.bounds[1],
                    "stands_out": x.stands_out,
                }
                for x in task.slices
            ],
            "differences": [vars(x) for x in task.differences],
            "allowed_different": list(self.allowed),
            "notes": list(self.notes),
            **({} if self.corrected is None else self.corrected.as_record()),
            **({} if self.controlled is None else self.controlled.as_record()),
        }


def compare(
    baseline: RunReader,
    current: RunReader,
    *,
    task_id: str | None = None,
    metric: str | None = None,
    allowed: Collection[str] = (),
    rule: GateRule | None = None,
) -> list[TaskComparisonResult]:
    """Compare two runs, task by task.

    Args:
        baseline: the run to compare with. Positive differences mean that ``current`` is better.
        current: the run to compare.
        task_id: only this task.
        metric: name of the number; the first of each task by default.
        allowed: which of data, prompts and scorer may differ.
        rule: tolerance and level of the detectable loss.

    Raises:
        InputError: the runs share no task, or are not comparable.
    """
    names = shared_tasks(baseline, current, task_id)
    before = {name: ScoredTask.of_run(baseline, name) for name in names}
    stored = baseline.stored
    alike = identical_runs(before, stored.record.name, stored.folder.locations, but=(baseline.run_id, current.run_id))
    tasks = [TaskComparison(ScoredTask.of_run(current, x), [before[x]], metric, alike[x]) for x in names]
    for task in tasks:
        task.check_comparable(allowed)
    evidence_by_task = {task.task_id: task.evidence(0.025) for task in tasks}
    adjusted = holm({name: numbers.p for name, numbers in evidence_by_task.items()})
    return [
        TaskComparisonResult(
            task,
            evidence_by_task[task.task_id],
            adjusted[task.task_id],
            detectable_loss(evidence_by_task[task.task_id], rule or GateRule(), task.spread),
            task.allowed_differences(allowed),
            tuple(_notes(task, evidence_by_task[task.task_id])),
            corrected_change(baseline.task(task.task_id), current.task(task.task_id), task.measure),
            task.controlled,
        )
        for task in tasks
    ]


def shared_tasks(baseline: RunReader, current: RunReader, task_id: str | None = None) -> list[str]:
    """The tasks that both runs have, in the current run's order.

    Raises:
        InputError: there is none, or one run lacks the named task.
    """
    if task_id is not None:
        for run in (baseline, current):
            run.task(task_id)
        return [task_id]
    shared = [name for name in current.task_ids if name in baseline.task_ids]
    if not shared:
        raise NotComparable(
            f"runs {baseline.run_id} and {current.run_id} share no task: {', '.join(baseline.task_ids)} and "
            f"{', '.join(current.task_ids)}. Name runs of the same config or suite."
        )
    return shared


def _notes(task: TaskComparison, numbers: Evidence) -> Iterator[str]:
    pairing = task.pairing
    if task.noise_floor is not None:
        yield task.noise_floor.text
    if numbers.difference is not None and numbers.test == "none":
        yield UNKNOWN_ERROR
    if pairing.unpaired:
        share = f"{pairing.unpaired:,} of {pairing.samples:,} samples are in one run only, or scored in one only"
        yield f"{share}: too many for a verdict" if pairing.unpaired_share > MAX_UNPAIRED_SHARE else share
    if task.is_unchanged:
        yield f"all {pairing.rows.n:,} samples in both runs score the same"
    sampling = [difference.text for difference in task.differences if difference.kind == "sampling"]
    if sampling:
        yield f"other sampling: {', '.join(sampling)}"
    yield from task.probes
