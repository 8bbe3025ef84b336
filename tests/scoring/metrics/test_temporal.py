"""The overlap of spans of time is that of the definition, however an answer writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gage_eval.scoring.metrics.builtin.temporal import temporal_iou

TIMES = st.integers(0, 20_000).map(lambda tenths: tenths / 10)


@pytest.mark.parametrize(
    ("said", "reference", "overlap"),
    [
        ("10 - 20", "10 - 20", 1.0),
        ("10 - 20", "15 - 25", 1 / 3),
        ("0 - 10", "20 - 30", 0.0),
        ("It happens from 0:10 to 0:20.", "[10.0, 20.0]", 1.0),
        ("from 12.5s until 15 s", "12.5 - 17.5", 0.5),
        ("1:01:05 – 1:01:15", "3665 - 3675", 1.0),
        ("First I saw 3 to 4; no, it is between 10 and 20 seconds.", "10 - 20", 1.0),
        ("12 seconds to 14 seconds", "12, 14", 1.0),
        # A moment overlaps with nothing; an end before the start does not make a span, so the one before counts.
        ("15 - 15", "10 - 20", 0.0),
        ("10 - 20, not 20 - 10", "10 - 20", 1.0),
    ],
)
def test_spans_are_read_and_compared(said: str, reference: str, overlap: float) -> None:
    assert temporal_iou(said, [reference]).value == pytest.approx(overlap)


@pytest.mark.parametrize("said", ["", "at 12 seconds", "20 - 10", "never", "on 1.2.3-4.5.6", "12:30"])
def test_an_answer_without_a_span_is_unparsed(said: str) -> None:
    assert temporal_iou(said, ["10 - 20"]).status == "unparsed"


@pytest.mark.parametrize("answers", [[], ["soon"], ["5 - 5"], ["20 - 10"]])
def test_without_a_reference_there_is_no_score(answers: list[str]) -> None:
    assert temporal_iou("10 - 20", answers).status == "unscored"


def test_the_nearest_reference_counts_and_a_threshold_makes_a_recall() -> None:
    assert temporal_iou("10 - 20", ["0 - 5", "10 - 15"]).value == 0.5
    assert temporal_iou("10 - 20", ["0 - 5", "10 - 15"], threshold=0.5).value == 1.0
    assert temporal_iou("10 - 20", ["0 - 5", "10 - 15"], threshold=0.51).value == 0.0


@given(TIMES, TIMES, TIMES, TIMES)
def test_the_overlap_is_symmetric_and_whole_only_for_equal_spans(a: float, b: float, c: float, d: float) -> None:
    span, other = f"{min(a, b)} - {max(a, b)}", f"{min(c, d)} - {max(c, d)}"
    if a != b and c != d:
        value = temporal_iou(span, [other]).value
        assert value == temporal_iou(other, [span]).value
        assert isinstance(value, float)
        assert 0.0 <= value <= 1.0
        assert (value == 1.0) == (span == other)


@given(st.text(alphabet="0123456789:.-, sto", max_size=60))
def test_any_answer_has_a_status(said: str) -> None:
    assert temporal_iou(said, ["10 - 20"]).status in ("scored", "unparsed")
