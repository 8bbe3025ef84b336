"""judge: responses → judgments, through a judge model's prompt and a parser of its verdict."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from gage_eval.canonical import canonical_text, decode
from gage_eval.metrics.filters.verdict import pairwise_verdict
from gage_eval.stages.base import Env, StageResult, StageRun, stage
from gage_eval.stages.generation import check_errors, generate
from gage_eval.stages.judge_overrides import COLUMN, judge_override
from gage_eval.stages.render import RoleSource
from gage_eval.stages.specs import JudgeSpec
from gage_eval.tables import JUDGMENTS

_RATING = re.compile(r"\[\[(-?\d{1,9}(?:\.\d{1,9})?)\]\]")
# Matched against single stripped lines: over a whole text their time would grow with the square of its length.
_ANSWER = re.compile(r"(?:CORRECT|ANSWER|VERDICT)\s*:\s*(.+)", re.IGNORECASE)
_SCORE = re.compile(r"(?:SCORE|RATING)\s*:\s*(-?\d{1,9}(?:\.\d{1,9})?)", re.IGNORECASE)


def _check(env: Env, spec: JudgeSpec, result: StageResult) -> None:
    if spec.generate is not None:
        check_errors(env, spec.generate, result)


@stage("judge", version=1, check=_check)
def judge(run: StageRun, spec: JudgeSpec) -> None:
    """Ask the judge about every response, as the sample's ``eval_config`` may change it, and read its verdict.

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
    source = RoleSource.of(spec.generate, run.env.store, run.inputs)
    verdicts = generate(run, spec.generate, source, output="judge_responses")
    for part in verdicts.parts:
        samples = run.input("samples").read(part.index, columns=["row_index", COLUMN])
        refused = _refused(samples, spec.generate.prompts)
        rows = [_judged(row, refused) for row in verdicts.read(part.index).to_pylist()]
        writer.write(part.index, pa.Table.from_pylist(rows, schema=JUDGMENTS.arrow))
    run.commit(JUDGMENTS, complete=verdicts.complete)


def _refused(samples: pa.Table, prompts: Collection[str]) -> dict[int, str]:
    """Why the samples of some rows are not judged: their own settings cannot be used."""
    texts = samples.column(COLUMN).to_pylist()
    found = {}
    for row, text in zip(samples.column("row_index").to_pylist(), texts, strict=True):
        override = judge_override(decode(text), prompts) if text is not None else None
        if override is not None and override.refused is not None:
            found[row] = override.refused
    return found


def _judged(response: dict[str, Any], refused: Mapping[int, str]) -> dict[str, Any]:
    row = judgment(response)
    if response["row_index"] in refused:
        row["parsed"] = canonical_text({"refused": refused[response["row_index"]]})
    return row


def judgment(response: dict[str, Any]) -> dict[str, Any]:
    """A row of `tables.JUDGMENTS` from a judge's response row.

    The verdict's last ``CORRECT:``, ``ANSWER:`` or ``VERDICT:`` line is the answer, its last ``SCORE:`` or ``RATING:``
    line the score. Without such lines they are read as by MT-bench: ``[[A]]``, ``[[B]]`` or ``[[C]]`` (a tie) the
    answer, the first ``[[n]]`` the score. Status ``unparsed``: the judge answered and neither is there.
    """
    text = response["answer"] or ""
    lines = [line.strip() for line in text.splitlines()]
    answers = [found[1] for line in lines if (found := _ANSWER.fullmatch(line))]
    scores = [found[1] for line in lines if (found := _SCORE.fullmatch(line))]
    if not answers and (verdict := pairwise_verdict(text)) is not None:
        answers = [verdict]
    if not scores and (rating := _RATING.search(text)) is not None:
        scores = [rating[1]]
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
