"""The view of one answer, from a stored run."""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from gage_eval.base.canonical import decode
from gage_eval.base.field_paths import reference_texts
from gage_eval.base.made_media import made_medium
from gage_eval.base.statuses import DIVERGES_AT
from gage_eval.report.messages import (
    answer_step,
    candidates,
    conversation,
    pretty,
    request_messages,
    shown_messages,
    shown_part,
    tool_calls,
)
from gage_eval.report.sample_view import OF_SAMPLE, SampleView, ShownExecution, ShownJudgment, ShownScore
from gage_eval.report.summary import format_value
from gage_eval.runs.results.calls import ModelCall
from gage_eval.runs.results.explain import explain
from gage_eval.runs.results.outcomes import Measure
from gage_eval.runs.results.reading import TaskReader
from gage_eval.runs.results.rows import SampleRow, of_replicate, verdict_name
from gage_eval.runs.results.sent_requests import ShownCalls, shown_calls

# Of answers that were not asked for.
_SOURCES = {"reused": "an earlier run", "repeated": "an equal request", "log": "the log of an earlier run"}


def sample_view(
    task: TaskReader,
    row: SampleRow,
    replicate: int,
    measure: Measure | None,
    kind: str,
    shown: ShownCalls | None = None,
) -> SampleView | None:
    """The view of one answer to a sample; None if there is no such answer.

    Args:
        task: its task.
        row: the sample.
        replicate: which repetition.
        measure: the measure that explains the answer.
        kind: what the answer is by the measure.
        shown: the calls about the sample, where they are known already.
    """
    response = next((candidate for candidate in row.responses if candidate["replicate"] == replicate), None)
    if response is None:
        return None
    calls, note = shown or shown_calls(task, row)
    own = [call for call in calls if call.stage == "infer" and call.replicate == replicate]
    sample = row.sample
    request = own[0].request if own else None
    logprobs = response.get("logprobs")
    logprobs = decode(logprobs) if isinstance(logprobs, str) else logprobs
    telemetry = of_replicate(row.telemetry, replicate)
    errors = [str(error) for error in telemetry.get("errors") or ()]
    answer = explain(row, response, measure)
    medium = made_medium(response)
    return SampleView(
        sample_id=row.sample_id,
        replicate=replicate,
        kind=kind,
        status=answer.status,
        score_status=answer.score_status,
        messages=tuple(
            conversation(
                request_messages(request) if request is not None else shown_messages(sample.get("messages") or ()),
                response.get("turns") or (),
                telemetry.get("turn_telemetry") or (),
            )
        ),
        form=own[0].form if own else OF_SAMPLE,
        note=note,
        raw=pretty(request) if request is not None and own[0].as_sent is not None else "",
        answer=answer.answer,
        made=None if medium is None else shown_part(medium.part),
        reasoning=str(response.get("reasoning") or ""),
        extracted=answer.extracted,
        expected=answer.expected,
        explanation=answer.explanation,
        failure=answer.failure,
        completion_tokens=answer.completion_tokens,
        scores=tuple(_scores(row, replicate, task)),
        judgments=tuple(_judgments(row, replicate, calls)),
        execution=shown_execution(task, row, replicate),
        tool_calls=list(tool_calls(response.get("tool_calls"))),
        logprobs=logprobs,
        candidates=candidates(logprobs, [str(choice) for choice in (request or {}).get("choices") or ()]),
        facts=_facts(response, telemetry),
        attempts=[error for error in errors if not error.startswith(DIVERGES_AT)],
        answer_step=answer_step(response.get("turns") or ()),
        divergences=[
            (sentence, shown_messages(decode(said)))
            for sentence, said in zip_longest(
                (error for error in errors if error.startswith(DIVERGES_AT)),
                telemetry.get("diverged") or (),
                fillvalue="[]",
            )
        ],
        options=[(str(option["id"]), str(option["content"])) for option in sample.get("options") or ()],
        references=reference_texts(sample),
        sample=pretty(sample),
        tags=[(name, _plain(value)) for name, value in (sample.get("data_tag") or {}).items()],
        response_key=str(response.get("response_key") or ""),
        trajectories=[shown_messages(trajectory) for trajectory in sample.get("golden_trajectories") or ()],
        tools=pretty(sample["tools"]) if sample.get("tools") else "",
    )


