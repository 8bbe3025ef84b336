"""Logistic regression by maximum likelihood: the fit behind ratings and the length-controlled win rate."""

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]

_STEPS = 100
_PRECISION, _ENOUGH = 1e-12, 1e-8
# Beyond it nothing was seen that speaks against certainty: the maximum is at infinity.
_LARGEST_LOGIT = 18.0
_SMALLEST_SHARE = 1e-13


def fit_logits(features: _Floats, observed: _Floats) -> _Floats | None:
    """The θ that maximises Σ observed·log P, where P(outcome) ∝ exp(features·θ), by Newton's method.

    Args:
        features: of the shape (cases, outcomes, parameters).
        observed: of the shape (cases, outcomes): how often each was seen.

    Returns:
        The parameters. Where the cases cannot tell some apart, the shortest such vector. None where there is no
        maximum, because the features separate the outcomes.
    """
    theta = np.zeros(features.shape[2])
    n = observed.sum(axis=1, keepdims=True)
    # What was never seen says nothing about certainty either.
    seen = n[:, 0] > 0
    features, observed, n = features[seen], observed[seen], n[seen]
    largest = 0.0
    for _ in range(_STEPS if features.size else 0):
        logits = features @ theta
        if float(np.ptp(logits, axis=1).max()) > _LARGEST_LOGIT:
            return None
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        gradient = np.einsum("go,gof->f", observed - n * shares, features)
        centred = features - np.einsum("go,gof->gf", shares, features)[:, None, :]
        flat = (centred * np.sqrt(n * shares)[:, :, None]).reshape(-1, len(theta))
        step = np.linalg.lstsq(flat.T @ flat, gradient, rcond=_SMALLEST_SHARE)[0]
        largest = float(np.abs(step).max())
        theta += step / max(1.0, largest)
        if largest < _PRECISION:
            break
    return theta if largest < _ENOUGH else None


def fit_binary(features: _Floats, outcomes: _Floats, weights: _Floats | None = None) -> _Floats | None:
    """`fit_logits` of outcomes from 0 to 1: logit P(1) = features·θ.

    Args:
        features: of the shape (cases, parameters).
        outcomes: one per case; 0.7 counts as 0.7 of a success and 0.3 of a failure.
        weights: how often each case counts.
    """
    seen = np.stack([outcomes, 1 - outcomes], axis=1) * (1.0 if weights is None else weights[:, None])
    return fit_logits(np.stack([features / 2, -features / 2], axis=1), seen)


def length_controlled_win_rate(
    outcomes: _Floats, longer: _Floats, difficulty: _Floats, times: npt.NDArray[np.int64] | None = None
) -> float | None:
    """The win rate that a model would have if its answers were as long as the baseline's (Dubois et al. 2024).

    logit P(win) = a·tanh(d/sd(d)) + b·difficulty + c, with d the baseline's length less the model's; the rate is the
    mean of 1/(1 + exp(−b·difficulty − c)). This is the regression of AlpacaEval 2 (``length_controlled_noreg``); its
    published figures also regularise. The difficulty is a table that was fitted on many models. Without it the rate
    is further from the published one than the raw rate.

    Args:
        outcomes: of the model against the baseline on each instruction, from 0 to 1.
        longer: by how many characters its answer is longer than the baseline's.
        difficulty: of each instruction.
        times: how often each instruction counts; once by default.

    Returns:
        None where it does not exist: the model won (or lost) everything that length and difficulty tell apart, or its
        answers are always longer by the same number.
    """
    counts = np.ones(len(outcomes), np.int64) if times is None else times
    rows = np.repeat(np.arange(len(outcomes)), counts)
    if not len(rows):
        return None
    drawn = longer[rows]
    spread = float(drawn.std(ddof=1)) if len(rows) > 1 else 0.0
    if spread == 0 and drawn.any():
        return None
    length = np.tanh(-longer / spread) if spread else np.zeros(len(outcomes))
    shown = np.stack([length, difficulty, np.ones(len(outcomes))], axis=1)
    theta = fit_binary(shown, outcomes, counts.astype(np.float64))
    if theta is None:
        return None
    return float((1 / (1 + np.exp(-(shown[:, 1:] @ theta[1:]))) @ counts) / len(rows))
