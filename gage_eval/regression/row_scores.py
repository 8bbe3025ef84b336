"""One number of a run as one value per sample, with clusters and slices; and two runs, paired by sample id."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.errors import InputError
from gage_eval.regression.evidence import Floats, PairedRows
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import TaskReader
from gage_eval.scoring.metrics.grouping import CLUSTER, Grouping, slice_column
from gage_eval.stats import at_least_k, pass_at_k, pass_hat_k

Ints = npt.NDArray[np.int64]
_Reduce = Callable[[Sequence[float]], float | None]

_OF_REPLICATES = re.compile(r"(pass@|pass\^|at_least@)(\d+)")
_MEANS = ("mean", "weighted_mean")


@dataclass(frozen=True)
class RowScores:
    """One number of each sample of a run.

    Attributes:
        ids: the samples.
        values: mean or other reduction of each sample's answers; NaN where none of them is scored.
        single: every sample has one answer.
        clusters: name of each sample's cluster; None without a cluster field.
        slices: the positions of each slice's samples, by ``field = value``.
    """

    ids: pa.ChunkedArray
    values: Floats
    single: bool
    clusters: pa.ChunkedArray | None = None
    slices: Mapping[str, Ints] = field(default_factory=dict)


def reduction(aggregation: str, weighted: bool = False) -> _Reduce | None:
    """How replicates of a sample become one value, so that the mean over samples is the metric's number.

    Returns:
        None for an aggregation that is not a mean over samples: a median, a corpus score, a weighted mean.
    """
    if aggregation in _MEANS:
        return None if weighted else lambda values: float(np.mean(values))
    found = _OF_REPLICATES.fullmatch(aggregation)
    if found is None:
        return None
    how = {"pass@": pass_at_k, "pass^": pass_hat_k, "at_least@": at_least_k}[found[1]]
    k = int(found[2])
    return lambda values: how(len(values), sum(value >= 1 for value in values), k)


def row_scores(task: TaskReader, measure: Measure, aggregation: str, grouping: Grouping) -> RowScores:
    """Read one number of every sample of a task.

    Args:
        task: of a run that is scored, or of a baseline.
        measure: which number.
        aggregation: how it is aggregated over samples.
        grouping: fields of clusters and slices.

    Raises:
        InputError: the number is not a mean over samples, so that samples cannot be paired.
    """
    reduce = reduction(aggregation, grouping.weight is not None)
    if reduce is None:
        raise InputError(
            f"task '{task.task_id}': {measure.name} is aggregated as {aggregation}, not a mean over samples, so "
            "runs cannot be paired by it. Name another metric with --metric."
        )
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
        _in_order(values, codes) if single else _reduced(values, codes, count, reduce),
        single,
        table[CLUSTER].take(pa.array(first, pa.int64())) if CLUSTER in table.column_names else None,
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
        samples: samples that at least one of them has.
    """

    rows: PairedRows
    ids: pa.Array
    slices: Mapping[str, Ints]
    unpaired: int
    samples: int

    @property
    def unpaired_share(self) -> float:
        """Share of samples without a partner."""
        return self.unpaired / self.samples if self.samples else 0.0

    def of_slice(self, positions: Ints) -> PairedRows:
        """The rows of a slice."""
        clusters = None if self.rows.clusters is None else self.rows.clusters[positions]
        return PairedRows(
            self.rows.current[positions],
            self.rows.baseline[:, positions],
            clusters,
            self.rows.binary,
            self.rows.higher_is_better,
        )


def pair(current: RowScores, baseline: Sequence[RowScores], *, higher_is_better: bool = True) -> Pairing:
    """Pair two runs sample by sample; the baseline may be several repeats of one run.

    A sample counts if the current run and every repeat have scored it.
    """
    ids = current.ids.combine_chunks() if current.ids.num_chunks else pa.array([], pa.string())
    matched = [_matched(ids, repeat) for repeat in baseline]
    scored_now = np.isfinite(current.values)
    scored_before = np.all([np.isfinite(values) for values in matched], axis=0)
    both = np.flatnonzero(scored_now & scored_before)
    only_before = [pc.invert(pc.is_in(repeat.ids, ids)).to_numpy() for repeat in baseline]
    gone = max((int(np.count_nonzero(mask)) for mask in only_before), default=0)
    new = np.all([~np.isin(np.arange(len(ids)), _places(ids, repeat)[1]) for repeat in baseline], axis=0)
    one_sided = int(np.count_nonzero((scored_now != scored_before) & ~new))
    values = np.stack([found[both] for found in matched])
    now = current.values[both]
    binary = current.single and all(repeat.single for repeat in baseline) and _is_binary(now) and _is_binary(values)
    clusters = None
    if current.clusters is not None:
        codes = current.clusters.combine_chunks().dictionary_encode().indices.to_numpy()
        clusters = codes[both].astype(np.int64)
    place = np.full(len(ids), -1)
    place[both] = np.arange(len(both))
    slices = {name: found[found >= 0] for name, rows in current.slices.items() for found in [place[rows]]}
    return Pairing(
        PairedRows(now, values, clusters, binary, higher_is_better),
        ids.take(pa.array(both, pa.int64())),
        slices,
        gone + int(np.count_nonzero(new)) + one_sided,
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
        kept = ["sample_id", *(name for name in table.column_names if name == CLUSTER or name.startswith("slice."))]
        yield table.select(kept).append_column("value", value)


def _in_order(values: Floats, codes: Ints) -> Floats:
    out = np.empty(len(values))
    out[codes] = values
    return out


def _reduced(values: Floats, codes: Ints, count: int, reduce: _Reduce) -> Floats:
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=count))
    out = np.full(count, np.nan)
    for code, group in enumerate(np.split(values[order], ends[:-1])):
        scored = group[np.isfinite(group)]
        found = reduce(scored.tolist()) if len(scored) else None
        out[code] = np.nan if found is None else found
    return out


def _slices(table: pa.Table, grouping: Grouping, codes: Ints) -> dict[str, Ints]:
    found: dict[str, Ints] = {}
    for number, path in enumerate(grouping.slices):
        lists = table[slice_column(number)].combine_chunks()
        rows = codes[pc.list_parent_indices(lists).to_numpy()]
        flat = pc.list_flatten(lists).dictionary_encode()
        indices = flat.indices.to_numpy()
        for code, text in enumerate(flat.dictionary.to_pylist()):
            found[f"{path.text} = {text}"] = np.unique(rows[indices == code])
    return found


def _places(ids: pa.Array, repeat: RowScores) -> tuple[Ints, Ints]:
    """The positions of the shared samples in a repeat, and in the current run."""
    found = pc.index_in(ids, value_set=repeat.ids.combine_chunks() if repeat.ids.num_chunks else ids[:0])
    here = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    return found.drop_null().to_numpy().astype(np.int64), here


def _matched(ids: pa.Array, repeat: RowScores) -> Floats:
    """The repeat's values in the order of the current run's samples; NaN where it has none."""
    there, here = _places(ids, repeat)
    out = np.full(len(ids), np.nan)
    out[here] = repeat.values[there]
    return out


def _is_binary(values: npt.NDArray[Any]) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())
