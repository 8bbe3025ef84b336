"""Metrics on numbers in text."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from gage_eval.scoring.metrics.base import Score, metric
from gage_eval.scoring.metrics.numbers import exact, first_number, last_number

Bounds: TypeAlias = Annotated[Sequence[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=2, max_length=2)]

# How far two floats of one value may be apart.
_FLOAT_NOISE = 1e-6


@metric("numeric_match", binary=True, version=2, normalized=True)
def numeric_match(
    prediction: str,
    reference: str,
    *,
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0,
    relative_tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None,
    mode: Literal["eq", "ge", "le"] = "eq",
    take: Literal["last", "first"] = "last",
    percent: bool = False,
    range: Bounds | None = None,  # noqa: A002  # as configs call it
    fallback: float = 0.0,
) -> Score:
    """1 when the answer's number equals the reference's, compared as values and never as text.

    The number is the last of the text unless ``take: first``. Powers, scales and the separators of other countries are
    read (``10^3``, ``1.5 million``, ``3万``, ``1.000,50``), the exponent of a unit is not a number (``42 m^2``), and
    words count where there are no digits (``two hundred``, ``四十二``). ``60%`` is 0.6; with ``percent: true`` all
    numbers are percentages and the sign is ignored.

    The difference may be ``tolerance``, or ``relative_tolerance`` times the reference, whichever is larger. Without
    either, whole numbers must be equal, and numbers of which one has a fraction or an exponent may differ by a
    millionth of the reference, as floats do; ``relative_tolerance: 0`` compares these exactly too. ``mode: ge`` and
    ``le`` require at least and at most the reference, with the same tolerance. A number outside of ``range`` (lowest,
    highest) is wrong whatever the reference. An answer without a number is unparsed and gets ``fallback``.
    """
    pick = last_number if take == "last" else first_number
    wanted = pick(reference)
    if wanted is None:
        return Score.unscored("the reference is not a number")
    predicted = pick(prediction)
    if predicted is None:
        return Score(fallback, "unparsed", explanation="the answer holds no number", metadata={"invalid_format": True})
    target = wanted.resolved(percent=percent)
    value = predicted.resolved(percent=percent)
    relative = relative_tolerance
    if relative is None and not tolerance and (wanted.rounded or predicted.rounded):
        relative = _FLOAT_NOISE
    leeway = max(exact(tolerance), abs(exact(relative or 0.0) * target)) if tolerance or relative else 0
    if range is not None and not exact(range[0]) <= value <= exact(range[1]):
        right = False
    elif mode == "ge":
        right = value >= target - leeway
    elif mode == "le":
        right = value <= target + leeway
    else:
        right = -leeway <= value - target <= leeway
    return Score(float(right), extracted=predicted.text)
