"""One sample of a run: exactly what was sent, what came back, and why it got its score."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gage_eval.cli.output import indented, print_json
from gage_eval.errors import InputError, closest
from gage_eval.report.console import clean

if TYPE_CHECKING:
    from gage_eval.marks import Stage
    from gage_eval.runs.stored import StoredRun
    from gage_eval.stages import TaskPlan
    from gage_eval.store import Artifact, Store

_FIGURES = frozenset(
    {"error_kind", "finish_reason", "prompt_tokens", "completion_tokens", "latency_ms", "attempts", "source"}
)


def show_sample(
    stored: "StoredRun", sample_id: str, task_id: str | None, *, store: str | None, output_dir: str | None, json: bool
) -> None:
    """Print a sample's requests, responses, timings and scores.

    Raises:
        InputError: no such task or sample, or the run has not come to its requests.
    """
    from gage_eval.runs.planned import planned_before

    tasks = list(stored.record["tasks"])
    if task_id is not None and task_id not in tasks:
        raise InputError(
            f"run {stored.run_id} has no task '{task_id}'. Tasks: {', '.join(tasks)}.{closest(task_id, tasks)}"
        )
    before = planned_before(stored, store, output_dir)
    found = [
        _gather(before.store, stored, before.plan.task(name), sample_id, part)
        for name in (tasks if task_id is None else [task_id])
        if (part := _find(before.store, stored, name, sample_id)) is not None
    ]
    if not found:
        where = f"task '{task_id}' of run {stored.run_id}" if task_id is not None else f"run {stored.run_id}"
        raise InputError(f"{where} has no sample '{sample_id}' among its requests; gage preview CONFIG shows ids.")
    if json:
        print_json(found)
        return
    for one in found:
        _print(one)


def _find(store: "Store", stored: "StoredRun", task_id: str, sample_id: str) -> int | None:
    """The part of a task's prepared rows that holds the sample."""
    import pyarrow.compute as pc

    outputs = stored.outputs.get((task_id, "preprocess"))
    if outputs is None:
        return None
    prepared = store.artifact(outputs["prepared"])
    for part in prepared.parts:
        ids = prepared.read(part.index, columns=["sample_id"])["sample_id"]
        if pc.index(ids, sample_id).as_py() >= 0:
            return part.index
    return None


def _gather(store: "Store", stored: "StoredRun", task: "TaskPlan", sample_id: str, part: int) -> dict[str, Any]:
    """Everything the run has of a sample."""
    from gage_eval.marks import STAGES

    stages = {stage: outputs for (task_id, stage), outputs in stored.outputs.items() if task_id == task.task_id}
    calls = [call for stage in STAGES for call in _calls(store, stage, task, stages, part, sample_id)]
    return {
        "run_id": stored.run_id,
        "task_id": task.task_id,
        "sample_id": sample_id,
        "sample": _sample(store, stages, part, sample_id),
        "calls": calls,
        "scores": _scores(store, stages, part, sample_id),
    }


def _calls(
    store: "Store",
    stage: "Stage",
    task: "TaskPlan",
    stages: dict[str, dict[str, str]],
    part: int,
    sample_id: str,
) -> Iterator[dict[str, Any]]:
    """What a stage sent for a sample and what came back, replicate by replicate."""
    import pyarrow.compute as pc

    from gage_eval.planning import asks_a_model, inputs_of, rendered, standing, who_is_asked
    from gage_eval.planning.render import RoleSource
    from gage_eval.stages.generation import telemetry_of

    inputs = inputs_of(stage, task, stages) if asks_a_model(stage, task) else None
    if inputs is None:
        return
    # A stage that stopped for too many errors told no result; what it got is in the store all the same.
    outputs = stages.setdefault(stage, standing(store, stage, task, inputs, incomplete=True) or {})
    for spec in who_is_asked(store, stage, task, inputs):
        answers = _rows(store, outputs.get(spec.output), part, sample_id)
        timings = _rows(store, outputs.get(telemetry_of(spec.output)), part, sample_id)
        source = RoleSource.of(spec, store, inputs)
        rows = source.read(part)
        for one in rendered(spec, source, rows.filter(pc.equal(rows["sample_id"], sample_id))):
            replicate = one.request.replicate
            response = answers.get(replicate)
            yield {
                "stage": stage,
                "replicate": replicate,
                "request": one.body,
                # An answer's key is made of the body it was given for: equal keys, equal bodies.
                "as_sent": None if response is None else response["response_key"] == one.key,
                "response": response,
                "timings": timings.get(replicate),
            }


