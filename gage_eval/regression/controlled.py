"""The score of a whole benchmark from a random part of it, and a run that has all of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from gage_eval.regression.row_scores import RowScores
from gage_eval.report.summary import format_value
from gage_eval.scoring.metrics.scale import Scale
from gage_eval.stats.control import LEAST_ROWS, controlled_mean
from gage_eval.stats.evidence import PairedRows


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


def controlled_score(
    number: str, rows: PairedRows, current: RowScores, baseline: Sequence[RowScores], scale: Scale
) -> ControlledScore | None:
    """The score of a run of a random part, corrected by the baseline's scores.

    Args:
        number: its name.
        rows: the samples that both runs have scored.
        current: the run of the part.
        baseline: every repeat of a run of all samples.
        scale: of the values.

    Returns:
        None for weighted numbers, and for those without a fixed range.
    """
    if scale.low is None or scale.high is None or rows.weights is not None:
        return None
    first, *repeats = baseline
    values = np.vstack([first.values, *(repeat.values_of(first.ids) for repeat in repeats)]).mean(axis=0)
    in_both = pc.is_in(first.ids, current.ids).to_numpy(zero_copy_only=False)
    rest = values[~in_both & np.isfinite(values)]
    own, before = rows.current.tolist(), rows.baseline.mean(axis=0).tolist()
    known = controlled_mean(own, before, rest.tolist(), scale=(scale.low, scale.high))
    total = rows.n + len(rest)
    if known is None or known.interval is None:
        return ControlledScore(number, rows.n, total)
    return ControlledScore(number, rows.n, total, known.estimate, known.interval, known.gain)
