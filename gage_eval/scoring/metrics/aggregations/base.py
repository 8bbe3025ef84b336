"""Define and register an aggregation.

    @aggregation("median", version=1)
    def median(rows: CountedRows) -> Aggregate: ...

    @mean_over_samples("best", version=3)
    def best(values: Sequence[float], scale: Scale) -> float | None: ...

The second one reduces each sample's replicates to one value, and its number is the mean over samples. Two runs are
compared by such a number sample by sample. By any other number they are compared by computing it again, each time with
other samples (`Aggregation.recount`).

A name may hold one whole number, as ``pass@{k}``: the config says ``pass@5`` and the function gets ``k=5``.
A corpus number (BLEU, perplexity, a ratio) needs more than the values. The metric stores it in ``Score.components``
as ``{value key: [numbers]}``, and an aggregation with ``terms=True`` gets these as a matrix. So the number can be
computed again from the stored scores, without any text.
"""

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, closest, visible
from gage_eval.extend.loading import PluginError, plugin_errors
from gage_eval.extend.registry import Plugin, aggregations
from gage_eval.scoring.metrics.scale import DEFAULT, SHARE, UNKNOWN, Scale
from gage_eval.stats import (
    Interval,
    bootstrap_sums,
    clustered_stderr,
    clustered_wilson_interval,
    mean_stderr,
    reduce_replicates,
    t_interval,
    weighted_mean_stderr,
    wilson_interval,
)

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Recounted: TypeAlias = Callable[[Ints], Mapping[str, float | None]]
F = TypeVar("F", bound=Callable[..., Any])
_LARGEST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregated number.

    Attributes:
        value: None when no row counted.
        stderr: None where it is unknown, as for fewer than two samples.
        low, high: the 95 % interval, None where there is none.
        interval: ``wilson``, ``t``, ``order`` (between order statistics) or ``bootstrap``; None without one.
        samples: number of samples behind the value, where it is not all of them.
    """

    value: float | None
    stderr: float | None = None
    low: float | None = None
    high: float | None = None
    interval: str | None = None
    samples: int | None = None

    @classmethod
    def of(
        cls,
        value: float | None,
        stderr: float | None,
        interval: Interval | None,
        kind: str,
        samples: int | None = None,
        scale: Scale = DEFAULT,
    ) -> "Aggregate":
        """A number with its interval, where it has one, cut to the range of its scale."""
        if value is None or interval is None:
            return cls(value, stderr, samples=samples)
        return cls(value, stderr, *scale.clipped(value, *interval), kind, samples)


@dataclass(frozen=True, slots=True)
class Samples:
    """One value per sample, replicates reduced.

    Attributes:
        values: in the order of the samples' rows.
        clusters: the cluster number of each sample; None without clusters.
        weights: None without weights.
        scale: what the values mean; of one that is ``binary`` each is 0 or 1, or a share of such replicates.
    """

    values: Floats
    clusters: Ints | None = None
    weights: Floats | None = None
    scale: Scale = DEFAULT


def one_each(row_index: Ints) -> bool:
    """Whether the rows belong to different samples, in order; checked without a copy."""
    return bool((row_index[1:] > row_index[:-1]).all())


@dataclass(frozen=True)
class CountedRows:
    """The score rows that count (scored and unparsed) of one filter, value key and slice.

    Attributes:
        row_index: the sample of each row; replicates are in order.
        values: the number of each row.
        clusters: the cluster number of each row; None without a cluster field.
        weights: the weight of each row's sample; None without a weight field.
        terms: rows × numbers, from ``components[value key]``; NaN in rows without. Only for ``terms=True``.
        categories: the text extracted from each answer. Only for ``categories=True`` and ``pairs=True``.
        scale: what the values mean, as the metric declares it.
        references: the class of each row's reference, from ``components["reference"]``. Only for ``pairs=True``.
        params: the metric's parameters.
    """

    row_index: Ints
    values: Floats
    clusters: Ints | None = None
    weights: Floats | None = None
    terms: Floats | None = None
    categories: Sequence[str | None] | None = None
    scale: Scale = DEFAULT
    references: Sequence[str | None] | None = None
    params: Mapping[str, JsonValue] = field(default_factory=dict)

    @cached_property
    def samples(self) -> Samples:
        """The mean of each sample's replicates."""
        if one_each(self.row_index):
            return Samples(self.values, self.clusters, self.weights, self.scale)
        _, first = np.unique(self.row_index, return_index=True)
        return self._samples(reduce_replicates(self.row_index, self.values), first, self.scale)

    def reduced(self, reduce: Callable[[Floats], float | None], scale: Scale | None = None) -> Samples:
        """Reduce each sample's replicates to one value; samples whose value is None are left out.

        Args:
            reduce: from the replicates' values to one value.
            scale: of the result; by default that of the metric's values.
        """
        _, first, inverse, counts = np.unique(
            self.row_index, return_index=True, return_inverse=True, return_counts=True
        )
        groups = np.split(self.values[np.argsort(inverse, kind="stable")], np.cumsum(counts)[:-1])
        reduced = [reduce(group) for group in groups] if len(first) else []
        kept = np.array([value is not None for value in reduced], bool)
        return self._samples(
            np.array([value for value in reduced if value is not None], np.float64),
            first[kept],
            self.scale if scale is None else scale,
        )

    def repeated(self, times: Ints) -> "CountedRows":
        """The rows of samples that count several times, each time as a separate sample; without clusters.

        Args:
            times: how often each sample counts, by its ``row_index``.
        """
        counts = times[self.row_index]
        rows = np.repeat(np.arange(len(counts)), counts)
        copies = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        sample_of = self.row_index[rows] + copies * len(times)
        order = np.argsort(sample_of, kind="stable")
        rows = rows[order]
        places = rows.tolist()
        return replace(
            self,
            row_index=sample_of[order],
            values=self.values[rows],
            clusters=None,
            weights=None if self.weights is None else self.weights[rows],
            terms=None if self.terms is None else self.terms[rows],
            categories=None if self.categories is None else [self.categories[row] for row in places],
            references=None if self.references is None else [self.references[row] for row in places],
        )

    def _samples(self, values: Floats, first: Ints, scale: Scale) -> Samples:
        return Samples(
            values,
            None if self.clusters is None else self.clusters[first],
            None if self.weights is None else self.weights[first],
            scale,
        )


