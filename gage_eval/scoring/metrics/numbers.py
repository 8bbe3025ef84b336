"""Find numbers in text and read them as exact fractions.

Currency signs, ``*``, ``_`` and thousands separators are not part of a number's value; fractions and
scientific notation are numbers; ``nan`` and ``inf`` are not. Values are compared exactly, never as floats:
180001 is not 180000, and 0.1 + 0.2 is 0.3.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

# Larger numbers are refused: they are not real answers, and exact arithmetic on them could exhaust the machine.
_MAX_DIGITS = 1000
_MAX_EXPONENT = 4000

_TRANSLATE = str.maketrans("．，％－＋−⁄∕", ".,%-+-//")
_NO_DIGIT = re.compile(r"[^0-9.]")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
    "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅐": "1/7", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
    "⅑": "1/9", "⅒": "1/10",
}  # fmt: skip
_VULGAR_CHARS = re.compile(f"([0-9]?)([{''.join(_VULGAR)}])")
_LATEX_FRACTION = re.compile(r"([0-9]?)\\[dt]?frac\{\s*(-?[0-9]{1,99})\s*\}\{\s*([0-9]{1,99})\s*\}")

# No number begins before the first of these. Searching for them is much faster than for a number.
_BEGINNING = re.compile(r"[-+$€£¥.0-9]")
# Digits with `,` or `_` between them, or in groups of three after a thin or non-breaking space.
_DIGITS = r"[0-9]+(?:[,_][0-9]+|[\u00a0\u2009\u202f'’][0-9]{3}(?![0-9]))*"
_NUMBER = re.compile(
    rf"""
    (?<![A-Za-z0-9])                            # not inside a word: H2O
    (?P<sign>(?<![A-Za-z0-9)\]])[-+])?          # a sign; between operands it is an operator
    (?:[$€£¥]\s?(?P<inner>[-+])?)?
    (?:
        (?P<whole>[0-9]{{1,99}})\s(?P<mixed_top>[0-9]{{1,99}})/(?P<mixed_bottom>[0-9]{{1,99}})(?![0-9/])
      | (?<!/)(?P<top>[0-9]{{1,99}})\s?/\s?(?P<bottom>[0-9]{{1,99}})(?![0-9/]|\.[0-9])
      | (?P<mantissa>{_DIGITS}(?:\.[0-9]+)?|\.[0-9]+)
        (?:
            [eE](?P<exponent>[-+]?[0-9]{{1,9}})(?![0-9])
          | \s?(?:[×x*]|\\times|\\cdot)\s?10\s?(?:\^|\*\*)
            \s?\{{?(?P<power>[-+]?[0-9]{{1,9}})\}}?
        )?
    )
    (?P<percent>\s?\\?%)?
    """,
    re.VERBOSE,
)

Exact: TypeAlias = int | Fraction
"""An exact value. Whole numbers, as most answers are, stay integers: a fraction takes ten times as long to compare."""


class Number(NamedTuple):
    """A number found in text.

    Attributes:
        value: its exact value; 60 for ``60%``.
        percent: a percent sign follows.
        text: as written, without surrounding space.
    """

    value: Exact
    percent: bool
    text: str

    def resolved(self, *, percent: bool) -> Exact:
        """The value; a percent sign divides by 100 unless ``percent``: then all numbers are percentages."""
        return self.value if percent or not self.percent else Fraction(self.value, 100)


def find_numbers(text: str) -> Iterator[Number]:
    """All numbers of a text in order: ``$1,234.50``, ``-3/4``, ``1 1/2``, ``½``, ``1.2e-3``, ``60%``."""
    return filter(None, map(_number, _matches(text)))


def last_number(text: str) -> Number | None:
    """The last number of a text."""
    return _digits_only(text) or _first(reversed(list(_matches(text))))


def first_number(text: str) -> Number | None:
    """The first number of a text."""
    return _digits_only(text) or _first(_matches(text))


@lru_cache(typed=True)
def exact(value: float | str) -> Fraction:
    """A configured number with exactly the decimal value as written: 0.1 is one tenth.

    Raises:
        ValueError: not a finite number.
    """
    return Fraction(str(value))


def _digits_only(text: str) -> Number | None:
    """The number that a text of nothing but digits is, as most references are."""
    if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS:
        return Number(int(text), percent=False, text=text)
    return None


def _matches(text: str) -> Iterator[re.Match[str]]:
    plain = _plain(text)
    beginning = _BEGINNING.search(plain)
    return iter(()) if beginning is None else _NUMBER.finditer(plain, beginning.start())


def _first(matches: Iterable[re.Match[str]]) -> Number | None:
    for match in matches:
        if (number := _number(match)) is not None:
            return number
    return None


def _number(match: re.Match[str]) -> Number | None:
    sign, inner, whole, mixed_top, mixed_bottom, top, bottom, mantissa, exponent, power, percent = match.groups()
    value: Exact | None
    if top is not None:
        value = _ratio(top, bottom)
    elif whole is not None:
        part = _ratio(mixed_top, mixed_bottom)
        value = None if part is None else int(whole) + part
    else:
        value = _decimal(mantissa, exponent or power)
    if value is None:
        return None
    return Number(-value if (sign == "-") != (inner == "-") else value, percent is not None, match[0].strip())


def _plain(text: str) -> str:
    if not text.isascii():
        text = _OTHER_DIGIT.sub(lambda m: str(unicodedata.decimal(m[0])), text.translate(_TRANSLATE))
        text = _VULGAR_CHARS.sub(lambda m: f"{m[1]} {_VULGAR[m[2]]}" if m[1] else _VULGAR[m[2]], text)
    if "frac" in text:
        text = _LATEX_FRACTION.sub(lambda m: f"{m[1]} {m[2]}/{m[3]}" if m[1] else f"{m[2]}/{m[3]}", text)
    return text


def _ratio(top: str, bottom: str) -> Fraction | None:
    return Fraction(int(top), int(bottom)) if int(bottom) else None


def _decimal(mantissa: str, exponent: str | None) -> Exact | None:
    digits = mantissa if mantissa.isdecimal() else _NO_DIGIT.sub("", mantissa)
    power = int(exponent) if exponent else 0
    if len(digits) > _MAX_DIGITS or abs(power) > _MAX_EXPONENT:
        return None
    if power == 0 and digits.isdecimal():
        return int(digits)
    return Fraction(f"{digits}e{power}" if power else digits)
