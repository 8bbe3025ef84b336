"""Whether a judge prefers the answers of a model of the same family: its verdicts against those of others."""

from collections.abc import Collection, Iterable, Mapping
from statistics import fmean

from pydantic import Field

from gage_eval.base.strict_model import StrictModel
from gage_eval.report.calibration import Answer
from gage_eval.stats import mean_stderr, t_interval


class SelfPreference(StrictModel):
    """How much more a judge gives to answers of its own family than others give to the same answers.

    It holds how lenient the judge is to all answers, which one run cannot tell from a preference for its own.
    """

    judge: str = Field(description="The judge's adapter; the model under test is of its family, or the same.")
    against: str = Field(description="Whose verdicts it is compared with: other judges, or people.")
    difference: float = Field(description="The mean of its score minus theirs, or of its wins minus theirs in pairs.")
    ci_low: float | None = Field(
        default=None, description="Lower bound of its 95 % interval over samples; null where it is unknown."
    )
    ci_high: float | None = Field(default=None, description="Upper bound of its 95 % interval.")
    answers: int = Field(description="Answers with verdicts of both.")

    @property
    def text(self) -> str:
        """It as a clause."""
        ends = "" if self.ci_low is None else f" [{self.ci_low:+.3f}, {self.ci_high:+.3f}]"
        said = f"on {self.answers:,} answers of its family judge '{self.judge}' gives {self.difference:+.3f}{ends} "
        return f"{said}against {self.against}".replace("-", "−")


def self_preferences(scores: Mapping[Answer, Mapping[str, float]], kin: Collection[str]) -> list[SelfPreference]:
    """Compare each judge of the model's family with the mean of the judges of other families, answer by answer.

    Args:
        scores: what each judge gave an answer.
        kin: the judges of the model's family.
    """
    preferences = []
    for judge in kin:
        pairs = [
            (answer, own[judge], fmean(others))
            for answer, own in scores.items()
            if judge in own and (others := [score for name, score in own.items() if name not in kin])
        ]
        preferences.append(self_preference(judge, "other judges", pairs))
    return [preference for preference in preferences if preference is not None]


def self_preference(judge: str, against: str, pairs: Iterable[tuple[Answer, float, float]]) -> SelfPreference | None:
    """The mean difference with Student's interval over samples, whose answers are averaged first.

    Args:
        judge: its name.
        against: whose verdicts the others are.
        pairs: answers with the score of the judge and of the others.

    Returns:
        None without an answer.
    """
    differences: dict[str, list[float]] = {}
    for (sample, _), own, other in pairs:
        differences.setdefault(sample, []).append(own - other)
    mean, stderr = mean_stderr([fmean(values) for values in differences.values()])
    if mean is None:
        return None
    # Without any spread, as in few answers, an interval would have no width.
    ends = t_interval(mean, stderr, len(differences) - 1) if stderr else None
    low, high = ends or (None, None)
    answers = sum(map(len, differences.values()))
    return SelfPreference(judge=judge, against=against, difference=mean, ci_low=low, ci_high=high, answers=answers)
