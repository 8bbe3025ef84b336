"""What a metric compares: the prediction and the reference of a row, as the metric gets them.

Score rows do not hold these texts, because the samples and the responses do. Readers join them.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

from gage_eval.base.canonical import JsonValue
from gage_eval.scoring.metrics.bind import BoundMetric
from gage_eval.scoring.metrics.rows import Rows, Tables, keys

ComparedValues: TypeAlias = dict[tuple[int, int], dict[str, JsonValue]]
"""``prediction`` and ``reference``, as far as there are any, by row index and replicate."""

_SHOWN_AS = {"prediction": "prediction", "reference": "reference", "answers": "reference"}


def compared_values(metric: BoundMetric, tables: Tables) -> ComparedValues:
    """What the metric compares in each row of a part, before filters.

    Args:
        metric: a metric of the task.
        tables: as in `BoundMetric.score_table`.
    """
    rows, fields = Rows(tables, metric.schema), metric.definition.fields
    shown = [position for position, item in enumerate(fields) if item.name in _SHOWN_AS]
    if not shown:
        return {}
    names = [fields[position].name for position in shown]
    columns = [rows.values(metric.field_paths[position], fields[position].kind) for position in shown]
    of_rows = (compared_in(names, values) for values in zip(*columns, strict=True))
    return {key: values for key, values in zip(keys(tables["responses"]), of_rows, strict=True) if values}


def compared_in(names: Iterable[str], args: Iterable[Any]) -> dict[str, JsonValue]:
    """``prediction`` and ``reference`` among a metric's arguments; several references are a list."""
    values = {_SHOWN_AS[name]: value for name, value in zip(names, args, strict=True) if name in _SHOWN_AS}
    return {
        name: list(values[name]) if isinstance(values[name], tuple) else values[name]
        for name in ("prediction", "reference")
        if values.get(name) is not None
    }
