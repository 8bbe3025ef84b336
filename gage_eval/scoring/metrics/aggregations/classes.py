"""Aggregations over classes: F1, precision and recall by class and over classes, the confusion matrix, and MCC.

The classes are those of the references that count. An answer that names none of them, or is unparsed, belongs to no
class: it is wrong for the class of its reference, and a false positive of no class. So the numbers are those of
scikit-learn with ``labels=sorted(set(y_true))`` and ``zero_division=0``. Every replicate counts; the errors are those
of samples, or of clusters.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gage_eval.base.errors import InputError
from gage_eval.scoring.metrics.aggregations.base import (
    Aggregate,
    CountedRows,
    Floats,
    Ints,
    Recounted,
    aggregation,
)
from gage_eval.scoring.metrics.scale import Scale
from gage_eval.stats import clustered_wilson_interval, ratio_stderr, t_interval, wilson_interval

_MOST_CLASSES = 200
_STEP = 1e-30
_NOISE = 1e-12
_CORRELATION = Scale(low=-1.0, high=1.0)
_class_aggregation = partial(aggregation, version=1, clusters=True, pairs=True)

Statistic: TypeAlias = Callable[[Floats, Floats, Floats], Floats]
"""A number from rightly named answers, references and answers of each class; the last answers are those of no class."""


@dataclass(frozen=True)
class _Pairs:
    """Reference and answer of each row as numbers of classes.

    Attributes:
        classes: in order; an answer of no class has their count as its number.
        true, said: the class of each row's reference and of its answer.
        units: the number of each row's sample, or of its cluster.
    """

    classes: list[str]
    true: Ints
    said: Ints
    units: Ints

    @classmethod
    def of(cls, rows: CountedRows) -> "_Pairs":
        """Those of rows with a reference.

        Raises:
            InputError: there are too many classes.
        """
        references, answers = rows.references or (), rows.categories or ()
        kept = _with_reference(rows)
        classes = sorted({text for text in references if text is not None})
        if len(classes) > _MOST_CLASSES:
            raise InputError(
                f"{len(classes):,} classes are more than {_MOST_CLASSES}. Aggregate with mean, or with fewer labels."
            )
        number = {text: at for at, text in enumerate(classes)}
        true = np.array([number.get(text or "", 0) for text in references], np.int64)[kept]
        said = np.array([number.get(text or "", len(classes)) for text in answers], np.int64)[kept]
        units = (rows.row_index if rows.clusters is None else rows.clusters)[kept]
        return cls(classes, true, said, np.unique(units, return_inverse=True)[1])

    def counts(self, times: Ints) -> "_Counts":
        """The counts if each row counts so many times. Classes without a reference are none then."""
        size = len(self.classes)
        cells = np.bincount(self.true * (size + 1) + self.said, weights=times, minlength=size * (size + 1))
        cells = cells.reshape(size, size + 1)
        there = np.append(cells.sum(axis=1) > 0, True)
        cells = cells[there[:-1]]
        of_none = cells[:, ~there].sum(axis=1)
        cells = cells[:, there]
        cells[:, -1] += of_none
        return _Counts([name for name, here in zip(self.classes, there, strict=False) if here], cells)

    @cached_property
    def right(self) -> npt.NDArray[np.bool_]:
        return np.equal(self.true, self.said)

    @property
    def samples(self) -> int:
        return len(self.true)

    def number(self, statistic: Statistic, low: float) -> Aggregate:
        """A statistic of the counts of classes, with its linearised standard error and Student's interval.

        Args:
            statistic: a function without jumps, whose gradient is taken by a complex step (Squire and Trapp 1998).
            low: the smallest possible value; the largest is 1.
        """
        if not self.samples:
            return Aggregate(None, samples=0)
        size = len(self.classes)
        counts = (
            np.bincount(self.true[self.right], minlength=size),
            np.bincount(self.true, minlength=size),
            np.bincount(self.said, minlength=size + 1),
        )
        value = float(statistic(*(count.astype(np.float64) for count in counts)).real)
        slopes = list(_gradient(statistic, counts))
        each = np.where(self.right, slopes[0][self.true], 0) + slopes[1][self.true] + slopes[2][self.said]
        sums = np.bincount(self.units, weights=each)
        count = len(sums)
        stderr = float(np.sqrt(count / (count - 1) * np.square(sums).sum())) if count > 1 else None
        # Where all residuals are 0, rounding leaves a little.
        interval = t_interval(value, stderr, count - 1) if stderr is not None and stderr > _NOISE else None
        return Aggregate.of(value, stderr, interval, "t", scale=Scale(low=low, high=1.0))

    def share(self, top: npt.NDArray[np.bool_], bottom: npt.NDArray[np.bool_]) -> Aggregate:
        """The share of the rows of ``bottom`` that are in ``top``, with Wilson's interval."""
        count, hits = int(bottom.sum()), int(top.sum())
        if not count:
            return Aggregate(0.0, samples=0)
        value = hits / count
        bottoms = np.bincount(self.units[bottom])
        inside = bottoms > 0
        units = int(np.count_nonzero(inside))
        if units == count:
            stderr = float(np.sqrt(value * (1 - value) / (count - 1))) if count > 1 else None
            interval = wilson_interval(hits, count)
        else:
            tops = np.bincount(self.units[top], minlength=len(bottoms))
            stderr = ratio_stderr(tops[inside].astype(np.float64), bottoms[inside].astype(np.float64)).stderr
            interval = clustered_wilson_interval(value, stderr, count, units)
        return Aggregate.of(value, stderr, interval, "wilson", units)


