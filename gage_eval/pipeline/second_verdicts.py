"""Ask the second judge of a task, and put its verdicts in the place of the first ones."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gage_eval.base.canonical import canonical_text, decode
from gage_eval.base.statuses import RULE
from gage_eval.base.tables import ASKS
from gage_eval.pipeline.action import StageRun
from gage_eval.pipeline.asks import AnswerKey, Asks, ChangedAsks, StoredAsks, about, write_asks
from gage_eval.pipeline.generation import generate
from gage_eval.pipeline.judge_retries import Retries, ask_again
from gage_eval.pipeline.judge_spec import JudgeSpec
from gage_eval.pipeline.judgments import judgment
from gage_eval.pipeline.outputs import SECOND_ASKS
from gage_eval.store import Artifact


@dataclass(frozen=True)
class SecondVerdicts:
    """The answers of a second judge."""

    spec: JudgeSpec
    asks: Asks
    responses: Artifact
    retries: Retries

    def replace_in(self, rows: list[dict[str, Any]], part: int) -> None:
        """Put the second verdicts in the place of a part's first ones, which they keep as ``first``."""
        second, first = _by_answer(self._verdicts(part)), _by_answer(rows)
        for answer, by_order in second.items():
            said = [
                {"judge": row["judge"] or row["decided_by"], "answer": row["answer"], "score": row["score"]}
                for row in first[answer]
            ]
            for row in first[answer]:
                verdict = by_order[row["slot"] % len(by_order)]
                fields = canonical_text({**decode(verdict["parsed"] or "{}"), "first": said})
                row.update({**verdict, "slot": row["slot"], "parsed": fields})

    def _verdicts(self, part: int) -> list[dict[str, Any]]:
        parser, name = self.spec.parser_of(self.asks.spec), self.asks.spec.adapter_id
        responses, asks = self.responses.read(part).to_pylist(), self.asks.rows(part, self.responses)
        rows = [judgment(row, parser, ask, by=name) for row, ask in zip(responses, asks, strict=True)]
        self.retries.replace_in(rows)
        return rows


def ask_second(run: StageRun, spec: JudgeSpec, first: Callable[[int], list[dict[str, Any]]]) -> SecondVerdicts | None:
    """Ask the second judge where the first verdicts leave an answer unsure; None where it is not asked.

    Args:
        run: gets the outputs `SECOND_ASKS`, and responses and telemetry of the second judge.
        spec: the judges.
        first: returns the first verdicts on a part's answers (`tables.JUDGMENTS`).
    """
    second, judge = spec.second, spec.second_spec
    if second is None or judge is None:
        return None
    chosen = {
        part.index: frozenset(
            answer
            for answer, rows in _by_answer(first(part.index)).items()
            if rows[0]["decided_by"] != RULE and second.is_asked(rows, both_orders=spec.both_orders)
        )
        for part in run.input("prepared").parts
    }
    table = ChangedAsks(
        spec.second_asks(run.env.store, run.inputs), lambda part, asks: asks.filter(about(asks, chosen[part]))
    )
    write_asks(table, run.writer(ASKS, SECOND_ASKS))
    stored = run.commit(ASKS, name=SECOND_ASKS)
    if not stored.rows:
        return None
    asks = spec.asks_second(StoredAsks(stored, table))
    responses = generate(run, asks)
    return SecondVerdicts(spec, asks, responses, ask_again(run, spec, asks, responses))


def _by_answer(rows: Iterable[dict[str, Any]]) -> Mapping[AnswerKey, list[dict[str, Any]]]:
    by_answer: dict[AnswerKey, list[dict[str, Any]]] = {}
    for row in rows:
        by_answer.setdefault((row["row_index"], row["replicate"]), []).append(row)
    return by_answer
