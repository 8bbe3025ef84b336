"""Multiple choice with several right options."""

import re

from gage_eval.metrics.base import Score, metric

# Letters alone, in any brackets, between commas, spaces, and: ``A, C``, ``(A) and (C)``, ``AC``.
_ONLY_LETTERS = re.compile(r"(?:[\s,;/&+.()\[\]*、，]|\band\b)*", re.IGNORECASE)


@metric("choice_set", value="acc", aggregate="mean", binary=True, version=1)
def choice_set(prediction: str, reference: str, *, letters: str = "ABCDEFGHIJ") -> Score:
    """1 when the answer names all right options and no other, else 0.

    Both sides consist of letters only: ``A, C``, ``AC``, ``["A", "C"]``, ``(A) and (C)``; add a filter for answers with
    more text. An answer in another form, or with an unknown letter, is unparsed.
    """
    right, chosen = _letters(reference, letters), _letters(prediction, letters)
    if not right:
        return Score.unscored(f"the reference {reference[:100]!r} names no options of {letters}")
    if not chosen:
        return Score.unparsed("the answer is not a list of options")
    return Score(float(chosen == right), extracted=", ".join(sorted(chosen)))


def _letters(text: str, known: str) -> set[str]:
    named = _ONLY_LETTERS.sub("", text.replace('"', ""))
    return set(named) if set(named) <= set(known) else set()
