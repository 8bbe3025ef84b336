"""Numbers in words, English and Chinese, and the words for scales after digits."""

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import TypeAlias

from gage_eval.scoring.metrics.written_numbers import chinese_number

# Words for scales after digits, as patterns, in English, German, French, Spanish, Portuguese, Italian and Chinese.
# 千克 and 千米 are units.
SCALES: dict[str, int] = {
    r"[Tt]housand\b": 10**3,
    r"千[万萬]": 10**7,
    r"百[万萬]": 10**6,
    r"千(?![克米瓦卡帕赫焦伏])": 10**3,
    r"百(?!分)": 10**2,
    r"[万萬]": 10**4,
    r"[亿億]": 10**8,
    r"[Ll]akhs?\b": 10**5,
    r"[Cc]rores?\b": 10**7,
    r"[Mm]il(?:l?ion(?:s|en|es|i)?|l[oó]n(?:es)?|h(?:ão|ões)|ione|ioni)\b": 10**6,
    r"[Bb]illions?\b": 10**9,
    r"[Mm]il(?:liarden?|liards?|iardi|iardo)\b": 10**9,
    r"[Tt]rillions?\b": 10**12,
}

_SMALL = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen".split()
    )
}
_SMALL |= {
    word: 10 * tens for tens, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
}
_LARGE = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_WORD = "|".join(sorted({*_SMALL, *_LARGE}, key=len, reverse=True))
_FIRST = "|".join(sorted(_SMALL, key=len, reverse=True))
_ENGLISH = re.compile(
    rf"(?<![A-Za-z-])(?P<sign>(?:minus|negative)[ ])?"
    rf"(?P<words>(?:{_FIRST})(?:[ -](?:and[ ])?(?:{_WORD})){{0,20}})(?![A-Za-z-])",
    re.IGNORECASE,
)
_NUMERALS = "[零〇一二三四五六七八九两兩壹贰叁肆伍陆柒捌玖十拾百佰千仟万萬亿億点點廿卅]{1,99}"
_CHINESE = re.compile(
    rf"(?P<sign>[负負])?"
    rf"(?:百分之(?P<percent>{_NUMERALS})|(?P<bottom>{_NUMERALS})分之(?P<top>{_NUMERALS})|(?P<number>{_NUMERALS}))"
)
_DIGIT = re.compile("[零〇一二三四五六七八九两兩壹贰叁肆伍陆柒捌玖十拾]")
_AROUND = re.compile(r"[\W_]+")
_INTRODUCED = re.compile(r"[是为為：:=]\s?\Z")

WordNumber: TypeAlias = tuple[int | Fraction, bool, str]
"""Value, whether it is a percentage, and the words."""


def words_in(text: str) -> list[WordNumber]:
    """The numbers in words, those in English first.

    A lone ``one``, or a lone Chinese numeral that is not the end of the text after ``是`` or a colon, is a number only
    as the whole text: elsewhere it is an article, a pronoun or part of a word.
    """
    bare = _AROUND.sub("", text)
    return [*_english(text, bare), *([] if text.isascii() else _chinese(text, bare))]


def _english(text: str, bare: str) -> Iterator[WordNumber]:
    for match in _ENGLISH.finditer(text):
        words = [word for word in re.split("[ -]", match["words"].lower()) if word != "and"]
        if words != ["one"] or bare.lower() == "one":
            value = _english_value(words)
            yield -value if match["sign"] else value, False, match[0]


def _chinese(text: str, bare: str) -> Iterator[WordNumber]:
    end = len(text.rstrip("。.！!）)*` \n"))
    for match in _CHINESE.finditer(text):
        lone = match["number"] is not None and len(match["number"]) == 1
        if lone and bare != match[0]:
            before = text[max(0, match.start() - 2) : match.start()]
            if match.end() < end or not _INTRODUCED.search(before):
                continue
        value = _chinese_value(match)
        if value is not None:
            yield -value if match["sign"] else value, match["percent"] is not None, match[0]


def _english_value(words: list[str]) -> int:
    total = section = 0
    for word in words:
        if word == "hundred":
            section = max(section, 1) * 100
        elif word in _LARGE:
            total += max(section, 1) * _LARGE[word]
            section = 0
        else:
            section += _SMALL[word]
    return total + section


def _chinese_value(match: re.Match[str]) -> int | Fraction | None:
    if match["bottom"] is not None:
        top, bottom = chinese_number(match["top"]), chinese_number(match["bottom"])
        return Fraction(top) / bottom if top is not None and bottom else None
    written = match["percent"] or match["number"]
    return chinese_number(written) if _DIGIT.search(written) else None
