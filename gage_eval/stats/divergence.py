"""How far two distributions over tokens are apart, where only the likeliest tokens of each are known."""

import math
from collections.abc import Mapping

# Smaller probabilities are rounding errors of log-probabilities in single precision. A larger q lowers p · ln(p / q).
_ROUNDING = 1e-5
# Endpoints write minus infinity as a number such as -9999.
_IMPOSSIBLE = -100.0


def kl_lower_bound(reference: Mapping[str, float], other: Mapping[str, float]) -> float:
    """A lower bound of the Kullback-Leibler divergence KL(reference ‖ other), in nats.

    Each token that both name is one outcome, and all others together are one more: Σ p · ln(p / q). Merging outcomes
    never raises the divergence (log sum inequality; Cover & Thomas, Elements of Information Theory, 2.7), so the full
    distributions are at least so far apart. Among the others, tokens that the other alone names have at most the
    probability that the reference leaves for tokens it does not name.

    Args:
        reference, other: log-probabilities of the likeliest tokens, by token.

    Returns:
        At least 0.
    """
    p, q = (
        {token: math.exp(min(value, 0.0)) for token, value in known.items() if value > _IMPOSSIBLE}
        for known in (reference, other)
    )
    common = p.keys() & q.keys()
    named = math.fsum(_term(p[token], q[token]) for token in common)
    rest_p, rest_q = (1 - math.fsum(x[token] for token in common) for x in (p, q))
    only_p, only_q = (math.fsum(x[token] for token in x.keys() - common) for x in (p, q))
    # The least divergence has both parts of the others in the same proportion, unless the reference leaves too little.
    most = max(0.0, rest_p - only_p)
    of_other = min(most, max(0.0, rest_p) * only_q / max(rest_q, _ROUNDING))
    return max(0.0, named + _term(of_other, only_q) + _term(rest_p - of_other, rest_q - only_q))


def _term(p: float, q: float) -> float:
    return p * math.log(p / max(q, _ROUNDING)) if p > 0 else 0.0
