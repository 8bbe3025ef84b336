"""A task of a run with its index."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gage_eval.report.sample_view import SampleView
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.runs.results.rows import SampleRow
from gage_eval.runs.results.sample_view import sample_view
from gage_eval.viewer.index import IndexedMeasure
from gage_eval.viewer.listing import Listing, ListState


class OpenAnswer(NamedTuple):
    """An answer.

    Attributes:
        view: as it is shown.
        line: its row in a list.
        row: its sample, with the answers of all repetitions.
    """

    view: SampleView
    line: dict[str, Any]
    row: SampleRow


@dataclass(frozen=True)
class OpenTask:
    """A task of a run with its index."""

    run: RunReader
    task: TaskReader
    listing: Listing
    measure: IndexedMeasure | None

    def answer(self, sample_id: str, replicate: int, state: ListState) -> OpenAnswer | None:
        """An answer; None if there is none."""
        location = self.listing.find(sample_id, replicate)
        if location is None:
            return None
        row = self._row(location)
        line = self.listing.at([location["pos"]], state)[0]
        measure = None if self.measure is None else self.task.measure(self.measure.name)
        view = sample_view(self.task, row, replicate, measure, line["status"])
        return None if view is None else OpenAnswer(view, line, row)

    def row(self, sample_id: str, replicate: int) -> SampleRow | None:
        """A sample with its answers; None if that repetition has none."""
        location = self.listing.find(sample_id, replicate)
        return None if location is None else self._row(location)

    def _row(self, location: Mapping[str, Any]) -> SampleRow:
        return next(self.task.rows_of_part(location["part"], [location["row_index"]]))
