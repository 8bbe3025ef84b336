r"""Equality of LaTeX answers by the rules of two published checkers, which disagree.

`hendrycks_equal` compares strings after a normalisation (hendrycks/math, as in the lm-eval harness);
`prm800k_equal` accepts the same, then normalises more and compares values (openai/prm800k). Both are
reimplemented from their behaviour, and tests compare them with the originals' outputs. Their peculiarities are part of
the rules: a fraction's numerator loses its brackets in `prm800k_equal`, and ``\text{ and`` ends an answer in
`hendrycks_equal`.
"""

import logging
import re
from functools import cache
from typing import Any

from gage_eval.scoring.metrics.math_values import equal_values
from gage_eval.scoring.metrics.text_utils import as_float

_LONGEST = 2000
_DROPPED = ("\n", "\\!")
_DROPPED_LATER = ("\\left", "\\right", "^{\\circ}", "^\\circ", "\\$")
_BARE_ROOT = re.compile(r"\\sqrt(?!\{)(.)", re.DOTALL)
_TEXT = re.compile(r"^\\text\{(.+?)\}$")
_UNIT = re.compile(
    r"(?:degree|cm|centimeter|meter|mile|second|minute|hour|day|week|month|year|foot|feet|inch|yard)(?:es)?s?"
    r" *(?:\^[0-9]+)?"
)
_MAGNITUDES = {"million": "*10^6", "billion": "*10^9", "trillion": "*10^12"}
_DEGREES = re.compile(r"\^ *\\circ")
_THIN_COMMA = re.compile(r",\\! *")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d\d\d(?:$|\D))")
_FRACTION = re.compile(r"^-?[0-9]+.?/0*[1-9][0-9]*.?$")
_MIXED = re.compile(r"([0-9]) +([0-9])")
_SIGNS = {"√": "sqrt", "π": "pi", "∞": "inf", "∪": "U", "·": "*", "×": "*"}
_BRACKETS = frozenset("()[]")


class _NotNormal(Exception):
    """The published script fails on this text and then compares the unchanged texts."""


def hendrycks_equal(prediction: str, target: str) -> bool:
    """Whether the texts are equal after normalisation; if that fails, whether they are equal unchanged."""
    try:
        return _hendrycks(prediction, strict=True) == _hendrycks(target, strict=True)
    except _NotNormal:
        return prediction == target


def prm800k_equal(prediction: str, target: str) -> bool:
    """Whether texts or values are equal: tuples part by part, fractions as written, whole numbers as written.

    Texts of more than 2,000 characters are only compared as texts.
    """
    if _mathd(prediction) == _mathd(target):
        return True
    if max(len(prediction), len(target)) > _LONGEST:
        return False
    predicted, wanted = _prm800k(prediction), _prm800k(target)
    if predicted == wanted:
        return True
    if not predicted:
        return False
    predicted_parts, wanted_parts = _parts(predicted), _parts(wanted)
    if len(wanted_parts) > 1 and (predicted[0] != wanted[0] or predicted[-1] != wanted[-1]):
        return False
    if len(predicted_parts) != len(wanted_parts):
        return False
    return all(_same_part(part, right) for part, right in zip(predicted_parts, wanted_parts, strict=True))


def _hendrycks(text: str, *, strict: bool) -> str:
    for dropped in _DROPPED:
        text = text.replace(dropped, "")
    text = text.replace("\\\\", "\\").replace("tfrac", "frac").replace("dfrac", "frac")
    for dropped in _DROPPED_LATER:
        text = text.replace(dropped, "")
    text = _without_unit(text).replace("\\%", "")
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    if not text:
        return text
    if text.startswith("."):
        text = "0" + text
    left, sign, right = text.partition("=")
    if sign and "=" not in right and len(left) <= 2:
        text = right
    text = _fractions(_roots(text).replace(" ", ""))
    return _slash("\\frac{1}{2}" if text == "0.5" else text, strict=strict)


def _without_unit(text: str) -> str:
    value, *units = text.split("\\text{ ")
    if len(units) > 1:
        raise _NotNormal
    return value


def _roots(text: str) -> str:
    if text.endswith("\\sqrt") or "\\sqrt\\sqrt" in text:
        raise _NotNormal
    return _BARE_ROOT.sub(r"\\sqrt{\1}", text)


