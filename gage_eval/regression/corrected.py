"""The difference of two runs that people would see, from a judge's verdicts on all answers and labels of some."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from gage_eval import stats
from gage_eval.base.errors import InputError
from gage_eval.report.calibration import Answer, Judged, drawn_evenly, left_out
from gage_eval.report.summary import signed_ends, signed_text
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import TaskReader
from gage_eval.scoring.labels import Label


@dataclass(frozen=True)
class CorrectedChange:
    """The corrected difference of two runs.

    Attributes:
        labels: samples whose answers of both runs have a label and a verdict.
        difference: of the labels that all answers would have; positive is better. None where it is unknown.
        bounds: its 95 % interval.
        labels_needed: how many samples with labels would decide between the runs; None where that is unknown, or where
            labels of all samples would not.
        why_not: why there is no difference, or no interval.
    """

    labels: int
    difference: float | None = None
    bounds: tuple[float, float] | None = None
    labels_needed: int | None = None
    why_not: str | None = None

    @property
    def text(self) -> str:
        """``corrected by labels of 100 samples: +0.050 (+0.010 … +0.090)``, and what is missing."""
        if self.difference is None:
            return f"no corrected difference: {self.why_not}"
        ends = "" if self.bounds is None else f" ({signed_ends(self.bounds)})"
        said = f"corrected by labels of {self.labels:,} samples: {signed_text(self.difference)}{ends}"
        if self.why_not is not None:
            return f"{said}; {self.why_not}"
        return said if self.decided else f"{said}; {self._more}"

    @property
    def decided(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.bounds is not None and not self.bounds[0] <= 0 <= self.bounds[1]

    @property
    def _more(self) -> str:
        if self.labels_needed is None:
            return "labels of all samples would not decide between the runs: compare them on more samples"
        if self.labels_needed <= self.labels:
            return "a few more labels may decide between the runs"
        return f"labels of {self.labels_needed - self.labels:,} more samples would decide, if the difference stays"

    def as_record(self) -> dict[str, Any]:
        """For JSON and CSV."""
        low, high = self.bounds or (None, None)
        return {
            "corrected_labels": self.labels,
            "corrected_difference": self.difference,
            "corrected_ci_low": low,
            "corrected_ci_high": high,
            "corrected_labels_needed": self.labels_needed,
            "corrected_why_not": self.why_not,
        }


@dataclass(frozen=True)
class _Run:
    """A run's verdicts, and the labels of its answers with their file."""

    judged: Judged
    labels: Sequence[Label]
    file: Path | None

    @property
    def people(self) -> dict[Answer, float]:
        """The mean label of each answer that has one."""
        return {answer: fmean(values) for answer, values in self.judged.labels_of(self.labels).items()}

    @property
    def probabilities(self) -> dict[Answer, float | None]:
        return {label.answer: label.probability for label in self.labels}


def corrected_change(baseline: TaskReader, current: TaskReader, measure: Measure) -> CorrectedChange | None:
    """The corrected difference of a task's number between two runs.

    Args:
        baseline, current: the task in both runs.
        measure: the number that is compared.

    Returns:
        None where neither run has labels for the number.
    """
    try:
        before, after = (_read(task, measure) for task in (baseline, current))
    except InputError as error:
        return CorrectedChange(0, why_not=str(error))
    if before is None and after is None:
        return None
    if before is None or after is None:
        return CorrectedChange(0, why_not="only one run has labels; gage labels suggest A B draws some for both")
    change = _change(before, after)
    if measure.scale.higher_is_better is not False or change.difference is None:
        return change
    turned = None if change.bounds is None else (-change.bounds[1], -change.bounds[0])
    return CorrectedChange(change.labels, -change.difference, turned, change.labels_needed, change.why_not)


def _read(task: TaskReader, measure: Measure) -> _Run | None:
    # The plan of a task whose judge has no labels is not read, as its config may be gone.
    if task.report is None or task.report.calibration is None:
        return None
    plan = task.plan
    spec = None if plan is None else plan.report.labels
    # Labels in a field of the samples are about the samples, and the same for every model.
    if spec is None or spec.field is not None:
        return None
    if (spec.metric_id, spec.filter, spec.value_key) != (measure.metric_id, measure.filter, measure.value_key):
        return None
    return _Run(spec.judged(task.scores[spec.metric_id], task.samples), spec.labels, spec.file)


def _change(before: _Run, after: _Run) -> CorrectedChange:
    own, others = after.people, before.people
    verdicts, verdicts_before, clusters = after.judged.verdicts, before.judged.verdicts, after.judged.clusters
    labelled = sorted(answer for answer in own if answer in others)
    shared = sorted(set(verdicts_before) & set(verdicts))
    why = _not_random(before, after, labelled, shared)
    if why is not None:
        return CorrectedChange(len(labelled), why_not=why)
    known = set(labelled)
    rest = [answer for answer in shared if answer not in known]
    differences = [
        [own[answer] - others[answer] for answer in labelled],
        *([verdicts[x] - verdicts_before[x] for x in answers] for answers in (labelled, rest)),
    ]
    reach = after.judged.scale[1] - after.judged.scale[0]
    if not clusters:
        result = stats.corrected_mean(*differences, scale=(-reach, reach), end_labels=0.5)
        needed, few = stats.labels_to_decide(*differences), "too few samples have labels for an interval"
    else:
        # Each sample without the field is a separate cluster.
        names = [[clusters.get(answer, answer[0]) for answer in answers] for answers in (labelled, rest)]
        labels, judged, unlabelled = differences
        result = stats.corrected_clusters(
            labels, judged, names[0], unlabelled, names[1], scale=(-reach, reach), end_labels=0.5
        )
        needed, few = None, f"no interval, because fewer than {stats.LEAST_CLUSTERS} clusters have labels"
    assert result is not None
    return CorrectedChange(
        len(labelled), result.estimate, result.interval, needed, None if result.interval is not None else few
    )


def _not_random(before: _Run, after: _Run, labelled: Sequence[Answer], shared: Sequence[Answer]) -> str | None:
    """Why the samples with labels cannot stand for the others; None where they can."""
    if not labelled:
        return "no sample has a label of people in both runs"
    if before.file == after.file:
        return "both runs have the same labels, and each label is about one model's answer"
    if before.judged.scale != after.judged.scale:
        return "the labels of the two runs have different scales"
    if any(replicate for _, replicate in shared):
        return "samples have several answers each"
    if len(labelled) == len(shared):
        return None
    if left_out(before.labels) or left_out(after.labels):
        return "some answers were left out; label them in the order of the files"
    ours, theirs = after.probabilities, before.probabilities
    drawn = [a * b for x in labelled if (a := ours[x]) is not None and (b := theirs[x]) is not None]
    if len(drawn) < len(labelled) or not drawn_evenly(drawn):
        return "the labelled samples were not drawn evenly; gage labels suggest A B draws some"
    if after.judged.splits_clusters(set(labelled), shared):
        return "some clusters are labelled in part"
    return None
