"""The parser for judges that end with lines such as ``ANSWER:`` and ``SCORE:``."""

import math
import re

from gage_eval.extract.brackets import double_bracketed, pairwise_verdict
from gage_eval.metrics.verdicts import Verdict, verdict_parser

# Matched line by line: over a whole text their time would grow with the square of its length.
_ANSWER = re.compile(r"(?:CORRECT|ANSWER|VERDICT)\s*:\s*(.+)", re.IGNORECASE)
_SCORE = re.compile(r"(?:SCORE|RATING)\s*:\s*(-?\d{1,9}(?:\.\d{1,9})?)", re.IGNORECASE)


@verdict_parser("default", version=1)
def default(text: str) -> Verdict | None:
    """The last line ``CORRECT:``, ``ANSWER:`` or ``VERDICT:``, and the last line ``SCORE:`` or ``RATING:``.

    Without such a line, the marks of MT-bench: ``[[A]]``, ``[[B]]`` or ``[[C]]`` (a tie) is the answer, the first
    ``[[n]]`` the score.
    """
    lines = [line.strip() for line in text.splitlines()]
    answers = [found[1] for line in lines if (found := _ANSWER.fullmatch(line))]
    scores = [found[1] for line in lines if (found := _SCORE.fullmatch(line))]
    score = scores[-1] if scores else double_bracketed(text)
    number = math.nan if score is None else float(score)
    return Verdict(answers[-1] if answers else pairwise_verdict(text), number if math.isfinite(number) else None)
