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
        quoted: the ``metric:`` of the suite: the name of a number as it is printed, without its aggregation, or of a
            metric with its filter. The first number that fits best counts.
        primary: the key of the score that the task's scoring profile calls primary; it counts where no suite says more.

    Returns:
        In the config's order where neither names a number of this task.
    """
    keys = score_keys(numbers)
    matches = (
        *named(numbers, quoted),
        *(number for number, key in zip(numbers, keys, strict=True) if primary == key),
        *numbers,
    )
    return [*matches[:1], *(number for number in numbers if number is not matches[0])]


def named(numbers: Sequence[N], name: str | None) -> list[N]:
    """The numbers that a name may mean, the best fit first.

    Args:
        numbers: of a task.
        name: as a number is printed, without its aggregation, or that of a metric with its filter.
    """
    spellings = (
        lambda number: number.name,
        lambda number: metric_name(number.metric_id, number.filter, number.value_key, "mean"),
        lambda number: metric_name(number.metric_id, number.filter, "score", "mean"),
    )
    return [number for spelling in spellings for number in numbers if spelling(number) == name]
