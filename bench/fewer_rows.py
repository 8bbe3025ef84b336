"""``python -m bench.fewer_rows``: simulate stopping early and control variates with fixed seeds, and write the page.

Every interval is that of the product's own functions. Stored answers of real models are read from ``shared/data``.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gage_eval.stats.control import controlled_mean
from gage_eval.stats.early_stop import limits_by_look, look_sizes

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "fewer-rows-simulations.md"
SEED = 35

Floats = npt.NDArray[np.float64]
Rows = tuple[Floats, Floats]

_TEXT = """# How often intervals from fewer rows are wrong

Simulated with fixed seeds and the product's own functions. To simulate again: `.venv/bin/python -m bench.fewer_rows`.
[Fewer rows](uncertainty.md#fewer-rows) says what the methods are for.

## Control variates

A part of the rows is drawn at random {draws:,} times, and the score of all rows is estimated from it and from an
earlier run. The interval should hold that score in 94 % of the draws or more. *Worth* is how many times the rows a mean
without the earlier run would need (the median).

{control}

The last row is a warning: where few scores are low and these are very low, 200 rows show too few of them.

## Stopping early

Rows in {shuffles:,} random orders each. *Covered* is the share of orders in which the score of all rows was inside at
every look; it should be 95 % or more. *Saved* is the median share of rows that were not asked when the half width was
reached.

{stop}
"""


@dataclass(frozen=True)
class Shape:
    """A benchmark with an earlier run.

    Attributes:
        text: in words.
        make: the scores of a new run and of the earlier one on all rows.
        drawn: rows that are drawn, or clusters.
        clusters: rows of a cluster; 1 where rows are independent.
    """

    text: str
    make: Callable[[np.random.Generator], Rows]
    drawn: int
    clusters: int = 1


def _binary(p: float, alike: float, rows: int = 1319) -> Callable[[np.random.Generator], Rows]:
    """0/1 scores; a share ``alike`` of the rows has the same score in both runs, the others are independent."""

    def make(rng: np.random.Generator) -> Rows:
        before = rng.random(rows) < p
        now = np.where(rng.random(rows) < alike, before, rng.random(rows) < p)
        return now.astype(np.float64), before.astype(np.float64)

    return make


def _skewed(rng: np.random.Generator) -> Rows:
    now = rng.beta(0.3, 3.0, 1000)
    return now, np.clip(0.7 * now + 0.3 * rng.beta(0.3, 3.0, 1000), 0, 1)


def _clustered(rng: np.random.Generator) -> Rows:
    likely = np.repeat(rng.beta(2, 2, 150), 6)
    now = rng.random(900) < likely
    before = np.where(rng.random(900) < 0.6, now, rng.random(900) < likely)
    return now.astype(np.float64), before.astype(np.float64)


def _rare_zeros(rng: np.random.Generator) -> Rows:
    before = np.clip(rng.beta(5, 0.5, 1000), 0, 1)
    return np.where(rng.random(1000) < 0.03, 0.0, before), before


SHAPES = (
    Shape("0/1, score .5, 200 of 1,319 rows", _binary(0.5, 0.6), 200),
    Shape("0/1, score .8, unlike runs, 300 rows", _binary(0.8, 0.2), 300),
    Shape("0/1, score .9, 200 rows", _binary(0.9, 0.7), 200),
    Shape("0/1, score .97, 400 rows", _binary(0.97, 0.8), 400),
    Shape("skewed scores, 200 of 1,000 rows", _skewed, 200),
    Shape("60 of 150 clusters of 6 rows", _clustered, 60, 6),
)
WARNING = Shape("3 % zeros among high scores, 200 of 1,000 rows", _rare_zeros, 200)


def share_covered(shape: Shape, *, draws: int, seed: int) -> float:
    """The share of draws whose interval holds the score of all rows."""
    return sum(inside for inside, _ in _estimates(shape, draws, seed)) / draws


def _estimates(shape: Shape, draws: int, seed: int) -> Iterator[tuple[bool, float]]:
    rng = np.random.default_rng(seed)
    for draw in range(draws):
        # Another benchmark every hundred draws: a single one could be a lucky one.
        if draw % 100 == 0:
            now, before = shape.make(rng)
            names = np.arange(len(now)) // shape.clusters
        drawn = np.isin(names, rng.permutation(names[-1] + 1)[: shape.drawn])
        own = (
            {} if shape.clusters == 1 else {"clusters": names[drawn].tolist(), "rest_clusters": names[~drawn].tolist()}
        )
        known = controlled_mean(
            now[drawn].tolist(), before[drawn].tolist(), before[~drawn].tolist(), scale=(0, 1), **own
        )
        assert known is not None
        assert known.interval is not None
        yield known.interval.low <= now.mean() <= known.interval.high, known.gain or 1.0


def stopped(rows: Floats, half_width: float, orders: int, seed: int) -> tuple[float, float]:
    """The share of orders in which the mean of all rows was inside at every look, and the median share saved."""
    rng = np.random.default_rng(seed)
    looks = [*takewhile(lambda size: size < len(rows), look_sizes()), len(rows)]
    mean, covered, saved = rows.mean(), 0, []
    for _ in range(orders):
        limits = limits_by_look(rng.permutation(rows), len(rows), looks, half_width)
        covered += all(low - 1e-9 <= mean <= high + 1e-9 for low, high in limits)
        enough = next(
            size for size, (low, high) in zip(looks, limits, strict=True) if (high - low) / 2 <= half_width + 1e-12
        )
        saved.append(1 - enough / len(rows))
    return covered / orders, float(np.median(saved))


def replays(data: Path) -> dict[str, Floats]:
    """Scores of stored answers of real models."""
    file = data / "replays" / "gsm8k_openai_solutions" / "example_model_solutions.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    models = [name for name, answer in lines[0].items() if isinstance(answer, dict) and "is_correct" in answer]
    return {f"GSM8K, {name}": np.array([float(line[name]["is_correct"]) for line in lines]) for name in sorted(models)}


def page(data: Path, draws: int, orders: int) -> str:
    """The page as Markdown."""
    control = ["| benchmark | worth | should be | covered |", "|---|---|---|---|"]
    for shape in (*SHAPES, WARNING):
        inside, gains = zip(*_estimates(shape, draws, SEED), strict=True)
        least = "–" if shape is WARNING else "94 %"
        control.append(f"| {shape.text} | {np.median(gains):.1f} | {least} | {np.mean(inside):.1%} |")
    stop = ["| rows | half width | saved | covered |", "|---|---|---|---|"]
    rng = np.random.default_rng(SEED)
    made = {
        "nearly all right, 1,000": (rng.random(1000) < 0.97).astype(float),
        "skewed scores, 1,000": rng.beta(0.3, 3.0, 1000),
        "100 clusters of 10": np.repeat((rng.random(100) < 0.6).astype(float), 10),
    }
    for name, rows in {**replays(data), **made}.items():
        for half_width in (0.02, 0.05):
            covered, saved = stopped(rows, half_width, orders, SEED)
            stop.append(f"| {name}, score {rows.mean():.3f} | {half_width} | {saved:.0%} | {covered:.1%} |")
    return _TEXT.format(draws=draws, shuffles=orders, control="\n".join(control), stop="\n".join(stop))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT / "shared" / "data")
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--orders", type=int, default=200)
    options = parser.parse_args()
    PAGE.write_text(page(options.data, options.draws, options.orders), encoding="utf-8")
