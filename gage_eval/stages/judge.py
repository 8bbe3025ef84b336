"""judge: responses → judgments, through a judge model's prompt and a parser of its verdict."""

import re
from typing import Any

import pyarrow as pa

from gage_eval.stages.base import Env, StageResult, StageRun, stage
from gage_eval.stages.generation import check_errors, generate
from gage_eval.stages.render import RoleSource
from gage_eval.stages.specs import JudgeSpec
from gage_eval.tables import JUDGMENTS

# Matched against single stripped lines: over a whole text their time would grow with the square of its length.
_ANSWER = re.compile(r"(?:CORRECT|ANSWER|VERDICT)\s*:\s*(.+)", re.IGNORECASE)
_SCORE = re.compile(r"(?:SCORE|RATING)\s*:\s*(-?\d{1,9}(?:\.\d{1,9})?)", re.IGNORECASE)


def _check(env: Env, spec: JudgeSpec, result: StageResult) -> None:
    if spec.generate is not None:
        check_errors(env, spec.generate, result)


@stage("judge", version=1, check=_check)
def judge(run: StageRun, spec: JudgeSpec) -> None:
    """Ask the judge about every response and read its verdict.

    Args:
        run: ``prepared``, ``samples``, ``responses``, and ``support_responses`` where the prompt shows them; writes
            ``judgments``, and with a judge ``judge_responses`` and ``judge_response_telemetry``.
        spec: the judge; without one the judgments are empty.
    """
    writer = run.writer(JUDGMENTS)
    if spec.generate is None:
        writer.write(0, JUDGMENTS.empty())
        run.commit(JUDGMENTS)
        return
    source = RoleSource(
        spec.generate,
        run.input("prepared"),
        samples=run.input("samples"),
        responses=run.input("responses"),
        support=run.input("support_responses") if run.has_input("support_responses") else None,
    )
    verdicts = generate(run, spec.generate, source, output="judge_responses")
    for part in verdicts.parts:
        rows = [judgment(row) for row in verdicts.read(part.index).to_pylist()]
        writer.write(part.index, pa.Table.from_pylist(rows, schema=JUDGMENTS.arrow))
    run.commit(JUDGMENTS, complete=verdicts.complete)


def judgment(response: dict[str, Any]) -> dict[str, Any]:
    """A row of `tables.JUDGMENTS` from a judge's response row.

    The verdict's last ``CORRECT:``, ``ANSWER:`` or ``VERDICT:`` line is the answer, its last ``SCORE:`` or ``RATING:``
    line the score. Status ``unparsed``: the judge answered and neither is there.
    """
    lines = [line.strip() for line in (response["answer"] or "").splitlines()]
    answers = [found[1] for line in lines if (found := _ANSWER.fullmatch(line))]
    scores = [found[1] for line in lines if (found := _SCORE.fullmatch(line))]
    status = response["status"]
    if status in ("ok", "truncated", "refused"):
        status = "ok" if answers or scores else "unparsed"
    return {
        "row_index": response["row_index"],
        "sample_id": response["sample_id"],
        "replicate": response["replicate"],
        "status": status,
        "answer": answers[-1] if answers else None,
        "score": float(scores[-1]) if scores else None,
        "text": response["answer"],
        "parsed": None,
        "response_key": response["response_key"],
    }
