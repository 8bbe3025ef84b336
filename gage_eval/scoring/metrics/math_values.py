"""Compare the values of two expressions without evaluating a model's text as code.

An expression is read by the grammar below into numbers of 60 digits and compared at several points. A computer algebra
system would take unlimited time; this takes time linear in the length. Two expressions of this small kind that agree
at random complex points are the same expression.

    sum      = product (("+" | "-") product)*
    product  = signed (["*" | "/"] signed)*          adjacent factors are multiplied
    signed   = ("+" | "-")* power
    power    = factorial [("^" | "**") signed]
    factorial= atom "!"*
    atom     = number | "pi" | ("sqrt" | "ln") "(" sum ")" | letter | "(" sum ")"
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from gage_eval.scoring.metrics import math_decimals
from gage_eval.scoring.metrics.math_decimals import NotTerms, Terms

_LONGEST = 2000
_DEEPEST = 50
_MOST_LETTERS = 2
_DIGITS = 60
_LARGEST_FACTORIAL = 1000
# For a larger exponent mpmath would compute at least as many digits as the exponent has bits.
_LARGEST_EXPONENT = 10_000
_REFUSED = re.compile(r"\^\{|\^\(|\^[0-9]+\^|\^[0-9][0-9]")
_TOKEN = re.compile(r"\s*(?:([0-9]+(?:\.[0-9]*)?|\.[0-9]+)|(\*\*|[-+*/^()!])|(sqrt(?=\()|ln(?=\()|pi|[^\W\d_]))")
# Real and complex, positive and negative: |x| is not x, and no identity holds by chance.
_POINTS = (("1.37", "0.83"), ("-0.71", "2.19"), ("0.59+1.13j", "-1.61+0.47j"))


class _NoExpression(Exception):
    """The text does not follow the grammar."""


def equal_values(left: str, right: str) -> bool:
    """Whether two expressions are equal wherever they are defined, decimals computed as floats (`math_decimals`).

    False also for text that is not an expression, has more than two letters without a meaning, or has a power that
    this project's rule (prm800k's) refuses to compute: a bracket, a tower, or two digits. Also for an exponent or
    factorial that is too large.
    """
    text = f"({left})-({right})"
    letters = {sign for sign in text.replace("sqrt", "").replace("frac", "") if sign.isalpha()}
    if len(letters) > _MOST_LETTERS or len(text) > _LONGEST or _REFUSED.search(text):
        return False
    try:
        first, second = _tokens(left), _tokens(right)
        agreed = [_agree(first, second, sorted(letters), point) for point in _POINTS]
    except _NoExpression:
        return False
    return True in agreed and False not in agreed and not _differ_by_rounding(first, second)


def _differ_by_rounding(left: list[str], right: list[str]) -> bool:
    """Whether floats make a difference where exact decimals make none."""
    if not any("." in token for token in (*left, *right)):
        return False
    try:
        difference: Terms = _Reader(left, _Floats()).value() - _Reader(right, _Floats()).value()
        return difference.is_residue()
    except (NotTerms, ZeroDivisionError, OverflowError):
        return False


def _agree(left: list[str], right: list[str], letters: list[str], point: tuple[str, str]) -> bool | None:
    """Whether both have the same value at a point; None where one of them has no value there."""
    mp = _numbers()
    at = {letter: mp.mpmathify(number) for letter, number in zip(letters, point, strict=False)}
    try:
        first, second = _Reader(left, _Point(at)).value(), _Reader(right, _Point(at)).value()
        if not (mp.isfinite(first) and mp.isfinite(second)):
            return None
        return bool(abs(first - second) <= mp.mpf(10) ** (-_DIGITS // 2) * max(1, abs(first), abs(second)))
    except (ZeroDivisionError, OverflowError, ValueError):
        return None


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _NoExpression
        tokens.append(match[1] or match[2] or match[3])
        position = match.end()
    return tokens


class _Values(Protocol):
    """What the reader computes with; sums and products are Python's operators."""

    def number(self, word: str) -> Any:
        """A number as written."""

    def letter(self, word: str) -> Any:
        """A letter, or ``pi``."""

    def call(self, name: str, value: Any) -> Any:
        """``sqrt`` or ``ln`` of a value."""

    def power(self, base: Any, exponent: Any) -> Any:
        """A value to a power."""

    def factorial(self, value: Any) -> Any:
        """The factorial of a value."""


