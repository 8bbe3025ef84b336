"""A task of a run with its index."""

from dataclasses import dataclass
from typing import Any

from gage_eval.report.sample_view import SampleView
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.runs.results.sample_view import sample_view
from gage_eval.viewer.index import IndexedMeasure
from gage_eval.viewer.listing import Listing, ListState


@dataclass(frozen=True)
class OpenTask:
    """A task of a run with its index."""

    run: RunReader
    task: TaskReader
    listing: Listing
    measure: IndexedMeasure | None

    def answer(self, sample_id: str, replicate: int, state: ListState) -> tuple[SampleView, dict[str, Any]] | None:
        """An answer, and its row in a list; None if there is none."""
        location = self.listing.find(sample_id, replicate)
        if location is None:
            return None
        row = next(self.task.rows_of_part(location["part"], [location["row_index"]]))
        line = self.listing.at([location["pos"]], state)[0]
        measure = None if self.measure is None else self.task.measure(self.measure.name)
        view = sample_view(self.task, row, replicate, measure, line["status"])
        return None if view is None else (view, line)
