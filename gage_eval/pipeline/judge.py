"""judge: responses → judgments, with a judge model's prompt and a parser of its verdicts."""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gage_eval.base.stages import StageResult
from gage_eval.base.statuses import NO_VERDICT, RESPONSE_STATUSES, RULE
from gage_eval.base.tables import ASKS, JUDGMENTS
from gage_eval.pipeline.action import StageContext, StageRun, stage
from gage_eval.pipeline.asks import Asks, AskTable, StoredAsks, write_asks
from gage_eval.pipeline.generation import check_errors, generate_all, tokens_of
from gage_eval.pipeline.judge_forms import settle
from gage_eval.pipeline.judge_retries import Retries, ask_again
from gage_eval.pipeline.judge_rule import RuleDecisions
from gage_eval.pipeline.judge_spec import JudgeSpec
from gage_eval.pipeline.judgments import OF_ASK, judgment
from gage_eval.pipeline.second_verdicts import ask_second
from gage_eval.store import Artifact

_log = logging.getLogger(__name__)


def _check(env: StageContext, spec: JudgeSpec, result: StageResult) -> None:
    if spec.generate is not None:
        check_errors(env, spec.generate, result)


@stage("judge", check=_check, settle=settle)
def judge(run: StageRun, spec: JudgeSpec) -> None:
    """Ask the judge about every response, and parse its verdict. A sample's ``eval_config`` may change the judge.

    A rule decides before the judges, and a second judge is asked where the first ones are not sure.

    Args:
        run: reads ``prepared``, ``samples``, ``responses``, and ``support_responses`` if the prompt shows them; writes
            ``judgments``, and with a judge ``judge_responses`` and ``judge_response_telemetry``. Where asks are
            explicit, it also writes ``asks``, and each other judge has two more outputs, ``judge_ID_responses`` and
            ``judge_ID_response_telemetry``. A second judge has ``second_asks`` and, where it was asked, responses and
            telemetry of its own.
        spec: the judge. Without a judge, the judgments are empty.
    """
    writer = run.writer(JUDGMENTS)
    if spec.generate is None:
        writer.write(0, JUDGMENTS.empty())
        run.commit(JUDGMENTS)
        return
    prepared = run.input("prepared")
    table = spec.explicit_asks(run.env.store, run.inputs)
    if table is not None:
        write_asks(table, run.writer(ASKS))
        table = StoredAsks(run.commit(ASKS), table)
    answered = _ask(run, spec.asks(table))
    retries = [ask_again(run, spec, asks, responses) for asks, responses in answered]
    decisions = spec.decisions(run.env.store, run.inputs)
    first = _FirstVerdicts(spec, prepared, table, answered, retries, decisions)
    second = ask_second(run, spec, first.of)
    if second is not None:
        answered, retries = [*answered, (second.asks, second.responses)], [*retries, second.retries]
    statuses = Counter({name: sum(responses.counts[name] for _, responses in answered) for name in RESPONSE_STATUSES})
    for responses in (*(own for _, own in answered), *(own for retry in retries for own in retry.responses)):
        statuses.update(tokens_of(responses))
    failed: str | None = None
    for part in prepared.parts:
        rows = first.of(part.index)
        statuses["skipped"] += sum(row["reason"] == "invalid_override" for row in rows)
        if second is not None:
            second.replace_in(rows, part.index)
        statuses["asked_again"] += sum(row["status"] == "ok" and row["draw"] >= spec.draws for row in rows)
        failed = failed or next((row["explanation"] for row in rows if row["reason"] == "parser_failed"), None)
        writer.write(part.index, pa.Table.from_pylist(rows, schema=JUDGMENTS.arrow))
    if failed is not None:
        _log.warning("%s; such rows have no verdict", failed.rstrip("."))
    complete = all(responses.complete for _, responses in answered) and all(retry.complete for retry in retries)
    run.commit(JUDGMENTS, complete=complete, counts=statuses)


