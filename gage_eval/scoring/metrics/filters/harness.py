"""The two answer filters that tasks of the lm-eval harness use most, under the same names."""

import re

from gage_eval.scoring.metrics.base import text_filter

_STRICT = re.compile(r"#### (-?[0-9.,]+)")
_FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")


@text_filter("strict-match", version=1)
def strict_match(text: str) -> str | None:
    """The number after the first ``####``, as the lm-eval harness reads GSM8K (task version 3)."""
    match = _STRICT.search(text)
    return None if match is None else match[1]


@text_filter("flexible-extract", version=1)
def flexible_extract(text: str) -> str | None:
    """The last number of the text, as the lm-eval harness reads GSM8K (task version 3).

    Runs of digits, ``$``, ``.`` and ``,`` count as numbers there: ``42.`` keeps its point, and ``..`` is one.
    """
    match = None
    for match in _FLEXIBLE.finditer(text):  # noqa: B007  # the last one stays
        pass
    return None if match is None else match[0]
