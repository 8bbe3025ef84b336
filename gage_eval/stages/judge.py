"""judge: responses → judgments, through a judge model's prompt and a parser of its verdict."""

import logging
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from gage_eval.canonical import canonical_text, decode
from gage_eval.errors import InputError
from gage_eval.metrics.guarded import RowFailed
from gage_eval.metrics.verdicts import Verdict, VerdictParser
from gage_eval.observability.results import StageResult
from gage_eval.planning.generate_spec import GenerateSpec, JudgeSpec
from gage_eval.planning.judge_overrides import COLUMN, judge_override
from gage_eval.planning.render import RoleSource
from gage_eval.stages.base import Env, StageRun, stage
from gage_eval.stages.generation import check_errors, generate
from gage_eval.statuses import RESPONSE_STATUSES, UNANSWERED, Reason
from gage_eval.store import Artifact
from gage_eval.tables import JUDGMENTS

_log = logging.getLogger(__name__)


def _check(env: Env, spec: JudgeSpec, result: StageResult) -> None:
    if spec.generate is not None:
        check_errors(env, spec.generate, result)


@stage("judge", check=_check)
def judge(run: StageRun, spec: JudgeSpec) -> None:
    """Ask the judge about every response, as the sample's ``eval_config`` may change it, and read its verdict.

    Args:
        run: ``prepared``, ``samples``, ``responses``, and ``support_responses`` where the prompt shows them; writes
            ``judgments``, and with a judge ``judge_responses`` and ``judge_response_telemetry``; each other judge that
            samples name has two such outputs of its own, ``judge_ID_responses`` and so on.
        spec: the judge; without one the judgments are empty.
    """
    writer = run.writer(JUDGMENTS)
    if spec.generate is None:
        writer.write(0, JUDGMENTS.empty())
        run.commit(JUDGMENTS)
        return
    verdicts = _ask(run, spec)
    samples = run.input("samples")
    failed: str | None = None
    for part in run.input("prepared").parts:
        refused = {}
        if samples.counts.get(COLUMN):
            refused = _refused(samples.read(part.index, columns=["row_index", COLUMN]), spec.generate)
        rows = [
            _judged(row, parser, refused)
            for answers, parser in verdicts
            for row in answers.read(part.index).to_pylist()
        ]
        failed = failed or next((row["explanation"] for row in rows if row["reason"] == "parser_failed"), None)
        if len(verdicts) > 1:
            rows.sort(key=lambda row: (row["row_index"], row["replicate"]))
        writer.write(part.index, pa.Table.from_pylist(rows, schema=JUDGMENTS.arrow))
    if failed is not None:
        _log.warning("%s; such rows have no verdict", failed.rstrip("."))
    statuses = {name: sum(answers.counts[name] for answers, _ in verdicts) for name in RESPONSE_STATUSES}
    run.commit(JUDGMENTS, complete=all(answers.complete for answers, _ in verdicts), counts=statuses)


def _ask(run: StageRun, spec: JudgeSpec) -> list[tuple[Artifact, VerdictParser]]:
    """The answers of the task's judge and of each that samples name, each with the parser of its verdicts."""
    verdicts: list[tuple[Artifact, VerdictParser]] = []
    answered, whole = 0, run.input("responses").rows
    for judge in spec.asked(run.input("samples")):
        source = RoleSource.of(judge, run.env.store, run.inputs)
        if judge.on_demand and not any(rows for _, rows in source.parts):
            # Whoever names it sets something else that cannot be used; no engine is started for that.
            continue

        def progress(done: int, total: int | None, before: int = answered, **figures: int | float) -> None:
            run.progress(before + done, whole, **figures)

        answers = generate(run, judge, source, progress=progress)
        verdicts.append((answers, spec.parser_of(judge)))
        answered += answers.rows
    return verdicts


def _refused(samples: pa.Table, spec: GenerateSpec) -> dict[int, str]:
    """Why the samples of some rows are not judged: their own settings cannot be used."""
    read: dict[str, str | None] = {}
    found = {}
    for row, text in zip(samples["row_index"].to_pylist(), samples[COLUMN].to_pylist(), strict=True):
        if text is None:
            continue
        if text not in read:
            override = judge_override(decode(text), spec.prompts, spec.judges)
            read[text] = None if override is None else override.refused
        if (reason := read[text]) is not None:
            found[row] = reason
    return found


def _judged(response: dict[str, Any], parser: VerdictParser, refused: Mapping[int, str]) -> dict[str, Any]:
    row = judgment(response, parser)
    if response["row_index"] in refused:
        row |= {"reason": "invalid_override", "explanation": refused[response["row_index"]]}
    return row


def judgment(response: Mapping[str, Any], parser: VerdictParser) -> dict[str, Any]:
    """A row of `tables.JUDGMENTS` from a judge's response row and the parser of its verdict.

    Status ``unparsed``: the judge answered and the parser found no verdict, or raised an error.
    """
    verdict, failure = None, None
    if response["status"] not in UNANSWERED:
        try:
            verdict = parser.read(response["answer"] or "")
        except InputError:
            raise
        except Exception as error:  # noqa: BLE001  # an answer that breaks a plug-in costs its row, not the run
            said_by_it = str(error) if isinstance(error, RowFailed) else f"{type(error).__name__}: {error}"
            failure = f"verdict parser {parser.plugin.name} failed: {said_by_it}"
    status, reason, explanation = _standing(response, found=verdict is not None, failure=failure)
    said = verdict or Verdict()
    return {
        "row_index": response["row_index"],
        "sample_id": response["sample_id"],
        "replicate": response["replicate"],
        "status": status,
        "answer": said.answer,
        "score": said.score,
        "text": response["answer"],
        "parsed": canonical_text(dict(said.fields)) if said.fields else None,
        "reason": reason,
        "explanation": explanation,
        "response_key": response["response_key"],
    }


def _standing(
    response: Mapping[str, Any], *, found: bool, failure: str | None
) -> tuple[str, Reason | None, str | None]:
    """A judgment's status, reason and explanation, from the judge's response and whether a verdict was found in it."""
    status = response["status"]
    if status in UNANSWERED:
        kind = f" ({response['error_kind']})" if response["error_kind"] else ""
        return status, "judge_failed" if status == "error" else "not_asked", f"the judge's response is {status}{kind}"
    if found:
        return "ok", None, None
    if failure is not None:
        return "unparsed", "parser_failed", failure
    if status == "refused":
        return "unparsed", "judge_refused", "the judge refused to answer"
    return "unparsed", "no_verdict", "the judge's answer holds no verdict"