def _ask(run: StageRun, jobs: list[Asks]) -> list[tuple[Asks, Artifact]]:
    """The asks and responses of each judge.

    All endpoints are asked at once, as far as `max_inflight` has a request for each. Engines take turns on their GPUs.
    """
    by_engine: dict[str | None, list[Asks]] = {}
    for asks in jobs:
        by_engine.setdefault(asks.spec.engine_key, []).append(asks)
    prepared, most = run.input("prepared"), run.env.max_inflight or len(jobs)
    whole = sum(count for asks in jobs for _, count in asks.counts(prepared))
    responses: dict[str, Artifact] = {}
    for group in (same[at : at + most] for same in by_engine.values() for at in range(0, len(same), most)):
        before = sum(artifact.rows for artifact in responses.values())
        answered = generate_all(run, group, before=before, whole=whole)
        responses.update((asks.output, artifact) for asks, artifact in zip(group, answered, strict=True))
    return [(asks, responses[asks.output]) for asks in jobs]


@dataclass(frozen=True)
class _FirstVerdicts:
    """The verdicts of a task's judges and its rule, before a second judge. Made again whenever a part is read.

    Attributes:
        table: the explicit asks; None for the implicit form.
        answered: the asks and responses of each judge.
        retries: of the same judges.
        decisions: the answers that the rule decides.
    """

    spec: JudgeSpec
    prepared: Artifact
    table: AskTable | None
    answered: list[tuple[Asks, Artifact]]
    retries: list[Retries]
    decisions: RuleDecisions | None

    def of(self, part: int) -> list[dict[str, Any]]:
        """The judgments of a part, in the order of the asks."""
        if self.table is None:
            ((asks, responses),) = self.answered
            assert asks.binding is not None
            parser, name = self.spec.parser_of(asks.spec), asks.spec.adapter_id
            ask = {"judge": None, "slot": 0, "draw": 0, "binding": asks.binding.digest}
            rows = [judgment(row, parser, ask, by=name) for row in responses.read(part).to_pylist()]
        else:
            rows = self._of_table(self.table, part)
        for retry in self.retries:
            retry.replace_in(rows)
        return rows

    def _of_table(self, table: AskTable, part: int) -> list[dict[str, Any]]:
        """The judgments of explicit asks. The responses of a judge have the same order."""
        names = self.prepared.read(part, columns=["row_index", "sample_id"]).to_pydict()
        ids = dict(zip(names["row_index"], names["sample_id"], strict=True))
        decided = {} if self.decisions is None else self.decisions.of(part)
        by_judge = {
            asks.spec.adapter_id: (iter(responses.read(part).to_pylist()), self.spec.parser_of(asks.spec))
            for asks, responses in self.answered
        }
        judgments = []
        for ask in table.read(part).to_pylist():
            score = decided.get((ask["row_index"], ask["replicate"]))
            if score is not None:
                judgments.append({**_unasked(ask, ids), "status": "ok", "score": score, "decided_by": RULE})
            elif ask["judge"] is None:
                why = {"status": "skipped", "reason": "invalid_override", "explanation": ask["why"]}
                judgments.append({**_unasked(ask, ids), **why})
            else:
                rows, parser = by_judge[ask["judge"]]
                judgments.append(judgment(next(rows), parser, ask, by=ask["judge"]))
        return judgments


def without_verdict(judgments: Artifact) -> frozenset[str]:
    """Keys of the responses in which no verdict was found, though another answer of the judge may have one."""
    table = pa.concat_tables(judgments.tables(columns=["reason", "response_key"]))
    return frozenset(
        key
        for reason, key in zip(table["reason"].to_pylist(), table["response_key"].to_pylist(), strict=True)
        if reason in NO_VERDICT and key is not None
    )


def _unasked(ask: Mapping[str, Any], ids: Mapping[int, str]) -> dict[str, Any]:
    """The judgment of an ask that is not asked, without its status."""
    return {
        **dict.fromkeys(JUDGMENTS.arrow.names),
        "row_index": ask["row_index"],
        "sample_id": ids[ask["row_index"]],
        **{name: ask[name] for name in ("replicate", *OF_ASK)},
    }
