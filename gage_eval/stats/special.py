"""Special functions for the intervals and tests; the standard library does not have them."""

import math
from collections.abc import Callable

_TINY = 1e-300
_EPS = 2.0**-52
_MANY = 2000  # degrees of freedom


def t_tail(t: float, df: float) -> float:
    """P(|T| > |t|) of Student's distribution: the two-sided p value, to about 1e-10 relative.

    It is I_x(df/2, 1/2) with x = df/(df+t²) (Abramowitz & Stegun 26.7.1). For many degrees of freedom the
    logarithms of that would cancel; there t becomes a normal deviate (Hill 1970, algorithm 395).

    Raises:
        ValueError: df is not positive.
    """
    if not df > 0:
        raise ValueError(f"df must be positive, not {df}")
    if t == 0:
        return 1.0
    if math.isinf(t):
        return 0.0
    if df >= _MANY:
        return math.erfc(_normal_deviate(abs(t), df) / math.sqrt(2))
    square = t * t
    if math.isinf(square):
        return 0.0
    x = df / (df + square)
    if x == 0.0:
        return 0.0
    if x > 0.5 and square < 3:
        # 1 − x is exact in floats, and the result is not so small that its difference to 1 would lose digits.
        return 1 - beta_inc(0.5, df / 2, square / (df + square))
    return beta_inc(df / 2, 0.5, x)


def t_cdf(t: float, df: float) -> float:
    """P(T ≤ t) of Student's t."""
    tail = t_tail(t, df) / 2
    return tail if t < 0 else 1 - tail


def binomial_cdf(k: int, n: int, p: float) -> float:
    """P(X ≤ k) for X binomial with n trials of probability p, as I_{1−p}(n−k, k+1) (DLMF 8.17.5).

    Raises:
        ValueError: p outside 0..1, or n negative.
    """
    if not 0 <= p <= 1 or n < 0:
        raise ValueError(f"a binomial distribution cannot have n = {n}, p = {p}")
    if k < 0:
        return 0.0
    if k >= n or p == 0:
        return 1.0
    if p == 1:
        return 0.0
    # The smaller argument: 1 − p would lose a small p.
    return 1 - beta_inc(k + 1, n - k, p) if p < 0.5 else beta_inc(n - k, k + 1, 1 - p)


def half_binomial_cdf(k: int, n: int) -> float:
    """P(X ≤ k) for X binomial with n trials of probability ½, for k < n/2, to the last bits.

    The terms C(n, i)/2ⁿ fall from i = k downwards; they are summed from there until they add nothing.
    """
    term = half_binomial_pmf(k, n)
    terms = [term]
    for i in range(k, 0, -1):
        term *= i / (n - i + 1)
        if term < terms[0] * _EPS**2:
            break
        terms.append(term)
    return math.fsum(terms)


def half_binomial_pmf(k: int, n: int) -> float:
    """P(X = k) for X binomial with n trials of probability ½."""
    return math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))


def chi_square_tail(x: float, df: int) -> float:
    """P(X > x) of the chi-square distribution: the finite sums for whole degrees of freedom (A&S 26.4.4, 26.4.5).

    Raises:
        ValueError: df is not positive.
    """
    if df < 1:
        raise ValueError(f"df must be positive, not {df}")
    if x <= 0:
        return 1.0
    half = x / 2
    odd = df % 2 == 1
    term = math.sqrt(half / math.pi) * 2 * math.exp(-half) if odd else math.exp(-half)
    total = math.erfc(math.sqrt(half)) if odd else 0.0
    power = 1.5 if odd else 1.0
    for _ in range(df // 2):
        total += term
        term *= half / power
        power += 1
    return min(1.0, total)


def bisect(rising: Callable[[float], float]) -> float:
    """The root of a rising function on (0, 1/2], to the last bit (in the logarithm of the argument)."""
    low, high = math.log(_TINY), math.log(0.5)
    while True:
        middle = (low + high) / 2
        if middle in (low, high) or high - low < _EPS:
            return math.exp(middle)
        if rising(math.exp(middle)) < 0:
            low = middle
        else:
            high = middle


def beta_inc(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b) for 0 < x < 1."""
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _beta_fraction(a, b, x) / a
    return 1 - math.exp(log_front) * _beta_fraction(b, a, 1 - x) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta (DLMF 8.17.22), by the modified Lentz method."""
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _away(1 + even * d)
        c = _away(1 + even / c)
        result *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _away(1 + odd * d)
        c = _away(1 + odd / c)
        step = d * c
        result *= step
        if abs(step - 1) < _EPS * 4:
            return result
    raise ArithmeticError(f"the incomplete beta did not converge at a={a}, b={b}, x={x}")


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _normal_deviate(t: float, df: float) -> float:
    a = df - 0.5
    b = 48 * a * a
    square = a * math.log1p(t * t / df)
    z = math.sqrt(square)
    # Horner's form of the correction, in powers of z² and 1/b.
    inner = ((-0.4 * square - 3.3) * square - 24) * square - 85.5
    series = (inner / (0.8 * square * square + 100 + b) + square + 3) / b
    return z * (1 + series)