@dataclass(frozen=True)
class Aggregation:
    """A registered aggregation with its parameter, if its name holds one. Find it with `find_aggregation`."""

    name: str
    plugin: Plugin[Any]
    arguments: Mapping[str, int] = field(default_factory=dict)

    @property
    def terms(self) -> bool:
        """Whether it needs ``components``."""
        return bool(self.plugin.info.get("terms"))

    @property
    def pairs(self) -> bool:
        """Whether it needs the classes of references, which are in ``components``."""
        return bool(self.plugin.info.get("pairs"))

    @property
    def categories(self) -> bool:
        """Whether it needs the extracted texts."""
        return self.pairs or bool(self.plugin.info.get("categories"))

    @property
    def params(self) -> bool:
        """Whether it reads the metric's parameters, which are then in its key."""
        return bool(self.plugin.info.get("params"))

    @property
    def takes_clusters(self) -> bool:
        return bool(self.plugin.info.get("clusters"))

    @property
    def takes_weights(self) -> bool:
        return bool(self.plugin.info.get("weights"))

    @property
    def resamples(self) -> bool:
        """Whether resampled rows show the error of its number."""
        return bool(self.plugin.info.get("resamples", True))

    @property
    def counts_right(self) -> bool:
        """Whether it counts right answers, which only some metrics have."""
        return bool(self.plugin.info.get("counts_right"))

    @property
    def is_mean(self) -> bool:
        """Whether its number is the (weighted) mean over samples of `per_sample`."""
        return "per_sample" in self.plugin.info

    def per_sample(self, values: Sequence[float], scale: Scale) -> float | None:
        """The value of one sample, from those of its replicates; None if it does not count.

        Args:
            values: of the sample's answers that count, in the order of replicates; at least one.
            scale: what they mean.
        """
        errors = nullcontext() if self.plugin.is_builtin else plugin_errors(f"{self.plugin.location}()")
        with errors:
            value: float | None = self.plugin.info["per_sample"](values, scale, **self.arguments)
        return value

    def recount(self, rows: CountedRows, suffix: str = "") -> Callable[[Ints], float]:
        """One of its numbers as a function of how often each sample counts; NaN where there is no number.

        Args:
            rows: with samples 0, 1, … as their ``row_index``.
            suffix: of the number, as `compute` names it.
        """
        own = self.plugin.info.get("recount")
        numbers = None if own is None else own(rows, **self.arguments)

        def number(times: Ints) -> float:
            if numbers is None:
                aggregate = self.compute(rows.repeated(times)).get(suffix)
                value = None if aggregate is None else aggregate.value
            else:
                value = numbers(times).get(suffix)
            return math.nan if value is None else value

        return number

    def scale_of(self, scale: Scale) -> Scale:
        """The scale of its number, for values on ``scale``."""
        if self.counts_right:
            return SHARE
        if (own := self.plugin.info.get("scale")) is not None:
            return Scale(**own)
        return scale if self.plugin.info.get("keeps_scale", True) else UNKNOWN

    def identity(self) -> JsonValue:
        """Its part of keys."""
        return [self.plugin.identity(), dict(self.arguments)]

    def compute(self, rows: CountedRows) -> dict[str, Aggregate]:
        """The numbers by the suffix to the value key: none, or ``=B`` for one of several."""
        if self.plugin.is_builtin:
            result = self.plugin.obj(rows, **self.arguments)
            return {"": result} if isinstance(result, Aggregate) else dict(result)
        what = f"{self.plugin.location}()"
        with plugin_errors(what):
            result = self.plugin.obj(rows, **self.arguments)
            numbers = {"": result} if isinstance(result, Aggregate) else result
            if not isinstance(numbers, Mapping) or not all(
                isinstance(number, Aggregate) for number in numbers.values()
            ):
                raise PluginError(f"{what} gave {type(result).__name__}, not an Aggregate or a mapping of them.")
            for suffix, number in numbers.items():
                if (why := _no_number(number)) is not None:
                    raise PluginError(f"{what} gave an Aggregate whose {why}.")
                if not _is_text(suffix):
                    raise PluginError(f"{what} gave an Aggregate under {suffix!a}, not a text.")
        return dict(numbers)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and visible(value) == value


