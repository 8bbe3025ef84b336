"""Promises of ``stop_when``: it stops when the score is known, and a resume walks the looks again without asking."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.workspace import write_config

from gage_eval.base.errors import InputError, RunCancelled
from gage_eval.base.stages import StageResult
from gage_eval.cli.main import main
from gage_eval.observability.events import Event, StageFinished, StageStarted
from gage_eval.pipeline.forecast import forecast
from gage_eval.runs import RunOptions, RunOutcome, RunSession, run_inline
from gage_eval.runs.inline import carry_out
from gage_eval.runs.planned import planned
from gage_eval.runs.resume import resumed
from gage_eval.store import Store

ROWS = 600


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(35)
    records = [
        {"id": f"s{row}", "question": f"{row} + 1 = ?", "answer": "2" if rng.random() < 0.4 else "3"}
        for row in range(ROWS)
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return tmp_path


def _config(folder: Path, **stop: Any) -> None:
    write_config(folder, tasks=[{"task_id": "sums", "dataset_id": "sums", "stop_when": stop}])


def _run(store: str, *observers: Any) -> RunOutcome:
    return run_inline(RunOptions(config="mine.yaml", store=store, run_id="first"), observers)


class Looks:
    """The results of a stage, look by look; the run is cancelled when the stage begins for the n-th time."""

    def __init__(self, stage: str, cancel_at: int | None = None) -> None:
        self.session: RunSession | None = None
        self.results: list[StageResult] = []
        self._stage, self._left = stage, cancel_at

    def emit(self, event: Event) -> None:
        if isinstance(event, StageFinished) and event.result.stage == self._stage:
            self.results.append(event.result)
        if isinstance(event, StageStarted) and event.stage == self._stage and self._left is not None:
            self._left -= 1
            if not self._left:
                assert self.session is not None
                self.session.cancel()


def test_it_asks_until_the_score_is_known_and_says_what_it_stands_for(folder: Path) -> None:
    _config(folder, half_width=0.07)
    looks = Looks("infer")
    outcome = _run("store", looks)
    (task,) = outcome.summary.tasks
    stopped = task.stopped
    assert stopped is not None
    assert 100 < stopped.samples < stopped.total == ROWS
    assert (stopped.high - stopped.low) / 2 <= 0.07
    assert stopped.low <= 0.4 <= stopped.high
    assert task.sample_count == task.metrics[0].n == stopped.samples
    assert f"of all samples of this benchmark, is {stopped.low:.3f} to" in stopped.text
    sizes = [result.counts["responses"] for result in looks.results]
    assert sizes[:4] == [100, 110, 121, 133]
    assert [result.counts["sent"] for result in looks.results] == [
        100,
        *(b - a for a, b in pairwise(sizes)),
    ]
    assert outcome.summary.run.sent == stopped.samples


@pytest.mark.slow
def test_a_run_that_never_knows_enough_is_a_run_of_all_rows(folder: Path) -> None:
    _config(folder, half_width=0.0001)
    (task,) = _run("store").summary.tasks
    assert task.stopped is not None
    assert task.stopped.samples == task.sample_count == ROWS
    assert (task.stopped.low, task.stopped.high) == pytest.approx((task.metrics[0].value,) * 2)


def test_a_killed_run_walks_its_looks_again_and_ends_with_the_same_content(folder: Path) -> None:
    _config(folder, half_width=0.07)
    whole = _run("whole")
    looks = Looks("infer", cancel_at=4)
    session = looks.session = RunSession(RunOptions(config="mine.yaml", store="killed", run_id="first"), [looks])
    with pytest.raises(RunCancelled), session:
        carry_out(session)
    again = Looks("infer")
    outcome = run_inline(resumed("first", store="killed"), [again])
    assert [result.cached for result in again.results[:4]] == [True, True, True, False]
    for stage, name in (("infer", "responses"), ("auto_eval", "metrics"), ("report", "report")):
        assert outcome.results["sums", stage].outputs[name] == whole.results["sums", stage].outputs[name]


def test_another_width_keeps_the_looks_that_are_there(folder: Path) -> None:
    _config(folder, half_width=0.07)
    _run("store")
    _config(folder, half_width=0.08)
    looks = Looks("infer")
    run_inline(RunOptions(config="mine.yaml", store="store"), [looks])
    assert all(result.cached for result in looks.results)


@pytest.mark.slow
def test_looks_store_the_rows_that_they_share_once(folder: Path) -> None:
    _config(folder, half_width=0.0001)
    looks = {stage: Looks(stage) for stage in ("preprocess", "infer", "auto_eval")}
    _run("store", *looks.values())
    files = [
        file
        for results in looks.values()
        for result in results.results
        for artifact in result.outputs.values()
        for file in (folder / "store" / "artifacts" / artifact).glob("part-*.parquet")
    ]
    assert len(looks["infer"].results) > 15
    parts = [
        part
        for results in looks.values()
        for result in results.results
        for artifact in result.outputs.values()
        for part in Store.open("store").artifact(artifact).parts
    ]
    assert len(files) < len(parts) / 4


@pytest.mark.parametrize(
    ("options", "stop", "message"),
    [
        ({"sample_ids": ("s1",)}, {}, "only a run of all samples can stop early"),
        ({}, {"metric": "exact"}, "no metric 'exact'. Metrics: exact_match"),
        ({"quick": 50}, {}, "only a run of all samples can stop early"),
        ({"refresh": ("infer",)}, {}, "every look would ask all of its samples again"),
    ],
)
def test_what_cannot_stop_early_is_refused(
    folder: Path, options: dict[str, Any], stop: dict[str, Any], message: str
) -> None:
    _config(folder, half_width=0.05, **stop)
    with pytest.raises(InputError, match=message):
        run_inline(RunOptions(config="mine.yaml", store="store", **options))


def test_the_plan_says_the_most_that_is_asked_and_walks_looks_that_are_stored(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _config(folder, half_width=0.07)
    _run("store")
    capsys.readouterr()
    options = RunOptions(config="mine.yaml", store="store")
    planned_run = planned(options, read_only=True)
    assert {stage.state for stage in forecast(planned_run.store, planned_run.plan)} == {"cached"}
    with pytest.raises(SystemExit):
        main(["plan", "mine.yaml", "--store", "store"])
    assert "at most 600 samples; stop_when ends it at ± 0.07 of exact_match" in capsys.readouterr().out
    _config(folder, half_width=0.03)
    planned_run = planned(options, read_only=True)
    assert "missing" in {stage.state for stage in forecast(planned_run.store, planned_run.plan)}
