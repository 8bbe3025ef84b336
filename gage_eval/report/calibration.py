"""A judge against people: agreement, and the score that people would give."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Any, TypeAlias

from pydantic import Field

from gage_eval import stats
from gage_eval.base.strict_model import StrictModel
from gage_eval.scoring.labels import Label

Answer: TypeAlias = tuple[str, int]

# Probabilities of labels that differ more were drawn for the verdicts of another judge.
_EQUAL = 1.25
_MOST_CELLS = 16
_MOST_LISTED = 20


class ConfusionCell(StrictModel):
    """How often people said one thing and the judge another, or the same."""

    label: float = Field(description="What people said.")
    verdict: float = Field(description="What the judge said.")
    answers: int = Field(description="How many answers.")
    sample_ids: list[str] = Field(default=[], description=f"Samples of the first {_MOST_LISTED} of them.")


class Disagreement(StrictModel):
    """An answer of which people and the judge say something else."""

    sample_id: str = Field(description="Its sample.")
    label: float = Field(description="What people said.")
    verdict: float = Field(description="What the judge said.")


class CurveBin(StrictModel):
    """Answers to which the judge gave nearly one probability, and how often people agree."""

    verdict: float = Field(description="The mean probability that the judge gave.")
    label: float = Field(description="The share that people say is right.")
    answers: int = Field(description="How many answers.")


class Calibration(StrictModel):
    """A judge's verdicts against labels of people."""

    metric: str = Field(description="The metric that is compared with the labels.")
    labels: int = Field(description="Answers with a label and a verdict.")
    unknown: int = Field(description="Labels of answers that the task does not have, or has no verdict on.")
    contradicting: int = Field(description="Answers that people labelled differently; their mean counts.")
    agreement: float | None = Field(default=None, description="Share of equal labels and verdicts.")
    kappa: float | None = Field(default=None, description="Cohen's kappa; null where it is undefined.")
    alpha: float | None = Field(
        default=None, description="Krippendorff's alpha, nominal for 0/1, else interval; null where it is undefined."
    )
    confusion: list[ConfusionCell] = Field(default=[], description="The table of both; empty for too many values.")
    largest: list[Disagreement] = Field(
        default=[], description=f"The {_MOST_LISTED} answers with the largest differences, where there is no table."
    )
    brier: float | None = Field(
        default=None, description="Mean squared difference of probability and label; null for other verdicts."
    )
    curve: list[CurveBin] = Field(default=[], description="Labels by the judge's probability, in tenths.")
    raw: float | None = Field(default=None, description="The mean of all verdicts.")
    corrected: float | None = Field(default=None, description="The mean label that all answers would have.")
    ci_low: float | None = Field(default=None, description="Lower bound of its 95 % interval.")
    ci_high: float | None = Field(default=None, description="Upper bound of its 95 % interval.")
    method: str | None = Field(default=None, description="How it was estimated: strata, ppi, or clusters.")
    why_not: str | None = Field(default=None, description="Why there is no corrected score, or no interval.")

    @property
    def verdicts(self) -> list[float]:
        """The columns of the table."""
        return sorted({cell.verdict for cell in self.confusion})

    @property
    def rows(self) -> list[tuple[float, list[ConfusionCell | None]]]:
        """Each label with its cells, in the order of `verdicts`; None where there is no answer."""
        cells = {(cell.label, cell.verdict): cell for cell in self.confusion}
        labels = sorted({cell.label for cell in self.confusion})
        return [(label, [cells.get((label, verdict)) for verdict in self.verdicts]) for label in labels]

    @property
    def apart(self) -> list[str]:
        """Samples where people and the judge say something else, the largest differences first."""
        cells = sorted((x for x in self.confusion if x.label != x.verdict), key=lambda x: -abs(x.label - x.verdict))
        return [name for cell in cells for name in cell.sample_ids] + [row.sample_id for row in self.largest]

    @property
    def sentences(self) -> list[str]:
        """What it says, in words."""
        if not self.labels and not self.unknown:
            return [f"{self.metric}: no answer has a label of people yet."]
        if not self.labels:
            return [f"{self.metric}: none of the {self.unknown:,} labels is about an answer with a verdict."]
        figures = [
            f"{name} {value:.2f}" for name, value in (("kappa", self.kappa), ("alpha", self.alpha)) if value is not None
        ]
        agreed = f"{self.agreement or 0:.0%} agree"
        first = f"{self.metric} against {self.labels:,} labels of people: {', '.join([agreed, *figures])}."
        said = [first]
        if self.unknown:
            said.append(f"{self.unknown:,} labels are about answers that are not there or have no verdict.")
        if self.contradicting:
            said.append(
                f"On {self.contradicting:,} answers people contradict each other; the mean of their labels counts."
            )
        if self.brier is not None:
            bins = ", ".join(f"{known.label:.2f} for {known.verdict:.2f} (n {known.answers:,})" for known in self.curve)
            said.append(f"Brier score {self.brier:.3f}; share that people say is right for its probability: {bins}.")
        if self.corrected is not None and self.raw is not None:
            ends = "" if self.ci_low is None else f" [{self.ci_low:.3f}, {self.ci_high:.3f}]"
            bias = self.raw - self.corrected
            way = "too much" if bias > 0 else "too little"
            judged = (
                f"the judge gives {abs(bias):.3f} {way}" if abs(bias) >= 0.0005 else "the judge is right on average"
            )
            said.append(f"Raw {self.raw:.3f}, corrected {self.corrected:.3f}{ends}: {judged}.")
        if self.why_not is not None:
            said.append(self.why_not)
        return said


