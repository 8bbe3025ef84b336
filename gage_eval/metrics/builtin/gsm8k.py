"""GSM8K as the lm-eval harness scores it."""

import re

from gage_eval.metrics.base import metric

_SEPARATORS = str.maketrans("", "", ",$")
_MARKER = "#### "
_LAST_POINT = re.compile(r"\.$")


@metric("gsm8k", value="exact_match", aggregate="mean", binary=True, version=1)
def gsm8k(prediction: str, reference: str) -> bool:
    """1 when answer and reference are equal as strings once cleaned, else 0 (lm-eval harness, task version 3).

    From both sides ``,``, ``$``, all up to the last ``#### `` and a full stop at the end are removed, then case. Use it
    with the filters ``strict-match`` and ``flexible-extract``, each a result of its own. 1234.00 is not 1234; to
    compare values take `numeric_match`.
    """
    return _cleaned(prediction) == _cleaned(reference)


def _cleaned(text: str) -> str:
    return _LAST_POINT.sub("", text.translate(_SEPARATORS).rpartition(_MARKER)[2]).lower()
