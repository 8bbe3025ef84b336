"""What a metric's values mean: in which range they are, whether more is better, and which value is fully right."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from gage_eval.base.canonical import JsonValue

Bounds: TypeAlias = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale of one of a metric's numbers.

    Attributes:
        higher_is_better: False where less is better, None where neither end is.
        low, high: the ends of the range, None where it has none or none is declared.
        perfect: the value of a fully right answer; None where no answer is right or wrong by this number.
        binary: every value is 0 or 1.
    """

    higher_is_better: bool | None = True
    low: float | None = None
    high: float | None = None
    perfect: float | None = 1.0
    binary: bool = False

    @property
    def declared(self) -> bool:
        """Whether the metric says in which range its values are; otherwise full credit is a guess."""
        return self.low is not None or self.high is not None or self.perfect is None

    @property
    def worst(self) -> float | None:
        """The value of an answer that cannot be read; None where less is better and the range has no end."""
        return 0.0 if self.higher_is_better is not False else self.high

    @property
    def width(self) -> float | None:
        """The length of the range; None where it has an end without a bound."""
        return None if self.low is None or self.high is None else self.high - self.low

    def is_right(self, value: float) -> bool:
        """Whether a value has full credit."""
        if self.perfect is None:
            return False
        return value <= self.perfect if self.higher_is_better is False else value >= self.perfect

    def holds(self, value: float) -> bool:
        """Whether a value is within the range."""
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def clipped(self, value: float, low: float, high: float) -> tuple[float, float]:
        """The interval of a value within the range; it covers the true value as often as the whole one."""
        if not self.holds(value):
            return low, high
        return (
            low if self.low is None else max(low, self.low),
            high if self.high is None else min(high, self.high),
        )

    def identity(self) -> JsonValue:
        """Its part of keys."""
        return asdict(self)


DEFAULT = Scale()
SHARE = Scale(low=0.0, high=1.0, binary=True)
"""Of shares of samples: a sample is in it or not."""
UNKNOWN = Scale(higher_is_better=None, perfect=None)


def read_scales(
    values: Sequence[str],
    *,
    higher_is_better: bool | Mapping[str, bool | None] | None,
    bounds: Bounds | Mapping[str, Bounds] | None,
    perfect: float | Mapping[str, float | None] | None,
    binary: bool | Sequence[str],
) -> dict[str, Scale]:
    """The scale of each value key from what ``@metric`` declares."""
    zero_or_one = frozenset(values if binary is True else () if binary is False else binary)
    return {
        key: _scale(
            _of(key, higher_is_better, default=True), _of(key, bounds), _of(key, perfect), binary=key in zero_or_one
        )
        for key in values
    }


def _of(key: str, declared: Any, default: Any = None) -> Any:
    return declared.get(key, default) if isinstance(declared, Mapping) else declared


def _scale(higher: bool | None, bounds: Bounds | None, perfect: float | None, *, binary: bool) -> Scale:
    low, high = (None, None) if bounds is None else bounds
    if binary:
        low, high = 0.0, 1.0
    if low is not None and high is not None and not low < high:
        raise ValueError(f"bounds ({low:g}, {high:g}): the first must be less than the second")
    for name, number in (("bounds", low), ("bounds", high), ("perfect", perfect)):
        if number is not None and not math.isfinite(number):
            raise ValueError(f"{name} must be finite numbers; leave an end without a bound as None")
    unit = (low, high) == (0, 1) or (bounds is None and not binary)
    if perfect is None and unit and higher is not None:
        perfect = 1.0 if higher else 0.0
    return Scale(higher, low, high, perfect, binary)