@dataclass(frozen=True)
class Judged:
    """What a judge said, and the scale on which people said it.

    Attributes:
        metric: the metric's name.
        verdicts: by answer.
        scale: the lowest and the highest label.
        binary: a label is 0 or 1.
        clusters: the cluster of each answer; empty without a cluster field.
    """

    metric: str
    verdicts: Mapping[Answer, float]
    scale: tuple[float, float]
    binary: bool
    clusters: Mapping[Answer, str] = field(default_factory=dict)

    def labels_of(self, labels: Iterable[Label]) -> dict[Answer, list[float]]:
        """What people said of each answer that has a label and a verdict."""
        known: dict[Answer, list[float]] = {}
        for label in labels:
            if label.value is not None and label.answer in self.verdicts:
                known.setdefault(label.answer, []).append(label.value)
        return known

    def splits_clusters(self, labelled: Collection[Answer], answers: Iterable[Answer]) -> bool:
        """Whether one of these answers has no label, and another one of its cluster has."""
        names = {self.clusters[answer] for answer in labelled if answer in self.clusters}
        return any(self.clusters.get(answer) in names and answer not in labelled for answer in answers)


def left_out(labels: Iterable[Label]) -> bool:
    """Whether an answer without a label comes before one with a label."""
    return any(earlier.value is None and later.value is not None for earlier, later in pairwise(labels))


def drawn_evenly(probabilities: Collection[float]) -> bool:
    """Whether labels were drawn with nearly one probability, so that they stand for the other answers."""
    return max(probabilities) <= _EQUAL * min(probabilities)


def calibration(judged: Judged, labels: Sequence[Label]) -> Calibration:
    """Compare verdicts with labels, and correct the score where the labels were drawn at random.

    Args:
        judged: the verdicts.
        labels: in the order in which they were drawn; those without a value are left out.
    """
    by_answer = judged.labels_of(labels)
    people = {answer: fmean(values) for answer, values in by_answer.items()}
    own = list(people.values())
    judge = [judged.verdicts[answer] for answer in people]
    cells = stats.confusion(own, judge)
    result = Calibration(
        metric=judged.metric,
        labels=len(people),
        unknown=sum(label.value is not None and label.answer not in people for label in labels),
        contradicting=sum(len(set(values)) > 1 for values in by_answer.values()),
        agreement=sum(a == b for a, b in zip(own, judge, strict=True)) / len(own) if own else None,
        kappa=stats.cohen_kappa(own, judge) if judged.binary and own else None,
        alpha=stats.krippendorff_alpha(list(zip(own, judge, strict=True)), "nominal" if judged.binary else "interval"),
        **_differences(people, judged.verdicts, cells),
        **_of_probabilities(judged, own, judge),
        raw=fmean(judged.verdicts.values()) if judged.verdicts else None,
    )
    if not people:
        return result
    why = _not_random(judged, labels, people)
    if why is not None:
        return result.model_copy(update={"why_not": f"No corrected score: {why}."})
    return result.model_copy(update=_corrected(judged, people))


