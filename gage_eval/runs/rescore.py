"""Score the stored responses of a run with other metrics. No model is called."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError, RunFailed, closest
from gage_eval.base.processes import refuse_in_new_process
from gage_eval.base.stages import Stage, StageResult
from gage_eval.base.version import __version__
from gage_eval.config.bound_metric import bound
from gage_eval.config.models import MetricConfig
from gage_eval.extend import registry
from gage_eval.observability.observer import Observers
from gage_eval.pipeline import stages
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.specs import ReportSpec, ScoreSpec
from gage_eval.pipeline.unscored import refuse_without_score
from gage_eval.report.html import report_html
from gage_eval.report.suite_run import SuiteRun
from gage_eval.report.summary import Summary, run_summary
from gage_eval.runs.folder import REPORT_FILE, SUMMARY_FILE, RunFolder
from gage_eval.runs.planned import config_before
from gage_eval.runs.record import RescoredRecord, RunRecord, StageRecord, stage_id_of, stage_name
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.runs.results.report_details import run_details
from gage_eval.runs.results.stored import StoredRun
from gage_eval.runs.scoring import scoring_processes
from gage_eval.scoring.metrics import BoundMetric
from gage_eval.scoring.metrics.pipelines import read_pipelines
from gage_eval.store import Store

_NEEDED: tuple[Stage, ...] = ("standardize", "preprocess", "infer")


@dataclass
class RescoredRun:
    """The responses of a run, scored with other metrics.

    Attributes:
        stored: the run.
        metrics: the metrics as given.
        summary: a summary like that of a run, of the scored tasks.
        results: the results of auto_eval and report by (task id, stage).
        without_score: one sentence per task about metrics that scored no row.
    """

    stored: StoredRun
    metrics: Sequence[MetricConfig]
    summary: Summary
    results: dict[tuple[str, str], StageResult] = field(default_factory=dict)
    without_score: Sequence[str] = ()

    def save(self, run_id: str | None = None) -> RunFolder:
        """Save it as a separate run: run.json, summary.json and report.html.

        Raises:
            InputError: the scored run has not finished, or the run id is taken.
        """
        record = self.stored.record
        if record.status != "completed":
            raise InputError(
                f"run {self.stored.run_id} is not finished, so its scores cannot be saved as a run; finish it: "
                f"{self.stored.folder.again}"
            )
        now = datetime.now(UTC)
        tasks = [task.task_id for task in self.summary.tasks]
        # Stages for a task's few-shot examples have the task's name and a colon.
        kept = {name: stage for name, stage in record.stages.items() if stage_id_of(name)[0].split(":")[0] in tasks}
        mine = {stage_name(*stage_id): StageRecord.of(result) for stage_id, result in self.results.items()}
        folder = RunFolder.create(
            self.stored.folder.locations,
            run_id,
            RunRecord(
                gage_eval=__version__,
                name=record.name,
                status="completed",
                created=now,
                finished=now,
                tasks=tasks,
                options=record.options,
                config=record.config,
                rescored=RescoredRecord(
                    run_id=self.stored.run_id,
                    metrics=[metric.model_dump(mode="json", exclude_defaults=True) for metric in self.metrics],
                ),
                suite=self.summary.suite,
                models=record.models,
                probes=record.probes,
                pinned=record.pinned,
                stages={**kept, **mine},
            ),
        )
        run = self.summary.run.model_copy(update={"run_id": folder.run_id})
        self.summary = self.summary.model_copy(update={"run": run})
        folder.write_json(SUMMARY_FILE, self.summary.model_dump(mode="json"))
        readers = RunReader(StoredRun(folder), Store.open(folder.locations.store, read_only=True)).tasks()
        details = run_details(folder.record(), readers, began=now)
        folder.write(REPORT_FILE, report_html(self.summary, details).encode())
        return folder


def as_in_run(stored: StoredRun, spec: MetricConfig) -> MetricConfig:
    """The run's own metric, where a metric is named as the run's table prints it: ``gsm8k,strict-match pass@2``.

    Args:
        stored: the run.
        spec: a metric of `metric_spec`. One with parameters, or without filter and aggregation, stays as it is.

    Raises:
        InputError: the run's config can no longer be read, or its metric has no such filter.
    """
    names = [item for item in spec.filters if isinstance(item, str)]
    if spec.params or names != spec.filters or not (spec.filters or spec.aggregation):
        return spec
    config = config_before(stored)
    written = [*config.metrics, *(metric for task in config.tasks for metric in task.metric_overrides)]
    own = next((metric for metric in written if metric.metric_id == spec.metric_id), None)
    if own is None or (names and not own.filters):
        return spec
    changes: dict[str, Any] = {"aggregation": spec.aggregation or own.aggregation}
    if names:
        by_name = {pipeline.name: item for pipeline, item in zip(read_pipelines(own.filters), own.filters, strict=True)}
        (name,) = names if len(names) == 1 else (None,)
        if name not in by_name and {*names} <= {*registry.filters.names()}:
            return spec
        if name not in by_name:
            known = [name for name in by_name if name is not None]
            raise InputError(f"metric {spec.metric_id} of run {stored.run_id} has no filter '{name}'. Filters: "
                             f"{', '.join(known)}.{closest(str(name), known)}")  # fmt: skip
        changes["filters"] = [by_name[name]]
    return own.model_copy(update=changes)


def rescore(
    stored: StoredRun,
    store: Store,
    metrics: Sequence[MetricConfig],
    *,
    tasks: Sequence[str] = (),
    processes: int | None = None,
) -> RescoredRun:
    """Score a run's responses.

    Stored scores are not computed again. New scores are stored.

    Args:
        stored: the run; its responses may be incomplete.
        store: where its artifacts are.
        metrics: the metrics to use instead of the run's own.
        tasks: only these tasks.
        processes: how many processes score; None for this one.

    Raises:
        InputError: a metric cannot be used, or a task does not exist or has no responses yet.
    """
    refuse_in_new_process()
    began = time.perf_counter()
    ready = _bound(metrics)
    reader = RunReader(stored, store)
    # Samples may set parameters for the run's own metrics too.
    rows = [row for task in reader.tasks() for row in task.metrics]
    known = frozenset(name for row in rows for name in (row["metric_id"], row["implementation"]))
    results: dict[tuple[str, str], StageResult] = {}
    summaries = []
    without_score: list[str] = []
    with scoring_processes(store, processes) as scoring:
        env = StageContext(store, None, Observers(), stored.run_id, processes=scoring)
        for name in [reader.task(name).task_id for name in tasks or reader.task_ids]:
            # A metric that fails on many rows is shown in the table; the run itself is not affected.
            spec = ScoreSpec(name, ready, max_unscored_share=None, known=known)
            evaluated, reported = _task(env, stored, spec)
            results[name, "auto_eval"], results[name, "report"] = evaluated, reported
            summaries.append(TaskReader(store, name, {"report": reported.outputs}).summary)
            try:
                refuse_without_score(store, spec, evaluated)
            except RunFailed as error:
                without_score.append(str(error))
    summary = run_summary(
        run_id=stored.run_id,
        name=stored.record.name,
        tasks=summaries,
        stages=list(results.values()),
        wall_s=time.perf_counter() - began,
        suite=_rescored_suite(stored),
        models=stored.summary.models if stored.status == "completed" else stored.record.models,
    )
    return RescoredRun(stored, metrics, summary, results, without_score)


def _bound(metrics: Sequence[MetricConfig]) -> tuple[BoundMetric, ...]:
    ids = [metric.metric_id for metric in metrics]
    twice = next((name for name in ids if ids.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two metrics are named '{twice}'. Give one another metric_id: {{metric_id: …, …}}.")
    return tuple(bound(metric) for metric in metrics)


def _rescored_suite(stored: StoredRun) -> SuiteRun | None:
    """The suite whose responses were scored: other metrics give no score of the suite."""
    suite = stored.record.suite
    if suite is None or "metrics" in suite.modified:
        return suite
    return suite.model_copy(update={"modified": [*suite.modified, "metrics"]})


def _task(env: StageContext, stored: StoredRun, spec: ScoreSpec) -> tuple[StageResult, StageResult]:
    task_id = spec.task_id
    stored_results = {stage: _stored(stored, task_id, stage) for stage in _NEEDED}
    inputs = {source.name: _stored(stored, task_id, source.stage) for source in spec.inputs}
    ran = stored.outputs.get((task_id, "auto_eval"), {})
    for source in spec.executions_read:
        if source.name not in ran:
            raise InputError(
                f"task '{task_id}' of run {stored.run_id} ran no programs, and a metric reads {source.root}. Add "
                "'execution' to the task and run the config: responses are reused."
            )
        inputs[source.name] = _stored(stored, task_id, "auto_eval")
    if "judgments" in inputs:
        _check_judged(env.store, stored, task_id, inputs["judgments"])
    evaluated = stages.auto_eval(env, spec, **inputs)
    reported = stages.report(
        env,
        _names(env.store, stored, task_id),
        metrics=evaluated,
        samples=stored_results["standardize"],
        rejects=stored_results["standardize"],
        prepare_rejects=stored_results["preprocess"],
        responses=stored_results["infer"],
        executions=_stored(stored, task_id, "auto_eval") if "executions" in ran else None,
    )
    return evaluated, reported


def _stored(stored: StoredRun, task_id: str, stage: Stage) -> StageResult:
    outputs = stored.outputs.get((task_id, stage))
    if outputs is None:
        raise stored.unfinished(task_id, stage)
    return StageResult(stage, task_id, "", outputs, cached=True)


def _check_judged(store: Store, stored: StoredRun, task_id: str, result: StageResult) -> None:
    if not store.artifact(result.outputs["judgments"]).rows:
        raise InputError(
            f"task '{task_id}' of run {stored.run_id} has no judge, and a metric reads judge_output. Add a judge to "
            "the config and run it: responses are reused."
        )


def _names(store: Store, stored: StoredRun, task_id: str) -> ReportSpec:
    """The names for the task's report. A stopped run has no report yet."""
    known: Mapping[str, Any] = {}
    outputs = stored.outputs.get((task_id, "report"))
    if outputs is not None:
        known = decode(store.artifact(outputs["report"]).table()["summary"][0].as_py())
    return ReportSpec(
        task_id,
        known.get("dataset_id") or task_id,
        known.get("model") or "",
        known.get("description"),
        headline=None if stored.record.suite is None else stored.record.suite.metric,
    )