def _no_number(aggregate: Aggregate) -> str | None:
    """Which part of an aggregate is not a number; None when all are."""
    for name in ("value", "stderr", "low", "high", "samples"):
        value = getattr(aggregate, name)
        if value is None:
            continue
        if not isinstance(value, int | float):
            return f"{name} is {type(value).__name__}, not a number"
        if not -_LARGEST <= value <= _LARGEST:
            return f"{name} is not a finite number"
    if aggregate.samples is not None and not (type(aggregate.samples) is int and 0 <= aggregate.samples < 2**63):
        return "samples is not a count"
    if aggregate.interval is not None and not _is_text(aggregate.interval):
        return "interval is not a text"
    return None


def aggregation(
    name: str,
    *,
    version: int = 1,
    clusters: bool = False,
    weights: bool = False,
    terms: bool = False,
    categories: bool = False,
    pairs: bool = False,
    params: bool = False,
    keeps_scale: bool = True,
    scale: Scale | None = None,
    counts_right: bool = False,
    largest: int = 10_000,
    libraries: Sequence[str] = (),
    per_sample: Callable[..., float | None] | None = None,
    recount: Callable[..., Recounted] | None = None,
    resamples: bool = True,
) -> Callable[[F], F]:
    """Decorator: register a function of `CountedRows` that returns an `Aggregate`, or several by suffix.

    Args:
        name: the name used in configs; ``{k}`` in it stands for a whole number, the parameter ``k``.
        version: increase it whenever a result can change.
        clusters: it supports clusters; otherwise a cluster field is refused.
        weights: it supports weights; otherwise a weight field is refused.
        terms: it needs `CountedRows.terms`.
        categories: it needs `CountedRows.categories`.
        pairs: it needs `CountedRows.categories` and `CountedRows.references`.
        params: it reads `CountedRows.params`.
        keeps_scale: its number is on the scale of the values, so that more is better where it is for them.
        scale: that of its number, where it is another.
        counts_right: it counts right answers; a metric by which no answer is right is refused.
        largest: the largest number that its name may hold.
        libraries: distributions whose version is part of its identity.
        per_sample: reduces the values of a sample's replicates, on a `Scale`, to one value or None, if the number is
            the mean over samples of these values, weighted where there are weights.
        recount: from the rows, a function of how often each sample counts that gives the numbers by suffix; a faster
            way to what the aggregation makes of `CountedRows.repeated`.
        resamples: False where resampled rows do not show the error of the number, as of a maximum.
    """
    declared = {key: value for key, value in locals().items() if value is not None}
    if scale is not None:
        declared["scale"] = asdict(scale)
    return aggregations.register(**declared)