@dataclass(frozen=True)
class _Point:
    """Numbers of 60 digits, with a value for each letter."""

    letters: Mapping[str, Any]

    def number(self, word: str) -> Any:
        return _numbers().mpf(word)

    def letter(self, word: str) -> Any:
        if word == "pi":
            return +_numbers().pi
        # The letters of a name without its bracket, as in "sqrt".
        if word not in self.letters:
            raise _NoExpression
        return self.letters[word]

    def call(self, name: str, value: Any) -> Any:
        return getattr(_numbers(), name)(value)

    def power(self, base: Any, exponent: Any) -> Any:
        return _power(base, exponent)

    def factorial(self, value: Any) -> Any:
        return _factorial(value)


class _Floats:
    """Sums of products of symbols, with exact numbers and floats as coefficients."""

    def number(self, word: str) -> Terms:
        return math_decimals.number(word)

    def letter(self, word: str) -> Terms:
        return math_decimals.symbol(word)

    def call(self, name: str, value: Terms) -> Terms:
        return math_decimals.symbol(f"{name}({sorted(value.coefficients.items())})")

    def power(self, base: Terms, exponent: Terms) -> Terms:
        return base.power(exponent.number())

    def factorial(self, value: Terms) -> Terms:
        return math_decimals.symbol(f"{value.number()}!")


class _Reader:
    """Reads tokens by the grammar and computes the value at the same time."""

    def __init__(self, tokens: list[str], values: _Values) -> None:
        self._tokens = tokens
        self._values = values
        self._position = 0
        self._depth = 0

    def value(self) -> Any:
        value = self._sum()
        if self._position < len(self._tokens):
            raise _NoExpression
        return value

    def _next(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _take(self, *signs: str) -> str | None:
        sign = self._next()
        if sign not in signs or not sign:
            return None
        self._position += 1
        return sign

    def _sum(self) -> Any:
        value = self._product()
        while sign := self._take("+", "-"):
            term = self._product()
            value = value + term if sign == "+" else value - term
        return value

    def _product(self) -> Any:
        value = self._signed()
        while True:
            if self._take("*"):
                value *= self._signed()
            elif self._take("/"):
                value /= self._signed()
            elif self._next() and self._next() not in "+-)!^**":
                value *= self._power()
            else:
                return value

    def _signed(self) -> Any:
        negative = False
        while sign := self._take("+", "-"):
            negative ^= sign == "-"
        value = self._power()
        return -value if negative else value

    def _power(self) -> Any:
        base = self._atom()
        while self._take("!"):
            base = self._values.factorial(base)
        if self._take("^", "**"):
            self._deeper()
            base = self._values.power(base, self._signed())
            self._depth -= 1
        return base

    def _atom(self) -> Any:
        word = self._next()
        self._position += 1
        if word == "(":
            return self._rest_of_bracket()
        if word in ("sqrt", "ln"):
            self._position += 1
            return self._values.call(word, self._rest_of_bracket())
        if word.isalpha():
            return self._values.letter(word)
        if word[:1].isdigit() or word[:1] == ".":
            return self._values.number(word)
        raise _NoExpression

    def _rest_of_bracket(self) -> Any:
        self._deeper()
        value = self._sum()
        if not self._take(")"):
            raise _NoExpression
        self._depth -= 1
        return value

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _NoExpression


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > _LARGEST_EXPONENT:
        raise _NoExpression
    return _numbers().power(base, exponent)


def _factorial(value: Any) -> Any:
    mp = _numbers()
    if not mp.isint(value) or not 0 <= value.real <= _LARGEST_FACTORIAL:
        raise _NoExpression
    return mp.factorial(value)


@cache
def _numbers() -> Any:
    from mpmath import MPContext

    context = MPContext()
    context.dps = _DIGITS
    return context
