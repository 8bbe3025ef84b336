"""Preview of the requests that a config would send."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.base.stages import STAGES, Stage, StageResult
from gage_eval.models.backends.base import Blocks
from gage_eval.models.client.types import Request
from gage_eval.observability.observer import Observer, Observers
from gage_eval.pipeline import stages
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.dag import prepare
from gage_eval.pipeline.forecast import (
    RenderedRequest,
    asks_a_model,
    asks_of,
    inputs_of,
    rendered,
    settled_task,
    stored_outputs,
)
from gage_eval.pipeline.source import RoleSource
from gage_eval.pipeline.specs import TaskPlan
from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import planned


@dataclass(frozen=True)
class PreviewedRequest:
    """A request of a stage of a task."""

    task_id: str
    stage: str
    rendered: RenderedRequest

    def as_record(self) -> dict[str, Any]:
        """The request as JSON."""
        request = self.rendered.request
        return {
            "task_id": self.task_id,
            "stage": self.stage,
            "sample_id": request.sample_id,
            "row_index": request.row_index,
            "replicate": request.replicate,
            "response_key": self.rendered.key,
            "body": self.rendered.body,
        }


@dataclass
class Preview:
    """The first requests of a config.

    Attributes:
        requests: the requests of the first samples.
        total: number of requests of the stages that could be rendered.
        notes: what cannot be shown, and why.
    """

    requests: list[PreviewedRequest]
    total: int
    notes: list[str]


def preview_requests(
    options: RunOptions, count: int, observer: Observer | None = None, *, blocks: Blocks | None = None
) -> Preview:
    """The requests of the first ``count`` samples of each task.

    Fetches missing data files, and computes load, standardize and preprocess unless they are stored. Sends nothing and
    starts no engine.

    Args:
        options: the config.
        count: samples of each task.
        observer: told what is fetched.
        blocks: the blocks of the Prefect API, if there is one.

    Raises:
        InputError: the config cannot be used.
    """
    run_plan = planned(options, blocks=blocks)
    run_plan.fetch_data(observer or Observers())
    env = StageContext(run_plan.store, None, Observers(), run_id="preview")
    preview = Preview([], 0, [])
    for task in run_plan.plan.tasks:
        _add(preview, env, task, count)
    return preview


def _add(preview: Preview, env: StageContext, task: TaskPlan, count: int) -> None:
    def call(stage: Stage, of: TaskPlan, /, **inputs: StageResult | None) -> StageResult:
        result: StageResult = getattr(stages, stage)(env, getattr(of, stage), **inputs)
        return result

    samples, prepared = prepare(task, call)
    outputs = {"standardize": samples.outputs, "preprocess": prepared.outputs}
    for stage in STAGES:
        if not asks_a_model(stage, task):
            continue
        inputs = inputs_of(stage, task, outputs)
        if inputs is None:
            lacking = "the responses" if stage == "judge" else "the support model's answers"
            preview.notes.append(
                f"task '{task.task_id}': the requests of {stage} show {lacking}, which do not exist yet."
            )
            continue
        if stage == "judge":
            task, unsettled = settled_task(env.store, task, inputs)
            if unsettled:
                preview.notes.append(f"task '{task.task_id}': {unsettled}.")
                continue
        for asks in asks_of(env.store, stage, task, inputs):
            source = RoleSource.of(asks, env.store, inputs)
            for _, requests in islice(groupby(_requests(source), lambda request: request.row_index), count):
                for sent in rendered(asks.spec, requests):
                    if sent.request.unasked is not None:
                        raise InputError(sent.request.unasked.message)
                    preview.requests.append(PreviewedRequest(task.task_id, stage, sent))
            preview.total += sum(number for _, number in source.parts)
        outputs[stage] = stored_outputs(env.store, stage, task, inputs) or {}


def _requests(source: RoleSource) -> Iterator[Request]:
    """The requests of a source, rendered one at a time."""
    for part, count in source.parts:
        opened = source.open(part)
        for index in range(count):
            yield from opened.render(index, index + 1)