@dataclass(frozen=True)
class _Counts:
    """Answers by the class of the reference (rows) and the answer (columns); the last column is of no class."""

    classes: list[str]
    cells: Floats

    @property
    def right(self) -> Floats:
        return np.diagonal(self.cells)

    @property
    def true(self) -> Floats:
        sums: Floats = self.cells.sum(axis=1)
        return sums

    @property
    def said(self) -> Floats:
        sums: Floats = self.cells.sum(axis=0)
        return sums


def _with_reference(rows: CountedRows) -> npt.NDArray[np.bool_]:
    return np.array([text is not None for text in rows.references or ()], bool)


def _gradient(statistic: Statistic, counts: tuple[Ints, Ints, Ints]) -> Iterator[Floats]:
    """The slope of a statistic in each of its counts."""
    plain = [count.astype(np.complex128) for count in counts]
    for values in plain:
        slopes = np.empty(len(values))
        for at in range(len(values)):
            values[at] += _STEP * 1j
            slopes[at] = statistic(*plain).imag / _STEP  # type: ignore[arg-type]
            values[at] -= _STEP * 1j
        yield slopes


def _divided(top: Floats, bottom: Floats) -> Floats:
    """A quotient by class; 0 where nothing is divided by."""
    there = bottom.real > 0
    return np.where(there, top / np.where(there, bottom, 1), 0)


def _precision(right: Floats, _true: Floats, said: Floats) -> Floats:
    return _divided(right, said[:-1])


def _recall(right: Floats, true: Floats, _said: Floats) -> Floats:
    return _divided(right, true)


def _f1(right: Floats, true: Floats, said: Floats) -> Floats:
    return _divided(2 * right, true + said[:-1])


def _macro(each: Statistic) -> Statistic:
    return lambda right, true, said: each(right, true, said).mean()


def _micro_f1(right: Floats, true: Floats, said: Floats) -> Floats:
    value: Floats = 2 * right.sum() / (true.sum() + said[:-1].sum())
    return value


def _weighted_f1(right: Floats, true: Floats, said: Floats) -> Floats:
    value: Floats = (true * _f1(right, true, said)).sum() / true.sum()
    return value


def _coefficient(right: Floats, true: Floats, said: Floats) -> Floats:
    total = true.sum()
    margins = (total**2 - (said**2).sum()) * (total**2 - (true**2).sum())
    covariance: Floats = right.sum() * total - (true * said[:-1]).sum()
    return covariance / np.sqrt(margins) if margins.real > 0 else 0 * covariance


_macro_f1, _macro_precision, _macro_recall = map(_macro, (_f1, _precision, _recall))


def _recounted(numbers: Callable[[_Counts], Mapping[str, float]]) -> Callable[[CountedRows], Recounted]:
    """``recount`` of numbers of the counts of classes."""

    def recount(rows: CountedRows) -> Recounted:
        pairs = _Pairs.of(replace(rows, clusters=None))
        samples = np.unique(rows.row_index[_with_reference(rows)])
        return lambda times: numbers(pairs.counts(times[samples][pairs.units]))

    return recount


def _recounted_statistic(statistic: Statistic) -> Callable[[CountedRows], Recounted]:
    def numbers(counts: _Counts) -> dict[str, float]:
        return {"": float(statistic(counts.right, counts.true, counts.said))} if len(counts.classes) else {}

    return _recounted(numbers)


def _by_class(each: Statistic) -> Callable[[CountedRows], Recounted]:
    def numbers(counts: _Counts) -> dict[str, float]:
        values = each(counts.right, counts.true, counts.said)
        return {f"={name}": float(value) for name, value in zip(counts.classes, values, strict=True)}

    return _recounted(numbers)


