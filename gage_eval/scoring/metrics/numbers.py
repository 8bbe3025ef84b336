"""Find numbers in text and read them as exact fractions: the one reader of all metrics, filters and parsers.

Currency signs, ``*``, ``_`` and thousands separators are not part of a number's value; fractions, powers, scales
(``1.5 million``) and scientific notation are numbers; ``nan``, ``inf`` and the exponents of units are not. Values are
compared exactly, never as floats: 180001 is not 180000, and 0.1 + 0.2 is 0.3.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from gage_eval.scoring.metrics.number_words import SCALES, words_in

# Larger numbers are refused: they are not real answers, and exact arithmetic on them could exhaust the machine.
_MAX_DIGITS = 1000
_MAX_EXPONENT = 4000

_TRANSLATE = str.maketrans("．，％－＋−–﹣⁄∕٫٬", ".,%-+---//.,")
_NO_DIGIT = re.compile(r"[^0-9.]")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_RAISED = re.compile(r"(?<=[0-9])[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,9}")
_LOWERED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
    "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅐": "1/7", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
    "⅑": "1/9", "⅒": "1/10",
}  # fmt: skip
_VULGAR_CHARS = re.compile(f"([0-9]?)([{''.join(_VULGAR)}])")
_LATEX_FRACTION = re.compile(r"([0-9]?)\\[dt]?frac\{\s*(-?[0-9]{1,99})\s*\}\{\s*([0-9]{1,99})\s*\}")
_LATEX_SEPARATOR = re.compile(r"(?<=[0-9])(?:\{,\}|\\[,!])(?=[0-9]{3})")

# No number begins before the first of these. Searching for them is much faster than for a number.
_BEGINNING = re.compile(r"[-+$€£¥.0-9]")
_LONGEST_SIGN = len("negative $")
# Ways to write digits. Repetitions that may fail at their end are bounded, so that time stays linear.
_DIGITS = r"""
    [0-9]+(?![0-9]|[ ,._\u00a0\u2009\u202f'’][0-9])                                    # most numbers
  | [0-9]{1,3}(?:[ \u00a0\u2009\u202f'’][0-9]{3})+(?![0-9])(?:,[0-9]++(?![,.][0-9]))?  # 1 234 567,5
  | [1-9][0-9]{0,2}(?:\.[0-9]{3}){1,30},[0-9]++(?![,.][0-9])                           # 1.234,5
  | [1-9][0-9]{0,2}(?:\.[0-9]{3}){2,30}(?![0-9]|[,.][0-9])                             # 1.000.000
  | [1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])                                             # 1,234
  | [0-9]{1,2}(?:,[0-9]{2}){1,30},[0-9]{3}(?![0-9])                                    # 12,34,567
  | (?<![0-9],)[0-9]++,[0-9]++(?![,.][0-9])                                            # 3,14
  | [0-9]++(?:_[0-9]++)*                                                               # 1_000
"""
_NUMBER = re.compile(
    rf"""
    (?=[-+$€£¥.0-9MmNn负負])                    # tried first, because it fails fast
    (?<![A-Za-z0-9])                            # not inside a word: H2O
    (?<!\^)(?<!\^[ {{(+-])(?<!\^[{{(][+-])      # nor the exponent of a unit: m^2, s^{{-1}}, m**2
    (?<![A-Za-z)}}]\*\*)(?<![A-Za-z)}}]\*\*-)
    (?P<sign>(?<![A-Za-z0-9)\]])[-+]            # a sign; between operands it is an operator
      |(?<![0-9)\]%][ ])(?:[Mm]inus|[Nn]egative)[ ]|[负負])?
    (?P<currency>[$€£¥]\s?)?(?P<inner>(?(currency)[-+]|(?!)))?
    (?:
        (?P<whole>[0-9]{{1,99}})\s(?P<mixed_top>[0-9]{{1,99}})/(?P<mixed_bottom>[0-9]{{1,99}})(?![0-9/])
      | (?<!/)(?P<top>[0-9]{{1,99}})\s?/\s?(?P<bottom>[0-9]{{1,99}})(?![0-9/]|\.[0-9])
      | (?P<mantissa>(?:{_DIGITS})(?:\.[0-9]+)?|\.[0-9]+)
        (?:
            [eE](?P<exponent>[-+]?[0-9]{{1,9}})(?![0-9])
          | \s?(?:[×x*]|\\times|\\cdot)\s?10\s?(?:\^|\*\*)
            \s?[{{(]?(?P<power>[-+]?[0-9]{{1,9}})[}})]?
          | \s?(?:\^|\*\*)\s?[{{(]?(?P<raised>[-+]?[0-9]{{1,9}})(?![0-9./])[}})]?
        )?
    )
    (?P<scale>\s?(?:{"|".join(SCALES)})|(?(currency)(?:[KkMB]|bn|mn)(?![A-Za-z0-9])|k(?![A-Za-z0-9])))?
    (?P<percent>\s?\\?%)?
    """,
    re.VERBOSE,
)
_SHORT_SCALES = {"k": 10**3, "K": 10**3, "M": 10**6, "mn": 10**6, "B": 10**9, "bn": 10**9}
_ALL_SCALES = [(re.compile(pattern), factor) for pattern, factor in SCALES.items()]

Exact: TypeAlias = int | Fraction
"""An exact value. Whole numbers, as most answers are, stay integers: a fraction takes ten times as long to compare."""


class Number(NamedTuple):
    """A number found in text.

    Attributes:
        value: its exact value; 60 for ``60%``.
        percent: a percent sign follows.
        text: as written, without surrounding space.
        rounded: it has a fraction or an exponent, so that its last digits may be those of a float.
    """

    value: Exact
    percent: bool
    text: str
    rounded: bool = False

    def resolved(self, *, percent: bool) -> Exact:
        """The value; a percent sign divides by 100 unless ``percent``: then all numbers are percentages."""
        return self.value if percent or not self.percent else Fraction(self.value, 100)


def last_number(text: str) -> Number | None:
    """The last number of a text: ``$1,234.50``, ``-3/4``, ``1 1/2``, ``1.2e-3``, ``10^3``, ``3万``, ``60%``.

    Words count, English or Chinese, where the text has no number in digits: ``two hundred``, ``四十二``, ``三分之二``.
    """
    return _digits_only(text) or _first(reversed(list(_matches(text)))) or next(reversed(_in_words(text)), None)


def first_number(text: str) -> Number | None:
    """The first number of a text, as `last_number` reads them."""
    return _digits_only(text) or _first(_matches(text)) or next(iter(_in_words(text)), None)


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


def _in_words(text: str) -> list[Number]:
    return [
        Number(value, percent, written, rounded=isinstance(value, Fraction))
        for value, percent, written in words_in(text)
    ]


def _matches(text: str) -> Iterator[re.Match[str]]:
    plain = _plain(text)
    beginning = _BEGINNING.search(plain)
    return iter(()) if beginning is None else _NUMBER.finditer(plain, max(0, beginning.start() - _LONGEST_SIGN))


def _first(matches: Iterable[re.Match[str]]) -> Number | None:
    for match in matches:
        if (number := _number(match)) is not None:
            return number
    return None


def _number(match: re.Match[str]) -> Number | None:
    sign, _, inner, whole, mixed_top, mixed_bottom, top, bottom, mantissa, exponent, power, raised, scale, percent = (
        match.groups()
    )
    value: Exact | None
    if top is not None:
        value = _ratio(top, bottom)
    elif whole is not None:
        part = _ratio(mixed_top, mixed_bottom)
        value = None if part is None else int(whole) + part
    else:
        value = _decimal(mantissa, exponent or power)
        if value is not None and raised is not None:
            value = _power(value, int(raised))
    if value is None:
        return None
    if scale is not None:
        value *= _factor(scale.strip())
    rounded = value.denominator != 1 or exponent is not None or power is not None or raised is not None
    negative = (sign is not None and sign != "+") != (inner == "-")
    return Number(-value if negative else value, percent is not None, match[0].strip(), rounded)


def _plain(text: str) -> str:
    if not text.isascii():
        text = _RAISED.sub(lambda m: f"^{m[0].translate(_LOWERED)}", text)
        text = _OTHER_DIGIT.sub(lambda m: str(unicodedata.decimal(m[0])), text.translate(_TRANSLATE))
        text = _VULGAR_CHARS.sub(lambda m: f"{m[1]} {_VULGAR[m[2]]}" if m[1] else _VULGAR[m[2]], text)
    if "\\" in text or "{" in text:
        text = _LATEX_FRACTION.sub(lambda m: f"{m[1]} {m[2]}/{m[3]}" if m[1] else f"{m[2]}/{m[3]}", text)
        text = _LATEX_SEPARATOR.sub(",", text)
    return text


def _ratio(top: str, bottom: str) -> Fraction | None:
    return Fraction(int(top), int(bottom)) if int(bottom) else None


def _decimal(mantissa: str, exponent: str | None) -> Exact | None:
    digits = mantissa if mantissa.isdecimal() else _NO_DIGIT.sub("", _with_point(mantissa))
    power = int(exponent) if exponent else 0
    if len(digits) > _MAX_DIGITS or abs(power) > _MAX_EXPONENT:
        return None
    if power == 0 and digits.isdecimal():
        return int(digits)
    return Fraction(f"{digits}e{power}" if power else digits)


def _with_point(mantissa: str) -> str:
    """Digits with a point as their only decimal mark, and without points that group them."""
    head, comma, tail = mantissa.rpartition(",")
    points = head.count(".") if comma else mantissa.count(".")
    if comma and "." not in tail and (points or _SPACES.search(head) or _is_decimal(head, tail)):
        return f"{head.replace('.', '')}.{tail}"
    return mantissa.replace(".", "") if points > 1 else mantissa


_SPACES = re.compile(r"[^0-9,.]")


def _is_decimal(head: str, tail: str) -> bool:
    """Whether a lone comma between digits is a decimal mark, because no thousands are written so."""
    return head.isdecimal() and (len(tail) != 3 or len(head) > 3 or head[0] == "0")


def _power(base: Exact, exponent: int) -> Exact | None:
    digits = len(str(base.numerator)) + len(str(base.denominator))
    if digits * abs(exponent) > _MAX_EXPONENT or (exponent < 0 and not base):
        return None
    value = Fraction(base) ** exponent
    return int(value) if value.denominator == 1 else value


def _factor(scale: str) -> int:
    factor = next((factor for pattern, factor in _ALL_SCALES if pattern.fullmatch(scale)), None)
    return _SHORT_SCALES[scale] if factor is None else factor
