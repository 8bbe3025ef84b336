"""Carry out a run whose models are partly served by shards: on work pools, or in processes on this machine.

Steps of placed models are grouped by engine and stage. The plan says which steps a group has. A group is sent as one
model session when each of its steps has arrived, was found in the store, or cannot arrive because its task failed. So
an engine starts once per shard for all tasks; judges are a second wave.

No thread waits for a session. A task whose step has to wait is parked: its thread takes another task. When all the
sessions that it waits for were served, it is carried out again, with the results of the stages it had finished.
"""

import threading
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from gage_eval.base.canonical import digest
from gage_eval.base.errors import BudgetSpent, EndpointFailed, RunCancelled
from gage_eval.base.marks import Stage
from gage_eval.base.stages import StageResult
from gage_eval.base.tables import ASKS
from gage_eval.engine.job import missing_chunks
from gage_eval.engine.session import ModelSession
from gage_eval.engine.shard_groups import ShardGroup
from gage_eval.models.backends.build import parse_config
from gage_eval.models.backends.placement import Placement
from gage_eval.observability.events import RunWarning, StageFailed, StageProgress, StageStarted
from gage_eval.pipeline import stages
from gage_eval.pipeline.action import Served, StageRun, missing_run
from gage_eval.pipeline.asks import Asks, StoredAsks, write_asks
from gage_eval.pipeline.dag import run_dag
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.generation import earlier
from gage_eval.pipeline.sharing import engine_of, files_of, step_of
from gage_eval.pipeline.source import RoleSource
from gage_eval.pipeline.specs import TaskPlan
from gage_eval.runs.launchers import Launcher, Launchers, LocalProcesses
from gage_eval.runs.parent import Parent, ParentStep
from gage_eval.runs.session import RunSession

# (task id, stage)
StageId: TypeAlias = tuple[str, Stage]
# (task id, stage, adapter id)
StepId: TypeAlias = tuple[str, Stage, str]


@dataclass
class Group:
    """The steps of one engine in one stage of all tasks.

    Attributes:
        awaited: steps of the plan that may still arrive.
        steps: those that arrived and have something to ask, with their specs.
    """

    awaited: set[StepId] = field(default_factory=set)
    steps: dict[StepId, tuple[GenerateSpec, ParentStep]] = field(default_factory=dict)


class _Parked(Exception):
    """A task waits for model sessions."""


