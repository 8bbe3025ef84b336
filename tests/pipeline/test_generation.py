"""Models that are asked at once: one progress for all, and the requests in flight are shared."""

from dataclasses import replace
from itertools import pairwise

import pytest
from pipeline.calling import Bench

from gage_eval.observability.events import Event, StageProgress
from gage_eval.observability.observer import Observers
from gage_eval.pipeline import stages
from gage_eval.pipeline.judge_spec import JudgeSpec


class Kept:
    """The progress of the judge stage."""

    def __init__(self) -> None:
        self.reports: list[StageProgress] = []

    def emit(self, event: Event) -> None:
        if isinstance(event, StageProgress) and event.stage == "judge":
            self.reports.append(event)


@pytest.mark.parametrize("max_inflight", [None, 1, 2, 7])
def test_the_progress_of_a_panel_is_that_of_all_its_seats(bench: Bench, max_inflight: int | None) -> None:
    """Also where fewer requests may be in flight than there are seats, so that these come in groups."""
    seats = [
        replace(bench.model("judge_model", prompt=f"RATING: {{{{ sample.id }}}}{name}", mode="echo"), adapter_id=name)
        for name in ("a", "b", "c")
    ]
    kept = Kept()
    env = replace(bench.env, observer=Observers([kept]), max_inflight=max_inflight)
    samples = bench.samples([{"id": f"s{row}", "question": "Q", "answer": "A"} for row in range(5)])
    prepared = bench.preprocess(samples)
    result = stages.judge(
        env,
        JudgeSpec("t", seats[0], tuple(seats[1:]), panel=("a", "b", "c")),
        prepared=prepared,
        samples=samples,
        responses=bench.infer(prepared, bench.model(mode="echo")),
    )
    assert result.counts["sent"] == 15
    assert [report.total for report in kept.reports] == [15] * len(kept.reports)
    done = [report.done for report in kept.reports]
    assert all(before <= after for before, after in pairwise(done))
    assert done[-1] == 15
    assert kept.reports[-1].figures
