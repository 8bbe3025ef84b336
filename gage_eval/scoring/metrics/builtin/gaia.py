"""The exact match of GAIA's leaderboard."""

import re
import string

from gage_eval.scoring.metrics.base import metric
from gage_eval.scoring.metrics.text_utils import as_float

_MARK = "FINAL ANSWER:"
_LIST = re.compile("[,;]")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@metric("gaia", binary=True, version=1)
def gaia(prediction: str, reference: str) -> bool:
    """1 when the final answer is right by the rules of GAIA's leaderboard, else 0.

    The final answer is what follows the last ``FINAL ANSWER:``, else all of it. A reference that is a number: equal
    numbers, without ``$``, ``%`` and ``,``. With ``,`` or ``;``: equally long lists, whose elements are equal numbers,
    or equal texts without white space and case. Any other: equal texts without white space, case and ASCII punctuation.
    """
    answer = prediction.rpartition(_MARK)[2]
    if (number := as_float(reference)) is not None:
        return _number(answer) == number
    if not _LIST.search(reference):
        return _plain(answer).translate(_PUNCTUATION) == _plain(reference).translate(_PUNCTUATION)
    answers, references = _LIST.split(answer), _LIST.split(reference)
    return len(answers) == len(references) and all(map(_same_element, answers, references))


def _same_element(said: str, gold: str) -> bool:
    number = as_float(gold)
    return _plain(said) == _plain(gold) if number is None else _number(said) == number


def _number(text: str) -> float:
    """The number of a text; infinity where it has another form, as the leaderboard's script says."""
    for char in "$%,":
        text = text.replace(char, "")
    number = as_float(text)
    return float("inf") if number is None else number


def _plain(text: str) -> str:
    return re.sub(r"\s", "", text).lower()
