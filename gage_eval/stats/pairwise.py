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
from gage_eval.stats.logits import fit_binary, fit_logits

Game: TypeAlias = tuple[str, str, float]
_Floats = npt.NDArray[np.float64]
# Two models, how often the first won, tied and lost, and how its style differs.
_Row: TypeAlias = tuple[str, str, _Floats, _Floats]

# A win that is less of all games is what rounding leaves of none.
_LEAST_SHARE = 1e-7


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
        ties: Davidson's ν, ∞ where all games are tied; None where ties are half a win.
    """

    ratings: Mapping[str, float]
    ties: float | None = None


def style_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, ...]:
    """How the style of two answers differs, as in Chatbot Arena (Li et al. 2024) and Arena-Hard.

    Args:
        first, second: the length of an answer, and how often it has each element of style: headers, lists, bold text.

    Returns:
        (a − b)/(a + b) of the lengths; (a − b)/(a + b + 1) of each element's number by (length + 1).
    """
    (a, *own), (b, *others) = first, second
    dense = [(x / (a + 1), y / (b + 1)) for x, y in zip(own, others, strict=True)]
    return (a - b) / ((a + b) or 1), *((x - y) / (x + y + 1) for x, y in dense)


def bradley_terry(
    games: Iterable[Game], anchor: str, *, model_ties: bool = False, styles: Sequence[Sequence[float]] | None = None
) -> Ratings:
    """Ratings by maximum likelihood (Bradley & Terry 1952), logit P(a beats b) = r_a − r_b.

    They exist for models that have won and lost against each other, directly or through others (Ford 1957). With
    styles, logit P = r_a − r_b + β·style: the ratings that answers of one style would have. β is not regularised, and
    styles are not centred: 0 stays no difference.

    Args:
        games: (model, model, outcome).
        anchor: the model whose rating is 0.
        model_ties: a tie has the chance ν·√(p_a·p_b) (Davidson 1970); else they are half a win each.
        styles: of each game, how the answer of the first model differs from that of the second.

    Returns:
        No ratings where the styles leave none: they separate wins from losses, or say which model it is.
    """
    counts: dict[tuple[str, str], _Floats] = {}
    rows: list[_Row] = []
    for at, (a, b, outcome) in enumerate(games):
        pair, won = ((a, b), outcome) if a < b else ((b, a), 1 - outcome)
        row = np.array([0.0, 1.0, 0.0] if model_ties and won == 0.5 else [won, 0.0, 1 - won])
        counts[pair] = counts.get(pair, np.zeros(3)) + row
        if styles is not None:
            rows.append((*pair, row, np.asarray(styles[at]) * (1 if a < b else -1)))
    above, below = (_reached(counts, anchor, upwards) for upwards in (True, False))
    rated = sorted(above & below | {anchor})
    ends = dict.fromkeys(above - below, math.inf) | dict.fromkeys(below - above, -math.inf)
    fit = _fit(rows or [(*pair, row, np.empty(0)) for pair, row in counts.items()], rated, model_ties)
    if fit is None:
        return Ratings({})
    rates, ties = fit
    shift = rates[rated.index(anchor)]
    fitted = {name: float(rate - shift) for name, rate in zip(rated, rates, strict=True)}
    return Ratings(dict(sorted({**ends, **fitted}.items())), ties)


def rating_intervals(
    prompts: Sequence[Sequence[Game]],
    anchor: str,
    *,
    styles: Sequence[Sequence[Sequence[float]]] | None = None,
    draws: int = 200,
    seed: int = 1234,
) -> Mapping[str, Interval]:
    """95 % intervals of `bradley_terry`, by resampling prompts with all their games.

    Games of one prompt depend on each other, so resampling games would make intervals too narrow. An end is infinite
    where the rating does not exist in so many draws. A model without a rating in more than one draw of 40 has none.

    Args:
        prompts: the games of each prompt.
        anchor: the model whose rating is 0.
        styles: of each game, by prompt.
        draws: resamples.
        seed: of the generator.
    """
    random = np.random.RandomState(seed)
    drawn: dict[str, list[float]] = {}
    for _ in range(draws):
        chosen = random.randint(0, len(prompts), len(prompts))
        own = None if styles is None else [style for index in chosen for style in styles[index]]
        ratings = bradley_terry([game for index in chosen for game in prompts[index]], anchor, styles=own).ratings
        for name, rating in ratings.items():
            drawn.setdefault(name, []).append(rating)
    intervals = {}
    for name, values in sorted(drawn.items()):
        ordered = sorted(values)
        cut = math.floor(0.025 * len(ordered))
        if len(ordered) >= 0.975 * draws:
            intervals[name] = Interval(ordered[cut], ordered[-1 - cut])
    return intervals


def _reached(counts: Mapping[tuple[str, str], _Floats], start: str, upwards: bool) -> set[str]:
    """The models with a chain of wins (or ties) over the start, or of losses."""
    beats: dict[str, set[str]] = {}
    for (a, b), (won, tied, lost) in counts.items():
        for winner, loser, times in ((a, b, won + tied), (b, a, lost + tied)):
            if times > _LEAST_SHARE * (won + tied + lost):
                source, to = (loser, winner) if upwards else (winner, loser)
                beats.setdefault(source, set()).add(to)
    seen, waiting = {start}, [start]
    while waiting:
        for name in beats.get(waiting.pop(), set()) - seen:
            seen.add(name)
            waiting.append(name)
    return seen


def _fit(rows: Sequence[_Row], names: Sequence[str], model_ties: bool) -> tuple[_Floats, float | None] | None:
    """Ratings of the named models, the first one's 0, and ν; None where style leaves no ratings."""
    places = {name: place for place, name in enumerate(names)}
    kept = [(places[a], places[b], row, style) for a, b, row, style in rows if a in places and b in places]
    if not kept:
        return np.zeros(len(names)), None
    shown = np.zeros((len(kept), len(names)))
    for at, (a, b, _, _) in enumerate(kept):
        shown[at, [a, b]] = 1.0, -1.0
    style = np.stack([own for _, _, _, own in kept])
    style = style / np.maximum(np.sqrt((style**2).mean(axis=0)), np.finfo(float).tiny)
    shown = np.concatenate([shown[:, 1:], style], axis=1)
    models = len(names) - 1
    if style.size and np.linalg.matrix_rank(shown) < models + np.linalg.matrix_rank(style):
        return None
    observed = np.stack([row for _, _, row, _ in kept])
    tied = model_ties and bool(observed[:, 1].any())
    if tied and not observed[:, [0, 2]].any():
        return np.zeros(len(names)), math.inf
    if tied:
        # Logits of the three outcomes are d/2, log ν and −d/2.
        features = np.stack([shown / 2, np.zeros_like(shown), -shown / 2], axis=1)
        features = np.concatenate([features, np.tile([[0.0], [1.0], [0.0]], (len(kept), 1, 1))], axis=2)
        theta = fit_logits(features, observed)
    else:
        played = observed.sum(axis=1)
        theta = fit_binary(shown, observed[:, 0] / played, played)
    if theta is None:
        return None
    return np.append(0.0, theta[:models]), float(np.exp(theta[-1])) if tied else None
