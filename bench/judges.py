"""``python -m bench.judges``: simulate corrected scores of biased judges, and write the page.

Every interval is that of `gage_eval.stats`. Seeds are fixed, so that the page says the same each time.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gage_eval.stats import (
    Corrected,
    Interval,
    Stratum,
    corrected_clusters,
    corrected_difference,
    corrected_mean,
    corrected_share,
    wilson_interval,
)

PAGE = Path(__file__).parents[1] / "docs" / "judge-simulations.md"
SETS = 2_000
ROWS = 1_000
_MANY = 2_000_000

_TEXT = """# How good corrected scores are

{sets:,} simulated data sets of {rows:,} answers for each line, with biased judges whose true score is known. Each
interval is that of the functions that runs use. To simulate again (a minute): `.venv/bin/python -m bench.judges`.

*Holds the truth* should be 95 %; with {sets:,} sets it may be 94.0 % by chance. *Width* is that of the interval from
verdicts and labels, as a part of that from the same labels alone. *Correlation* is that of verdicts and labels.

{tables}"""

_Floats = npt.NDArray[np.float64]
# Labels and verdicts of some rows.
Make = Callable[[np.random.RandomState, int], tuple[_Floats, _Floats]]
# The corrected estimate of n labelled rows, and the interval of labels alone.
Estimate = Callable[[_Floats, _Floats, int], tuple[Corrected | None, Interval | None]]


@dataclass(frozen=True)
class Case:
    """A kind of data, and how its score is corrected."""

    name: str
    make: Make
    estimate: Estimate
    labels: tuple[int, ...] = (50, 100, 200, 500)


def binary(share: float, sensitivity: float, specificity: float) -> Make:
    """Right and wrong answers, and a judge that accepts them with these chances."""

    def make(random: np.random.RandomState, rows: int) -> tuple[_Floats, _Floats]:
        labels = (random.random_sample(rows) < share).astype(np.float64)
        accepts = np.where(labels == 1, sensitivity, 1 - specificity)
        return labels, (random.random_sample(rows) < accepts).astype(np.float64)

    return make


def scores(mean: float, spread: float, noise: float) -> Make:
    """Ratings of 1 to 10 around a mean, and a judge that gives half a point too much."""

    def make(random: np.random.RandomState, rows: int) -> tuple[_Floats, _Floats]:
        true = random.normal(mean, spread, rows)
        judged = true + 0.5 + random.normal(0, noise, rows)
        return np.clip(np.round(true), 1, 10), np.clip(np.round(judged), 1, 10)

    return make


def skewed(random: np.random.RandomState, rows: int) -> tuple[_Floats, _Floats]:
    """Most answers have a 9 or a 10."""
    labels = np.clip(np.round(1 + 9 * random.beta(9, 1, rows)), 1, 10)
    return labels, np.clip(np.round(labels + random.normal(0.5, 0.5, rows)), 1, 10)


def difference(share: float, other: float, accuracy: float) -> Make:
    """Two models under one judge; what it wrongly says of one has nothing to do with the other. As a − b."""

    def make(random: np.random.RandomState, rows: int) -> tuple[_Floats, _Floats]:
        first, second = (binary(rate, accuracy, accuracy - 0.1)(random, rows) for rate in (share, other))
        return first[0] - second[0], first[1] - second[1]

    return make


def clustered(random: np.random.RandomState, rows: int) -> tuple[_Floats, _Floats]:
    """Ratings in clusters of five, with a correlation of 0.3 within them."""
    shared = np.repeat(random.normal(0, np.sqrt(0.3), rows // 5), 5)
    true = 5.5 + 2 * (shared + random.normal(0, np.sqrt(0.7), rows))
    judged = true + 0.5 + random.normal(0, 1, rows)
    return np.clip(np.round(true), 1, 10), np.clip(np.round(judged), 1, 10)


def _by_strata(labels: _Floats, judged: _Floats, n: int) -> tuple[Corrected | None, Interval | None]:
    strata = []
    for verdict in (0.0, 1.0):
        own = labels[:n][judged[:n] == verdict]
        strata.append(Stratum(int((judged == verdict).sum()), len(own), float(own.sum())))
    return corrected_share(strata), wilson_interval(float(labels[:n].sum()), n)


def _by_ppi(labels: _Floats, judged: _Floats, n: int) -> tuple[Corrected | None, Interval | None]:
    y, f, rest = labels[:n].tolist(), judged[:n].tolist(), judged[n:].tolist()
    alone = corrected_mean(y, f, [], scale=(1, 10))
    return corrected_mean(y, f, rest, scale=(1, 10)), _interval(alone)


def _by_difference(labels: _Floats, judged: _Floats, n: int) -> tuple[Corrected | None, Interval | None]:
    y, f, rest = labels[:n].tolist(), judged[:n].tolist(), judged[n:].tolist()
    zeros = [[0.0] * len(values) for values in (y, rest)]
    alone = corrected_difference((y, zeros[0]), (f, zeros[0]), ([], []), scale=(0, 1))
    both = corrected_difference((y, zeros[0]), (f, zeros[0]), (rest, zeros[1]), scale=(0, 1))
    return both, _interval(alone)


def _by_clusters(labels: _Floats, judged: _Floats, n: int) -> tuple[Corrected | None, Interval | None]:
    y, f, rest = labels[:n].tolist(), judged[:n].tolist(), judged[n:].tolist()
    names = [str(row // 5) for row in range(len(labels))]
    alone = corrected_clusters(y, f, names[:n], [], [], scale=(1, 10))
    return corrected_clusters(y, f, names[:n], rest, names[n:], scale=(1, 10)), _interval(alone)


def _interval(corrected: Corrected | None) -> Interval | None:
    return None if corrected is None else corrected.interval


CASES = {
    "Scores of 0 or 1: strata and MOVER–Wilson": (
        Case("50 % right, judge 0.85 and 0.85", binary(0.5, 0.85, 0.85), _by_strata),
        Case("70 % right, judge 0.9 and 0.7", binary(0.7, 0.9, 0.7), _by_strata),
        Case("90 % right, judge 0.99 and 0.9", binary(0.9, 0.99, 0.9), _by_strata),
        Case("50 % right, judge 0.925 and 0.925", binary(0.5, 0.925, 0.925), _by_strata),
        Case("70 % right, useless judge", binary(0.7, 0.55, 0.5), _by_strata),
    ),
    "Ratings of 1 to 10: PPI++": (
        Case("symmetric, close judge", scores(5.5, 1.8, 1.0), _by_ppi),
        Case("symmetric, loose judge", scores(5.5, 1.8, 3.5), _by_ppi),
        Case("skewed, most 9 or 10", skewed, _by_ppi),
    ),
    "Ratings in clusters of 5: PPI++ of clusters": (Case("symmetric", clustered, _by_clusters, (200, 500)),),
    "Difference of two models, 0 or 1: PPI++ of a − b": (
        Case("70 % and 65 %, judge right in 0.9 and 0.8", difference(0.7, 0.65, 0.9), _by_difference),
        Case("95 % and 93 %, judge right in 0.95 and 0.85", difference(0.95, 0.93, 0.95), _by_difference),
        Case("50 % and 50 %, judge right in 0.8 and 0.7", difference(0.5, 0.5, 0.8), _by_difference),
    ),
}


def lines(case: Case) -> Iterator[str]:
    """The rows of a case in its table."""
    labels, judged = case.make(np.random.RandomState(1), _MANY)
    truth, correlation = float(labels.mean()), float(np.corrcoef(labels, judged)[0, 1])
    for n in case.labels:
        random = np.random.RandomState(n)
        held, known, width, alone = 0, 0, 0.0, 0.0
        for _ in range(SETS):
            result, of_labels = case.estimate(*case.make(random, ROWS), n)
            if result is None or result.interval is None or of_labels is None:
                continue
            known += 1
            held += result.interval.low <= truth <= result.interval.high
            width += result.interval.high - result.interval.low
            alone += of_labels.high - of_labels.low
        yield f"| {case.name} | {correlation:.2f} | {n} | {held / known:.1%} | {width / alone:.2f} |"


def main() -> int:
    """Write the page."""
    tables = []
    for title, cases in CASES.items():
        head = "| data | correlation | labels | holds the truth | width |\n|---|---|---|---|---|"
        tables.append("\n".join([f"## {title}\n", head, *(line for case in cases for line in lines(case))]))
        sys.stderr.write(f"{title}\n")
    PAGE.write_text(_TEXT.format(sets=SETS, rows=ROWS, tables="\n\n".join(tables)) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
