"""Filters that read an answer out of a form: a box, a JSON object, a rating, a line ``ANSWER:``."""

import re
from typing import Literal

from gage_eval.base.boxed import boxed_answer
from gage_eval.base.field_paths import MISSING, walk
from gage_eval.scoring.extract.brackets import double_bracketed, single_bracketed
from gage_eval.scoring.metrics.base import text_filter
from gage_eval.scoring.metrics.json_text import find_json
from gage_eval.scoring.metrics.text_utils import as_text

_ANSWER = re.compile(r"ANSWER\s*:\s*", re.IGNORECASE)
_LETTER = re.compile(r"[A-Za-z](?!\w)")
_WORD = re.compile(r"\S+")
_END_MARKS = ".,;:!?"
_LAST_DOLLARS = re.compile(r"\$(.*)\$")
_NUMBER = re.compile(r"\$?\d+(?:\.\d+)?(?!\w)")


@text_filter("boxed", version=1)
def boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed{…}`` (or ``\fbox{…}``), found as in the scripts of hendrycks/math."""
    return boxed_answer(text)


@text_filter("json_field", version=2)
def json_field(text: str, *, field: str) -> str | None:
    """A field of the JSON in the answer, by a dotted path (``result.items.0``); objects and lists stay JSON.

    The answer may be JSON, contain it in a fenced block, or contain it among other text: the last object counts.
    """
    document = find_json(text)
    if document is None:
        return None
    value = walk(document[0], field)
    return None if value is MISSING or value is None else as_text(value)


@text_filter("rating", version=1)
def rating(text: str) -> str | None:
    """The first number in double brackets, ``[[7.5]]``; without one the first in single brackets.

    As MT-bench reads its judge (Zheng et al. 2023, arXiv:2306.05685).
    """
    return double_bracketed(text) or single_bracketed(text)


@text_filter("answer", version=2)
def answer(text: str, *, kind: Literal["letter", "word", "line"] = "line") -> str | None:
    """The text after ``ANSWER:``, as Inspect AI's prompts ask for it; case does not count.

    A ``letter`` or ``word`` follows the last ``ANSWER:``. The letter stands alone; the word, without one sign of
    ``. , ; : ! ?`` at its end, is the last of its line, and more lines may follow. A ``line`` is the rest of the text,
    if it is one line.
    """
    if kind == "line":
        return _last_line(text)
    marker = None
    for marker in _ANSWER.finditer(text):  # noqa: B007  # the last one stays
        pass
    if marker is None:
        return None
    if kind == "letter":
        letter = _LETTER.match(text, marker.end())
        return None if letter is None else letter[0]
    return _word_at_line_end(text, marker.end())


def _last_line(text: str) -> str | None:
    end = len(text.rstrip())
    last_line = text.rfind("\n", 0, end)
    marker = next((match for match in _ANSWER.finditer(text) if last_line < match.end() < end), None)
    return None if marker is None else text[marker.end() : end]


def _word_at_line_end(text: str, start: int) -> str | None:
    word = _WORD.match(text, start)
    if word is None:
        return None
    behind = text[word.end() :]
    gap = behind[: len(behind) - len(behind.lstrip())]
    if behind.strip() and "\n" not in gap:
        return None
    token = word[0]
    return token[:-1] if len(token) > 1 and token[-1] in _END_MARKS else token


@text_filter("letters", version=1)
def letters(text: str, *, among: str = "ABCDEF") -> str | None:
    """All capital letters of the answer that name an option, each once and sorted: `AC` for "(C) and (A)".

    AGIEval reads the answers to questions with several right options like this.
    """
    return "".join(sorted({character for character in text if character in among})) or None


@text_filter("agieval_math", version=2)
def agieval_math(text: str) -> str | None:
    r"""The final answer to a problem in mathematics, as AGIEval reads it.

    The last ``\boxed{…}``; else what stands between the first and the last ``$`` of the last line with two; else what
    follows the last ``=``, up to a ``\n`` that is written out; else the last number. Of an equation in a box or between
    ``$`` only the right side counts. A ``\boxed`` without braces holds no answer.
    """
    if "\\boxed" in text:
        box = text[text.rfind("\\boxed") :]
        content = boxed_answer(box) if box.startswith("\\boxed{") else None
        return None if content is None else _right_side(content)
    quoted = _LAST_DOLLARS.findall(text)
    if quoted and quoted[-1]:
        return _right_side(quoted[-1])
    if "=" in text:
        return _right_side(text).rstrip(".").partition("\\n")[0]
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers else None


def _right_side(text: str) -> str:
    _, equals, right = text.rpartition("=")
    return right.lstrip(" ") if equals else text