def _cells(counts: _Counts) -> dict[str, float]:
    names = [*counts.classes, ""]
    shares = counts.cells / counts.true[:, None]
    return {f"={a}→{b}": float(shares[i, j]) for i, a in enumerate(counts.classes) for j, b in enumerate(names)}


@_class_aggregation("macro_f1", recount=_recounted_statistic(_macro_f1))
def macro_f1(rows: CountedRows) -> Aggregate:
    """The mean over classes of their F1; each class counts the same."""
    return _Pairs.of(rows).number(_macro_f1, 0)


@_class_aggregation("macro_precision", recount=_recounted_statistic(_macro_precision))
def macro_precision(rows: CountedRows) -> Aggregate:
    """The mean over classes of their precision, 0 for a class that no answer names."""
    return _Pairs.of(rows).number(_macro_precision, 0)


@_class_aggregation("macro_recall", recount=_recounted_statistic(_macro_recall))
def macro_recall(rows: CountedRows) -> Aggregate:
    """The mean over classes of their recall, which is the balanced accuracy."""
    return _Pairs.of(rows).number(_macro_recall, 0)


@_class_aggregation("micro_f1", recount=_recounted_statistic(_micro_f1))
def micro_f1(rows: CountedRows) -> Aggregate:
    """2·right / (references + answers that name a class); equal to the accuracy where every answer names one."""
    return _Pairs.of(rows).number(_micro_f1, 0)


@_class_aggregation("weighted_f1", recount=_recounted_statistic(_weighted_f1))
def weighted_f1(rows: CountedRows) -> Aggregate:
    """The mean over classes of their F1, weighted by their references."""
    return _Pairs.of(rows).number(_weighted_f1, 0)


@_class_aggregation("mcc", scale=_CORRELATION, recount=_recounted_statistic(_coefficient))
def mcc(rows: CountedRows) -> Aggregate:
    """Matthews' correlation coefficient for several classes, −1..1 (Gorodkin 2004); answers of no class are one more.

    It is 0 where all references, or all answers, are of one class.
    """
    return _Pairs.of(rows).number(_coefficient, -1)


@_class_aggregation("class_f1", recount=_by_class(_f1))
def class_f1(rows: CountedRows) -> dict[str, Aggregate]:
    """F1 of each class (``acc=B``): 2J/(1+J), where J is right / (references or answers of the class).

    The interval is Wilson's for J.
    """
    pairs = _Pairs.of(rows)
    return {f"={name}": _f1_of(pairs, at) for at, name in enumerate(pairs.classes)}


@_class_aggregation("class_precision", recount=_by_class(_precision))
def class_precision(rows: CountedRows) -> dict[str, Aggregate]:
    """The share of the answers of each class (``acc=B``) that are right, with Wilson's interval; 0 without answers."""
    pairs = _Pairs.of(rows)
    return {
        f"={name}": pairs.share(pairs.right & (pairs.said == at), pairs.said == at)
        for at, name in enumerate(pairs.classes)
    }


@_class_aggregation("class_recall", recount=_by_class(_recall))
def class_recall(rows: CountedRows) -> dict[str, Aggregate]:
    """The share of the references of each class (``acc=B``) that are found, with Wilson's interval."""
    pairs = _Pairs.of(rows)
    return {
        f"={name}": pairs.share(pairs.right & (pairs.true == at), pairs.true == at)
        for at, name in enumerate(pairs.classes)
    }


@_class_aggregation("confusion", keeps_scale=False, recount=_recounted(_cells))
def confusion(rows: CountedRows) -> dict[str, Aggregate]:
    """The confusion matrix: of each class's references, the share that is answered with each class (``acc=A→B``).

    Wilson's interval. Shares of 0 are left out; ``acc=A→`` are answers of no class.
    """
    pairs = _Pairs.of(rows)
    size = len(pairs.classes) + 1
    names = [*pairs.classes, ""]
    return {
        f"={names[cell // size]}→{names[cell % size]}": pairs.share(
            (pairs.true == cell // size) & (pairs.said == cell % size), pairs.true == cell // size
        )
        for cell in np.unique(pairs.true * size + pairs.said).tolist()
    }


def _f1_of(pairs: _Pairs, at: int) -> Aggregate:
    true, said = pairs.true == at, pairs.said == at
    union = pairs.share(true & said, true | said)
    value, low, high = (None if end is None else 2 * end / (1 + end) for end in (union.value, union.low, union.high))
    stderr = None if union.stderr is None else union.stderr * 2 / (1 + (union.value or 0)) ** 2
    return Aggregate(value, stderr, low, high, union.interval, union.samples)
