"""The scheduler: nodes begin when their inputs are there, begun tasks come first, a failure stops what needs it."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from gage_eval.base.errors import GageError, RunCancelled
from gage_eval.base.stages import Stage, StageResult
from gage_eval.observability.events import Event, TaskFailed, TaskFinished, TaskStarted
from gage_eval.runs.graph import GraphRun, Node, Threads, graph
from tests.support.waiting import PATIENCE_S

STAGES = ["load", "standardize", "preprocess", "infer", "judge", "auto_eval", "report"]


def task(name: str, *, pool: bool = False) -> Any:
    """An eval task as the graph reads it."""
    return SimpleNamespace(
        task_id=name,
        pool=task(f"{name}:few_shot") if pool else None,
        support=None,
        infer=SimpleNamespace(reads_samples=False),
        judge=SimpleNamespace(reads_support=False, generate=None),
        auto_eval=SimpleNamespace(inputs=(SimpleNamespace(name="responses", stage="infer"),), execution=None),
    )


@dataclass
class Recorder:
    """An executor whose nodes end at once, and an observer."""

    fails: Mapping[tuple[str, str], BaseException] = field(default_factory=dict)
    begun: list[tuple[str, str]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def submit(self, node: Node, inputs: Mapping[str, "Future[Any]"]) -> "Future[Any]":
        assert all(future.done() for future in inputs.values()), "all inputs are there"
        self.begun.append(node.id)
        future: Future[Any] = Future()
        if node.id in self.fails:
            future.set_exception(self.fails[node.id])
        else:
            future.set_result(node.id)
        return future

    def result(self, future: "Future[Any]") -> StageResult:
        result: StageResult = future.result()
        return result

    def emit(self, event: Event) -> None:
        self.events.append(event)


def test_the_graph_of_a_task_has_its_seven_stages_in_order_and_their_inputs_by_name() -> None:
    nodes = graph(task("t"))
    assert [node.stage for node in nodes] == STAGES
    assert nodes[3].inputs == {"prepared": ("t", "preprocess")}
    assert nodes[-1].inputs["metrics"] == ("t", "auto_eval")


def test_worked_examples_are_loaded_as_a_part_of_their_task() -> None:
    nodes = graph(task("t", pool=True))
    assert {node.task_id for node in nodes} == {"t"}
    assert ("t:few_shot", "standardize") in nodes[4].inputs.values()


def test_a_task_that_has_begun_goes_before_one_that_has_not() -> None:
    recorder = Recorder()
    GraphRun([task("a"), task("b")], recorder, recorder, 1).carry_out()
    assert recorder.begun == [*(("a", stage) for stage in STAGES), *(("b", stage) for stage in STAGES)]
    assert [type(event) for event in recorder.events] == [TaskStarted, TaskFinished] * 2


def test_preferred_nodes_go_first() -> None:
    recorder = Recorder()
    order: dict[Stage, int] = {"judge": 1, "auto_eval": 1, "report": 1}
    GraphRun([task("a"), task("b")], recorder, recorder, 1, lambda node: node.stage not in order).carry_out()
    stages = [stage for _, stage in recorder.begun]
    assert stages.index("judge") > max(place for place, stage in enumerate(stages) if stage == "infer")


def test_after_a_failure_begun_tasks_are_finished_and_no_other_begins() -> None:
    recorder = Recorder({("a", "infer"): GageError("broken")})
    with pytest.raises(GageError, match="broken"):
        GraphRun([task("a"), task("b"), task("c")], recorder, recorder, 2).carry_out()
    assert ("a", "judge") not in recorder.begun
    assert ("b", "report") in recorder.begun
    assert not any(name == "c" for name, _ in recorder.begun)
    assert [event.task_id for event in recorder.events if isinstance(event, TaskFailed)] == ["a"]


def test_after_an_interruption_nothing_begins() -> None:
    recorder = Recorder({("a", "load"): RunCancelled("stop")})
    with pytest.raises(RunCancelled):
        GraphRun([task("a"), task("b")], recorder, recorder, 2).carry_out()
    assert recorder.begun == [("a", "load"), ("b", "load")]


def test_no_more_nodes_run_at_once_than_allowed() -> None:
    running, most, lock = 0, 0, threading.Lock()
    both = threading.Barrier(2)

    def call(stage: Stage, of: Any, /, **inputs: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if stage == "load" and of.task_id in "ab":
            both.wait(timeout=PATIENCE_S)
        with lock:
            running -= 1
        return stage

    recorder = Recorder()
    with Threads(call, 2) as threads:
        GraphRun([task(name) for name in "abcde"], threads, recorder, 2).carry_out()
    assert most == 2
    assert sum(isinstance(event, TaskFinished) for event in recorder.events) == 5
