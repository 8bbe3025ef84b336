"""Numbers of a whole corpus that are not means of per-sample values, such as perplexity and F1."""

import math
from collections.abc import Iterable, Sequence


def perplexity(log_likelihoods: Sequence[float]) -> float | None:
    """exp(−mean) of natural log-likelihoods; None without values."""
    return weighted_perplexity(log_likelihoods, [1.0] * len(log_likelihoods))


def weighted_perplexity(log_likelihoods: Sequence[float], sizes: Sequence[float]) -> float | None:
    """exp(−Σll / Σsize): word perplexity for sizes in words, byte perplexity for bytes.

    Never a mean of per-document perplexities. None when the sizes add up to 0; infinity where the
    exponential overflows.

    Raises:
        ValueError: the lengths differ.
    """
    nats = _nats_per_unit(log_likelihoods, sizes)
    if nats is None:
        return None
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


def bits_per_byte(log_likelihoods: Sequence[float], sizes: Sequence[float]) -> float | None:
    """−Σll / (Σbytes · ln 2); None when there are no bytes.

    Raises:
        ValueError: the lengths differ.
    """
    nats = _nats_per_unit(log_likelihoods, sizes)
    return None if nats is None else nats / math.log(2)


def f1(pairs: Iterable[tuple[bool, bool]]) -> float | None:
    """F1 of the positive class, 2·TP / (2·TP + FP + FN), of (gold, predicted) pairs.

    None without a pair; 0 when nothing is positive on either side, as in scikit-learn.
    """
    tp, fp, fn, tn = _confusion(pairs)
    if not tp + fp + fn + tn:
        return None
    wrong_or_right = 2 * tp + fp + fn
    return 2 * tp / wrong_or_right if wrong_or_right else 0.0


def matthews_correlation(pairs: Iterable[tuple[bool, bool]]) -> float | None:
    """Matthews' correlation coefficient (Matthews 1975) of (gold, predicted) pairs, −1..1.

    None without a pair; 0 when gold or prediction has only one value, where it is undefined.
    """
    tp, fp, fn, tn = _confusion(pairs)
    if not tp + fp + fn + tn:
        return None
    margins = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(margins) if margins else 0.0


def _nats_per_unit(log_likelihoods: Sequence[float], sizes: Sequence[float]) -> float | None:
    if len(log_likelihoods) != len(sizes):
        raise ValueError(f"{len(log_likelihoods)} log-likelihoods and {len(sizes)} sizes")
    total = math.fsum(sizes)
    return -math.fsum(log_likelihoods) / total if total > 0 else None


def _confusion(pairs: Iterable[tuple[bool, bool]]) -> tuple[int, int, int, int]:
    counts = [0, 0, 0, 0]
    for gold, predicted in pairs:
        counts[2 * (not predicted) + (bool(gold) != bool(predicted))] += 1
    tp, fp, tn, fn = counts
    return tp, fp, fn, tn
