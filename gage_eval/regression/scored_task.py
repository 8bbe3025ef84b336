"""A task of a run or of a baseline with its numbers, and the stored runs that are identical with it."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gage_eval.base.errors import GageError
from gage_eval.base.stages import Stage
from gage_eval.regression.definitions import Definition, definition, differences, spec_of
from gage_eval.regression.row_scores import RowScores, row_scores
from gage_eval.runs.options import Locations
from gage_eval.runs.record import ProbeRecord, StageRecord
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.runs.results.stored import completed_runs
from gage_eval.scoring.metrics.grouping import Grouping, grouping

# So many identical runs tell the noise floor, of so many stored runs that are looked at, the newest.
_ENOUGH, _MOST_RUNS = 4, 100


@dataclass(frozen=True)
class ScoredTask:
    """A task of a run or of a baseline.

    Attributes:
        name: of the run.
        reader: its rows.
        stages: its stages by name, with their keys.
        probe: what `gage probe` knew of its model when it was asked; None where nothing was measured.
    """

    name: str
    reader: TaskReader
    stages: Mapping[Stage, StageRecord]
    probe: ProbeRecord | None = None
    _scores: dict[Measure, RowScores] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_run(cls, run: RunReader, task_id: str) -> "ScoredTask":
        """A task of a stored run.

        Raises:
            InputError: the run has no such task, or has not scored it.
        """
        reader = run.task(task_id)
        if not reader.metrics:
            raise run.stored.unfinished(task_id, "auto_eval")
        return cls(run.run_id, reader, run.stored.stages_of(task_id), run.stored.record.probe_of(task_id))

    def definition(self, metric_id: str) -> Definition:
        """What determined its score."""
        return definition(self.reader.store, self.stages, metric_id)

    @property
    def part(self) -> str | None:
        """How its samples were chosen, of those that it could have asked: ``quick`` or ``look``; None for all."""
        return next((name for name in ("quick", "look") if name in self._prepared), None)

    @property
    def look(self) -> int:
        """The rows of its last look; it has stopped early."""
        return int(self._prepared["look"])

    @cached_property
    def _prepared(self) -> Mapping[str, Any]:
        record = self.stages.get("preprocess")
        spec = None if record is None else spec_of(self.reader.store, "preprocess", record)
        return spec if isinstance(spec, dict) else {}

    def grouping(self, metric_id: str) -> Grouping:
        """The metric's fields of clusters, weights and slices when the task was scored."""
        how = self._aggregation(metric_id)
        return grouping(
            metric_id,
            cluster_field=how.get("cluster"),
            weight_field=how.get("weight"),
            slices=how.get("slices", ()),
        )

    def is_repeat_of(self, other: "ScoredTask") -> bool:
        """Whether it asked the same model the same once more, and was scored alike."""
        mine, others = (task.definition(task.reader.measures[0].metric_id) for task in (self, other))
        if any(not difference.path.endswith("config.freshness") for difference in differences(mine, others)):
            return False
        return self.reader.artifact("response_telemetry").id != other.reader.artifact("response_telemetry").id

    def has_answers_of(self, other: "ScoredTask") -> bool:
        """Whether both have the same answers of the store, so that one of them asked no model."""
        mine, others = (task.stages.get("infer") for task in (self, other))
        return mine is not None and others is not None and (mine.key, mine.outputs) == (others.key, others.outputs)

    def scores(self, measure: Measure) -> RowScores:
        """One number of every sample. It is read only once."""
        if measure not in self._scores:
            params = self._aggregation(measure.metric_id).get("params")
            self._scores[measure] = row_scores(self.reader, measure, self.grouping(measure.metric_id), params)
        return self._scores[measure]

    def _aggregation(self, metric_id: str) -> Mapping[str, Any]:
        """How the metric was aggregated when the task was scored; empty where nothing is known."""
        metrics = spec_of(self.reader.store, "auto_eval", self.stages["auto_eval"]) or ()
        return next((metric["identity"]["aggregation"] for metric in metrics if metric["metric_id"] == metric_id), {})


def identical_runs(
    tasks: Mapping[str, ScoredTask], suite: str, locations: Locations, *, but: Collection[str]
) -> dict[str, list[ScoredTask]]:
    """Stored runs that asked the same model the same, and were scored alike: the newest of each task.

    Args:
        tasks: by id.
        suite: the name of their config or suite.
        locations: where runs are stored.
        but: runs that do not count.
    """
    alike: dict[str, list[ScoredTask]] = {name: [] for name in tasks}
    for stored in completed_runs(locations, suite, _MOST_RUNS):
        wanted = [name for name, others in alike.items() if len(others) < _ENOUGH]
        if not wanted:
            break
        with suppress(GageError):
            record = stored.record
            if stored.run_id in but or record.rescored:
                continue
            # Data, prompts and parameters are in this key, which is known without a look at the store.
            keys = {name: record.by_stage.get((name, "preprocess")) for name in wanted}
            same = [name for name, key in keys.items() if key and key.key == tasks[name].stages["preprocess"].key]
            if not same:
                continue
            run = RunReader.open(locations, stored.run_id)
            for name in same:
                other = ScoredTask.of_run(run, name)
                if all(other.is_repeat_of(known) for known in (tasks[name], *alike[name])):
                    alike[name].append(other)
    return alike
