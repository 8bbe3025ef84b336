"""Requests as people read them, and the requests `gage preview` shows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from gage_eval.cli.output import indented
from gage_eval.report.console import clean

if TYPE_CHECKING:
    from gage_eval.marks import Stage
    from gage_eval.planning import Rendered
    from gage_eval.planning.render import RoleSource
    from gage_eval.runs import RunOptions
    from gage_eval.stages import Env, TaskPlan


@dataclass(frozen=True)
class Shown:
    """A request of a stage of a task."""

    task_id: str
    stage: str
    rendered: "Rendered"

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
    """What `gage preview` prints.

    Attributes:
        requests: those of the first samples.
        total: how many there are of the stages that could be rendered.
        notes: what could not be shown, and why.
    """

    requests: list[Shown]
    total: int
    notes: list[str]


def preview_requests(options: "RunOptions", count: int, task_id: str | None) -> Preview:
    """The requests of the first ``count`` samples of each task, or of one.

    load, standardize and preprocess are computed unless they are stored; nothing is sent and no engine started.

    Raises:
        InputError: the config cannot be used, or has no such task.
    """
    from gage_eval import stages
    from gage_eval.errors import InputError, closest
    from gage_eval.observability.observer import Observers
    from gage_eval.planning.plan import Surroundings, make_plan
    from gage_eval.runs.options import Locations, load
    from gage_eval.store import Store

    loaded = load(options)
    store = Store.open(Locations.at(options.store).store)
    plan = make_plan(loaded, Surroundings(media=store.media.get, sample_ids=options.sample_ids))
    names = [task.task_id for task in plan.tasks]
    if task_id is not None and task_id not in names:
        raise InputError(f"no task '{task_id}'. Tasks: {', '.join(names)}.{closest(task_id, names)}")
    env = stages.Env(store, None, Observers(), run_id="preview")
    preview = Preview([], 0, [])
    for task in plan.tasks:
        if task_id in (None, task.task_id):
            _add(preview, env, task, count)
    return preview


def _add(preview: Preview, env: "Env", task: "TaskPlan", count: int) -> None:
    from gage_eval import stages
    from gage_eval.marks import STAGES
    from gage_eval.planning import asks_a_model, inputs_of, rendered, standing, who_is_asked
    from gage_eval.planning.render import RoleSource

    def call(stage: "Stage", of: "TaskPlan", /, **inputs: "stages.StageResult | None") -> "stages.StageResult":
        result: stages.StageResult = getattr(stages, stage)(env, getattr(of, stage), **inputs)
        return result

    samples, prepared = stages.prepare(task, call)
    outputs = {"standardize": samples.outputs, "preprocess": prepared.outputs}
    for stage in STAGES:
        if not asks_a_model(stage, task):
            continue
        inputs = inputs_of(stage, task, outputs)
        if inputs is None:
            lacking = "the responses" if stage == "judge" else "the support model's answers"
            preview.notes.append(
                f"task '{task.task_id}': the requests of {stage} are made of {lacking}, which are not there yet."
            )
            continue
        for spec in who_is_asked(env.store, stage, task, inputs):
            source = RoleSource.of(spec, env.store, inputs)
            for row in islice(_rows(source), count):
                preview.requests += [Shown(task.task_id, stage, one) for one in rendered(spec, source, row)]
            preview.total += sum(rows for _, rows in source.parts) * source.replicates
        outputs[stage] = standing(env.store, stage, task, inputs) or {}


def _rows(source: "RoleSource") -> Iterator[Any]:
    """The prepared rows, one at a time as tables of one row."""
    for part, rows in source.parts:
        table = source.read(part)
        for index in range(rows):
            yield table.slice(index, 1)


def print_request(one: Shown) -> None:
    """A request as text: messages as blocks under their role, parameters in one line."""
    request, body = one.rendered.request, one.rendered.body
    repeated = f" · replicate {request.replicate}" if request.replicate else ""
    print(
        clean(
            f"{one.task_id} · {one.stage} · sample {request.sample_id}{repeated} · row {request.row_index} · "
            f"key {one.rendered.key[:8]}"
        )
    )
    for line in body_lines(body):
        print(line)


def body_lines(body: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a request's body."""
    from gage_eval.canonical import canonical_text

    shown = {name: value for name, value in body.items() if name not in ("messages", "prompt")}
    if shown:
        yield "  " + clean(" ".join(f"{name}={canonical_text(value)}" for name, value in sorted(shown.items())))
    if body.get("prompt") is not None:
        yield "  [prompt]"
        yield indented(str(body["prompt"]), "    ")
    for message in body.get("messages") or []:
        yield f"  [{clean(str(message.get('role')))}]"
        yield indented(_content(message), "    ")


def _content(message: Mapping[str, Any]) -> str:
    """A message's content as text; what is no text, as JSON."""
    from gage_eval.canonical import canonical_text

    content = message.get("content")
    segments = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    parts = [segment["text"] if segment.get("type") == "text" else canonical_text(segment) for segment in segments]
    beside = {name: value for name, value in message.items() if name not in ("role", "content") and value is not None}
    if beside:
        parts.append(canonical_text(beside))
    return "\n".join(parts)
