"""Clusters, weights and slices of an aggregate.

They are read when scores are aggregated, not when they are computed, so another slice needs no new scores.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from gage_eval.base.canonical import JsonValue, canonical_text
from gage_eval.base.errors import InputError
from gage_eval.base.field_paths import Path, compile_path
from gage_eval.scoring.metrics.rows import Rows, Tables, check_path, keys, positions_of
from gage_eval.scoring.metrics.text_utils import as_text

CLUSTER, WEIGHT, STATUS = "cluster", "weight", "response_status"


def slice_column(number: int) -> str:
    """The column that holds the values of the n-th slice field."""
    return f"slice.{number}"


@dataclass(frozen=True)
class Grouping:
    """The fields that clusters, weights and slices are read from. Build it with `grouping`."""

    metric_id: str
    cluster: Path | None = None
    weight: Path | None = None
    slices: tuple[Path, ...] = ()

    @cached_property
    def field_paths(self) -> tuple[Path, ...]:
        """All fields."""
        return tuple(path for path in (self.cluster, self.weight, *self.slices) if path is not None)

    @cached_property
    def sample_columns(self) -> frozenset[str]:
        """Columns of the samples that it needs, besides ``row_index``."""
        return frozenset().union(*(path.sample_columns for path in self.field_paths))

    @cached_property
    def inputs(self) -> frozenset[str]:
        """Names of the inputs that it reads (`gage_eval.base.inputs`)."""
        return frozenset(path.input.name for path in self.field_paths)

    def identity(self) -> JsonValue:
        """Its part of the key of the metrics table."""
        return {
            "cluster": self.cluster.canonical if self.cluster else None,
            "weight": self.weight.canonical if self.weight else None,
            # As written, because the text is shown with each slice's numbers.
            "slices": [path.text for path in self.slices],
        }

    def label(self, scores: pa.Table, tables: Tables) -> pa.Table:
        """Score rows of a part with the columns ``cluster``, ``weight``, ``slice.0``, … and ``response_status``.

        Args:
            scores: of `tables.SCORES`.
            tables: the part's samples, its responses, and the other `inputs`.

        Raises:
            InputError: a sample has no cluster id or weight, or a weight is not a number of at least 0.
        """
        if not self.field_paths:
            return scores
        rows, responses = Rows(tables), tables["responses"]
        order = positions_of(keys(responses), keys(scores))
        names = responses.column("sample_id").to_pylist()
        columns = {STATUS: responses.column("status")}
        if self.cluster:
            columns[CLUSTER] = self._clusters(self.cluster, rows.values(self.cluster), names)
        if self.weight:
            columns[WEIGHT] = self._weights(self.weight, rows.values(self.weight), names)
        for number, path in enumerate(self.slices):
            values = [labels_of(value) for value in rows.values(path)]
            columns[slice_column(number)] = pa.array(values, pa.list_(pa.string()))
        for name, column in columns.items():
            scores = scores.append_column(name, column if order is None else column.take(pa.array(order, pa.int64())))
        return scores

    def _clusters(self, path: Path, values: Sequence[Any], names: Sequence[str]) -> pa.Array:
        for value, name in zip(values, names, strict=True):
            if value is None or (isinstance(value, float) and math.isnan(value)):
                raise InputError(
                    f"metric {self.metric_id}: sample '{name}' has no {path.text}, its cluster_field. Give every "
                    "sample one, or remove cluster_field."
                )
        return pa.array([as_text(value) for value in values], pa.string())

    def _weights(self, path: Path, values: Sequence[Any], names: Sequence[str]) -> pa.Array:
        for value, name in zip(values, names, strict=True):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 <= value < math.inf:
                raise InputError(
                    f"metric {self.metric_id}: sample '{name}' has {'no' if value is None else repr(value)} as "
                    f"{path.text}, its weight_field. A weight must be a number of at least 0."
                )
        return pa.array([float(value) for value in values], pa.float64())


def grouping(
    metric_id: str, *, cluster_field: str | None = None, weight_field: str | None = None, slices: Sequence[str] = ()
) -> Grouping:
    """The fields of a metric's clusters, weights and slices.

    Raises:
        InputError: a path is invalid, the cluster or weight is not a field of the sample, or a slice is given
            twice.
    """
    result = Grouping(
        metric_id,
        _of_sample(cluster_field, "cluster_field", metric_id),
        _of_sample(weight_field, "weight_field", metric_id),
        tuple(compile_path(text) for text in slices),
    )
    for path in result.slices:
        check_path(path, metric_id)
    spelled = [path.canonical for path in result.slices]
    twice = next((path.text for path in result.slices if spelled.count(path.canonical) > 1), None)
    if twice is not None:
        raise InputError(f"metric {metric_id}: the slice '{twice}' is given twice. Keep one.")
    return result


def _of_sample(text: str | None, name: str, metric_id: str) -> Path | None:
    if text is None:
        return None
    path = compile_path(text)
    if path.root != "sample" or not path.parts:
        raise InputError(f"metric {metric_id}: {name} '{text}' is not a field of the sample. Write metadata.passage.")
    return path


def labels_of(value: Any) -> list[str]:
    """The slices of a row: one for a value, one per item of a list or mapping, none for a missing value."""
    if value is None:
        return []
    if isinstance(value, dict):
        return [f"{key}={_label(item)}" for key, item in value.items()]
    if isinstance(value, list | tuple):
        return list(dict.fromkeys(_label(item) for item in value if item is not None))
    return [_label(value)]


def _label(value: Any) -> str:
    """The text of a value, as in a data file: a boolean is ``true`` or ``false``."""
    return canonical_text(value) if isinstance(value, bool) else as_text(value)
