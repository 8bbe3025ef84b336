"""One row of judgments: from a judge's response to its verdict, or why there is none."""

from collections.abc import Mapping
from typing import Any

from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import InputError
from gage_eval.base.statuses import UNANSWERED, Reason
from gage_eval.pipeline.pairs import NO_PARTNER
from gage_eval.scoring.metrics.guarded import RowFailed
from gage_eval.scoring.metrics.verdicts import Verdict, VerdictReader

OF_ASK = ("judge", "slot", "draw", "binding")
"""The columns of asks that judgments have too."""


def judgment(
    response: Mapping[str, Any], parser: VerdictReader, ask: Mapping[str, Any], *, by: str | None = None
) -> dict[str, Any]:
    """A row of `tables.JUDGMENTS` from a judge's response row, its verdict parser, and the ask (`tables.ASKS`).

    ``by`` is the judge, which decides the answer if there is a verdict.

    Status ``unparsed``: the judge answered, but the parser found no verdict or raised an error.
    """
    verdict, failure = None, None
    if response["status"] not in UNANSWERED:
        try:
            verdict = parser.read_row(response)
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001  # an answer that breaks a plug-in costs only its row
            said_by_it = str(error) if isinstance(error, RowFailed) else f"{type(error).__name__}: {error}"
            failure = f"verdict parser {parser.name} failed: {said_by_it}"
    status, reason, explanation = _status(response, verdict, failure)
    parsed = verdict or Verdict()
    return {
        "row_index": response["row_index"],
        "sample_id": response["sample_id"],
        "replicate": response["replicate"],
        **{name: ask[name] for name in OF_ASK},
        "status": status,
        "answer": parsed.answer,
        "score": parsed.score,
        "text": response["answer"],
        "parsed": canonical_text(dict(parsed.fields)) if parsed.fields else None,
        "reason": reason,
        "explanation": explanation,
        "response_key": response["response_key"],
        "decided_by": by if status == "ok" else None,
    }


def _status(
    response: Mapping[str, Any], verdict: Verdict | None, failure: str | None
) -> tuple[str, Reason | None, str | None]:
    """A judgment's status, reason and explanation, from the judge's response and its verdict."""
    status = response["status"]
    if status in UNANSWERED:
        kind = f" ({response['error_kind']})" if response["error_kind"] else ""
        if status == "error":
            return status, "judge_failed", f"the request to the judge failed{kind}"
        if response["error_kind"] == NO_PARTNER:
            return status, "not_asked", "the judge was not asked: there is no other answer to compare with"
        return status, "not_asked", f"the judge was not asked{kind}"
    if verdict is not None and verdict.unread is None:
        return "ok", None, None
    if failure is not None:
        return "unparsed", "parser_failed", failure
    if status == "refused":
        return "unparsed", "judge_refused", "the judge refused to answer"
    why = "the judge's answer has no verdict" if verdict is None else verdict.unread
    return "unparsed", "no_verdict", why
