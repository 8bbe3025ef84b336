"""A judge against people: what is compared, and when labels may correct a score."""

import random
from collections.abc import Sequence

import pytest

from gage_eval.report.calibration import Judged, calibration
from gage_eval.scoring.labels import Label

ANSWERS = [(f"s{row}", 0) for row in range(400)]


def _judged(verdicts: Sequence[float], *, binary: bool = True, clusters: int = 0) -> Judged:
    by_answer = dict(zip(ANSWERS, verdicts, strict=False))
    groups = {answer: str(at // clusters) for at, answer in enumerate(by_answer)} if clusters else {}
    return Judged("judge", by_answer, (0, 1) if binary else (1, 10), binary, groups)


def _labels(values: Sequence[float | None], probability: float | None = 0.25) -> list[Label]:
    return [Label(name, at, value, probability) for (name, at), value in zip(ANSWERS, values, strict=False)]


def test_a_lenient_judge_is_corrected_downwards_with_an_interval() -> None:
    chance = random.Random(3)
    truth = [float(chance.random() < 0.6) for _ in ANSWERS]
    verdicts = [1.0 if chance.random() < 0.3 else value for value in truth]
    result = calibration(_judged(verdicts), _labels(truth[:100]))
    assert result.method == "strata"
    assert result.raw is not None
    assert result.corrected is not None
    assert result.ci_low is not None
    assert result.ci_high is not None
    assert result.ci_low <= sum(truth) / len(truth) <= result.ci_high
    assert result.corrected < result.raw
    assert {(cell.label, cell.verdict) for cell in result.confusion} == {(0, 0), (0, 1), (1, 1)}
    differing = next(cell for cell in result.confusion if cell.label != cell.verdict)
    assert all(truth[int(name[1:])] == 0 and verdicts[int(name[1:])] == 1 for name in differing.sample_ids)
    assert result.apart == differing.sample_ids
    assert len(result.apart) == min(20, differing.answers) > 0
    (said,) = [sentence for sentence in result.sentences if "corrected" in sentence]
    assert "too much" in said


def test_scores_and_clusters_are_corrected_too() -> None:
    verdicts = [1.0 + at % 9 for at in range(400)]
    truth = [max(1.0, verdict - 1) for verdict in verdicts]
    assert calibration(_judged(verdicts, binary=False), _labels(truth[:60])).method == "ppi"
    near = [verdict - at % 4 / 4 for at, verdict in enumerate(verdicts[:59])]
    varied = calibration(_judged(verdicts, binary=False), _labels([*near, 10.0]))
    assert (varied.confusion, varied.apart[0], len(varied.largest)) == ([], "s59", 20)
    few = calibration(_judged(verdicts, binary=False, clusters=5), _labels(truth[:100]))
    assert (few.method, few.ci_low) == ("clusters", None)
    assert "fewer than 40 clusters" in (few.why_not or "")
    enough = calibration(_judged(verdicts, binary=False, clusters=5), _labels(truth[:250]))
    assert enough.ci_low is not None


@pytest.mark.parametrize(
    ("labels", "clusters", "why"),
    [
        (_labels([1, 0, 1, 1], None), 0, "not drawn at random"),
        (_labels([1, None, 0, 1]), 0, "left out"),
        ([*_labels([1, 0, 1, 1], 0.5), Label("s9", 0, 1.0, 0.1)], 0, "another judge"),
        (_labels([1, 1, 0]), 2, "labelled in part"),
    ],
    ids=["chosen freely", "skipped", "drawn for another judge", "half a cluster"],
)
def test_labels_that_do_not_stand_for_the_others_correct_nothing(labels: list[Label], clusters: int, why: str) -> None:
    result = calibration(_judged([1.0, 0.0] * 20 if clusters else [1.0] * 40, clusters=clusters), labels)
    assert result.agreement is not None
    assert result.corrected is None
    assert why in (result.why_not or "")


def test_labels_without_an_answer_and_contradictions_are_counted() -> None:
    labels = [*_labels([1, 1, 0]), Label("s1", 0, 0.0, 0.25), Label("nobody", 0, 1.0, 0.25), Label("s3", 0, None)]
    result = calibration(_judged([1.0, 0.0, 1.0, 0.0]), labels)
    assert (result.labels, result.unknown, result.contradicting) == (3, 1, 1)
    assert calibration(_judged([1.0]), [Label("nobody", 0, 1.0)]).labels == 0


def test_a_label_on_every_answer_needs_no_draw() -> None:
    result = calibration(_judged([1.0, 0.0, 1.0, 1.0]), _labels([1, 0, 0, 1], None))
    assert result.corrected == pytest.approx(0.5)
