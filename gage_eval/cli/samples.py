"""gage show RUN --sample: what was sent, what was answered, and the reason for the score."""

from typing import TYPE_CHECKING, Any

from gage_eval.base.errors import InputError
from gage_eval.cli.output import indented, print_json, say

if TYPE_CHECKING:
    from gage_eval.report.sample_view import ShownExecution
    from gage_eval.runs.results.calls import ModelCall
    from gage_eval.runs.results.reading import RunReader, TaskReader
    from gage_eval.runs.results.rows import SampleRow

_FIGURES = frozenset(
    {"error_kind", "finish_reason", "prompt_tokens", "completion_tokens", "latency_ms", "attempts", "source"}
)


def show_sample(reader: "RunReader", sample_id: str, task_id: str | None, *, json: bool) -> None:
    """Print a sample's question, requests, responses, timings and scores.

    Raises:
        InputError: the task or the sample does not exist.
    """
    samples = []
    for task in reader.tasks(task_id):
        row = task.find(sample_id) if task.has_rows else None
        if row is not None:
            samples.append((task, row))
    if not samples:
        where = f"task '{task_id}' of run {reader.run_id}" if task_id is not None else f"run {reader.run_id}"
        raise InputError(f"{where} has no request for sample '{sample_id}'; gage preview CONFIG shows ids.")
    if json:
        print_json([_record(reader.run_id, task, row) for task, row in samples])
        return
    for task, row in samples:
        _print(reader.run_id, task, row)


def _record(run_id: str, task: "TaskReader", row: "SampleRow") -> dict[str, Any]:
    from gage_eval.runs.results.explain import expected_of, question_of
    from gage_eval.runs.results.sent_requests import shown_calls

    return {
        "run_id": run_id,
        "task_id": row.task_id,
        "sample_id": row.sample_id,
        "question": question_of(row.sample),
        "expected": expected_of(row.sample),
        "sample": row.sample,
        "calls": shown_calls(task, row).calls,
        "judgments": row.judgments,
        "executions": row.executions,
        "scores": [{"metric_id": metric_id, **entry} for metric_id, rows in row.scores.items() for entry in rows],
    }


def _print(run_id: str, task: "TaskReader", row: "SampleRow") -> None:
    from gage_eval.cli.requests import body_lines
    from gage_eval.runs.results.explain import expected_of
    from gage_eval.runs.results.sample_view import shown_execution
    from gage_eval.runs.results.sent_requests import shown_calls

    say(f"{row.task_id} · sample {row.sample_id} · run {run_id}")
    shown = shown_calls(task, row)
    if shown.note:
        say(shown.note)
    for call in shown.calls:
        repeated = f" (replicate {call.replicate})" if call.replicate else ""
        print(f"\n{call.stage}, {call.form}{repeated}")
        for line in body_lines(call.request):
            print(line)
        _print_answer(call)
    for response in row.responses:
        _print_execution(shown_execution(task, row, response["replicate"]))
    expected = expected_of(row.sample)
    if expected is not None:
        print("\nexpected")
        print(indented(expected))
    if row.judgments:
        print("\nverdicts")
    for judgment in row.judgments:
        _print_verdict(judgment, several=len(row.responses) > 1)
    if row.scores:
        print("\nscores")
    several = len(row.responses) > 1
    for metric_id, entries in row.scores.items():
        for score in entries:
            _print_score(metric_id, score, several=several)


def _print_answer(call: "ModelCall") -> None:
    if call.response is None:
        print("answer: none yet")
        return
    response, telemetry = call.response, call.telemetry or {}
    values = {name: value for name, value in {**response, **telemetry}.items() if name in _FIGURES}
    figures = [
        f"{name}={value:.1f}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()
    ]
    say(f"answer: {' '.join([response['status'], *figures])}")
    for name in ("reasoning", "answer", "tool_calls"):
        if response.get(name):
            print(f"  [{name}]")
            print(indented(str(response[name]), "    "))
    for turn in response.get("turns") or []:
        print("  [user]" if turn.get("actor") == "user" else "  [turn]")
        for name in ("answer", "tool_calls"):
            if turn.get(name):
                print(indented(str(turn[name]), "    "))
        for output in turn.get("tool_outputs") or []:
            print("  [tool]")
            print(indented(output, "    "))
    for error in telemetry.get("errors") or []:
        print(indented(f"failed attempt: {error}"))


def _print_execution(execution: "ShownExecution | None") -> None:
    if execution is None:
        return
    facts = " · ".join(f"{name} {value}" for name, value in execution.facts)
    print()
    say(f"program: {execution.title} · {facts}")
    if execution.text:
        print(indented(execution.text))
    for name, text in execution.texts:
        print(f"  [{name}]")
        print(indented(text, "    "))


def _print_verdict(judgment: dict[str, Any], *, several: bool) -> None:
    from gage_eval.runs.results.rows import verdict_name

    repeated = f" (replicate {judgment['replicate']})" if several else ""
    figures = [f"{name}={judgment[name]}" for name in ("answer", "score") if name in judgment]
    why = judgment.get("explanation")
    said = " ".join([judgment["status"], *figures, *([f"· {why}"] if why else [])])
    say(f"  {verdict_name(judgment) or 'judge'}{repeated}: {said}")


def _print_score(metric_id: str, score: dict[str, Any], *, several: bool) -> None:
    name = metric_id if score["filter"] is None else f"{metric_id},{score['filter']}"
    values = " ".join(f"{key}={value:g}" for key, value in score["values"].items())
    repeated = f" (replicate {score['replicate']})" if several else ""
    parts = [f"{name}{repeated}: {score['status']} {values}".rstrip()]
    if score["extracted"] is not None:
        parts.append(f"read {score['extracted']!r}")
    if score["explanation"]:
        parts.append(score["explanation"])
    say("  " + " · ".join(parts))
