"""A task of a run with its index."""

from dataclasses import dataclass

from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.viewer.index import IndexedMeasure
from gage_eval.viewer.listing import Listing


@dataclass(frozen=True)
class OpenTask:
    """A task of a run with its index."""

    run: RunReader
    task: TaskReader
    listing: Listing
    measure: IndexedMeasure | None

    @property
    def outcome_measure(self) -> Measure | None:
        """The measure as the reader knows it."""
        return None if self.measure is None else self.task.measure(self.measure.name)
