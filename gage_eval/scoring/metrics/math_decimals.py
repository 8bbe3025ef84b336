"""The rounding residue of two equal expressions when decimals are computed as floats, as sympy does.

The official prm800k checker gives ``(left)-(right)`` to sympy. Whole numbers and fractions are exact there, decimals
are floats: ``0.1+0.2`` is not ``0.3``, and ``0.5+0.25`` is ``0.75``. `Terms` is a sum of products with such
coefficients, for the reader of `gage_eval.scoring.metrics.math_values`. Roots, letters and other functions stay
symbols.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

Coefficient: TypeAlias = Fraction | float
_Product: TypeAlias = tuple[tuple[str, Fraction], ...]

_MOST_TERMS = 50
_HIGHEST_POWER = 10
# A difference of equal expressions that is smaller than this comes from rounding.
_RESIDUE = 1e-9


class NotTerms(Exception):
    """The expression is not a sum of products, or too large."""


@dataclass(frozen=True)
class Terms:
    """A sum of products: the coefficient of each product of symbols and their powers."""

    coefficients: dict[_Product, Coefficient]

    def __add__(self, other: "Terms") -> "Terms":
        coefficients = dict(self.coefficients)
        for product, coefficient in other.coefficients.items():
            coefficients[product] = coefficients.get(product, Fraction(0)) + coefficient
        return _small({product: value for product, value in coefficients.items() if value != 0})

    def __neg__(self) -> "Terms":
        return Terms({product: -value for product, value in self.coefficients.items()})

    def __sub__(self, other: "Terms") -> "Terms":
        return self + -other

    def __mul__(self, other: "Terms") -> "Terms":
        result = Terms({})
        for product, value in self.coefficients.items():
            result += Terms({_product(product, more): value * by for more, by in other.coefficients.items()})
        return result

    def __truediv__(self, other: "Terms") -> "Terms":
        if len(other.coefficients) != 1:
            raise NotTerms
        ((product, divisor),) = other.coefficients.items()
        quotients = {mine: value / divisor for mine, value in self.coefficients.items()}
        return Terms(quotients) * Terms({tuple((name, -power) for name, power in product): Fraction(1)})

    def power(self, exponent: Fraction) -> "Terms":
        """Raise to a whole power, or to a fraction if this is a single product of symbols.

        Raises:
            NotTerms: the result is not a sum of products.
        """
        if exponent.denominator == 1 and 0 <= exponent <= _HIGHEST_POWER:
            result = number("1")
            for _ in range(int(exponent)):
                result *= self
            return result
        if len(self.coefficients) != 1:
            raise NotTerms
        ((product, value),) = self.coefficients.items()
        if value == 0 or abs(exponent) > _HIGHEST_POWER or (exponent.denominator != 1 and value != 1):
            raise NotTerms
        return Terms({tuple((name, power * exponent) for name, power in product): value ** int(exponent)})

    def number(self) -> Fraction:
        """Its exact value.

        Raises:
            NotTerms: it has a symbol or a decimal.
        """
        if not self.coefficients:
            return Fraction(0)
        value = self.coefficients.get(())
        if len(self.coefficients) > 1 or not isinstance(value, Fraction):
            raise NotTerms
        return value

    def is_residue(self) -> bool:
        """Whether the value differs from 0 only because of rounding."""
        values = [abs(float(value)) for value in self.coefficients.values()]
        return bool(values) and max(values) < _RESIDUE


def number(word: str) -> Terms:
    """A number as written: exact without a point, else a float.

    Raises:
        NotTerms: a decimal has more digits than a float.
    """
    if "." not in word:
        return _small({(): Fraction(word)} if int(word) else {})
    if len(word) > 16:
        raise NotTerms
    return _small({(): float(word)} if float(word) else {})


def symbol(name: str) -> Terms:
    """A letter, or anything that is not computed."""
    return Terms({((name, Fraction(1)),): Fraction(1)})


def _product(left: _Product, right: _Product) -> _Product:
    powers = dict(left)
    for name, power in right:
        powers[name] = powers.get(name, Fraction(0)) + power
    return tuple(sorted((name, power) for name, power in powers.items() if power))


def _small(coefficients: dict[_Product, Coefficient]) -> Terms:
    if len(coefficients) > _MOST_TERMS:
        raise NotTerms
    return Terms(coefficients)
