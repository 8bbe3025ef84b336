"""GSM8K as the lm-eval harness scores it."""

import re

from gage_eval.scoring.metrics.base import metric

_SEPARATORS = str.maketrans("", "", ",$")
_MARKER = "#### "
_LAST_POINT = re.compile(r"\.$")


@metric("gsm8k", value="exact_match", binary=True, version=1)
def gsm8k(prediction: str, reference: str) -> bool:
    """1 when answer and reference are equal as strings after cleaning, else 0 (lm-eval harness, task version 3).

    From both sides ``,``, ``$``, everything up to the last ``#### `` and a final full stop are removed, then case. Use
    it with the filters ``strict-match`` and ``flexible-extract``; each gives its own result. 1234.00 is not 1234; use
    `numeric_match` to compare values.
    """
    return _cleaned(prediction) == _cleaned(reference)


def _cleaned(text: str) -> str:
    return _LAST_POINT.sub("", text.translate(_SEPARATORS).rpartition(_MARKER)[2]).lower()
