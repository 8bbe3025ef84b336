"""Aggregate score rows to numbers with their uncertainty, over all rows and over each slice.

`scored` and `unparsed` rows count, `unscored` rows do not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base import canonical
from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.base.statuses import NOT_OK, SCORE_STATUSES
from gage_eval.scoring.metrics.aggregations.base import (
    Aggregate,
    Aggregation,
    CountedRows,
    Floats,
    Ints,
    find_aggregation,
    one_each,
)
from gage_eval.scoring.metrics.grouping import CLUSTER, STATUS, WEIGHT, Grouping, slice_column
from gage_eval.scoring.metrics.scale import DEFAULT, Scale

MOST_SLICES = 1000
_MOST_KEYS = 1000
_UNPARSED, _UNSCORED = SCORE_STATUSES.index("unparsed"), SCORE_STATUSES.index("unscored")
_NUMBERS = {int, float}
_ENTRIES = pa.list_(pa.struct([("key", pa.string()), ("value", pa.float64())]))


@dataclass(frozen=True)
class Aggregations:
    """The aggregations of each value key.

    Attributes:
        default: aggregations of a key without its own.
        by_key: aggregations of other keys.
        component_keys: a value's key in ``components``, where the config gave the value another name.
        scales: what the values of each declared key mean.
        others: what those of further keys mean.
        params: the metric's parameters, for aggregations that read them.
    """

    default: tuple[Aggregation, ...]
    by_key: Mapping[str, tuple[Aggregation, ...]]
    component_keys: Mapping[str, str]
    scales: Mapping[str, Scale] = field(default_factory=dict)
    others: Scale = DEFAULT
    params: Mapping[str, JsonValue] = field(default_factory=dict)

    def of(self, key: str) -> tuple[Aggregation, ...]:
        return self.by_key.get(key, self.default)

    def scale(self, key: str) -> Scale:
        return self.scales.get(key, self.others)

    @property
    def every(self) -> Iterator[Aggregation]:
        yield from self.default
        for aggregations in self.by_key.values():
            yield from aggregations

    def identity(self) -> dict[str, JsonValue]:
        """The part of the key of the metrics table."""
        return {
            "default": [aggregation.identity() for aggregation in self.default],
            "by_key": {key: [aggregation.identity() for aggregation in own] for key, own in self.by_key.items()},
            "scales": {key: scale.identity() for key, scale in self.scales.items()},
            **({} if self.others == DEFAULT else {"others": self.others.identity()}),
            **({"params": dict(self.params)} if any(how.params for how in self.every) else {}),
        }


def read_aggregations(
    names: Sequence[str],
    by_key: Mapping[str, str],
    by: Grouping,
    *,
    component_keys: Mapping[str, str] | None = None,
    scales: Mapping[str, Scale] | None = None,
    others: Scale = DEFAULT,
    params: Mapping[str, JsonValue] | None = None,
) -> Aggregations:
    """Read aggregations from their names.

    Raises:
        InputError: a name is unknown or given twice, there is no name, or an aggregation does not support a field
            or a scale.
    """
    if not names:
        raise InputError(f"metric {by.metric_id}: aggregation is an empty list. Name one, or remove the key.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"metric {by.metric_id}: the aggregation '{twice}' is given twice. Keep one.")
    aggregations = Aggregations(
        tuple(find_aggregation(name) for name in names),
        {key: (find_aggregation(name),) for key, name in by_key.items()},
        component_keys or {},
        scales or {},
        others,
        params or {},
    )
    for aggregation in aggregations.every:
        for name, field_path, takes in (
            ("cluster_field", by.cluster, aggregation.takes_clusters),
            ("weight_field", by.weight, aggregation.takes_weights),
        ):
            if field_path is not None and not takes:
                raise InputError(
                    f"metric {by.metric_id}: aggregation {aggregation.name} does not read a {name}. Remove {name}, or "
                    f"aggregate with {'mean' if field_path is by.cluster else 'weighted_mean'}."
                )
    for key, scale in aggregations.scales.items():
        counting = next((aggregation for aggregation in aggregations.of(key) if aggregation.counts_right), None)
        if counting is not None and scale.perfect is None:
            raise InputError(
                f"metric {by.metric_id}: aggregation {counting.name} counts right answers, and no answer is right or "
                f"wrong by '{key}'. Aggregate with mean."
            )
    return aggregations


def aggregate(
    tables: Iterable[pa.Table],
    *,
    metric_id: str,
    implementation: str,
    value_keys: Sequence[str],
    filters: Sequence[str | None],
    how: Aggregations,
    response_counts: Mapping[str, int],
    grouping: Grouping,
) -> list[dict[str, Any]]:
    """Rows of `tables.METRICS` without ``scores``, one per filter, value key and aggregation, then those of slices.

    Args:
        tables: score tables (`tables.SCORES`), part by part, labelled by `Grouping.label` where there is a
        grouping; only one is in memory at a time.
        metric_id: the name in the config.
        implementation: the metric's name.
        value_keys: the keys that the metric declares; they come first and exist even when nothing is scored.
        filters: the names of the metric's filters; None for no filter.
        how: the aggregations of each value key.
        response_counts: rows of the responses by status.
        grouping: the fields of clusters, weights and slices.

    Returns:
        ``n``: the samples a number is made of; ``rows``: the score rows that count (more with replicates). A slice
        whose ``slice_value`` is None holds the rows without the field. ``overridden``: rows scored with parameters of
        their own sample.

    Raises:
        InputError: a slice field has more than `MOST_SLICES` values, or ``components`` that an aggregation needs
            are not numbers.
    """
    wanted = _Needs(how, grouping)
    series: dict[str | None, _Series] = {name: _Series(wanted) for name in filters}
    for table in tables:
        names = table.column("filter")
        for name in pc.unique(names).to_pylist():
            chosen = pc.is_null(names) if name is None else pc.fill_null(pc.equal(names, name), False)  # noqa: FBT003
            series.setdefault(name, _Series(wanted)).add(table.filter(chosen))
    whole = {status: int(response_counts.get(status, 0)) for status in NOT_OK}
    named = {"metric_id": metric_id, "implementation": implementation}
    rows: list[dict[str, Any]] = []
    sliced: list[dict[str, Any]] = []
    for name, filtered in series.items():
        keys = [*value_keys, *sorted(set(filtered.keys) - set(value_keys))]
        if len(keys) > _MOST_KEYS:
            raise InputError(f"metric {metric_id} gives more than {_MOST_KEYS:,} numbers. Let it give fewer.")
        rows += filtered.numbers(keys, {**named, "filter": name, "slice_field": None, "slice_value": None}, whole)
        for sliced_by, value, members in filtered.slices():
            head = {**named, "filter": name, "slice_field": sliced_by, "slice_value": value}
            sliced += filtered.numbers(keys, head, filtered.response_statuses(members), members)
    return rows + sliced


class _Needs:
    """The data that the series must collect besides the values."""

    def __init__(self, how: Aggregations, grouping: Grouping) -> None:
        self.how = how
        self.grouping = grouping
        self.terms = any(aggregation.terms for aggregation in how.every)
        self.categories = any(aggregation.categories for aggregation in how.every)
        self.pairs = any(aggregation.pairs for aggregation in how.every)


class _Series:
    """The rows of one filter by column, in the order of their arrival."""

    def __init__(self, wanted: _Needs) -> None:
        self._wanted = wanted
        self._rows = 0
        self._row_index = _GrowingArray(np.int64)
        self._status = _GrowingArray(np.int8)
        self._overridden = _GrowingArray(np.bool_)
        self._positions: dict[str, _GrowingArray] = {}
        self._values: dict[str, _GrowingArray] = {}
        self._terms: dict[str, Terms] = {}
        self._clusters = _Codes()
        self._weights = _GrowingArray(np.float64)
        self._responses, self._categories, self._references = _Codes(), _Codes(), _Codes()
        self._slices = [_Membership(path.text) for path in wanted.grouping.slices]

    @property
    def keys(self) -> Iterable[str]:
        """The value keys found so far."""
        return self._positions.keys()

    def add(self, table: pa.Table) -> None:
        status = pc.index_in(table.column("status"), pa.array(SCORE_STATUSES)).to_numpy().astype(np.int8)
        self._row_index.append(table.column("row_index").to_numpy())
        self._status.append(status)
        self._overridden.append(table.column("overrides").is_valid().to_numpy())
        counts = pc.not_equal(table.column("status"), "unscored")
        entries = table.column("values").filter(counts).combine_chunks()
        parents = np.flatnonzero(counts.to_numpy())[pc.list_parent_indices(entries.cast(_ENTRIES)).to_numpy()]
        flat_keys, items = entries.keys, entries.items.to_numpy()
        for key in pc.unique(flat_keys).to_pylist():
            mine = pc.equal(flat_keys, key).to_numpy(zero_copy_only=False)
            self._positions.setdefault(key, _GrowingArray(np.int64)).append(self._rows + parents[mine])
            self._values.setdefault(key, _GrowingArray(np.float64)).append(items[mine])
            if self._wanted.terms:
                of_key = table.column("components").take(parents[mine]).to_pylist()
                name = self._wanted.how.component_keys.get(key, key)
                self._terms.setdefault(key, Terms(name, self._wanted.grouping.metric_id)).add(of_key)
        self._label(table)
        self._rows += table.num_rows

    def numbers(
        self, keys: Sequence[str], head: Mapping[str, Any], statuses: Mapping[str, int], members: Ints | None = None
    ) -> Iterator[dict[str, Any]]:
        """One row of the metrics table per value key and aggregation, over all rows or over ``members``."""
        inside = None
        status, overridden = self._status.all, self._overridden.all
        if members is not None:
            inside = np.zeros(self._rows, bool)
            inside[members] = True
            status, overridden = status[members], overridden[members]
        unparsed, unscored = (int(np.count_nonzero(status == code)) for code in (_UNPARSED, _UNSCORED))
        for key in keys:
            rows = self._counted(key, inside)
            credited = self._credited(key, inside)
            samples = len(rows.values) if one_each(rows.row_index) else len(np.unique(rows.row_index))
            scale = self._wanted.how.scale(key)
            for how in self._wanted.how.of(key):
                shown = how.scale_of(scale)
                for suffix, number in how.compute(rows).items():
                    yield {
                        **head,
                        "value_key": key + suffix,
                        "aggregation": how.name,
                        "higher_is_better": shown.higher_is_better,
                        "bound_low": shown.low,
                        "bound_high": shown.high,
                        "scale": asdict(scale),
                        **_plain(number),
                        "n": samples if number.samples is None else number.samples,
                        "rows": len(rows.values),
                        "unparsed": unparsed,
                        "unparsed_credited": credited,
                        "unscored": unscored,
                        "overridden": int(np.count_nonzero(overridden)),
                        **statuses,
                    }

    def slices(self) -> Iterator[tuple[str, str | None, Ints]]:
        """(field, value, positions of its rows) of every slice, values in order, None last."""
        for membership in self._slices:
            for value, members in membership.by_value():
                yield membership.field, value, members

    def response_statuses(self, members: Ints) -> dict[str, int]:
        """The responses of a slice by status."""
        codes = self._responses.codes[members]
        return {status: int(np.count_nonzero(codes == self._responses.code(status))) for status in NOT_OK}

    def _label(self, table: pa.Table) -> None:
        grouping = self._wanted.grouping
        if grouping.cluster:
            self._clusters.add(table.column(CLUSTER))
        if grouping.weight:
            self._weights.append(table.column(WEIGHT).to_numpy())
        if grouping.slices:
            self._responses.add(table.column(STATUS))
        for number, membership in enumerate(self._slices):
            membership.add(table.column(slice_column(number)), self._rows, grouping.metric_id)
        if self._wanted.categories:
            self._categories.add(table.column("extracted"))
        if self._wanted.pairs:
            classes = [reference_class(text) for text in table.column("components").to_pylist()]
            self._references.add(pa.chunked_array([classes], pa.string()))

    def _credited(self, key: str, inside: npt.NDArray[np.bool_] | None) -> int:
        """Unparsed rows whose value is above 0, a drawn option that was right for example."""
        positions = self._positions.get(key, _GrowingArray(np.int64)).all
        credited = (self._values.get(key, _GrowingArray(np.float64)).all > 0) & (
            self._status.all[positions] == _UNPARSED
        )
        return int(np.count_nonzero(credited if inside is None else credited & inside[positions]))

    def _counted(self, key: str, inside: npt.NDArray[np.bool_] | None) -> CountedRows:
        positions = self._positions.get(key, _GrowingArray(np.int64)).all
        values = self._values.get(key, _GrowingArray(np.float64)).all
        terms = None
        if self._wanted.terms:
            terms = self._terms[key].all if key in self._terms else np.empty((0, 0))
        if inside is not None:
            mine = inside[positions]
            positions, values = positions[mine], values[mine]
            terms = None if terms is None else terms[mine]
        grouping = self._wanted.grouping
        # Where every row counts, no selection is needed.
        row_index = self._row_index.all if len(positions) == self._rows else self._row_index.all[positions]
        return CountedRows(
            row_index,
            values,
            self._clusters.codes[positions] if grouping.cluster else None,
            self._weights.all[positions] if grouping.weight else None,
            terms,
            self._categories.of(positions) if self._wanted.categories else None,
            self._wanted.how.scale(key),
            self._references.of(positions) if self._wanted.pairs else None,
            self._wanted.how.params,
        )


class _GrowingArray:
    """An array that grows part by part and is concatenated when it is read."""

    def __init__(self, kind: type[np.generic]) -> None:
        self._arrays: list[npt.NDArray[Any]] = [np.empty(0, kind)]

    def append(self, array: npt.NDArray[Any]) -> None:
        self._arrays.append(array)

    @property
    def all(self) -> npt.NDArray[Any]:
        if len(self._arrays) > 1:
            self._arrays = [np.concatenate(self._arrays)]
        return self._arrays[0]


class _Codes:
    """Texts as numbers, one per row; each different text is stored once."""

    def __init__(self) -> None:
        self._codes = _GrowingArray(np.int64)
        self._code_of: dict[str | None, int] = {}

    @property
    def codes(self) -> Ints:
        return self._codes.all

    @property
    def texts(self) -> list[str | None]:
        return list(self._code_of)

    def of(self, positions: Ints) -> list[str | None]:
        """The texts of rows."""
        texts = self.texts
        return [texts[code] for code in self.codes[positions]]

    def code(self, text: str | None) -> int:
        """The number of a text; an unknown text gets a number that no row has."""
        return self._code_of.get(text, -1)

    def add(self, column: pa.ChunkedArray) -> None:
        encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
        known = [self._code_of.setdefault(text, len(self._code_of)) for text in encoded.dictionary.to_pylist()]
        self._codes.append(np.array(known, np.int64)[encoded.indices.to_numpy()] if known else np.empty(0, np.int64))


class _Membership:
    """Which rows belong to which values of a slice field; a row may belong to several values or to none."""

    def __init__(self, field: str) -> None:
        self.field = field
        self._members = _Codes()
        self._positions = _GrowingArray(np.int64)
        self._none = _GrowingArray(np.int64)

    def add(self, column: pa.ChunkedArray, offset: int, metric_id: str) -> None:
        lists = column.combine_chunks()
        self._positions.append(offset + pc.list_parent_indices(lists).to_numpy().astype(np.int64))
        self._none.append(offset + np.flatnonzero(pc.list_value_length(lists).to_numpy() == 0))
        self._members.add(pa.chunked_array([pc.list_flatten(lists)]))
        if len(self._members.texts) > MOST_SLICES:
            raise InputError(
                f"metric {metric_id}: the slice field '{self.field}' has more than {MOST_SLICES:,} values. "
                "Slice by a field with fewer."
            )

    def by_value(self) -> Iterator[tuple[str | None, Ints]]:
        positions, codes = self._positions.all, self._members.codes
        for text in sorted(text for text in self._members.texts if text is not None):
            yield text, positions[codes == self._members.code(text)]
        if len(self._none.all):
            yield None, self._none.all


class Terms:
    """The numbers of ``components[key]``, one row per score row; NaN where there are none."""

    def __init__(self, key: str, metric_id: str) -> None:
        self._name = f"metric {metric_id}: components.{key}"
        self._key = key
        self._width: int | None = None
        self._parts: list[Floats] = []

    def add(self, components: Sequence[str | None]) -> None:
        """Add the rows of one part.

        Raises:
            InputError: a value is not a list of numbers, or has another length.
        """
        rows = [self._numbers(text) for text in components]
        width = 0 if self._width is None else self._width
        self._parts.append(np.array([[np.nan] * width if row is None else row for row in rows], np.float64))

    @property
    def all(self) -> Floats:
        parts, width = self._parts, self._width or 0
        if len(parts) > 1 or parts[0].shape[1:] != (width,):
            filled = (part if part.shape[1:] == (width,) else np.full((len(part), width), np.nan) for part in parts)
            self._parts = [np.concatenate(list(filled))]
        return self._parts[0]

    def _numbers(self, text: str | None) -> list[float] | None:
        value = canonical.decode(text) if text is not None else None
        numbers = value.get(self._key) if isinstance(value, dict) else None
        if numbers is None:
            return None
        if not isinstance(numbers, list) or not _NUMBERS.issuperset(map(type, numbers)):
            raise InputError(f"{self._name} is {numbers!r}, not a list of numbers.")
        if self._width is None:
            self._width = len(numbers)
        elif len(numbers) != self._width:
            raise InputError(f"{self._name} has {len(numbers)} numbers in one row, but {self._width} in another.")
        return numbers


def reference_class(components: str | None) -> str | None:
    """The class of a row's reference; None without one."""
    value = canonical.decode(components) if components is not None else None
    name = value.get("reference") if isinstance(value, dict) else None
    return name if isinstance(name, str) else None


def _plain(number: Aggregate) -> dict[str, Any]:
    return {
        "value": number.value,
        "stderr": number.stderr,
        "ci_low": number.low,
        "ci_high": number.high,
        "interval": number.interval,
    }