class Waves:
    """Carries out the tasks of a run in waves.

    Args:
        session: the run.
        launchers: what starts the shards of a placement.
    """

    def __init__(self, session: RunSession, launchers: Launchers) -> None:
        self._session = session
        self._launchers = launchers
        self._shards = session.shards
        self._env = session.env
        limits = session.loaded.config.limits
        self._budget = None if limits.tokens is None and limits.cost is None else uuid.uuid4().hex
        if self._budget is not None:
            session.runtime.share_budget(self._budget, is_owner=True)
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._groups: dict[str, Group] = {}
        for task in session.plan.tasks:
            for stage, spec in task.placed:
                group = self._groups.setdefault(_group_key(stage, spec), Group())
                group.awaited.add((task.task_id, stage, spec.adapter_id))
        self._results: dict[StageId, StageResult] = {}
        # The sessions that a parked task still waits for.
        self._waits: dict[str, set[str]] = {}
        # Steps that were served, or need nothing.
        self._ready: set[StageId] = set()
        self._active = 0
        self._failures: list[BaseException] = []
        self._tasks = {task.task_id: task for task in session.plan.tasks}
        self._pool = ThreadPoolExecutor(session.tasks_at_once, thread_name_prefix="task")

    def run(self) -> None:
        """Carry out all tasks. After a failure no task and no session starts; those that run finish.

        Raises:
            BaseException: the first failure.
        """
        with self._pool:
            for task in self._session.plan.tasks:
                self._submit(task)
            with self._idle:
                self._idle.wait_for(lambda: self._active == 0)
        if self._failures:
            raise self._failures[0]

    def _submit(self, task: TaskPlan) -> None:
        with self._lock:
            self._active += 1
        self._pool.submit(copy_context().run, self._carry_out, task)

    def _finished(self) -> None:
        with self._idle:
            self._active -= 1
            self._idle.notify_all()

    def _carry_out(self, task: TaskPlan) -> None:
        """Carry out a task until it is finished, failed or parked."""
        resumed = task.task_id in self._waits
        try:
            if not self._failures or resumed:
                run_dag(task, self._call)
        except _Parked:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self._failures.append(error)
            self._settle(task.task_id)
        else:
            self._settle(task.task_id)
        finally:
            self._finished()

    def _call(self, stage: Stage, task: TaskPlan, /, **inputs: StageResult | None) -> StageResult:
        """Run a stage in this process; of one that waits for a session, register its steps and park the task."""
        stage_id = (task.task_id, stage)
        if stage_id in self._results:
            return self._results[stage_id]
        spec = getattr(task, stage)
        if task.task_id in self._tasks and stage_id not in self._ready and any(one == stage for one, _ in task.placed):
            self._env.check()
            self._arrive(stage, task, inputs)
        result: StageResult = getattr(stages, stage)(self._env, spec, **inputs)
        self._results[stage_id] = result
        return result

    def _arrive(self, stage: Stage, task: TaskPlan, inputs: Mapping[str, StageResult | None]) -> None:
        """Add what a stage asks of placed models to their groups.

        Raises:
            _Parked: the task waits for sessions.
        """
        run = missing_run(stage, self._env, getattr(task, stage), inputs)
        # A stage that refuses to start asks nothing.
        refused = self._env.only_errors and run is not None and run.previous is None
        steps = {} if run is None or refused else self._steps(stage, task, run)
        with self._lock:
            groups = set()
            for step_id, (spec, step) in steps.items():
                key = _group_key(stage, spec)
                self._groups[key].steps[step_id] = (spec, step)
                groups.add(key)
            self._ready.add((task.task_id, stage))
            if groups:
                self._waits[task.task_id] = groups
        self._settle(task.task_id, stage)
        if groups:
            raise _Parked

    def _steps(self, stage: Stage, task: TaskPlan, run: StageRun) -> dict[StepId, tuple[GenerateSpec, ParentStep]]:
        """The steps of a stage that placed models must answer."""
        found: dict[StepId, tuple[GenerateSpec, ParentStep]] = {}
        for asks in _asks_of(stage, task, run):
            placement = asks.spec.placement
            if placement is None:
                continue
            work_key = asks.work_key(run.work_key)
            wip = self._env.store.wip(work_key)
            parts = list(RoleSource.of(asks, self._env.store, run.inputs).parts)
            if not missing_chunks(parts, placement.shards, wip):
                # A killed run had all answers, and did not commit them.
                self._env.served[work_key] = Served(uuid.uuid4().hex)
                continue
            wip.begun_by(self._env.run_id)
            step = step_of(
                asks,
                stage=stage,
                key=run.key,
                work_key=work_key,
                inputs=run.inputs,
                earlier=earlier(run, asks),
                reuse=not run.refreshing,
            )
            found[task.task_id, stage, asks.spec.adapter_id] = (
                asks.spec,
                ParentStep(step, parts, _Progress(self._session, task.task_id, stage)),
            )
        return found

    def _settle(self, task_id: str, stage: Stage | None = None) -> None:
        """Await no more steps of a task, or of one of its stages. Send the groups that are complete now."""
        complete = []
        with self._lock:
            for key, group in self._groups.items():
                mine = {one for one in group.awaited if one[0] == task_id and stage in (None, one[1])}
                group.awaited -= mine
                if mine and not group.awaited and group.steps and not self._failures:
                    complete.append((key, group))
                    self._active += 1
        for key, group in complete:
            send = copy_context().run
            threading.Thread(target=send, args=(self._send, key, group), name="gage-eval-session", daemon=True).start()

    def _send(self, key: str, group: Group) -> None:
        """Have a group served, then let its tasks continue."""
        attempt = uuid.uuid4().hex
        resumed: list[str] = []
        error: EndpointFailed | BudgetSpent | None = None
        for task_id, stage, _ in group.steps:
            if (task_id, stage) not in self._env.begun:
                started = self._env.begun[task_id, stage] = time.time()
                self._session.observer.tell(StageStarted(task_id, stage, started))
        try:
            error = self._serve(group, attempt)
        except BaseException as raised:  # noqa: BLE001 - raised by `run`
            for task_id, stage, _ in group.steps:
                stopped = isinstance(raised, RunCancelled)
                self._session.observer.tell(StageFailed(task_id, stage, str(raised), type(raised).__name__, stopped))
            with self._lock:
                self._failures.append(raised)
        else:
            with self._lock:
                for (task_id, _, _), (_, step) in group.steps.items():
                    self._env.served[step.step.work_key] = Served(attempt, error)
                    self._waits[task_id].discard(key)
                    if not self._waits[task_id]:
                        resumed.append(task_id)
        for task_id in resumed:
            self._submit(self._tasks[task_id])
        self._finished()

    def _serve(self, group: Group, attempt: str) -> EndpointFailed | BudgetSpent | None:
        specs = [spec for spec, _ in group.steps.values()]
        steps = [step for _, step in group.steps.values()]
        first = specs[0]
        assert first.placement is not None
        launcher = self._launchers(first.placement)
        is_here = isinstance(launcher, LocalProcesses)
        files: dict[str, bytes] = {}
        for spec in () if is_here else specs:
            files |= files_of(spec)
        session = ModelSession(
            engine_of(first, files),
            first.placement.shards,
            attempt,
            tuple(step.step for step in steps),
            self._limits(),
            self._budget,
            self._session.options.concurrency,
        )
        parent = Parent(
            self._env.store,
            session,
            steps,
            self._shards,
            partial(self._take, first, launcher),
            str(first.context.base_dir.absolute()) if is_here else None,
            files,
            check=self._env.check,
            warn=lambda text: self._session.observer.tell(RunWarning(text)),
        )
        try:
            return parent.run()
        finally:
            self._session.spent_by_shards.append(parent.spent)

    def _limits(self) -> dict[str, float]:
        """The limits of a session that starts now. Tokens and cost are shared, so it gets the run's own."""
        limits = self._session.loaded.config.limits
        left = {"tokens": limits.tokens, "cost": limits.cost, "wall_s": self._session.runtime.budget.left_s}
        return {name: value for name, value in left.items() if value is not None}

    def _take(self, spec: GenerateSpec, launcher: Launcher) -> ShardGroup:
        """Shards that serve this model."""
        place, store = spec.placement, self._env.store
        assert place is not None

        def start() -> ShardGroup:
            return ShardGroup(store, place, spec.shards_key, lambda url: launcher.launch(url, place.shards))

        return self._shards.take(spec.shards_key, place, start)


