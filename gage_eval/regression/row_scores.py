"""One number of a run as one value per sample, with clusters and slices; and two runs, paired by sample id.

Other numbers than means, such as a median, F1 or BLEU, are also a function of how often each sample counts.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.base.errors import InputError
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import TaskReader
from gage_eval.scoring.metrics.aggregate import Terms, reference_class
from gage_eval.scoring.metrics.aggregations.base import (
    Aggregation,
    CountedRows,
    find_aggregation,
    stored_aggregation,
)
from gage_eval.scoring.metrics.grouping import CLUSTER, WEIGHT, Grouping, slice_column
from gage_eval.scoring.metrics.rows import values_of
from gage_eval.scoring.metrics.scale import DEFAULT, Scale
from gage_eval.stats.evidence import Floats, PairedRows
from gage_eval.stats.paired_bootstrap import PairedNumbers, Recount

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowScores:
    """One number of each sample of a run.

    Attributes:
        ids: the samples.
        values: what the aggregation makes of each sample's answers; NaN where the sample does not count. Of a number
            that is not a mean over samples, the mean of the sample's answers.
        single: every sample has one answer.
        clusters: name of each sample's cluster; None without a cluster field.
        weights: of each sample; None without a weight field.
        slices: the positions of each slice's samples, by ``field = value``.
        recount: the number, by how often each sample counts; None for a mean over samples.
        resamples: whether resampled rows show the error of the number.
    """

    ids: pa.Array
    values: Floats
    single: bool
    clusters: pa.ChunkedArray | None = None
    weights: Floats | None = None
    slices: Mapping[str, Ints] = field(default_factory=dict)
    recount: Recount | None = None
    resamples: bool = True

    def values_of(self, ids: pa.Array) -> Floats:
        """The values of these samples; NaN where it has none."""
        places = pc.index_in(ids, value_set=self.ids)
        values: Floats = np.append(self.values, np.nan)[pc.fill_null(places, len(self.values)).to_numpy()]
        return values


def aggregation_of(task_id: str, number: Measure) -> Aggregation:
    """The aggregation of a number, by which runs are compared.

    Raises:
        InputError: only a path names its code, which is not loaded to compare runs.
    """
    how = stored_aggregation(number.aggregation or "mean")
    if how is None:
        raise InputError(
            f"task '{task_id}': {number.name} is aggregated by code in a file, which is not loaded to compare runs. "
            "Register it as a plug-in of a package, or name another metric with --metric."
        )
    return how


def row_scores(
    task: TaskReader, measure: Measure, grouping: Grouping, params: Mapping[str, JsonValue] | None = None
) -> RowScores:
    """Read one number of every sample of a task.

    Args:
        task: of a run that is scored, or of a baseline.
        measure: which number.
        grouping: fields of clusters and slices.
        params: the metric's parameters, for aggregations that read them.

    Raises:
        InputError: only a path names the number's aggregation, or the stored scores lack the counts it is made of.
    """
    how = aggregation_of(task.task_id, measure)
    tables = list(_score_tables(task, measure, grouping, how))
    if not tables:
        return RowScores(pa.array([], pa.string()), np.empty(0), single=True)
    table = pa.concat_tables(tables)
    ids = table["sample_id"].dictionary_encode().combine_chunks()
    codes = ids.indices.to_numpy().astype(np.int64)
    count, first = len(ids.dictionary), np.unique(codes, return_index=True)[1]
    key, suffix = _key_of(table, measure)
    values = _values(table, key).to_numpy(zero_copy_only=False).astype(np.float64)
    weights = table[WEIGHT].to_numpy() if WEIGHT in table.column_names else None
    recount = None
    if not how.is_mean:
        there = np.isfinite(values)
        rows = CountedRows(
            codes[there],
            values[there],
            weights=None if weights is None else weights[there],
            scale=measure.scale,
            params=params or {},
            **_counts(table.filter(pa.array(there)), how, key, measure, task.task_id),
        )
        recount = how.recount(rows, suffix)
    return RowScores(
        ids.dictionary,
        reduced(values, codes, count, how if how.is_mean else find_aggregation("mean"), measure.scale),
        len(codes) == count,
        table[CLUSTER].take(pa.array(first, pa.int64())) if CLUSTER in table.column_names else None,
        None if weights is None else weights[first],
        _slices(table, grouping, codes),
        recount,
        how.resamples,
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


def pair(current: RowScores, baseline: Sequence[RowScores], scale: Scale = DEFAULT, *, part: bool = False) -> Pairing:
    """Pair two runs sample by sample; the baseline may be several repeats of one run.

    A sample counts if the current run and every repeat have scored it, and its weight is not 0.

    Args:
        current, baseline: the runs.
        scale: of the samples' values.
        part: the current run was to ask only some samples, so that others of the baseline do not count.
    """
    ids = current.ids
    matched = [repeat.values_of(ids) for repeat in baseline]
    scored_now = np.isfinite(current.values)
    scored_before = np.all([np.isfinite(values) for values in matched], axis=0)
    weighs = True if current.weights is None else current.weights > 0
    both = np.flatnonzero(scored_now & scored_before & weighs)
    gone = 0 if part else max((int(np.count_nonzero(_not_in(repeat.ids, ids))) for repeat in baseline), default=0)
    new = np.all([_not_in(ids, repeat.ids) for repeat in baseline], axis=0)
    one_sided = int(np.count_nonzero((scored_now != scored_before) & ~new))
    values = np.stack([repeat[both] for repeat in matched])
    now = current.values[both]
    binary = current.single and all(repeat.single for repeat in baseline) and _is_binary(now) and _is_binary(values)
    clusters = None
    if current.clusters is not None:
        codes = current.clusters.combine_chunks().dictionary_encode().indices.to_numpy()
        clusters = codes[both].astype(np.int64)
    of_pairs = ids.take(pa.array(both, pa.int64()))
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
            _numbers(of_pairs, current, baseline),
        ),
        of_pairs,
        slices,
        gone + int(np.count_nonzero(new)) + one_sided,
        len(ids) - int(np.count_nonzero(new)),
        len(ids) + gone,
    )


def _score_tables(task: TaskReader, measure: Measure, grouping: Grouping, how: Aggregation) -> Iterator[pa.Table]:
    """Per part: what the number is made of, and the columns of clusters and slices."""
    artifact = task.scores[measure.metric_id]
    columns = sorted({"row_index"} | grouping.sample_columns)
    needed = {"sample_id", "status", "values"}
    needed |= ({"components"} if how.terms or how.pairs else set()) | ({"extracted"} if how.categories else set())
    for part in artifact.parts:
        table = measure.of_filter(artifact.read(part.index))
        if grouping.field_paths:
            inputs = {
                name: task.artifact(name).read(part.index, columns=columns if name == "samples" else None)
                for name in {"samples", "responses"} | grouping.inputs
            }
            table = grouping.label(table, inputs)
        labels = {name for name in table.column_names if name in (CLUSTER, WEIGHT) or name.startswith("slice.")}
        yield table.select([name for name in table.column_names if name in needed | labels])


def _key_of(table: pa.Table, measure: Measure) -> tuple[str, str]:
    """The key of the answers' values that a number is made of, and what the aggregation adds: ``acc``, ``=B``."""
    keys = pc.unique(table["values"].combine_chunks().keys).to_pylist()
    heads = [key for key in keys if measure.value_key == key or measure.value_key.startswith(f"{key}=")]
    key = max(heads, key=len, default=measure.value_key)
    return key, measure.value_key.removeprefix(key)


