"""The score of a whole benchmark from a random part of it, and a run that has all of it."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from gage_eval.report.summary import format_value
from gage_eval.stats.control import LEAST_ROWS, controlled_mean

if TYPE_CHECKING:
    from gage_eval.regression.compare import TaskComparison


@dataclass(frozen=True)
class ControlledScore:
    """The score of all samples of a benchmark.

    Attributes:
        number: which.
        samples: that were asked, and scored in both runs.
        total: all samples that the earlier run has scored.
        estimate: of the score; None for fewer than `LEAST_ROWS` samples.
        bounds: its 95 % interval, of these samples alone.
        gain: how many times the samples the part alone would need; None where that is not known.
    """

    number: str
    samples: int
    total: int
    estimate: float | None = None
    bounds: tuple[float, float] | None = None
    gain: float | None = None

    @property
    def text(self) -> str:
        """In one sentence, with what it stands for."""
        if self.estimate is None or self.bounds is None:
            return f"a score of all {self.total:,} samples of this benchmark needs {LEAST_ROWS} samples or more"
        low, high = map(format_value, self.bounds)
        said = (
            f"{self.number} of all {self.total:,} samples of this benchmark: {format_value(self.estimate)} "
            f"[{low}, {high}], corrected by the earlier run's scores of the others"
        )
        if self.gain is None or not math.isfinite(self.gain):
            return said
        return f"{said}; as exact as {self.gain:.1f} times the samples without it"

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        low, high = self.bounds or (None, None)
        gain = self.gain if self.gain is not None and math.isfinite(self.gain) else None
        return {
            "whole_samples": self.total,
            "whole_score": self.estimate,
            "whole_ci_low": low,
            "whole_ci_high": high,
            "whole_gain": gain,
        }


def controlled_score(task: "TaskComparison") -> ControlledScore | None:
    """The score of a run of a random part, corrected by the baseline's scores.

    Returns:
        None where the run did not draw its samples at random, or the baseline did; for weighted numbers; and for
        numbers without a fixed range.
    """
    scale, rows = task.scale, task.pairing.rows
    if task.current.part != "quick" or any(repeat.part for repeat in task.baseline):
        return None
    if scale.low is None or scale.high is None or rows.weights is not None:
        return None
    first, *repeats = (repeat.scores(repeat.reader.number(task.measure.name)) for repeat in task.baseline)
    values = np.vstack([first.values, *(repeat.values_of(first.ids) for repeat in repeats)]).mean(axis=0)
    in_both = pc.is_in(first.ids, task.current.scores(task.measure).ids.combine_chunks()).to_numpy()
    rest = values[~in_both & np.isfinite(values)]
    own, before = rows.current.tolist(), rows.baseline.mean(axis=0).tolist()
    known = controlled_mean(own, before, rest.tolist(), scale=(scale.low, scale.high))
    part = ControlledScore(task.measure.name, rows.n, rows.n + len(rest))
    if known is None or known.interval is None:
        return part
    return ControlledScore(
        part.number, part.samples, part.total, known.estimate, (known.interval.low, known.interval.high), known.gain
    )
