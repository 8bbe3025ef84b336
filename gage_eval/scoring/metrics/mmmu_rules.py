"""Read answers by the rules of the official evaluations of MMMU and MMMU-Pro.

Written to the rules of ``mmmu/utils/eval_utils.py`` (Yue et al. 2024, arXiv:2311.16502) and ``mmmu-pro/evaluate.py``
(arXiv:2409.02813) of MMMU-Benchmark/MMMU. Every pass over an answer is linear in its length.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from gage_eval.base.canonical import sha256_hex

Part: TypeAlias = str | float
"""One normalised reading of an open answer."""

_ENDS = (",", ".", "!", "?", ";", ":", "'")
_INDICATORS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
_WORDS_FOR_TEXT = 5
# A run of digits is tried only from its first digit: where that fails, later ones fail too.
_NUMBERS = (
    re.compile(r"-?\b\d{1,3}(?:,\d{3})+\b"),
    re.compile(r"-?(?<!\d)\d+(?:\.\d+)?[eE][+-]?\d+"),
    re.compile(r"-?(?:(?<!\d)\d+\.\d+|\.\d+|(?<!\d)\d+\b)(?![eE][+-]?\d+)(?![,\d])"),
)


def read_choice(answer: str, options: Mapping[str, str]) -> str | None:
    """The option of a multiple-choice answer, None where the official parser draws at random.

    Candidates are the options named as ``(A)``; if there are none, as ``A`` between spaces; if there are none and the
    answer has more than five words, those whose text occurs in it in any case. The one that occurs last wins.

    Args:
        answer: the model's text. Signs at its ends (``, . ! ? ; : '``) do not count.
        options: letter to text. An empty text never matches.
    """
    text = _between_spaces(answer)
    for form in ("({})", " {} "):
        named = {option: text.rfind(form.format(option)) for option in options}
        positions = {option: position for option, position in named.items() if position >= 0}
        if positions:
            return max(positions, key=positions.__getitem__)
    return _last_by_text(text, {option: content for option, content in options.items() if content})


def read_pro_choice(answer: str, options: Mapping[str, str | None]) -> str | None:
    """The option of an answer to MMMU-Pro, None where the official script draws at random.

    When exactly one option's letter occurs after the last ``Answer:``, in any place, even inside a word, it is chosen.
    Otherwise candidates are the options named as ``(A)``; if there are none, as ``A`` before a space; then as ``A.``;
    then, if the answer has more than five words, those whose text occurs in it in any case. Of several the last one
    wins: by the last ``(A)``, the last ``A`` between spaces, or the last occurrence of the text. Where none of them
    occurs in this form, it is the first one.

    Args:
        answer: the model's text. Signs at its ends (``, . ! ? ; : '``) do not count.
        options: letter to text, None for one that is not known. An empty text occurs in every answer, as officially.
    """
    _, marked, tail = answer.rpartition("Answer:")
    if marked and len(named := [option for option in options if option in tail]) == 1:
        return named[0]
    text = _between_spaces(answer)
    for sought, placed in (("({})", "({})"), ("{} ", " {} "), ("{}.", " {} ")):
        named = [option for option in options if sought.format(option) in text]
        if named:
            return max(named, key=lambda option: text.rfind(placed.format(option)))
    return _last_by_text(text, {option: content for option, content in options.items() if content is not None})


def _last_by_text(text: str, contents: Mapping[str, str]) -> str | None:
    """The option whose text comes last in an answer of more than a few words."""
    lowered = text.lower()
    positions = {option: lowered.rfind(content.lower()) for option, content in contents.items()}
    positions = {option: position for option, position in positions.items() if position >= 0}
    if not positions or len(text.split()) <= _WORDS_FOR_TEXT:
        return None
    return max(positions, key=positions.__getitem__)


def draw_option(options: Iterable[str], sample_id: str) -> str:
    """One of the options, drawn by the sample's id, so that every run draws the same one."""
    letters = list(options)
    return letters[int(sha256_hex(sample_id.encode())[:16], 16) % len(letters)]


def read_open(answer: str) -> list[Part]:
    """The readings of an open answer: its key phrases and the numbers in them, normalised, each once.

    A line's key phrase is the shortest tail after an indicator (``so``, ``is``, ``answer``, …; ``=`` only in the
    last line). Without any, the whole answer is the key phrase. The official script also splits at a full stop before a
    capital, but lowers the answer first, so this never happens.
    """
    text = answer.strip().strip(".").lower()
    lines = text.split("\n")
    phrases: list[str] = []
    for number, line in enumerate(lines, 1):
        indicators = (*_INDICATORS, "=") if number == len(lines) else _INDICATORS
        tails = [line.rpartition(indicator)[2].strip() for indicator in indicators if indicator in line]
        # An empty tail never replaces a longer one.
        shortest = min((tail for tail in tails if tail), key=len, default="")
        if shortest and shortest not in _ENDS:
            phrases.append(shortest)
    phrases = phrases or [text]
    numbers = [number for phrase in phrases for number in _numbers(phrase)]
    return list(dict.fromkeys(part for phrase in (*phrases, *numbers) for part in normalise(phrase)))


def normalise(text: str) -> list[Part]:
    """A number without separators as a float rounded to two places; other text lowered, padded when one character."""
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        lowered = text.lower()
        return [f" {lowered}", f"{lowered} "] if len(lowered) == 1 else [lowered]


def open_is_right(parts: Iterable[Part], answers: Sequence[str]) -> bool:
    """Whether a number equals an accepted one, or an accepted text occurs in a phrase."""
    accepted = [part for answer in answers for part in normalise(answer)]
    texts = [part for part in accepted if isinstance(part, str)]
    values = [part for part in accepted if not isinstance(part, str)]
    return any(
        any(text in part for text in texts) if isinstance(part, str) else any(part == value for value in values)
        for part in parts
    )


def _between_spaces(answer: str) -> str:
    """The answer without signs at its ends, removed one sign after the other, between two spaces."""
    for sign in _ENDS:
        answer = answer.strip(sign)
    return f" {answer} "


def _numbers(text: str) -> list[str]:
    return [match[0] for pattern in _NUMBERS for match in pattern.finditer(text)]