def _scores(row: SampleRow, replicate: int, task: TaskReader) -> list[ShownScore]:
    scores = []
    for metric_id, entry in row.scores_of(replicate):
        measure = next((x for x in task.measures if (x.metric_id, x.filter) == (metric_id, entry["filter"])), None)
        value = None if measure is None else entry["values"].get(measure.value_key)
        scores.append(
            ShownScore(
                metric_id if entry["filter"] is None else f"{metric_id},{entry['filter']}",
                tuple((name, format_value(value)) for name, value in entry["values"].items()),
                entry["status"],
                entry["extracted"],
                (entry["reason"] or "").replace("_", " "),
                entry["explanation"] or "",
                pretty(entry["metadata"]) if entry.get("metadata") else "",
                pretty(entry["overrides"]) if entry.get("overrides") else "",
                None if measure is None or value is None else measure.is_right(value),
            )
        )
    return scores


def _judgments(row: SampleRow, replicate: int, calls: list[ModelCall]) -> list[ShownJudgment]:
    judge_calls = {call.response["response_key"]: call for call in calls if call.stage == "judge" and call.response}
    # What was asked again is the same request.
    same = {(call.adapter_id, call.replicate): call for call in calls if call.stage == "judge"}
    only = {call.replicate: call for call in same.values()} if len({name for name, _ in same}) == 1 else {}
    judgments = []
    for judgment in row.judgments:
        if judgment.get("replicate", 0) != replicate:
            continue
        call = judge_calls.get(judgment.get("response_key")) or same.get((judgment.get("judge", ""), replicate))
        call = call or only.get(replicate)
        judgments.append(
            ShownJudgment(
                verdict_name(judgment),
                str(judgment.get("text") or judgment.get("answer") or ""),
                str(judgment.get("explanation") or ""),
                judgment["status"],
                pretty(judgment["parsed"]) if judgment.get("parsed") is not None else "",
                format_value(judgment.get("score")),
                tuple(request_messages(call.request)) if call is not None else (),
                pretty(call.request) if call is not None else "",
            )
        )
    return judgments


def shown_execution(task: TaskReader, row: SampleRow, replicate: int) -> ShownExecution | None:
    """How the program of an answer ended; None where none was run."""
    ran = next((entry for entry in row.executions if entry["replicate"] == replicate), None)
    if ran is None:
        return None
    measured = [
        ("tests", f"{ran['tests_passed']:,} of {ran['tests_passed'] + ran['tests_failed']:,} passed"),
        ("CPU", f"{ran['cpu_s']:.2f} s"),
        ("wall", f"{ran['wall_s']:.2f} s"),
        ("memory", f"{ran['peak_mb']:,.0f} MB"),
    ]
    facts = [
        # A program that was refused was not run.
        *(measured if ran["wall_s"] else []),
        ("mode", ran["mode"]),
        ("containment", ran["containment"]),
        *([("output", "cut")] if ran["is_cut"] else []),
        *([("limits", "more than half used")] if ran["is_near_limit"] else []),
    ]
    texts = (ran["text"] or ran["reason"], ran.get("code"), task.tests_of(row, replicate), ran["stdout"], ran["stderr"])
    return ShownExecution(ran["status"], *texts, facts)


def _facts(response: Mapping[str, Any], telemetry: Mapping[str, Any]) -> list[tuple[str, str]]:
    answered = ("completion_tokens", "tokens", "{:,}"), ("prompt_tokens", "prompt tokens", "{:,}")
    measured = ("latency_ms", "latency", "{:.2f} s"), ("ttft_ms", "first token after", "{:.2f} s")
    facts = [(name, form.format(response[key])) for key, name, form in answered if response.get(key) is not None]
    facts += [(name, form.format(telemetry[key] / 1000)) for key, name, form in measured if telemetry.get(key)]
    attempts = telemetry.get("attempts") or 0
    others = (
        ("finish", response.get("finish_reason")),
        ("attempts", attempts if attempts > 1 else None),
        ("from", _SOURCES.get(telemetry.get("source", ""))),
        ("model", telemetry.get("model_fingerprint")),
    )
    return facts + [(name, str(value)) for name, value in others if value]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else pretty(value)
