"""What judging took, and what the verdicts depend on that they should not."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby
from statistics import StatisticsError, correlation, fmean, variance
from types import MappingProxyType
from typing import NamedTuple

from pydantic import Field

from gage_eval.base.statuses import RULE
from gage_eval.base.strict_model import StrictModel
from gage_eval.report.calibration import Answer
from gage_eval.report.self_preference import SelfPreference, self_preferences

# A correlation of fewer answers is mostly chance.
_LEAST_ANSWERS = 20


class Judging(StrictModel):
    """A task's verdicts, what they took, and signs of bias."""

    verdicts: int = Field(description="Verdicts that were read.")
    missing: int = Field(description="Verdicts that are missing: unreadable, failed or not asked.")
    asked_again: int = Field(default=0, description="Verdicts that the judge gave when it was asked again.")
    prompt_tokens: int | None = Field(default=None, description="Prompt tokens of all judges; null when not reported.")
    completion_tokens: int | None = Field(default=None, description="Completion tokens of all judges.")
    cost: float | None = Field(
        default=None,
        description="What the verdicts cost, each question once, by the backends' prices; null without prices.",
    )
    seconds: float | None = Field(
        default=None, description="Seconds of judging in this run; null where it sent the judges nothing."
    )
    decided_by: dict[str, int] = Field(
        default={}, description="Answers by who decided them: the adapters of judges, and rule for the task's rule."
    )
    kin: list[str] = Field(
        default=[], description="Judges that are the model under test or of its family, by their declared names."
    )
    self_preference: list[SelfPreference] = Field(
        default=[], description="What these judges give to answers of their family more than others do."
    )
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
        if len(self.decided_by) > 1:
            said += [f"decided by {', by '.join(f'{name}: {count:,}' for name, count in self.decided_by.items())}"]
        said += [f"{self.asked_again:,} after asking again"] if self.asked_again else []
        tokens = [count for count in (self.prompt_tokens, self.completion_tokens) if count is not None]
        said += [f"{sum(tokens):,} tokens of the judge"] if tokens else []
        said += [f"cost {self.cost:.4g}"] if self.cost is not None else []
        said += [f"{self.seconds:,.1f} s"] if self.seconds is not None else []
        if self.length_correlation is not None:
            said.append(f"correlation of score and length {self.length_correlation:+.2f}".replace("-", "−"))
        if self.spread is not None:
            said.append(f"scores of one answer vary by {self.spread:.3g} (standard deviation)")
        return ", ".join([*said, *self.kin, *(preference.text for preference in self.self_preference)])


class ReadVerdict(NamedTuple):
    """A verdict on an answer.

    Attributes:
        answer: which answer.
        score: None without one.
        decided_by: a judge or the rule; None where there is no verdict.
        question: the key of the judge's response: two seats may have asked the same question.
        outcome: of a pair: 1 where the model's answer won, 0.5 for a tie, 0 where it lost.
    """

    answer: Answer
    score: float | None
    decided_by: str | None
    question: str | None
    outcome: float | None = None


def judging(
    verdicts: Iterable[ReadVerdict],
    lengths: Mapping[Answer, int],
    counts: Mapping[str, int],
    kin: Mapping[str, str] = MappingProxyType({}),
) -> Judging:
    """Count and compare verdicts.

    Args:
        verdicts: of all answers; those on one answer follow each other.
        lengths: characters of each answer.
        counts: ``asked_again``, and ``prompt_tokens`` and ``completion_tokens`` of all judges; 0 means not reported.
        kin: judges that are like the model under test, each with what is said of it.
    """
    by_answer: dict[Answer, list[float]] = {}
    by_judge: dict[Answer, dict[str, float]] = {}
    decided: Counter[str] = Counter()
    read = missing = 0
    for answer, own in groupby(verdicts, key=lambda verdict: verdict.answer):
        rows = list(own)
        decided.update({row.decided_by for row in rows if row.decided_by is not None})
        # A second judge's verdict stands in each seat that it replaces.
        judged = {(row.question or place): row for place, row in enumerate(rows) if row.decided_by != RULE}.values()
        read += sum(row.decided_by is not None for row in judged)
        missing += sum(row.decided_by is None for row in judged)
        scores = [row.score for row in judged if row.decided_by is not None and row.score is not None]
        if scores:
            by_answer[answer] = scores
        if kin:
            by_judge[answer] = _by_judge(judged)
    several = [scores for scores in by_answer.values() if len(scores) > 1]
    variances = [variance(scores) for scores in several]
    pairs = [(fmean(scores), lengths[answer]) for answer, scores in by_answer.items() if answer in lengths]
    return Judging(
        verdicts=read,
        missing=missing,
        asked_again=counts.get("asked_again", 0),
        prompt_tokens=counts.get("prompt_tokens") or None,
        completion_tokens=counts.get("completion_tokens") or None,
        length_correlation=_correlation(pairs),
        spread=math.sqrt(math.fsum(variances) / len(variances)) if variances else None,
        decided_by=dict(decided),
        kin=list(kin.values()),
        self_preference=self_preferences(by_judge, kin),
    )


def _by_judge(verdicts: Iterable[ReadVerdict]) -> dict[str, float]:
    """The mean score of each judge, or of pairs the mean outcome."""
    scores: dict[str, list[float]] = {}
    for verdict in verdicts:
        score = verdict.outcome if verdict.score is None else verdict.score
        if verdict.decided_by is not None and score is not None:
            scores.setdefault(verdict.decided_by, []).append(score)
    return {judge: fmean(own) for judge, own in scores.items()}


def _correlation(pairs: list[tuple[float, int]]) -> float | None:
    if len(pairs) < _LEAST_ANSWERS:
        return None
    try:
        return correlation(*zip(*pairs, strict=True))
    except StatisticsError:  # One side does not vary.
        return None