def _differences(
    people: Mapping[Answer, float], verdicts: Mapping[Answer, float], cells: Mapping[tuple[float, float], int]
) -> dict[str, Any]:
    """The table of labels and verdicts with the samples of each cell, or the largest differences."""
    if len(cells) > _MOST_CELLS:
        apart = sorted(people, key=lambda answer: -abs(people[answer] - verdicts[answer]))[:_MOST_LISTED]
        rows = [(answer[0], people[answer], verdicts[answer]) for answer in apart]
        return {"largest": [Disagreement(sample_id=a, label=b, verdict=c) for a, b, c in rows if b != c]}
    samples: dict[tuple[float, float], dict[str, None]] = {}
    for answer, label in people.items():
        samples.setdefault((label, verdicts[answer]), {})[answer[0]] = None
    return {
        "confusion": [
            ConfusionCell(label=a, verdict=b, answers=n, sample_ids=list(samples[a, b])[:_MOST_LISTED])
            for (a, b), n in cells.items()
        ]
    }


def _of_probabilities(judged: Judged, own: Sequence[float], judge: Sequence[float]) -> dict[str, Any]:
    """Brier score (1950) and calibration curve, where verdicts are shares of 0 to 1 and people say 0 or 1."""
    low, high = judged.scale
    if judged.binary or low != 0 or high != 1 or not own or not {*own} <= {0.0, 1.0}:
        return {}
    tenths: dict[int, list[tuple[float, float]]] = {}
    for label, verdict in zip(own, judge, strict=True):
        tenths.setdefault(min(9, math.floor(10 * verdict)), []).append((label, verdict))
    curve = [
        CurveBin(verdict=fmean(b for _, b in part), label=fmean(a for a, _ in part), answers=len(part))
        for _, part in sorted(tenths.items())
    ]
    return {"brier": fmean((a - b) ** 2 for a, b in zip(own, judge, strict=True)), "curve": curve}


def _not_random(judged: Judged, labels: Sequence[Label], people: Mapping[Answer, float]) -> str | None:
    """Why the labels cannot stand for the other answers; None where they can."""
    if any(replicate for _, replicate in judged.verdicts):
        return "samples have several answers each"
    if len(people) == len(judged.verdicts):
        return None
    if left_out(labels):
        return "some answers were left out; label them in the order of the file"
    by_stratum: dict[float, list[float]] = {}
    for label in labels:
        if label.answer in people:
            if label.probability is None:
                return "the labelled answers were not drawn at random; gage labels suggest draws some"
            verdict = judged.verdicts[label.answer] if judged.binary and not judged.clusters else 0.0
            by_stratum.setdefault(verdict, []).append(label.probability)
    if not all(map(drawn_evenly, by_stratum.values())):
        return "the labelled answers were drawn for the verdicts of another judge"
    if judged.splits_clusters(people, judged.clusters):
        return "some clusters are labelled in part"
    return None


def _corrected(judged: Judged, people: Mapping[Answer, float]) -> dict[str, object]:
    verdicts = judged.verdicts
    others = [answer for answer in verdicts if answer not in people]
    labels, own = list(people.values()), [verdicts[answer] for answer in people]
    unlabelled = [verdicts[answer] for answer in others]
    result: stats.Corrected | None
    if judged.clusters:
        method = "clusters"
        clusters = [judged.clusters[answer] for answer in people]
        rest = [judged.clusters[answer] for answer in others]
        result = stats.corrected_clusters(labels, own, clusters, unlabelled, rest, scale=judged.scale)
    elif judged.binary:
        method = "strata"
        strata = []
        for verdict in sorted(set(verdicts.values())):
            right = [label for answer, label in people.items() if verdicts[answer] == verdict]
            rows = sum(value == verdict for value in verdicts.values())
            strata.append(stats.Stratum(rows, len(right), math.fsum(right)))
        result = stats.corrected_share(strata)
    else:
        method = "ppi"
        result = stats.corrected_mean(labels, own, unlabelled, scale=judged.scale)
    if result is None:
        return {"why_not": "No corrected score: one of the judge's verdicts has no label."}
    few = f"fewer than {stats.LEAST_CLUSTERS} clusters" if judged.clusters else "too few answers"
    why = None if result.interval is not None else f"No interval: {few} are labelled."
    low, high = result.interval or (None, None)
    return {"corrected": result.estimate, "ci_low": low, "ci_high": high, "method": method, "why_not": why}
