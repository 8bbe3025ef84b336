"""What judging took, and what the verdicts depend on that they should not."""

import math
from collections.abc import Iterable, Mapping
from statistics import StatisticsError, correlation

from pydantic import Field

from gage_eval.report.calibration import Answer
from gage_eval.report.timings import SummaryModel

# A correlation of fewer answers is mostly chance.
_LEAST_ANSWERS = 20


class Judging(SummaryModel):
    """A task's verdicts, what they took, and signs of bias."""

    verdicts: int = Field(description="Verdicts that were read.")
    missing: int = Field(description="Verdicts that are missing: unreadable, failed or not asked.")
    asked_again: int = Field(default=0, description="Verdicts that the judge gave when it was asked again.")
    prompt_tokens: int | None = Field(default=None, description="Prompt tokens of all judges; null when not reported.")
    completion_tokens: int | None = Field(default=None, description="Completion tokens of all judges.")
    length_correlation: float | None = Field(
        default=None,
        description="Correlation of an answer's score with its length in characters; null for fewer than "
        f"{_LEAST_ANSWERS} answers with scores.",
    )
    spread: float | None = Field(
        default=None,
        description="Standard deviation of the scores of one answer, over answers with several verdicts; null "
        "without such.",
    )

    @property
    def text(self) -> str:
        """All of it in one sentence."""
        said = [f"{self.verdicts:,} verdicts"]
        said += [f"{self.missing:,} missing"] if self.missing else []
        said += [f"{self.asked_again:,} after asking again"] if self.asked_again else []
        tokens = [count for count in (self.prompt_tokens, self.completion_tokens) if count is not None]
        said += [f"{sum(tokens):,} tokens of the judge"] if tokens else []
        if self.length_correlation is not None:
            said.append(f"correlation of score and length {self.length_correlation:+.2f}".replace("-", "−"))
        if self.spread is not None:
            said.append(f"scores of one answer vary by {self.spread:.3g} (standard deviation)")
        return ", ".join(said)


def judging(
    scores: Iterable[tuple[Answer, float | None, bool, int]], lengths: Mapping[Answer, int], counts: Mapping[str, int]
) -> Judging:
    """Count and compare verdicts.

    Args:
        scores: of each verdict the answer, its score (None without one), whether it was read, and its draw.
        lengths: characters of each answer.
        counts: ``prompt_tokens`` and ``completion_tokens`` of all judges; 0 means not reported.
    """
    by_answer: dict[Answer, list[float]] = {}
    read = missing = again = 0
    for answer, score, was_read, draw in scores:
        read, missing = read + was_read, missing + (not was_read)
        again += was_read and draw > 0
        if was_read and score is not None:
            by_answer.setdefault(answer, []).append(score)
    several = [values for values in by_answer.values() if len(values) > 1]
    variances = [sum((x - math.fsum(own) / len(own)) ** 2 for x in own) / (len(own) - 1) for own in several]
    pairs = [(math.fsum(own) / len(own), lengths[answer]) for answer, own in by_answer.items() if answer in lengths]
    return Judging(
        verdicts=read,
        missing=missing,
        asked_again=again,
        prompt_tokens=counts.get("prompt_tokens") or None,
        completion_tokens=counts.get("completion_tokens") or None,
        length_correlation=_correlation(pairs),
        spread=math.sqrt(math.fsum(variances) / len(variances)) if variances else None,
    )


def _correlation(pairs: list[tuple[float, int]]) -> float | None:
    if len(pairs) < _LEAST_ANSWERS:
        return None
    try:
        return correlation(*zip(*pairs, strict=True))
    except StatisticsError:  # One side does not vary.
        return None