def _values(table: pa.Table, key: str) -> pa.Array:
    """The value of each answer; NaN where it does not count."""
    counts = pc.not_equal(table["status"], "unscored").combine_chunks()
    return pc.if_else(counts, pc.fill_null(values_of(table, key), float("nan")), float("nan"))


def _counts(table: pa.Table, how: Aggregation, key: str, measure: Measure, task_id: str) -> dict[str, Any]:
    """What a number is made of besides the values: fields of `CountedRows`."""
    counts: dict[str, Any] = {}
    components = table["components"].to_pylist() if how.terms or how.pairs else []
    if how.terms:
        terms = Terms(_component_key(components, key), measure.metric_id)
        terms.add(components)
        counts["terms"] = terms.all
    if how.categories:
        counts["categories"] = table["extracted"].to_pylist()
    if how.pairs:
        counts["references"] = [reference_class(text) for text in components]
    needed = [counts[name] for name in ("terms", "references") if name in counts]
    if table.num_rows and any(_is_empty(column) for column in needed):
        raise InputError(
            f"task '{task_id}': the stored scores lack the counts that {measure.name} is made of, so it cannot be "
            "compared. Score the run again: gage score."
        )
    return counts


def _component_key(components: Sequence[str | None], key: str) -> str:
    """The name of the numbers in ``components``, if the config gave the value another name than the metric."""
    first = next((decode(text) for text in components if text is not None), None)
    names = [name for name in first if name != "reference"] if isinstance(first, dict) else []
    return names[0] if key not in names and len(names) == 1 else key


def _numbers(of_pairs: pa.Array, current: RowScores, baseline: Sequence[RowScores]) -> PairedNumbers | None:
    """The number of each run on the pairs; None for a mean over samples."""
    if current.recount is None or any(repeat.recount is None for repeat in baseline):
        return None
    return PairedNumbers(
        _on_pairs(current, of_pairs), [_on_pairs(repeat, of_pairs) for repeat in baseline], current.resamples
    )


def _on_pairs(run: RowScores, of_pairs: pa.Array) -> Recount:
    places = pc.index_in(of_pairs, value_set=run.ids).to_numpy().astype(np.int64)
    whole, count = run.recount, len(run.ids)
    assert whole is not None

    def recount(times: Ints) -> float:
        of_all = np.zeros(count, np.int64)
        of_all[places] = times
        return whole(of_all)

    return recount


def _is_empty(column: Floats | list[str | None]) -> bool:
    if isinstance(column, list):
        return all(text is None for text in column)
    return column.size == 0 or bool(np.isnan(column).any(axis=1).all())


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


def _not_in(ids: pa.Array, others: pa.Array) -> npt.NDArray[np.bool_]:
    is_new: npt.NDArray[np.bool_] = pc.invert(pc.is_in(ids, others)).to_numpy(zero_copy_only=False)
    return is_new


def _is_binary(values: npt.NDArray[Any]) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())
