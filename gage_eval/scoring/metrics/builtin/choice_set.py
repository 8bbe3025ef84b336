"""Multiple choice with several right options."""

import re
from typing import Annotated

from pydantic import Field

from gage_eval.scoring.metrics.base import Score, metric

# Letters alone, in any brackets, between commas, spaces, and: ``A, C``, ``(A) and (C)``, ``AC``.
_ONLY_LETTERS = re.compile(r"(?:[\s,;/&+.()\[\]*、，]|\band\b)*", re.IGNORECASE)
_MOST_POINTS = 1e9


@metric("choice_set", value="acc", binary=True, version=1, all_references="together")
def choice_set(prediction: str, reference: str, *, letters: str = "ABCDEFGHIJ") -> Score:
    """1 when the answer names all right options and no other, else 0.

    Both sides consist of letters only: ``A, C``, ``AC``, ``["A", "C"]``, ``(A) and (C)``; add a filter for answers with
    more text. Several references are alternatives, each a set; with ``references: all`` they are one set together. An
    answer in another form, or with an unknown letter, is unparsed.
    """
    right, chosen = _letters(reference, letters), _letters(prediction, letters)
    if not right:
        return Score.unscored(f"the reference {reference[:100]!r} names no options of {letters}")
    if not chosen:
        return Score.unparsed("the answer is not a list of options")
    return Score(float(chosen == right), extracted=", ".join(sorted(chosen)))


@metric(
    "choice_points",
    value=("credit", "points"),
    bounds={"credit": (0, 1), "points": (0, None)},
    perfect={"points": None},
    version=1,
    fields={"points": "sample.metadata.points"},
    all_references="together",
)
def choice_points(
    prediction: str,
    reference: str,
    points: float = 1.0,
    *,
    partial_credit: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5,
    letters: str = "ABCDEFGHIJ",
) -> Score:
    """Credit for the right options, and the sample's points times this credit.

    The credit is 1 for all right options and no other, ``partial_credit`` for some of them and no other, and 0 as soon
    as a wrong one is named. ``points`` are those of the sample, 1 where it has none; for the share of all points take
    ``credit`` with ``weight_field: metadata.points``. The sides are read as by ``choice_set``.
    """
    if isinstance(points, bool) or not isinstance(points, int | float) or not 0 <= points <= _MOST_POINTS:
        return Score.unscored(f"the sample's points are {str(points)[:80]!r}, not a number from 0 to 1e9")
    right, chosen = _letters(reference, letters), _letters(prediction, letters)
    if not right:
        return Score.unscored(f"the reference {reference[:100]!r} names no options of {letters}")
    if not chosen:
        return Score.unparsed("the answer is not a list of options")
    credit = 1.0 if chosen == right else partial_credit if chosen < right else 0.0
    return Score({"credit": credit, "points": credit * points}, extracted=", ".join(sorted(chosen)))


def _letters(text: str, known: str) -> set[str]:
    named = _ONLY_LETTERS.sub("", text.replace('"', ""))
    return set(named) if set(named) <= set(known) else set()
