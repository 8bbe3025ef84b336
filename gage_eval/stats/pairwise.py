"""Comparisons of two answers by a judge: both orders, win rates, Bradley–Terry ratings.

An outcome is that of the first of two models: 1 won, 0.5 tied, 0 lost.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gage_eval.stats.intervals import Interval, mean_stderr, t_interval

Game: TypeAlias = tuple[str, str, float]
_Floats = npt.NDArray[np.float64]

_STEPS = 100
_PRECISION = 1e-12


@dataclass(frozen=True, slots=True)
class BothOrders:
    """Verdicts on the same pairs, asked in both orders.

    Attributes:
        n: pairs.
        consistent: share of pairs with one outcome in both orders.
        position_bias: share of wins of the answer shown first, minus ½; a tie is half a win.
        win_rate: mean of both orders over pairs.
        interval: Student's at 95 % over prompts.
    """

    n: int
    consistent: float
    position_bias: float
    win_rate: float
    interval: Interval | None


def both_orders(first: Sequence[float], second: Sequence[float]) -> BothOrders | None:
    """What two orders say about a model, one pair per prompt.

    Args:
        first: outcomes of the model where its answer is shown first.
        second: its outcomes on the same prompts where its answer is shown second.

    Returns:
        None without a pair.

    Raises:
        ValueError: the lengths differ.
    """
    pairs = list(zip(first, second, strict=True))
    if not pairs:
        return None
    mean, stderr = mean_stderr([(a + b) / 2 for a, b in pairs])
    assert mean is not None
    interval = t_interval(mean, stderr, len(pairs) - 1)
    if interval is not None:
        interval = Interval(max(0.0, interval.low), min(1.0, interval.high))
    shown_first = math.fsum(a + (1 - b) for a, b in pairs) / (2 * len(pairs))
    consistent = sum(a == b for a, b in pairs) / len(pairs)
    return BothOrders(len(pairs), consistent, shown_first - 0.5, mean, interval)


@dataclass(frozen=True, slots=True)
class Ratings:
    """Ratings in natural logarithms of odds, the anchor's is 0.

    Attributes:
        ratings: by model; ∞ for one that is above all that it can be compared with, −∞ for one below. A model that
            nothing compares with the anchor is not in it.
        ties: Davidson's ν; None where ties are half a win.
    """

    ratings: Mapping[str, float]
    ties: float | None = None


def bradley_terry(games: Iterable[Game], anchor: str, *, model_ties: bool = False) -> Ratings:
    """Ratings by maximum likelihood (Bradley & Terry 1952), logit P(a beats b) = r_a − r_b.

    They exist for models that have won and lost against each other, directly or through others (Ford 1957).

    Args:
        games: (model, model, outcome).
        anchor: the model whose rating is 0.
        model_ties: a tie has the chance ν·√(p_a·p_b) (Davidson 1970); else they are half a win each.
    """
    counts: dict[tuple[str, str], _Floats] = {}
    for a, b, outcome in games:
        pair, won = ((a, b), outcome) if a < b else ((b, a), 1 - outcome)
        row = [won, 0.0, 1 - won]
        if model_ties and won == 0.5:
            row = [0.0, 1.0, 0.0]
        counts[pair] = counts.get(pair, np.zeros(3)) + row
    above, below = (_reached(counts, anchor, upwards) for upwards in (True, False))
    rated = sorted(above & below | {anchor})
    ends = dict.fromkeys(above - below, math.inf) | dict.fromkeys(below - above, -math.inf)
    rates, ties = _fit(counts, rated, model_ties)
    shift = rates[rated.index(anchor)]
    fitted = {name: float(rate - shift) for name, rate in zip(rated, rates, strict=True)}
    return Ratings(dict(sorted({**ends, **fitted}.items())), ties)


def rating_intervals(
    prompts: Sequence[Sequence[Game]], anchor: str, *, draws: int = 200, seed: int = 1234
) -> Mapping[str, Interval]:
    """95 % intervals of `bradley_terry`, by resampling prompts with all their games.

    Games of one prompt depend on each other, so resampling games would make intervals too narrow. An end is infinite
    where the rating does not exist in so many draws.
    """
    random = np.random.RandomState(seed)
    drawn: dict[str, list[float]] = {}
    for _ in range(draws):
        chosen = random.randint(0, len(prompts), len(prompts))
        ratings = bradley_terry((game for index in chosen for game in prompts[index]), anchor).ratings
        for name, rating in ratings.items():
            drawn.setdefault(name, []).append(rating)
    intervals = {}
    for name, values in sorted(drawn.items()):
        ordered = sorted(values)
        cut = math.floor(0.025 * len(ordered))
        intervals[name] = Interval(ordered[cut], ordered[-1 - cut])
    return intervals


def _reached(counts: Mapping[tuple[str, str], _Floats], start: str, upwards: bool) -> set[str]:
    """The models with a chain of wins (or ties) over the start, or of losses."""
    beats: dict[str, set[str]] = {}
    for (a, b), (won, tied, lost) in counts.items():
        for winner, loser, times in ((a, b, won + tied), (b, a, lost + tied)):
            if times:
                source, to = (loser, winner) if upwards else (winner, loser)
                beats.setdefault(source, set()).add(to)
    seen, waiting = {start}, [start]
    while waiting:
        for name in beats.get(waiting.pop(), set()) - seen:
            seen.add(name)
            waiting.append(name)
    return seen


def _fit(
    counts: Mapping[tuple[str, str], _Floats], names: Sequence[str], model_ties: bool
) -> tuple[_Floats, float | None]:
    """Newton's method on the log-likelihood of a win, a tie and a loss for each pair of the named models."""
    places = {name: place for place, name in enumerate(names)}
    kept = [(places[a], places[b], row) for (a, b), row in counts.items() if a in places and b in places]
    width = len(names) + 1
    # Logits of the three outcomes are d/2, log ν and −d/2 with d = r_a − r_b.
    features = np.zeros((len(kept), 3, width))
    observed = np.array([row for _, _, row in kept]).reshape(-1, 3)
    for at, (a, b, _) in enumerate(kept):
        features[at, 0, [a, b]] = 0.5, -0.5
        features[at, 2, [a, b]] = -0.5, 0.5
        features[at, 1, -1] = 1.0
    tied = model_ties and bool(observed[:, 1].any())
    offset = np.array([0.0, 0.0 if tied else -np.inf, 0.0])
    free = np.arange(1, width if tied else width - 1)  # The first model's rating is 0.
    theta = np.zeros(width)
    for _ in range(_STEPS if len(free) else 0):
        logits = features @ theta + offset
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        n = observed.sum(axis=1, keepdims=True)
        gradient = np.einsum("go,gof->f", observed - n * shares, features)[free]
        centred = features - np.einsum("go,gof->gf", shares, features)[:, None, :]
        information = np.einsum("go,gof,goh->fh", n * shares, centred, centred)[np.ix_(free, free)]
        step = np.linalg.solve(information, gradient)
        theta[free] += step / max(1.0, float(np.abs(step).max()))
        if float(np.abs(step).max()) < _PRECISION:
            break
    return theta[:-1], float(np.exp(theta[-1])) if tied else None
