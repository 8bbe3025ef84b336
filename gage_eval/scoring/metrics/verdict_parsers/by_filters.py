"""A verdict parser that applies filters."""

from typing import Annotated, Any, TypeAlias

from pydantic import PlainValidator

from gage_eval.base.errors import InputError
from gage_eval.scoring.metrics.numbers import first_number
from gage_eval.scoring.metrics.pipelines import FilterPipeline, read_steps
from gage_eval.scoring.metrics.verdicts import Verdict, verdict_parser


def _some_steps(filters: Any) -> FilterPipeline:
    if not filters:
        raise InputError("verdict parser filters: name at least one filter, or leave the parameter out.")
    return read_steps(filters)


Filters: TypeAlias = Annotated[Any, PlainValidator(_some_steps)]


@verdict_parser("filters", version=3, one_of=("answer", "score"))
def filters(text: str, *, answer: Filters = None, score: Filters = None) -> Verdict | None:
    """Apply filters to the judge's text: those of ``answer`` give the answer, those of ``score`` the score.

    Each is a filter, or a list of filters, as for a metric. The result for the score must be one number, such as ``7``,
    ``7.5``, ``8/10`` or ``60%``; else there is no score.
    """
    return Verdict(
        None if answer is None else answer.apply(text), None if score is None else _number(score.apply(text))
    )


def _number(text: str | None) -> float | None:
    text = "" if text is None else text.strip().removesuffix(".")
    number = first_number(text)
    if number is None or number.text != text:
        return None
    try:
        return float(number.resolved(percent=False))
    except OverflowError:
        return None