def mean_over_samples(
    name: str, *, version: int = 1, counts_right: bool = False, largest: int = 10_000
) -> Callable[[F], F]:
    """Decorator: register a function that reduces one sample's values; the number is the mean over samples.

    The function gets the values of the sample's replicates, their `Scale` and the parameter in the name. It returns
    the sample's value, or None to leave the sample out.

    Args:
        name, version, counts_right, largest: as for `aggregation`.
    """

    def register(per_sample: F) -> F:
        def aggregate(rows: CountedRows, **arguments: int) -> Aggregate:
            reduce = partial(per_sample, scale=rows.scale, **arguments)
            return mean_of(rows.reduced(lambda values: reduce(values.tolist()), SHARE if counts_right else None))

        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(aggregate, attribute, getattr(per_sample, attribute))
        decorate = aggregation(
            name, version=version, clusters=True, counts_right=counts_right, largest=largest, per_sample=per_sample
        )
        decorate(aggregate)
        return per_sample

    return register


def find_aggregation(name: str) -> Aggregation:
    """The aggregation with that name, ``pkg.mod:function`` or ``file.py:function``.

    Raises:
        InputError: it does not exist.
    """
    if "{" not in name and (plain := aggregations.loaded(name)) is not None:
        return Aggregation(name, plain)
    known = aggregations.names()
    for pattern in known:
        head, brace, rest = pattern.partition("{")
        if not brace:
            continue
        parameter, _, tail = rest.partition("}")
        match = re.fullmatch(re.escape(head) + r"([1-9]\d{0,4})" + re.escape(tail), name)
        if match:
            plugin, number = aggregations.get(pattern), int(match[1])
            if number > plugin.info["largest"]:
                raise InputError(f"aggregation {name}: {parameter} must be at most {plugin.info['largest']}.")
            return Aggregation(name, plugin, {parameter: number})
    if name in known or ":" in name:
        plugin = aggregations.get(name)
        if "{" not in plugin.name:
            return Aggregation(plugin.name, plugin)
    digits = re.search(r"\d+", name)
    spelled = [re.sub(r"\{\w+\}", digits[0] if digits else "2", pattern) for pattern in known]
    raise InputError(f"no aggregation '{name}'. Known: {', '.join(known)}.{closest(name, spelled)}")


def stored_aggregation(name: str) -> Aggregation | None:
    """The aggregation of a stored number. Code that only a path names is not loaded for it: that is None."""
    return None if ":" in name else find_aggregation(name)


def mean_value(values: Sequence[float], _scale: Scale = DEFAULT) -> float:
    """The mean of a sample's replicates."""
    return math.fsum(values) / len(values)