def _rows(store: "Store", artifact_id: str | None, part: int, sample_id: str) -> dict[int, dict[str, Any]]:
    """A sample's rows of responses or telemetry, by replicate."""
    if artifact_id is None:
        return {}
    return {row["replicate"]: _plain(row) for row in _matching(store.artifact(artifact_id), part, sample_id)}


def _sample(store: "Store", stages: dict[str, dict[str, str]], part: int, sample_id: str) -> dict[str, Any]:
    import pyarrow.compute as pc

    from gage_eval.sample.table import rows_of

    table = store.artifact(stages["standardize"]["samples"]).read(part)
    return rows_of(table.filter(pc.equal(table["id"], sample_id)))[0]


def _scores(store: "Store", stages: dict[str, dict[str, str]], part: int, sample_id: str) -> list[dict[str, Any]]:
    from gage_eval.runs.export import score_entry

    if "auto_eval" not in stages:
        return []
    metrics = store.artifact(stages["auto_eval"]["metrics"]).table(columns=["metric_id", "scores"]).to_pylist()
    named = {row["metric_id"]: row["scores"] for row in metrics}
    return [
        {"metric_id": metric_id, **score_entry(row)}
        for metric_id, artifact_id in named.items()
        for row in _matching(store.artifact(artifact_id), part, sample_id)
    ]


def _matching(artifact: "Artifact", part: int, sample_id: str) -> Iterator[dict[str, Any]]:
    import pyarrow.compute as pc

    table = artifact.read(part)
    yield from table.filter(pc.equal(table["sample_id"], sample_id)).to_pylist()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("row_index", "sample_id") and value is not None}


def _print(one: dict[str, Any]) -> None:
    from gage_eval.cli.requests import body_lines

    print(clean(f"{one['task_id']} · sample {one['sample_id']} · run {one['run_id']}"))
    for call in one["calls"]:
        repeated = f" (replicate {call['replicate']})" if call["replicate"] else ""
        print(f"\nsent by {call['stage']}{repeated}")
        for line in body_lines(call["request"]):
            print(line)
        if call["as_sent"] is False:
            print("  note: this is not what was sent; a plug-in, a setting or a file of the config changed since.")
        _print_answer(call["response"], call["timings"] or {})
    if one["scores"]:
        print("\nscores")
    several = any(call["replicate"] for call in one["calls"])
    for score in one["scores"]:
        _print_score(score, several=several)


def _print_answer(response: dict[str, Any] | None, timings: dict[str, Any]) -> None:
    if response is None:
        print("came back: nothing yet")
        return
    found = {name: value for name, value in {**response, **timings}.items() if name in _FIGURES}
    figures = [
        f"{name}={value:.1f}" if isinstance(value, float) else f"{name}={value}" for name, value in found.items()
    ]
    print(clean(f"came back: {' '.join([response['status'], *figures])}"))
    for name in ("reasoning", "answer", "tool_calls"):
        if response.get(name):
            print(f"  [{name}]")
            print(indented(str(response[name]), "    "))
    for turn in response.get("turns") or []:
        print("  [turn]")
        print(indented(str(turn.get("answer") or ""), "    "))
    for error in timings.get("errors") or []:
        print(indented(f"failed attempt: {error}"))


def _print_score(score: dict[str, Any], *, several: bool) -> None:
    name = score["metric_id"] if score["filter"] is None else f"{score['metric_id']},{score['filter']}"
    values = " ".join(f"{key}={value:g}" for key, value in score["values"].items())
    repeated = f" (replicate {score['replicate']})" if several else ""
    said = [f"{name}{repeated}: {score['status']} {values}".rstrip()]
    if score["extracted"] is not None:
        said.append(f"extracted {score['extracted']!r}")
    if score["explanation"]:
        said.append(score["explanation"])
    print(clean("  " + " · ".join(said)))
