"""Runs as JSON records: a list of runs, and one run with its stages and summary."""

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from gage_eval.base.errors import GageError
from gage_eval.base.stages import STAGES, Stage
from gage_eval.report.console import HeadlineScore, headline, headlines, score_text, total_tokens
from gage_eval.report.model_run import under_test
from gage_eval.report.summary import Summary, TaskMetric
from gage_eval.runs.options import Locations
from gage_eval.runs.record import StageRecord
from gage_eval.runs.results.formatting import duration, of_task
from gage_eval.runs.results.stored import StoredRun, stored_runs

if TYPE_CHECKING:
    from gage_eval.runs.results.reading import RunReader


@dataclass(frozen=True)
class ListedScore:
    """A headline in a list of runs.

    Attributes:
        name: of the task or group.
        model: the names of the models under test that it is of.
        identity: what these models are, where that is known.
    """

    name: str
    metric: str
    text: str
    value: float | None
    low: float | None
    high: float | None
    model: tuple[str, ...] = ()
    identity: tuple[str | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """A run in a list; all but its id and status are null where they are not known.

    Attributes:
        run: its id.
        model: the models under test, in a few words.
        status: also ``killed``, ``silent`` and ``damaged``.
        score: the first of its headlines in a line, and how many more there are.
        samples, seconds, tokens, cost: of a finished run.
    """

    run: str
    model: str | None = None
    name: str | None = None
    status: str
    started: str | None = None
    tasks: list[str] | None = None
    score: str | None = None
    samples: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, kw_only=True)
class ListedRun(RunRow):
    """A run in a list, with more than its row.

    Attributes:
        created: when it was started.
        scores: the headlines of a finished run.
        label: the note next to each score.
        problem: why nothing else is known of it.
        error: why it failed.
    """

    created: datetime | None = None
    scores: tuple[ListedScore, ...] = ()
    label: str = ""
    problem: str = ""
    error: str = ""

    def as_record(self) -> dict[str, Any]:
        """Its row, for JSON and data frames."""
        return {name: getattr(self, name) for name in RunRow.__dataclass_fields__}

    def matches(self, text: str) -> bool:
        """Whether its name, id or model holds a text."""
        return text.casefold() in f"{self.name or ''} {self.run} {self.model or ''}".casefold()


def listed_runs(locations: Locations, limit: int | None = None) -> list[ListedRun]:
    """The runs of these locations, newest first.

    A damaged folder has the status ``damaged`` and nothing else, so that it does not hide the other runs.
    """
    return [listed_run(stored) for stored in islice(stored_runs(locations), limit)]


def listed_run(stored: StoredRun) -> ListedRun:
    """A run as lists show it."""
    try:
        record = stored.record
    except GageError as error:
        return ListedRun(run=stored.run_id, status="damaged", problem=str(error))
    listed = ListedRun(
        run=stored.run_id,
        model=record.model,
        name=record.name,
        status=stored.state,
        started=record.created.isoformat(timespec="seconds"),
        tasks=record.tasks,
        created=record.created,
        label=record.label,
        error=(record.error or "").strip(),
    )
    summary = stored.known_summary if record.status == "completed" else None
    if summary is None:
        return listed
    return replace(
        listed,
        scores=tuple(_listed_score(summary, score) for score in headlines(summary)),
        score=headline(summary, 1) if summary.metrics else None,
        samples=summary.sample_count,
        seconds=summary.run.timings.wall_runtime_s,
        tokens=total_tokens(summary),
        cost=summary.run.usage.cost,
    )


def _listed_score(summary: Summary, headline_score: HeadlineScore) -> ListedScore:
    name, metric, score = headline_score
    tasks = next((group.tasks for group in summary.groups if group.group_id == name), [name])
    models = dict.fromkeys(model for task_id in tasks for model in under_test(summary.models, task_id))
    return ListedScore(
        name,
        metric,
        score_text(score),
        score.value,
        score.ci_low,
        score.ci_high,
        tuple(model.name for model in models),
        tuple(model.identity for model in models),
    )


def run_record(stored: StoredRun) -> dict[str, Any]:
    """One run: its record, the state of its stages, and its summary if it has finished.

    Raises:
        InputError: its files cannot be read.
    """
    return {
        "run_id": stored.run_id,
        "folder": stored.folder.url,
        "status": stored.state,
        "record": stored.record,
        "stages": shown_stages(stored),
        "summary": stored.summary if stored.status == "completed" else None,
    }


class ShownStage(StageRecord):
    """How far a stage of a task is: ``stopped`` also if the run was killed before it could record that."""

    task_id: str
    stage: Stage


def shown_stages(stored: StoredRun) -> list[ShownStage]:
    """The stages that were started, by task in the config's order. Tasks that the config no longer has come last."""
    order: dict[tuple[str, str], int] = {
        stage_id: number for number, stage_id in enumerate(product(stored.record.tasks, STAGES))
    }

    def position(entry: ShownStage) -> tuple[int, str]:
        task, part = of_task(entry.task_id)
        return order.get((task, entry.stage), len(order)), part

    run = stored.record if stored.state == "running" else stored.record.with_stopped_stages()
    shown = [ShownStage(task_id=task, stage=name, **dict(stage)) for (task, name), stage in run.by_stage.items()]
    return sorted(shown, key=position)


def scored_metrics(run: "RunReader", task_id: str) -> list[TaskMetric]:
    """The numbers of a task; also those of a scored task of a run that has not finished. Empty before scoring."""
    report = run.task(task_id).report
    return [TaskMetric(task_id=task_id, **metric.model_dump()) for metric in report.metrics] if report else []


def run_remarks(stored: StoredRun) -> list[str]:
    """Notes on a run that did not complete normally: what happened and what to do."""
    again = f"resume it: {stored.folder.again}"
    state = stored.state
    if state == "killed":
        return [f"Its process was killed. What was computed is kept; {again}"]
    if state == "silent":
        return [f"No sign of life for {duration(stored.silent_s())}: it was probably killed; {again}"]
    if state == "running":
        return [f"It is running; its last sign of life was {duration(max(0.0, stored.silent_s()))} ago."]
    if state == "completed":
        scored = stored.record.rescored
        return [] if scored is None else [f"It holds other scores of the responses of run {scored.run_id}."]
    error = (stored.record.error or "").strip()
    if "gage resume" in error:
        return [error]
    return [f"{error}{' ' if error else ''}What was computed is kept; {again}"]