def mean_of(samples: Samples) -> Aggregate:
    """The mean over samples with its standard error and interval.

    Wilson's interval where the values are declared 0 or 1 and all of them are, else Student's; with clusters both have
    C−1 degrees of freedom. Values that are all equal have no Student's interval, because their spread is unknown.
    """
    values, clusters = samples.values, samples.clusters
    average, stderr = mean_stderr(values)
    if average is None:
        return Aggregate(None, samples=0)
    count = len(values)
    freedom = count - 1
    shares = samples.scale.binary and bool(np.isin(values, (0.0, 1.0)).all())
    if clusters is not None:
        stderr, freedom = clustered_stderr(values, clusters), len(np.unique(clusters)) - 1
    if not shares:
        interval = t_interval(average, stderr, freedom) if stderr else None
    elif clusters is None:
        interval = wilson_interval(float(values.sum()), count)
    else:
        interval = clustered_wilson_interval(average, stderr, count, freedom + 1)
    return Aggregate.of(average, stderr, interval, "wilson" if shares else "t", count, samples.scale)


def weighted_mean_of(samples: Samples) -> Aggregate:
    """Σwx/Σw over samples with its standard error and Student's interval; every weight is 1 without weights.

    Samples of weight 0 do not count: they add no degree of freedom.
    """
    values, clusters = samples.values, samples.clusters
    weights = np.ones(len(values)) if samples.weights is None else samples.weights
    average, stderr = weighted_mean_stderr(values, weights)
    if average is None:
        return Aggregate(None, samples=0)
    freedom = int(np.count_nonzero(weights)) - 1
    if clusters is not None:
        stderr, freedom = clustered_stderr(values, clusters, weights), len(np.unique(clusters[weights > 0])) - 1
    return Aggregate.of(average, stderr, t_interval(average, stderr, freedom), "t", len(values), samples.scale)


def summed_terms(rows: CountedRows) -> tuple[Floats, Ints]:
    """The sums of each sample (or cluster), and the number of samples in each.

    Rows without terms are left out.
    """
    assert rows.terms is not None
    there = ~np.isnan(rows.terms).any(axis=1)
    terms, row_index = rows.terms, rows.row_index
    if not there.all():
        terms, row_index = terms[there], row_index[there]
    if rows.clusters is None and one_each(row_index):
        return terms, np.ones(len(terms), np.int64)
    units = row_index if rows.clusters is None else rows.clusters[there]
    _, unit_of = np.unique(units, return_inverse=True)
    count = int(unit_of.max()) + 1 if len(unit_of) else 0
    sums = [np.bincount(unit_of, weights=column, minlength=count) for column in terms.T]
    _, first = np.unique(row_index, return_index=True)
    sizes = np.bincount(unit_of[first], minlength=count)
    return np.stack(sums, axis=1) if sums and count else np.empty((0, terms.shape[1])), sizes


def corpus_number(rows: CountedRows, statistic: Callable[[Floats], float]) -> Aggregate:
    """A statistic of the sums of all rows' terms, with a seeded bootstrap over samples (over clusters, if any).

    Args:
        rows: with terms.
        statistic: a function of the vector of sums; it may return NaN where it is undefined.
    """
    sums, sizes = summed_terms(rows)
    if not len(sums):
        return Aggregate(None, samples=0)
    value = float(statistic(sums.sum(axis=0)))
    count = int(sizes.sum())
    if not np.isfinite(value):
        return Aggregate(None, samples=count)
    return Aggregate.of(value, *bootstrap_sums(sums, statistic), "bootstrap", count)


def recounted_sums(statistic: Callable[[Floats], float | None]) -> Callable[[CountedRows], Recounted]:
    """``recount`` of a statistic of the sums of all rows' terms; NaN or None where it is undefined."""

    def recount(rows: CountedRows) -> Recounted:
        assert rows.terms is not None
        alone = replace(rows, clusters=None)
        columns = np.ascontiguousarray(summed_terms(alone)[0].T)
        samples = np.unique(rows.row_index[~np.isnan(rows.terms).any(axis=1)])

        def numbers(times: Ints) -> dict[str, float | None]:
            drawn = times[samples].astype(np.float64)
            # Not a matrix product, whose threads wait for each other on a busy machine.
            return {"": statistic(np.einsum("i,ji->j", drawn, columns))} if drawn.any() else {}

        return numbers

    return recount
