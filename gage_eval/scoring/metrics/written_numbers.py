"""Numbers as people write them, in many scripts, as floats; the rule of Inspect AI's ``match(numeric=True)``.

Here a whole text must be one number, read as Inspect reads it. `gage_eval.scoring.metrics.numbers` reads for all other
metrics.
"""

import math
import re
import unicodedata
from fractions import Fraction

_LONGEST = 400
_MINUS, _PLUS = frozenset("-−﹣－负負"), frozenset("+＋﹢正")
_SEPARATORS = frozenset(",，﹐、٬ \u00a0\u202f\u2009\u2007\u2008'’ʼ＇")
_POINTS = frozenset("٫．")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_EXPONENT = re.compile(r"[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+\Z")
_DIGIT_OF = {
    **dict(zip("零一二三四五六七八九", range(10), strict=True)),
    **dict(zip("壹贰叁肆伍陆柒捌玖", range(1, 10), strict=True)),
    **dict(zip("〇○貳參陸两兩幺", (0, 0, 2, 3, 6, 2, 2, 1), strict=True)),
}
_ZEROS = frozenset("零〇○")
_TENS = {"廿": 20, "卅": 30, "卌": 40}
_UNITS = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12}
_CHINESE_POINTS = "点點"
_CHINESE = frozenset(_DIGIT_OF) | _UNITS.keys() | _MYRIADS.keys() | _TENS.keys() | frozenset(_CHINESE_POINTS + "负負正")


def written_number(text: str) -> float | None:
    """The finite value of a text that is one number, else None.

    Python's float syntax; else signs of Unicode, a vulgar fraction at the end (``2½``), a superscript exponent (``5²``,
    which applies after the sign: ``-2²`` is 4), Chinese numerals (``四十二``), digits of any script, and digits
    grouped by spaces or marks (``10 000``).
    """
    if len(text) > _LONGEST:
        return None
    try:
        value: float | None = float(text)
    except ValueError:
        value = None
    if value is None or not math.isfinite(value):
        value = _unicode_number(text)
    return value if value is not None and math.isfinite(value) else None


def _unicode_number(text: str) -> float | None:
    text = text.strip()
    negative = False
    while text and text[0] in _MINUS | _PLUS:
        negative ^= text[0] in _MINUS
        text = text[1:].lstrip()
    value = _symbol(text)
    if value is not None:
        return -value if negative else value
    bare = text.rstrip("".join(_SEPARATORS) + " \t\n\r\f\v")
    raised = _EXPONENT.search(bare)
    base = bare[: raised.start()].rstrip() if raised else text
    value = _with_fraction(base if base else text)
    if value is None:
        return None
    signed = -value if negative else value
    if raised is None or not base:
        return signed
    try:
        return float(signed ** int(raised[0].translate(_RAISED)))
    except (OverflowError, ZeroDivisionError):
        return None


def _with_fraction(text: str) -> float | None:
    fractions = [(place, value) for place, sign in enumerate(text) if 0 < (value := _symbol(sign) or 0) < 1]
    if not fractions:
        return _plain(text)
    place, part = fractions[0]
    if len(fractions) > 1 or any(not (sign.isspace() or sign in _SEPARATORS) for sign in text[place + 1 :]):
        return None
    whole = text[:place].strip()
    before = _plain(whole) if whole else 0.0
    return None if before is None else before + part


def _plain(text: str) -> float | None:
    """A number without sign, fraction sign and exponent."""
    text = text.strip()
    counted = chinese_number(text) if not _CHINESE.isdisjoint(text) else None
    value = None if counted is None else float(counted)
    if value is None:
        value = _digits(text)
    return _symbol(text) if value is None else value


def _symbol(text: str) -> float | None:
    value: float | None = unicodedata.numeric(text, None) if len(text) == 1 else None
    return value


def _digit(sign: str) -> int | None:
    value = unicodedata.digit(sign, None)
    return _DIGIT_OF.get(sign) if value is None else value


def _digits(text: str) -> float | None:
    """Digits of any script. The last of points and commas is the decimal mark; commas alone before 1 to 3 digits."""
    point, comma = text.rfind("."), text.rfind(",")
    if point >= 0:
        mark = "." if point > comma else ","
    else:
        behind = sum(_digit(sign) is not None for sign in text[comma + 1 :])
        mark = "," if comma >= 0 and 1 <= behind <= 3 else ""
    written: list[str] = []
    signs = iter(enumerate(text))
    for place, sign in signs:
        if sign in "eE":
            if not written or "e" in written:
                return None
            written.append("e")
            if text[place + 1 : place + 2] in (_MINUS | _PLUS) - _CHINESE:
                written.append("-" if next(signs)[1] in _MINUS else "+")
        elif sign in _POINTS or sign == mark:
            if "." in written:
                return None
            written.append(".")
        elif not (sign.isspace() or sign in _SEPARATORS or (mark and sign in ".,")):
            digit = _digit(sign)
            if digit is None:
                return None
            written.append(str(digit))
    try:
        return float("".join(written))
    except ValueError:
        return None


def chinese_number(text: str) -> int | Fraction | None:
    """The value of Chinese numerals: ``四十二``, ``三千零五``, ``一点五``, ``二零二四``; None for anything else."""
    mark = next((mark for mark in (*_CHINESE_POINTS, "．", ".") if mark in text), None)
    whole, _, behind = text.partition(mark) if mark else (text, "", "")
    count: int | None
    if _UNITS.keys().isdisjoint(whole) and _MYRIADS.keys().isdisjoint(whole) and _TENS.keys().isdisjoint(whole):
        count = _row_of_digits(whole)
    else:
        count = _counted(whole)
    rest = _row_of_digits(behind)
    if count is None or rest is None:
        return None
    return count + Fraction(rest, 10 ** sum(not sign.isspace() for sign in behind)) if behind else count


def _row_of_digits(text: str) -> int | None:
    value = 0
    for sign in text:
        if sign.isspace():
            continue
        digit = _digit(sign)
        if digit is None:
            return None
        value = value * 10 + digit
    return value


def _counted(text: str) -> int | None:
    """Digits with units: ``三千零四十二``, ``十二万``."""
    total = section = number = 0
    for sign in text:
        if sign.isspace() or sign in _ZEROS:
            continue
        if sign in _TENS:
            section += _TENS[sign]
        elif sign in _UNITS:
            section += (number or 1) * _UNITS[sign]
            number = 0
        elif sign in _MYRIADS:
            total += (section + number) * _MYRIADS[sign]
            section = number = 0
        elif (digit := _digit(sign)) is not None:
            number = digit
        else:
            return None
    return total + section + number
