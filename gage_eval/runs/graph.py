"""The graph of a run as data, and the scheduler that carries it out. Executors differ only in what `submit` does."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol, Self, TypeAlias

from gage_eval.base.stages import Stage, StageResult
from gage_eval.observability.events import TaskFailed, TaskFinished, TaskStarted
from gage_eval.observability.observer import Observer
from gage_eval.pipeline.dag import Call, run_dag
from gage_eval.pipeline.specs import TaskPlan

# (task id, stage)
NodeId: TypeAlias = tuple[str, Stage]


@dataclass(frozen=True)
class Node:
    """A stage of an eval task, and the nodes that its inputs come from.

    Attributes:
        stage: the stage.
        task: what the stage is computed for: the eval task, or the source of its few-shot examples.
        inputs: for each input of the stage the node whose result it is.
        task_id: the eval task whose graph it belongs to.
    """

    stage: Stage
    task: TaskPlan
    inputs: Mapping[str, NodeId]
    task_id: str

    @property
    def id(self) -> NodeId:
        return self.task.task_id, self.stage


def graph(task: TaskPlan) -> list[Node]:
    """The nodes of an eval task, each after those that it reads."""
    nodes: list[Node] = []

    def call(stage: Stage, of: TaskPlan, /, **inputs: NodeId | None) -> NodeId:
        named = {name: source for name, source in inputs.items() if source is not None}
        nodes.append(Node(stage, of, named, task.task_id))
        return nodes[-1].id

    run_dag(task, call)
    return nodes


# The task on more rows after its scores on fewer; None where these are enough.
NextLook: TypeAlias = Callable[[TaskPlan], TaskPlan | None]


class NodeFuture(Protocol):
    """The result of a node, now or later. Those of `concurrent.futures` and of Prefect fit."""

    def add_done_callback(self, fn: Callable[[Any], Any], /) -> None: ...


class Executor(Protocol):
    """Carries out nodes."""

    def submit(self, node: Node, inputs: Mapping[str, Any]) -> NodeFuture:
        """Begin a node. All its inputs are there.

        Args:
            node: the node.
            inputs: the future of each input, by name.
        """

    def result(self, future: Any) -> StageResult:
        """The result of a future that is done.

        Raises:
            BaseException: what the stage raised.
        """


class Threads:
    """Carries out nodes in threads of this process; in the caller's own if only one may run at once.

    Use as a context manager: the threads end with it.

    Args:
        call: runs a stage.
        at_once: nodes that may run at once.
    """

    def __init__(self, call: Call[StageResult], at_once: int) -> None:
        self._call = call
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="stage") if at_once > 1 else None

    def submit(self, node: Node, inputs: Mapping[str, "Future[StageResult]"]) -> "Future[StageResult]":
        results = {name: future.result() for name, future in inputs.items()}
        if self._pool is not None:
            return self._pool.submit(copy_context().run, self._run, node, results)
        future: Future[StageResult] = Future()
        try:
            future.set_result(self._run(node, results))
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            future.set_exception(error)
        return future

    def result(self, future: "Future[StageResult]") -> StageResult:
        return future.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def _run(self, node: Node, results: Mapping[str, StageResult]) -> StageResult:
        return self._call(node.stage, node.task, **results)


class GraphRun:
    """Carries out eval tasks: each node as soon as its inputs are there and fewer than ``at_once`` nodes run.

    A node of a task that has begun goes before one of a task that has not. After a failure the tasks that have begun
    are finished as far as they can be, and no other begins. After an interruption no node begins.

    Args:
        tasks: the eval tasks.
        executor: carries out nodes.
        observer: receives the beginning and the end of tasks.
        at_once: nodes that may run at once.
        is_preferred: whether a node shall begin before all that are not preferred.
        next_look: says after the scores of a task whether its stages follow on more rows.
    """

    def __init__(
        self,
        tasks: Sequence[TaskPlan],
        executor: Executor,
        observer: Observer,
        at_once: int,
        is_preferred: Callable[[Node], bool] | None = None,
        next_look: NextLook | None = None,
    ) -> None:
        self._executor = executor
        self._observer = observer
        self._at_once = at_once
        self._is_preferred = is_preferred
        self._next_look = next_look
        nodes = [node for task in tasks for node in graph(task)]
        # Inputs of each node, and nodes of each task, that have not ended.
        self._missing: dict[NodeId, int] = {}
        self._left: Counter[str] = Counter()
        self._readers: dict[NodeId, list[Node]] = {}
        self._reports: dict[str, Node] = {}
        self._add(nodes)
        # Nodes whose inputs are there: those of tasks that have begun, and the others.
        self._ready: tuple[deque[Node], deque[Node]] = deque(), deque(n for n in nodes if not self._missing[n.id])
        self._began: dict[str, float] = {}
        self._failed: dict[str, BaseException] = {}
        self._futures: dict[NodeId, NodeFuture] = {}
        self._ended: SimpleQueue[Node] = SimpleQueue()

    def _add(self, nodes: Sequence[Node]) -> None:
        """Make nodes part of the graph, instead of those of the same stages that have ended."""
        new = {node.id for node in nodes}
        for node in nodes:
            sources = set(node.inputs.values())
            self._missing[node.id] = len(sources & new)
            self._left[node.task_id] += 1
            self._readers[node.id] = []
            if node.stage == "report":
                self._reports[node.task_id] = node
            for source in sources & new:
                self._readers[source].append(node)

    def carry_out(self) -> None:
        """Carry out the tasks.

        Raises:
            BaseException: what the first node that failed raised.
        """
        running = 0
        while True:
            while running < self._at_once and (node := self._next()) is not None:
                self._submit(node)
                running += 1
            if not running:
                break
            self._finish(self._ended.get())
            running -= 1
        for error in self._failed.values():
            raise error

    def _next(self) -> Node | None:
        """The node that begins next; None if all have to wait."""
        if self._is_preferred is not None:
            for ready in self._ready:
                for node in ready:
                    if self._may_begin(node) and self._is_preferred(node):
                        ready.remove(node)
                        return node
        for ready in self._ready:
            while ready:
                node = ready.popleft()
                if self._may_begin(node):
                    return node
        return None

    def _may_begin(self, node: Node) -> bool:
        """Whether no failure stands in the way of a node whose inputs are there."""
        if not self._failed:
            return True
        interrupted = any(not isinstance(error, Exception) for error in self._failed.values())
        return not interrupted and node.task_id in self._began and node.task_id not in self._failed

    def _submit(self, node: Node) -> None:
        if node.task_id not in self._began:
            self._began[node.task_id] = time.monotonic()
            self._observer.emit(TaskStarted(node.task_id))
        inputs = {name: self._futures[source] for name, source in node.inputs.items()}
        future = self._futures[node.id] = self._executor.submit(node, inputs)
        future.add_done_callback(lambda _: self._ended.put(node))

    def _finish(self, node: Node) -> None:
        task_id = node.task_id
        try:
            self._executor.result(self._futures[node.id])
            self._left[task_id] -= 1
            self._follow(node)
        except BaseException as error:  # noqa: BLE001 - raised when all that run have ended
            if task_id not in self._failed:
                self._failed[task_id] = error
                kind, interrupted = type(error).__name__, not isinstance(error, Exception)
                self._observer.emit(TaskFailed(task_id, str(error), kind, interrupted))
            return
        if not self._left[task_id]:
            self._observer.emit(TaskFinished(task_id, time.monotonic() - self._began[task_id]))

    def _follow(self, node: Node) -> None:
        """Let nodes begin that have waited for this one. The report of a task comes after all others."""
        for reader in self._readers[node.id]:
            self._missing[reader.id] -= 1
            if not self._missing[reader.id] and reader.stage != "report":
                self._ready[0].append(reader)
        report = self._reports[node.task_id]
        if self._left[node.task_id] != 1 or node is report:
            return
        another = None if self._next_look is None else self._next_look(report.task)
        if another is None:
            self._ready[0].append(report)
            return
        # The stages that prepare, ask and score follow on more rows. What was loaded stays.
        nodes = [node for node in graph(another) if node.task is another and node.stage not in ("load", "standardize")]
        self._left[node.task_id] = 0
        self._add(nodes)
        self._ready[0].extend(node for node in nodes if not self._missing[node.id])
