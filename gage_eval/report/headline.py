"""The headline: the number of a task that people quote. It comes first wherever numbers are shown or compared."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from gage_eval.report.metric_names import metric_name
from gage_eval.scoring.scorecards.card import Named, score_keys


class Number(Named, Protocol):
    """What decides whether a number is the headline (`gage_eval.report.summary.MetricSummary`)."""

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Number)


def headline_first(numbers: Sequence[N], quoted: str | None = None, primary: str | None = None) -> list[N]:
    """The numbers of a task with the headline first, the others in the config's order.

    Args:
        numbers: over all rows, in the config's order.
        quoted: the ``metric:`` of the suite, as the number is printed. If the task has it with other aggregations only,
            the first of these counts.
        primary: the key of the score that the task's scoring profile calls primary; it counts where no suite says more.

    Returns:
        In the config's order where neither names a number of this task.
    """
    keys = score_keys(numbers)
    matches = (
        *(number for number in numbers if quoted == number.name),
        *(number for number in numbers if quoted == measure_name(number)),
        *(number for number, key in zip(numbers, keys, strict=True) if primary == key),
        *numbers,
    )
    return [*matches[:1], *(number for number in numbers if number is not matches[0])]


def measure_name(number: Number) -> str:
    """The number's name without its aggregation."""
    return metric_name(number.metric_id, number.filter, number.value_key, "mean")
