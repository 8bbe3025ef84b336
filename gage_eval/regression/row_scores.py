"""One number of a run as one value per sample, with clusters and slices; and two runs, paired by sample id."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.errors import InputError
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import TaskReader
from gage_eval.scoring.metrics.aggregations.base import Aggregation, mean_aggregation
from gage_eval.scoring.metrics.grouping import CLUSTER, WEIGHT, Grouping, slice_column
from gage_eval.scoring.metrics.scale import DEFAULT, Scale
from gage_eval.stats.evidence import Floats, PairedRows

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowScores:
    """One number of each sample of a run.

    Attributes:
        ids: the samples.
        values: what the aggregation makes of each sample's answers; NaN where the sample does not count.
        single: every sample has one answer.
        clusters: name of each sample's cluster; None without a cluster field.
        weights: of each sample; None without a weight field.
        slices: the positions of each slice's samples, by ``field = value``.
    """

    ids: pa.ChunkedArray
    values: Floats
    single: bool
    clusters: pa.ChunkedArray | None = None
    weights: Floats | None = None
    slices: Mapping[str, Ints] = field(default_factory=dict)

    def values_of(self, ids: pa.ChunkedArray) -> Floats:
        """The values of these samples; NaN where it has none."""
        return _matched(ids.combine_chunks() if ids.num_chunks else pa.array([], pa.string()), self)


def aggregation_of(task_id: str, number: Measure) -> Aggregation:
    """The aggregation of a number by which runs can be compared sample by sample.

    Raises:
        InputError: the number is not a mean over samples, so that samples cannot be paired.
    """
    name = number.aggregation or "mean"
    how = mean_aggregation(name)
    if how is None:
        raise InputError(
            f"task '{task_id}': {number.name} is aggregated as {name}, not a mean over samples, so runs cannot be "
            "paired by it. Name another metric with --metric."
        )
    return how


def row_scores(task: TaskReader, measure: Measure, grouping: Grouping) -> RowScores:
    """Read one number of every sample of a task.

    Args:
        task: of a run that is scored, or of a baseline.
        measure: which number.
        grouping: fields of clusters and slices.

    Raises:
        InputError: the number is not a mean over samples, so that samples cannot be paired.
    """
    how = aggregation_of(task.task_id, measure)
    tables = list(_score_tables(task, measure, grouping))
    if not tables:
        return RowScores(pa.chunked_array([], pa.string()), np.empty(0), single=True)
    table = pa.concat_tables(tables)
    ids = table["sample_id"].dictionary_encode().combine_chunks()
    codes = ids.indices.to_numpy().astype(np.int64)
    values = table["value"].to_numpy(zero_copy_only=False).astype(np.float64)
    count, first = len(ids.dictionary), np.unique(codes, return_index=True)[1]
    single = len(codes) == count
    return RowScores(
        pa.chunked_array([ids.dictionary]),
        reduced(values, codes, count, how, measure.scale),
        single,
        table[CLUSTER].take(pa.array(first, pa.int64())) if CLUSTER in table.column_names else None,
        table[WEIGHT].to_numpy()[first] if WEIGHT in table.column_names else None,
        _slices(table, grouping, codes),
    )


@dataclass(frozen=True)
class Pairing:
    """Two runs' values of the same samples.

    Attributes:
        rows: the values.
        ids: the samples.
        slices: positions within ``rows`` by slice.
        unpaired: samples that only one run has, or only one run has scored.
        shared: samples that both have, scored or not.
        samples: samples that at least one of them has.
    """

    rows: PairedRows
    ids: pa.Array
    slices: Mapping[str, Ints]
    unpaired: int
    shared: int
    samples: int

    @property
    def unpaired_share(self) -> float:
        """Share of samples without a partner."""
        return self.unpaired / self.samples if self.samples else 0.0

    def of_slice(self, positions: Ints) -> PairedRows:
        """The rows of a slice."""
        rows = self.rows
        return replace(
            rows,
            current=rows.current[positions],
            baseline=rows.baseline[:, positions],
            clusters=None if rows.clusters is None else rows.clusters[positions],
            weights=None if rows.weights is None else rows.weights[positions],
        )


def pair(current: RowScores, baseline: Sequence[RowScores], scale: Scale = DEFAULT, *, part: bool = False) -> Pairing:
    """Pair two runs sample by sample; the baseline may be several repeats of one run.

    A sample counts if the current run and every repeat have scored it, and its weight is not 0.

    Args:
        current, baseline: the runs.
        scale: of the samples' values.
        part: the current run was to ask only some samples, so that others of the baseline do not count.
    """
    ids = current.ids.combine_chunks() if current.ids.num_chunks else pa.array([], pa.string())
    matched = [_matched(ids, repeat) for repeat in baseline]
    scored_now = np.isfinite(current.values)
    scored_before = np.all([np.isfinite(values) for values in matched], axis=0)
    weighs = True if current.weights is None else current.weights > 0
    both = np.flatnonzero(scored_now & scored_before & weighs)
    only_before = [pc.invert(pc.is_in(repeat.ids, ids)).to_numpy() for repeat in baseline]
    gone = 0 if part else max((int(np.count_nonzero(mask)) for mask in only_before), default=0)
    new = np.all([~np.isin(np.arange(len(ids)), _places(ids, repeat)[1]) for repeat in baseline], axis=0)
    one_sided = int(np.count_nonzero((scored_now != scored_before) & ~new))
    values = np.stack([repeat[both] for repeat in matched])
    now = current.values[both]
    binary = current.single and all(repeat.single for repeat in baseline) and _is_binary(now) and _is_binary(values)
    clusters = None
    if current.clusters is not None:
        codes = current.clusters.combine_chunks().dictionary_encode().indices.to_numpy()
        clusters = codes[both].astype(np.int64)
    place = np.full(len(ids), -1)
    place[both] = np.arange(len(both))
    slices = {name: positions[positions >= 0] for name, rows in current.slices.items() for positions in [place[rows]]}
    return Pairing(
        PairedRows(
            now,
            values,
            clusters,
            binary,
            scale.higher_is_better is not False,
            None if current.weights is None else current.weights[both],
            scale.width,
        ),
        ids.take(pa.array(both, pa.int64())),
        slices,
        gone + int(np.count_nonzero(new)) + one_sided,
        len(ids) - int(np.count_nonzero(new)),
        len(ids) + gone,
    )


def _score_tables(task: TaskReader, measure: Measure, grouping: Grouping) -> Iterator[pa.Table]:
    """Per part: ``sample_id``, ``value`` (NaN where unscored), and the columns of clusters and slices."""
    artifact = task.scores[measure.metric_id]
    columns = sorted({"row_index"} | grouping.sample_columns)
    for part in artifact.parts:
        table = measure.of_filter(artifact.read(part.index))
        if grouping.field_paths:
            inputs = {
                name: task.artifact(name).read(part.index, columns=columns if name == "samples" else None)
                for name in {"samples", "responses"} | grouping.inputs
            }
            table = grouping.label(table, inputs)
        counts = pc.not_equal(table["status"], "unscored").combine_chunks()
        value = pc.if_else(counts, pc.fill_null(measure.values(table), float("nan")), float("nan"))
        labels = (name for name in table.column_names if name in (CLUSTER, WEIGHT) or name.startswith("slice."))
        kept = ["sample_id", *labels]
        yield table.select(kept).append_column("value", value)


def reduced(values: Floats, codes: Ints, count: int, how: Aggregation, scale: Scale) -> Floats:
    order = np.argsort(codes, kind="stable")
    ordered, ends = values[order].tolist(), np.cumsum(np.bincount(codes, minlength=count)).tolist()
    out = np.full(count, np.nan)
    for code, (start, end) in enumerate(pairwise([0, *ends])):
        scored = [value for value in ordered[start:end] if math.isfinite(value)]
        value = how.per_sample(scored, scale) if scored else None
        out[code] = np.nan if value is None else value
    return out


def _slices(table: pa.Table, grouping: Grouping, codes: Ints) -> dict[str, Ints]:
    slices: dict[str, Ints] = {}
    for number, path in enumerate(grouping.slices):
        lists = table[slice_column(number)].combine_chunks()
        rows = codes[pc.list_parent_indices(lists).to_numpy()]
        flat = pc.list_flatten(lists).dictionary_encode()
        indices = flat.indices.to_numpy()
        for code, text in enumerate(flat.dictionary.to_pylist()):
            slices[f"{path.text} = {text}"] = np.unique(rows[indices == code])
    return slices


def _places(ids: pa.Array, repeat: RowScores) -> tuple[Ints, Ints]:
    """The positions of the shared samples in a repeat, and in the current run."""
    positions = pc.index_in(ids, value_set=repeat.ids.combine_chunks() if repeat.ids.num_chunks else ids[:0])
    here = np.flatnonzero(positions.is_valid().to_numpy(zero_copy_only=False))
    return positions.drop_null().to_numpy().astype(np.int64), here


def _matched(ids: pa.Array, repeat: RowScores) -> Floats:
    """The repeat's values in the order of the current run's samples; NaN where it has none."""
    there, here = _places(ids, repeat)
    out = np.full(len(ids), np.nan)
    out[here] = repeat.values[there]
    return out


def _is_binary(values: npt.NDArray[Any]) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())
