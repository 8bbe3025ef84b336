"""The numbers of a random part of a benchmark, as estimates of the whole of it."""

import math

from pydantic import Field

from gage_eval.base.strict_model import StrictModel
from gage_eval.stats.intervals import Interval, wilson_interval

OF_BENCHMARK = "of this benchmark"


class Drawn(StrictModel):
    """How many samples ``--quick`` drew."""

    samples: int = Field(description="Samples that were drawn at random.")
    total: int = Field(description="Samples of the whole benchmark.")

    @property
    def text(self) -> str:
        """What the numbers of the task stand for, in two sentences."""
        return (
            f"{self.samples:,} of {self.total:,} samples, drawn at random. The intervals marked '{OF_BENCHMARK}' say "
            "where the scores of all its samples are, and nothing about other samples"
        )

    def narrowed(self, value: float, interval: Interval, n: int, kind: str) -> Interval:
        """The interval of a mean with the finite-population correction.

        Wilson's interval is that of n/(1 − n/N) samples; others, such as those of clusters, are √((N − n)/(N − 1)) as
        wide to each side.

        Args:
            value: the mean.
            interval: of the population.
            n: samples that the mean is made of.
            kind: the interval's: wilson or t.
        """
        if n < self.total and kind == "wilson" and interval == wilson_interval(value * n, n):
            effective = n / (1 - n / self.total)
            return wilson_interval(value * effective, effective) or interval
        part = self.factor(n)
        return Interval(value - (value - interval.low) * part, value + (interval.high - value) * part)

    def factor(self, n: int) -> float:
        """√((N − n)/(N − 1)), by which the standard error of n samples is smaller."""
        return math.sqrt((self.total - n) / (self.total - 1)) if n < self.total else 0.0