class _Progress:
    """Reports the progress of a step that shards answer."""

    def __init__(self, session: RunSession, task_id: str, stage: Stage) -> None:
        self._session = session
        self._stage_id = task_id, stage
        self._began = time.monotonic()

    def __call__(self, done: int, total: int, **figures: int | float) -> None:
        elapsed = time.monotonic() - self._began
        rate = {"rows_per_s": round(done / elapsed, 1) if elapsed > 0 else 0.0}
        self._session.observer.tell(StageProgress(*self._stage_id, done, total, {**rate, **figures}))


def _asks_of(stage: Stage, task: TaskPlan, run: StageRun) -> list[Asks]:
    """The asks of a generate stage, one for each model; explicit ones are in the store."""
    if stage != "judge":
        spec: GenerateSpec = getattr(task, stage)
        return [Asks.implicit(spec.binding)]
    table = task.judge.explicit_asks(run.env.store, run.inputs)
    if table is None:
        return task.judge.asks(None)
    writer = run.env.store.writer(ASKS)
    write_asks(table, writer)
    return task.judge.asks(StoredAsks(writer.commit(), table))


def _group_key(stage: Stage, spec: GenerateSpec) -> str:
    """What steps of one group have in common: the stage, the engine and where it is served."""
    placement: Placement | None = spec.placement
    assert placement is not None
    config = parse_config(spec.backend_type, spec.backend_config).model_dump(mode="json")
    return digest([stage, placement.work_pool, spec.backend_type, config, str(spec.context.base_dir)])
