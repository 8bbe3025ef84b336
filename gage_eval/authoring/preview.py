"""Preview of the requests that a config would send."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.base.stages import STAGES, Stage, StageResult
from gage_eval.engine.simulator import heard_first, speaks_first
from gage_eval.models.backends.base import Blocks
from gage_eval.models.client.types import Request, SimulatedUser
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
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.pipeline.source import RoleSource
from gage_eval.pipeline.specs import TaskPlan
from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import planned


@dataclass(frozen=True)
class PreviewedUser:
    """What the simulated user of an episode is asked first.

    Attributes:
        adapter_id: its role adapter.
        model: the short name of its model; None for a script.
        user: who it is.
        speaks_first: whether it has the first turn. Otherwise the model's answer follows the messages of the body.
        first: its first request; None for a script.
    """

    adapter_id: str
    model: str | None
    user: SimulatedUser
    speaks_first: bool
    first: RenderedRequest | None

    def as_record(self) -> dict[str, Any]:
        """The user as JSON."""
        return {
            "adapter_id": self.adapter_id,
            "model": self.model,
            "stop": self.user.stop,
            "max_turns": self.user.max_turns,
            "script": self.user.script,
            "speaks_first": self.speaks_first,
            "response_key": self.first.key if self.first and self.speaks_first else None,
            "body": self.first and self.first.body,
        }


@dataclass(frozen=True)
class PreviewedRequest:
    """A request of a stage of a task, and the simulated user of its episode."""

    task_id: str
    stage: str
    rendered: RenderedRequest
    user: PreviewedUser | None = None

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
            "user": self.user and self.user.as_record(),
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
                    _check_asked(sent)
                    user = _user(asks.spec.user, sent.request)
                    preview.requests.append(PreviewedRequest(task.task_id, stage, sent, user))
            preview.total += sum(number for _, number in source.parts)
        outputs[stage] = stored_outputs(env.store, stage, task, inputs) or {}


def _user(spec: GenerateSpec | None, request: Request) -> PreviewedUser | None:
    """What the simulated user of an episode is asked first.

    Raises:
        InputError: the plug-in of its backend fails on the request.
    """
    user = request.user
    if spec is None or user is None:
        return None
    messages = request.messages or []
    speaks = speaks_first(messages)
    if user.script is not None:
        return PreviewedUser(spec.adapter_id, None, user, speaks, None)
    first = replace(user.request, messages=[*(user.request.messages or []), *heard_first(messages)])
    (sent,) = rendered(spec, [first])
    _check_asked(sent)
    return PreviewedUser(spec.adapter_id, spec.model_name, user, speaks, sent)


def _check_asked(sent: RenderedRequest) -> None:
    """Refuse a request that cannot be sent.

    Raises:
        InputError: it cannot be sent; the message says why.
    """
    if sent.request.unasked is not None:
        raise InputError(sent.request.unasked.message)


def _requests(source: RoleSource) -> Iterator[Request]:
    """The requests of a source, rendered one at a time."""
    for part, count in source.parts:
        opened = source.open(part)
        for index in range(count):
            yield from opened.render(index, index + 1)
