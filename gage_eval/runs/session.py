"""A run from its options to its end, shared by the inline runner and the flows."""

import logging
import os
import platform
import socket
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING

from gage_eval.base.errors import GageError, InputError, StoreError
from gage_eval.base.git import commit_of
from gage_eval.base.processes import born, refuse_in_new_process
from gage_eval.base.stages import ASKING, STAGES, Stage, StageResult
from gage_eval.base.version import __version__
from gage_eval.config.settings import Settings, load_settings
from gage_eval.engine.host import SharedEngines
from gage_eval.engine.runtime import Runtime
from gage_eval.extend.loading import failure
from gage_eval.models.backends.base import Blocks
from gage_eval.models.backends.pools import Launcher, Pools
from gage_eval.models.client.budget import Budget
from gage_eval.observability.events import (
    ConcurrencyChanged,
    EngineOutOfMemory,
    EngineStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    RunUsage,
    RunWarning,
)
from gage_eval.observability.logs import log_events
from gage_eval.observability.observer import Observer, Observers
from gage_eval.observability.sample_events import Sampling
from gage_eval.observability.writer import EventWriter
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.specs import Plan, TaskPlan
from gage_eval.report.suite_run import SuiteRun, titled
from gage_eval.report.summary import Summary
from gage_eval.report.timings import Consumption
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.gc_roots import record_root
from gage_eval.runs.graph import Node
from gage_eval.runs.options import Locations, RunOptions, bundle_of
from gage_eval.runs.planned import planned
from gage_eval.runs.probes import probe_records, unproven
from gage_eval.runs.record import ConfigRecord, FlowRunRecord, ProcessRecord, RunRecord, RunStatus, stage_id_of
from gage_eval.runs.recorder import Recorder
from gage_eval.runs.scoring import scoring_processes
from gage_eval.runs.sinks import RunSinks

if TYPE_CHECKING:
    from gage_eval.scoring.metrics.processes import ScoringProcesses

# Tasks that run at once: enough to overlap the end of one with the start of the next, few enough to save memory.
TASKS_AT_ONCE = 4

