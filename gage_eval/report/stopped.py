"""What is known of a task that stopped before all of its samples were asked."""

from pydantic import Field

from gage_eval.base.strict_model import StrictModel


class Stopped(StrictModel):
    """The looks at a task with ``stop_when``, and the interval that holds at all of them."""

    number: str = Field(description="The number that decided.")
    samples: int = Field(description="Samples that were asked.")
    total: int = Field(description="Samples of the whole task.")
    looks: int = Field(description="How often the number was looked at.")
    unscored: int = Field(default=0, description="Samples that were asked and have no score; they widen the interval.")
    half_width: float | None = Field(default=None, description="The half width that was enough; null with a baseline.")
    baseline: str | None = Field(
        default=None, description="The baseline whose score is taken from the number: what follows is the difference."
    )
    low: float = Field(description="Lower limit for all samples, at 95 % over all looks together.")
    high: float = Field(description="Upper limit of the same.")

    @property
    def text(self) -> str:
        """``asked 1,043 of 1,319 samples: exact_match of all 1,319 is 0.543 to 0.583 (95 % over 20 looks)``."""
        count = "all" if self.samples == self.total else f"{self.samples:,} of"
        looks = "1 look" if self.looks == 1 else f"{self.looks} looks"
        number, ends = self.number, f"{self.low:.3f} to {self.high:.3f}"
        if self.baseline is not None:
            number, ends = f"{number} minus that of baseline {self.baseline}", f"{self.low:+.3f} to {self.high:+.3f}"
        return (
            f"asked {count} {self.total:,} samples: {number}, of all samples of this benchmark, is {ends} "
            f"(95 % over {looks}). The ± says what other samples like these would give, had their number been fixed"
        )
