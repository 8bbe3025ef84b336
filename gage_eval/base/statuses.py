"""Statuses of responses, judgments and scores, and the typed reasons behind them.

Decisions read these values only. The sentences (``explanation``) are for people: reports, the console and
exports show them.
"""

from typing import Literal, TypeAlias, get_args

ResponseStatus: TypeAlias = Literal["ok", "truncated", "looped", "limit", "refused", "error", "skipped"]
"""``error`` and ``skipped`` have no answer. The others have one, which is scored like any other. ``looped``: the answer
was cut while it repeated itself, or a tool was called again and again (error kind ``same_calls``). ``limit``: the model
still called tools at a limit of its episode, which the error kind names: rounds, tokens, cost or time."""

JudgmentStatus: TypeAlias = Literal["ok", "unparsed", "error", "skipped"]
"""``unparsed``: the judge answered without a verdict. ``error`` and ``skipped`` are those of its response."""

ScoreStatus: TypeAlias = Literal["scored", "unparsed", "unscored"]
"""``unparsed`` is the model's fault and counts, mostly as 0. ``unscored`` is not the model's fault and is not in n."""

Reason: TypeAlias = Literal[
    "unanswered",
    "missing_field",
    "not_measured",
    "no_match",
    "unparsed_answer",
    "unusable_input",
    "metric_failed",
    "invalid_override",
    "not_asked",
    "judge_failed",
    "judge_refused",
    "no_verdict",
    "parser_failed",
    "not_run",
    "box_error",
]
"""Why a row has no score or no verdict, or has the score of an unparsed answer. None elsewhere.

- ``unanswered``: the model gave no answer (`UNANSWERED`).
- ``missing_field``: the data has no value where the metric reads one.
- ``not_measured``: a latency or another measurement was not taken.
- ``no_match``: a filter found nothing in the answer.
- ``unparsed_answer``: the metric or the ``parse_schema`` cannot read the answer.
- ``unusable_input``: the metric cannot score with the values it got, a reference that is not a number for example.
- ``metric_failed``: the metric raised an error, or gave something that is not a finite number.
- ``invalid_override``: the sample's own settings for the metric or the judge cannot be used.
- ``not_asked``: the judge was not asked: there was nothing to judge.
- ``judge_failed``: the request to the judge failed.
- ``judge_refused``: the judge refused to answer.
- ``no_verdict``: the judge's answer holds no verdict, or not the value that the metric reads.
- ``parser_failed``: the verdict parser raised an error.
- ``not_run``: the answer's program was not run.
- ``box_error``: the box failed, or the sample has not what it needs to run the program.
"""

RESPONSE_STATUSES: tuple[str, ...] = get_args(ResponseStatus)
NOT_OK: tuple[str, ...] = RESPONSE_STATUSES[1:]
SCORE_STATUSES: tuple[str, ...] = get_args(ScoreStatus)
REASONS: tuple[str, ...] = get_args(Reason)

DIVERGES_AT = "differs from the journal at call "
"""How the sentence begins that says where an attempt of an episode diverged. It is kept with the errors of the row."""

UNANSWERED: frozenset[str] = frozenset({"error", "skipped"})
"""Statuses of responses without an answer."""

ANSWERED: frozenset[str] = frozenset(RESPONSE_STATUSES) - UNANSWERED

FINISH_STATUSES: dict[str, ResponseStatus] = {
    "length": "truncated",
    "repetition": "looped",
    "content_filter": "refused",
}
"""The status of an answer, by its finish reason; ``ok`` for all others. ``repetition`` is vLLM's."""

REPLAYED = "replay"
"""The finish reason of an answer that was recorded elsewhere: no request was sent for it."""

NO_RECORD = "no_record"
"""The error kind of a sample without a recorded answer."""

USUAL_REASON: dict[str, Reason] = {"unparsed": "unparsed_answer", "unscored": "unusable_input"}
"""The reason of a score, by its status, where the metric gives none."""

EXECUTION_STATUSES: tuple[str, ...] = (
    *("passed", "failed", "timed_out", "out_of_memory", "crashed", "refused", "tampered", "box_error"),
)
"""Statuses of programs that were run (`gage_eval.box.types.Status`), in the order in which they are counted."""

RULE = "rule"
"""What decided an answer about which no judge was asked (`tables.JUDGMENTS`); else it is the judge's adapter."""

NO_VERDICT: frozenset[Reason] = frozenset({"no_verdict", "judge_refused"})
"""Reasons of judgments that another answer of the judge may not have."""

EXCUSED: frozenset[Reason] = frozenset({"unanswered", "missing_field", "not_measured"})
"""Reasons of unscored rows that other limits watch; the rest counts against ``max_unscored_share``."""
