"""Outcomes as rows of the responses and telemetry tables, and back."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.errors import StoreError
from gage_eval.base.statuses import UNANSWERED
from gage_eval.base.tables import RESPONSE_TELEMETRY, RESPONSES, TURN, TableSchema
from gage_eval.engine.episodes import Outcome
from gage_eval.models.client.episode_limits import Price
from gage_eval.models.client.types import Request, Response
from gage_eval.store import Artifact, Store
from gage_eval.store.responses import KEY, pack_keys

_log = logging.getLogger(__name__)

_TURN_TIMES = ("latency_ms", "tool_ms", "tool_sources")
_TURN_FIELDS = [field.name for field in TURN]


def chunk_tables(
    requests: Sequence[Request],
    keys: Sequence[str],
    outcomes: Sequence[Outcome],
    price: Price,
    user_price: Price | None = None,
) -> dict[str, pa.Table]:
    """`responses` and `response_telemetry` rows of some outcomes, in order. The telemetry holds the errors.

    Args:
        requests, keys, outcomes: of the rows.
        price: of the model's tokens.
        user_price: of those of a simulated user.
    """
    prices = {None: price, "user": user_price or Price()}
    answers = [outcome.response for outcome in outcomes]
    shared = {
        "row_index": [request.row_index for request in requests],
        "sample_id": [request.sample_id for request in requests],
        "replicate": [request.replicate for request in requests],
    }
    responses = {
        **shared,
        "status": [r.status for r in answers],
        "answer": [r.answer for r in answers],
        "reasoning": [r.reasoning for r in answers],
        "tool_calls": [r.tool_calls for r in answers],
        "finish_reason": [r.finish_reason for r in answers],
        "turns": [
            [{name: getattr(turn, name) for name in _TURN_FIELDS} for turn in outcome.turns] or None
            for outcome in outcomes
        ],
        "logprobs": [r.logprobs for r in answers],
        "prompt_tokens": [r.prompt_tokens for r in answers],
        "completion_tokens": [r.completion_tokens for r in answers],
        "error_kind": [r.error_kind for r in answers],
        "response_key": keys,
        "artifacts": [r.artifacts for r in answers],
    }
    telemetry = {
        **shared,
        "latency_ms": [r.latency_ms for r in answers],
        "ttft_ms": [r.ttft_ms for r in answers],
        "attempts": [r.attempts for r in answers],
        "errors": [r.errors or None for r in answers],
        "model_fingerprint": [r.model_fingerprint for r in answers],
        "source": [outcome.source for outcome in outcomes],
        "turn_telemetry": [
            [_turn_telemetry(outcome, turn, prices[turn.actor]) for turn in outcome.turns] or None
            for outcome in outcomes
        ],
        "prompt_digest": [r.prompt_digest for r in answers],
        "tokens": [r.tokens for r in answers],
        "diverged": [r.diverged for r in answers],
    }
    return {
        "responses": _table(responses, RESPONSES),
        "response_telemetry": _table(telemetry, RESPONSE_TELEMETRY),
    }


def _turn_telemetry(outcome: Outcome, turn: Response, price: Price) -> dict[str, Any]:
    cost = price.of(turn.prompt_tokens or 0, turn.completion_tokens or 0)
    return {
        "latency_ms": turn.latency_ms,
        "cost": cost if price != Price() else None,
        # Answers of other runs and rows came whole.
        "source": turn.source or "log" if outcome.source == "sent" else outcome.source,
        "tool_ms": turn.tool_ms,
        "tool_sources": turn.tool_sources,
    }


def outcomes_of(store: Store, model_identity: str, keys: Sequence[str]) -> dict[str, Outcome]:
    """Outcomes of other runs of the same model, by response key."""
    if not keys:
        return {}
    by_part: defaultdict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    for key, (artifact_id, part, row) in store.responses.find(model_identity, keys).items():
        by_part[artifact_id, part].append((row, key))
    outcomes: dict[str, Outcome] = {}
    for (artifact_id, part), positions in by_part.items():
        try:
            table = store.artifact(artifact_id).read(part)
        except StoreError as error:
            # Unreadable answers are asked for again. If the store itself is broken, writing fails with its own error.
            _log.warning("stored answers are not reused: %s", error)
            continue
        rows = pc.take(table, pa.array([row for row, _ in positions])).to_pylist()
        for (_, key), row in zip(positions, rows, strict=True):
            outcomes[key] = _outcome(row, "reused")
    return outcomes


def index_answers(store: Store, model_identity: str, responses: Artifact) -> None:
    """Add an artifact's answers to the response index, where other runs find them."""
    # Packed part by part: a million keys take 32 MB. As Python strings and tuples they would take ten times as much.
    keys, positions, count = np.empty(responses.rows, KEY), np.empty((responses.rows, 2), np.int32), 0
    for part in responses.parts:
        table = responses.read(part.index, columns=["response_key", "status"])
        rows = np.flatnonzero(~pc.is_in(table["status"], pa.array(sorted(UNANSWERED))).to_numpy())
        here = slice(count, count + len(rows))
        keys[here] = pack_keys(table["response_key"].take(rows).to_pylist())
        positions[here, 0], positions[here, 1] = part.index, rows
        count += len(rows)
    store.responses.add(model_identity, responses.id, keys[:count], positions[:count])