_PACKAGES = ("numpy", "pyarrow", "pydantic", "jinja2", "sacrebleu", "pillow", "datasets", "tokenizers", "transformers",
             "torch", "vllm", "xllamacpp")  # fmt: skip

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run.

    Attributes:
        run_id: the run's name.
        folder: the run's folder.
        summary: the content of summary.json.
        results: every stage's result by (task id, stage).
    """

    run_id: str
    folder: RunFolder
    summary: Summary
    results: dict[tuple[str, str], StageResult]


class RunSession:
    """Everything a run keeps open: folder, store, event loop, observers, plan, and the results so far.

    Use as a context manager.

    Args:
        options: what is asked.
        observers: receive events, like the run's own event log.
        blocks: the blocks of the Prefect API; only flows have them.
        flow_run: the Prefect flow run, for run.json.
        host: keeps engines running for other runs; by default the engines of this run stop at its end.
        launcher: has work pools serve engines; None without a Prefect API.

    Raises:
        InputError: the config or the options cannot be used, or the run id is taken.
        StoreError: the store cannot be opened.
    """

    def __init__(
        self,
        options: RunOptions,
        observers: Iterable[Observer] = (),
        *,
        blocks: Blocks | None = None,
        flow_run: FlowRunRecord | None = None,
        host: SharedEngines | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        refuse_in_new_process()
        self.began, self._began = time.time(), time.monotonic()
        self.options = options
        planned_run = planned(options, blocks=blocks, engines=None if host is None else host.engines)
        self.loaded, self.plan = planned_run.loaded, planned_run.plan
        self.store, self.data = planned_run.store, planned_run.data
        self._check_pools(launcher)
        record_root(self.store, planned_run.locations)
        # The record of the run that is resumed, where that had completed.
        self._completed: RunRecord | None = None
        self.folder = self._folder(planned_run.locations, flow_run)
        self._stages_before = self.folder.record().by_stage if options.resume else {}
        refresh = self._refresh()
        self.recorder = Recorder(self.folder, refresh)
        self._opened = ExitStack()
        self._opened.callback(self.recorder.close)
        try:
            self._open(refresh, observers, blocks, host)
            if host is not None:
                self._opened.enter_context(host.running(self.cancel))
            engines = self.loaded.context.engines
            engines.out_of_memory = lambda *step: self.observer.emit(EngineOutOfMemory(*step))
            if launcher is not None:
                engines.pools = self.runtime.pools = Pools(self.store, launcher, self._warn)
            self._tell_start(flow_run, planned_run.notes)
        except BaseException as error:
            with self._opened:
                # The folder is there: without this, the run would look as if it were killed.
                self._record_end("failed" if isinstance(error, Exception) else "interrupted", str(error))
            raise

    def _open(
        self,
        refresh: frozenset[tuple[str, str]],
        observers: Iterable[Observer],
        blocks: Blocks | None,
        host: SharedEngines | None,
    ) -> None:
        settings = load_settings()
        sinks = RunSinks(
            self.folder, self.loaded.config.observability, settings, None if blocks is None else blocks.secret
        )
        writer = EventWriter(self.folder.run_id, sinks.open())
        self._opened.callback(writer.close)
        self.observer = Observers([writer, self.recorder, *observers])
        if settings.enable_log_sink:
            level = logging.getLevelNamesMapping()[settings.log_sink_level]
            self._opened.enter_context(log_events(writer, level))
        processes = self._opened.enter_context(scoring_processes(self.store, settings.autoeval_workers))
        self.runtime = self._runtime(settings, host)
        self._opened.callback(self.runtime.close)
        sampling = self._sampling(settings, counts_all=sinks.counts_all_samples)
        self.env = self._env(settings, refresh, sampling, processes)
        self._engines = _needed_engines(self.plan)
        self.tasks_at_once = 1 if settings.sequential else TASKS_AT_ONCE

    @property
    def results(self) -> dict[tuple[str, str], StageResult]:
        """Every stage's result so far, by (task id, stage)."""
        return self.recorder.results

    @property
    def run_id(self) -> str:
        return self.folder.run_id

    def next_look(self, task: TaskPlan) -> TaskPlan | None:
        """The task on the rows of the next look; None where no look follows."""
        outputs = {stage: result.outputs for (name, stage), result in self.results.items() if name == task.task_id}
        return task.next_look(self.store, outputs)

    def stage_ended(self, task: TaskPlan, stage: Stage) -> None:
        """A stage has its result. Engines that no other stage of the run needs are let go."""
        if stage == "load" and task.stop is None:
            before = self._stages_before.get((task.task_id, stage))
            if before is not None and before.outputs not in ({}, self.results[task.task_id, stage].outputs):
                self._warn(
                    f"the data of task '{task.task_id}' are not those that the run began with: what changed is asked "
                    "again, and the rest keeps its answers."
                )
        # The stages before the report may follow on more rows.
        ended = {stage} if task.stop is None else set(STAGES) if stage == "report" else set()
        for key, stages in self._engines.items():
            if own := {(task.task_id, name) for name in ended} & stages:
                stages -= own
                if not stages:
                    self.runtime.release(key)

    def is_preferred(self, node: Node) -> bool:
        """Whether a stage shall begin before others: all but those that wait for an engine while another one is up.

        So a model and its judge can take turns on one GPU.
        """
        needed = [key for key, stages in self._engines.items() if node.id in stages]
        others = [key for key, stages in self._engines.items() if stages and key not in needed]
        return all(map(self.runtime.has_engine, needed)) or not any(map(self.runtime.has_engine, others))

    def _warn(self, text: str) -> None:
        self.observer.emit(RunWarning(text))

    def _check_pools(self, launcher: Launcher | None) -> None:
        """Refuse a run whose engines or programs belong on work pools where there are none.

        Raises:
            InputError: there is no Prefect API.
        """
        if launcher is not None:
            return
        for task in self.plan.tasks:
            for _, spec in task.placed:
                place = spec.context.placement
                if place is not None:
                    raise InputError(
                        f"the work pool '{place.work_pool}' needs a Prefect API: set PREFECT_API_URL, or serve the "
                        "models here by --work-pool local."
                    )
            execution = task.auto_eval.execution
            if execution is not None and (pool := execution.boxes.settings.work_pool) is not None:
                raise InputError(
                    f"the work pool '{pool}' needs a Prefect API: set PREFECT_API_URL, or run the programs of task "
                    f"'{task.task_id}' here by execution.work_pool: local."
                )

    @property
    def suite(self) -> SuiteRun | None:
        """The suite that it runs; None for another config."""
        suite = self.loaded.suite
        return None if suite is None else SuiteRun.model_validate(suite, from_attributes=True)

    @property
    def _title(self) -> str:
        return titled(
            self.plan.name, self.suite, any(task.report.subset or task.report.quick for task in self.plan.tasks)
        )

    @property
    def seconds(self) -> float:
        """Since the run began, whatever happens to the clock of the machine."""
        return time.monotonic() - self._began

    @property
    def spent(self) -> Consumption:
        """What the requests and engines of the run took so far."""
        budget = self.runtime.budget
        return Consumption(budget.prompt_tokens, budget.completion_tokens, budget.cost, self.runtime.gpu_seconds)

    def _tell_usage(self) -> None:
        self.observer.emit(RunUsage(self.run_id, self._title, self.seconds, **vars(self.spent)))

    def _runtime(self, settings: Settings, host: SharedEngines | None) -> Runtime:
        limits = self.loaded.config.limits
        return Runtime(
            self.options.concurrency or settings.concurrency,
            self.folder.engines,
            Budget(tokens=limits.tokens, cost=limits.cost, wall_s=limits.wall_s),
            self.store.objects,
            lambda endpoint, *limits: self.observer.emit(ConcurrencyChanged(endpoint, *limits)),
            loop=None if host is None else host.loop,
            engine_started=lambda *start: self.observer.emit(EngineStarted(*start)),
        )

    def _env(
        self,
        settings: Settings,
        refresh: frozenset[tuple[str, str]],
        sampling: Sampling,
        processes: "ScoringProcesses | None",
    ) -> StageContext:
        return StageContext(
            store=self.store,
            runtime=self.runtime,
            observer=self.observer,
            run_id=self.run_id,
            sampling=sampling,
            resume_command=self.folder.again,
            judge_command=self.folder.locations.command("judge", self.run_id, "--only-failed"),
            model_by_options=self.options.choice.names_a_model,
            refresh=refresh,
            without_verdict=self._without_verdict(),
            only_errors=self.options.only_errors,
            judge_only=self.options.judge_only,
            verify=self.options.verify,
            max_inflight=settings.concurrency or settings.max_inflight,
            prefetch_factor=settings.prefetch_factor,
            media_threads=settings.embed_media_threads,
            processes=processes,
        )

    def _sampling(self, settings: Settings, *, counts_all: bool) -> Sampling:
        """Which samples have events: those that the config asks for, or all if the setting says so."""
        if settings.observability:
            return Sampling(1.0, counts_all=counts_all)
        observability = self.loaded.config.observability
        shares = {str(stage): share for stage, share in observability.stage_sample_rates.items()}
        return Sampling(observability.sample_rate, shares, counts_all=counts_all)

    def _tell_start(self, flow_run: FlowRunRecord | None, notes: Iterable[str]) -> None:
        self.observer.emit(
            RunStarted(
                self.run_id,
                self._title,
                tuple(task.task_id for task in self.plan.tasks),
                self.folder.again,
                flow_run.url if flow_run is not None else None,
                flow_run.queued_s if flow_run is not None else None,
            )
        )
        for note in (*notes, *unproven(self.plan, self.folder.record().probes)):
            self._warn(note)

    def _record(self, flow_run: FlowRunRecord | None) -> RunRecord:
        """The content of run.json when the run starts."""
        return RunRecord(
            gage_eval=__version__,
            name=self.plan.name,
            status="running",
            created=datetime.now(UTC),
            tasks=[task.task_id for task in self.plan.tasks],
            options=self.options.recorded(),
            config=ConfigRecord.model_validate(self.loaded, from_attributes=True),
            process=ProcessRecord(host=socket.gethostname(), pid=os.getpid(), born=born(os.getpid())),
            packages=package_versions(),
            prefect=flow_run,
            suite=self.suite,
            models=self.plan.models(),
            probes=probe_records(self.plan, self.store, self.options.concurrency),
            tool_lists=self.plan.tool_lists(),
            commit=commit_of(self.loaded.base_dir.absolute()),
            pinned=not self.loaded.unpinned,
        )

    def _folder(self, locations: Locations, flow_run: FlowRunRecord | None) -> RunFolder:
        """The folder of a new run, or of the one that is resumed."""
        options, record = self.options, self._record(flow_run)
        if not options.resume:
            return RunFolder.create(locations, options.run_id, record)
        if options.run_id is None:
            raise InputError("resume needs a run id.")
        folder = RunFolder.open(locations, options.run_id)
        # A resumed run records these again: its config may have been edited.
        anew = ("gage_eval", "name", "status", "tasks", "config", "process", "packages", "suite", "models", "pinned")
        again = {name: getattr(record, name) for name in (*anew, "tool_lists")}
        if flow_run is not None:
            again["prefect"] = flow_run

        def resumed(before: RunRecord) -> RunRecord:
            self._completed = before if before.status == "completed" else None
            for server, listed in before.tool_lists.items():
                if record.tool_lists.get(server, listed) != listed:
                    raise InputError(
                        f"{server} describes its tools in another way than when run {options.run_id} began: start a "
                        "new run, or the server as it was."
                    )
            kept = before.options
            if bundle_of(str(kept.get("config"))) is not None:
                # A night that was deployed again reads its config from another bundle.
                kept = {**kept, "config": record.options["config"]}
            # A verdict holds for all answers only if the model was the same each time.
            probes = [probe for probe in record.probes if probe in before.probes]
            update = {"resumed": record.created, "options": kept, "probes": probes, **again}
            return before.with_stopped_stages().model_copy(update=update)

        folder.update(resumed)
        return folder

    def _refresh(self) -> frozenset[tuple[str, str]]:
        """The stages to compute again. A resumed run does not repeat what it has refreshed already."""
        wanted = {(task.task_id, stage) for stage in self.options.refresh for task in self.plan.every_task}
        for task in self.plan.tasks:
            if task.stop is not None and (asking := set(ASKING).intersection(self.options.refresh)):
                raise InputError(
                    f"--refresh {min(asking)}: task '{task.task_id}' has stop_when, and every look would ask all of "
                    "its samples again. Use --freshness for new answers, or leave out stop_when."
                )
        if self.options.resume and wanted:
            wanted.difference_update(map(stage_id_of, self.folder.record().refreshed))
        return frozenset(wanted)

    def _without_verdict(self) -> dict[str, frozenset[str]]:
        """Response keys to ask again, by the judgments that lack their verdicts: those whose scoring failed before.

        A run that only judges asks for all verdicts that are missing.
        """
        stages = self._stages_before
        if not stages:
            return {}
        from gage_eval.pipeline.judge import without_verdict

        by_judgments: dict[str, frozenset[str]] = {}
        for (task_id, stage), record in stages.items():
            judge = stages.get((task_id, "judge"))
            if stage != "auto_eval" or judge is None or "judgments" not in judge.outputs:
                continue
            if record.state != "failed" and not self.options.judge_only:
                continue
            name = judge.outputs["judgments"]
            # Without the judgments, or with damaged ones, the judge's stage is computed again in any case.
            with suppress(StoreError):
                by_judgments[name] = without_verdict(self.store.artifact(name))
        return {name: keys for name, keys in by_judgments.items() if keys}

    def finish(self) -> None:
        """Record that the run completed.

        Raises:
            GageError: run.json cannot be written, or is damaged.
        """
        self.recorder.finish("completed", None)
        self._tell_usage()
        self.observer.emit(RunFinished())

    def cancel(self) -> None:
        """End the run soon, from any thread: running stages raise `RunCancelled`. Answers are kept."""
        self.env.cancelled.set()
        self.store.objects.stop_waiting()
        self.folder.stop_waiting()
        self.runtime.cancel()

    def _fail(self, error: BaseException) -> None:
        status: RunStatus = "failed" if isinstance(error, Exception) else "interrupted"
        self._tell_usage()
        self.observer.emit(RunFailed(status, str(error)))
        self._record_end(status, str(error))

    def _record_end(self, status: RunStatus, error: str) -> None:
        completed = self._completed
        try:
            if completed is not None and all(result.cached for result in self.results.values()):
                # Nothing was computed: the run stays what it was. The end of this flow run is still to be reported.
                self.recorder.close()
                self.folder.update(
                    lambda now: completed.model_copy(update={"prefect": now.prefect, "process": now.process})
                )
            else:
                self.recorder.finish(status, error)
        except GageError as second:
            _log.warning("the end of run %s could not be recorded: %s", self.run_id, second)

    def __enter__(self) -> "RunSession":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended: BaseException | None = error
        if isinstance(error, SystemExit | GeneratorExit):
            # A plug-in called sys.exit: without this, the process would end as if the run had succeeded.
            ended = GageError(
                f"{failure('a plug-in or a library', error)} What was computed is kept; resume it: {self.folder.again}"
            )
        with self._opened:
            if ended is not None:
                self._fail(ended)
        if ended is not error and ended is not None:
            raise ended from error


def _needed_engines(plan: Plan) -> dict[str, set[tuple[str, Stage]]]:
    """The stages that need each engine, by its key."""
    needed: dict[str, set[tuple[str, Stage]]] = {}
    for task in plan.tasks:
        for stage, spec in task.models:
            with suppress(GageError):  # the stage itself says what is missing
                if spec.engine_key is not None:
                    needed.setdefault(spec.engine_key, set()).add((task.task_id, stage))
    return needed


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that results may depend on, as far as they are installed.

    Read from the names of the packages' metadata folders: `importlib.metadata` would parse each file, for 10 ms.
    """
    versions = {"python": platform.python_version()}
    for folder in sys.path:
        with suppress(OSError):
            for entry in os.listdir(folder):
                name, _, rest = entry.partition("-")
                if name.lower() in _PACKAGES and rest.endswith(".dist-info"):
                    versions.setdefault(name.lower(), rest.removesuffix(".dist-info"))
    return dict(sorted(versions.items()))
