"""Every stage: a hit computes nothing, a failure leaves nothing, what stands is judged anew."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from pipeline.calling import Bench

from gage_eval.base.errors import RunCancelled, RunFailed
from gage_eval.base.stages import StageResult
from gage_eval.base.tables import REPORT
from gage_eval.engine.job import SupersededByOtherRun
from gage_eval.observability import events
from gage_eval.pipeline import keys
from gage_eval.pipeline.action import StageContext, StageInfo, StageRun, run_stage
from tests.support.waiting import PATIENCE_S


@dataclass(frozen=True)
class Words:
    """A spec of one value."""

    said: str
    task_id: str = "t"

    def material(self) -> str:
        return self.said


class Computing:
    """A stage body that counts how often it computes."""

    def __init__(self, *, complete: bool = True, fails: BaseException | None = None) -> None:
        self.count = 0
        self.complete = complete
        self.fails = fails

    def __call__(self, run: StageRun, spec: Words) -> None:
        self.count += 1
        run.writer(REPORT).write(
            0, pa.table({"summary": [f"{spec.said}{'' if self.complete else ' so far'}"]}, REPORT.arrow)
        )
        if self.fails is not None:
            raise self.fails
        run.commit(REPORT, complete=self.complete)


def info(body: Any, check: Any = None) -> StageInfo:
    return StageInfo("report", body, check)


def test_a_hit_computes_nothing_and_names_the_same_artifacts(bench: Bench) -> None:
    body = Computing()
    first = run_stage(info(body), bench.env, Words("a"), {})
    second = run_stage(info(body), bench.env, Words("a"), {})
    assert (first.cached, second.cached, body.count) == (False, True, 1)
    assert (first.key, first.outputs, first.counts) == (second.key, second.outputs, second.counts)


def test_spec_version_and_inputs_are_the_key(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    body = Computing()
    distinct = set()
    for version, said, inputs in [(1, "a", {}), (2, "a", {}), (1, "b", {}), (1, "a", {"raw": "0" * 64})]:
        monkeypatch.setitem(keys.VERSIONS, "report", version)
        distinct.add(run_stage(info(body), bench.env, Words(said), inputs).key)
    assert (len(distinct), body.count) == (4, 4)


@pytest.mark.parametrize("failure", [RuntimeError("no"), KeyboardInterrupt()])
def test_a_failed_computation_leaves_no_action_and_no_staged_file(bench: Bench, failure: BaseException) -> None:
    with pytest.raises(type(failure)):
        run_stage(info(Computing(fails=failure)), bench.env, Words("a"), {})
    assert list(bench.store.objects.list()) == []
    assert list(bench.store.objects.leftovers()) == []
    assert not run_stage(info(Computing()), bench.env, Words("a"), {}).cached


def test_an_incomplete_action_is_computed_again_and_replaced(bench: Bench) -> None:
    first = run_stage(info(Computing(complete=False)), bench.env, Words("a"), {})
    assert not first.complete
    second = run_stage(info(Computing()), bench.env, Words("a"), {})
    assert (second.cached, second.complete) == (False, True)
    assert run_stage(info(Computing()), bench.env, Words("a"), {}).cached


def test_a_limit_is_judged_on_a_hit_too(bench: Bench) -> None:
    limit = 2

    def check(env: StageContext, spec: Words, result: StageResult) -> None:
        if result.counts["report"] > limit:
            raise RunFailed("too many")

    body = Computing()
    run_stage(info(body, check=check), bench.env, Words("a"), {})
    limit = 0
    with pytest.raises(RunFailed, match="too many"):
        run_stage(info(body, check=check), bench.env, Words("a"), {})
    assert body.count == 1


def test_a_stage_whose_work_another_process_cleared_takes_what_that_one_committed(bench: Bench) -> None:
    class Overtaken(Computing):
        def __call__(self, run: StageRun, spec: Words) -> None:
            super().__call__(run, spec)
            if self.count == 1:
                run_stage(info(Computing()), bench.env, spec, {})
                raise SupersededByOtherRun

    # As on a file system without locks: with one the other process waits.
    bench.env.store = type(bench.store).open(bench.store.url, locks=False)
    result = run_stage(info(body := Overtaken()), bench.env, Words("a"), {})
    assert (result.cached, body.count) == (True, 1)
    assert bench.rows(result, "report") == [{"summary": "a"}]


class Slow(Computing):
    """Computes until `over` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.computes, self.over = Event(), Event()

    def __call__(self, run: StageRun, spec: Words) -> None:
        self.computes.set()
        assert self.over.wait(2 * PATIENCE_S)
        super().__call__(run, spec)


class Listener:
    """Sets `told` when there is a note."""

    def __init__(self, told: Event) -> None:
        self.told = told
        self.notes: list[str] = []

    def emit(self, event: events.Event) -> None:
        if isinstance(event, events.RunWarning):
            self.notes.append(event.message)
            self.told.set()


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage says at once that it waits."""
    monkeypatch.setattr("gage_eval.pipeline.action._PATIENCE_S", 0.0)


@pytest.mark.usefixtures("no_patience")
def test_a_stage_that_waits_for_another_run_says_so(bench: Bench) -> None:
    slow = Slow()
    listener = Listener(slow.over)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run_stage, info(slow), bench.env, Words("a"), {})
        assert slow.computes.wait(PATIENCE_S)
        second = run_stage(info(Computing()), replace(bench.env, observer=listener), Words("a"), {})
        assert first.result().outputs == second.outputs
    assert second.cached
    assert listener.notes == ["report of task 't' waits for another run that computes the same, and takes its result."]


@pytest.mark.usefixtures("no_patience")
def test_a_cancelled_run_does_not_wait_for_another_run(bench: Bench) -> None:
    slow = Slow()
    listener = Listener(Event())
    waiting = replace(bench.env, cancelled=Event(), observer=listener)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run_stage, info(slow), bench.env, Words("a"), {})
        try:
            assert slow.computes.wait(PATIENCE_S)
            second = pool.submit(run_stage, info(Computing()), waiting, Words("a"), {})
            assert listener.told.wait(PATIENCE_S)
            waiting.cancelled.set()
            with pytest.raises(RunCancelled):
                second.result(timeout=PATIENCE_S)
            assert not first.done()
        finally:
            slow.over.set()
        assert not first.result().cached