def as_telemetry(table: pa.Table) -> pa.Table:
    """A table of telemetry with the columns of today: what an earlier version did not store is null."""
    have = table.column_names
    columns = [
        table[field.name] if field.name in have else pa.nulls(table.num_rows, field.type)
        for field in RESPONSE_TELEMETRY.arrow
    ]
    return pa.Table.from_arrays(columns, schema=RESPONSE_TELEMETRY.arrow)


def outcomes_in(tables: dict[str, pa.Table]) -> dict[str, Outcome]:
    """Outcomes by response key of a finished chunk's tables (`chunk_tables`)."""
    outcomes: dict[str, Outcome] = {}
    telemetry = tables["response_telemetry"].to_pylist()
    for row, row_telemetry in zip(tables["responses"].to_pylist(), telemetry, strict=True):
        outcome = _outcome(row, "log" if row_telemetry["source"] == "sent" else row_telemetry["source"])
        response = outcome.response
        response.latency_ms, response.ttft_ms = row_telemetry["latency_ms"], row_telemetry["ttft_ms"]
        response.attempts, response.errors = row_telemetry["attempts"], row_telemetry["errors"] or []
        response.model_fingerprint = row_telemetry["model_fingerprint"]
        # A chunk or an artifact of an earlier version has no such columns.
        response.prompt_digest, response.tokens = row_telemetry.get("prompt_digest"), row_telemetry.get("tokens")
        response.diverged = row_telemetry.get("diverged")
        for turn, timed in zip(outcome.turns, row_telemetry.get("turn_telemetry") or [], strict=False):
            turn.latency_ms, turn.tool_ms, turn.tool_sources = (timed[name] for name in _TURN_TIMES)
        outcomes[row["response_key"]] = outcome
    return outcomes


def _outcome(row: dict[str, Any], source: str) -> Outcome:
    response = Response(
        status=row["status"],
        answer=row["answer"],
        reasoning=row["reasoning"],
        tool_calls=row["tool_calls"],
        finish_reason=row["finish_reason"],
        logprobs=row["logprobs"],
        prompt_tokens=row["prompt_tokens"],
        completion_tokens=row["completion_tokens"],
        error_kind=row["error_kind"],
        artifacts=row["artifacts"],
    )
    turns = [Response(row["status"], **turn) for turn in row["turns"] or []]
    return Outcome(response, turns, source)


def _table(columns: dict[str, Any], schema: TableSchema) -> pa.Table:
    arrays = [pa.array(columns[field.name], field.type) for field in schema.arrow]
    return pa.Table.from_arrays(arrays, schema=schema.arrow)