def _fractions(text: str) -> str:
    r"""``\frac12`` and ``\frac1{72}`` with both parts in braces; unchanged where a part is missing."""
    head, *pieces = text.split("\\frac")
    done = [head]
    for piece in pieces:
        if not piece:
            raise _NotNormal
        if piece[0] == "{":
            done.append(piece)
        elif len(piece) < 2:
            return text
        elif piece[1] == "{":
            done.append(f"{{{piece[0]}}}{piece[1:]}")
        else:
            done.append(f"{{{piece[0]}}}{{{piece[1]}}}{piece[2:]}")
    return "\\frac".join(done)


def _slash(text: str, *, strict: bool) -> str:
    r"""``a/b`` of whole numbers as ``\frac{a}{b}``; for other parts the strict script fails."""
    if text.count("/") != 1:
        return text
    top, bottom = text.split("/")
    if len(text) > _LONGEST:
        return text
    try:
        top_number, bottom_number = int(top), int(bottom)
    except ValueError:
        if strict:
            raise _NotNormal from None
        return text
    return f"\\frac{{{top}}}{{{bottom}}}" if text == f"{top_number}/{bottom_number}" else text


def _mathd(text: str) -> str:
    text = text.strip()
    enclosed = _TEXT.search(text)
    if enclosed:
        text = enclosed[1].strip()
    try:
        return _hendrycks(text, strict=False)
    except _NotNormal:
        return text


def _prm800k(text: str) -> str:
    enclosed = _TEXT.search(text)
    if enclosed:
        text = enclosed[1]
    for sign in ("\\%", "\\$", "$", "%"):
        text = text.replace(sign, sign[1:] if sign.startswith("\\") else "")
    text = text.replace(" or ", " , ").replace(" and ", " , ")
    for word, power in _MAGNITUDES.items():
        text = text.replace(word, power)
    text = _DEGREES.sub("", _UNIT.sub("", text))
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    text = _THIN_COMMA.sub("", text)
    number = as_float(text)
    if number is not None and _is_whole(number):
        text = str(round(number))
    if "\\" in text:
        text = _plain_text(text)
    text = _MIXED.sub(r"\1+\2", re.sub("- *", "-", text))
    text = text.replace(" ", "").replace("{", "").replace("}", "").lower()
    return str(int(float(text.replace(",", "")))) if _is_whole_number(text) else text


def _plain_text(latex: str) -> str:
    """LaTeX as text by pylatexenc, whose behaviour is part of the rule; unchanged where that fails for any reason."""
    latex = latex.replace("\\tfrac", "\\frac").replace("\\dfrac", "\\frac").replace("\\frac", " \\frac")
    try:
        text = str(_converter().latex_to_text(latex))
    except Exception:  # noqa: BLE001  # KeyError and others: the published script goes on after any of them
        return latex
    for sign, word in _SIGNS.items():
        text = text.replace(sign, word)
    return text.strip()


@cache
def _converter() -> Any:
    from pylatexenc.latex2text import LatexNodes2Text

    # It would log every unknown macro, and answers have many of them.
    logging.getLogger("pylatexenc").setLevel(logging.CRITICAL)
    return LatexNodes2Text()


def _parts(text: str) -> list[str]:
    """The elements of a tuple or interval; any other text is its only element."""
    text = _THOUSANDS.sub("", text)
    if not text:
        return []
    inner = text[1:-1]
    if len(text) > 2 and text[0] in _BRACKETS and text[-1] in _BRACKETS and not _BRACKETS & set(inner):
        return [part.strip() for part in inner.split(",")]
    return [text]


def _same_part(predicted: str, wanted: str) -> bool:
    if _FRACTION.search(predicted) and _FRACTION.search(wanted):
        return predicted == wanted
    if _is_whole_number(predicted) != _is_whole_number(wanted):
        return False
    return equal_values(predicted, wanted)


def _is_whole_number(text: str) -> bool:
    number = as_float(_THOUSANDS.sub("", text))
    return number is not None and _is_whole(number)


def _is_whole(number: float) -> bool:
    return abs(number) != float("inf") and number == number and abs(number - round(number)) <= 1e-7
