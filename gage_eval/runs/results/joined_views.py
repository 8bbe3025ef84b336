"""Views of `gage sql` that join others: answers with their questions, and the steps of episodes."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class JoinedView:
    """A view over other views.

    Attributes:
        query: selects them.
        views: whose rows it joins.
    """

    query: str
    views: tuple[str, ...]


_RUN = ("run_id", "task_id")


def _content(message: str) -> str:
    marker = "'[' || replace(x.type, '_url', '') || ']'"
    return f"array_to_string(list_transform({message}.content, lambda x: coalesce(x.text, {marker})), chr(10))"


# The user messages after the last one of the model's: several of a conversation that the model is still to answer.
_ROLES = "list_reverse(list_transform(s.messages, lambda m: m.role))"
_ANSWERED = f"len(s.messages) + 1 - nullif(list_position({_ROLES}, 'assistant'), 0)"
_ASKED = f"list_filter(s.messages, lambda m, i: m.role = 'user' AND i > coalesce({_ANSWERED}, 0))"
_QUESTION = f"array_to_string(list_transform({_ASKED}, lambda q: {_content('q')}), chr(10))"
_LAST_ASKED = "list_filter(s.messages, lambda m: m.role = 'user')[-1]"
_REFERENCES = (
    "list_transform(s.\"references\", lambda y: array_to_string(list_transform(y.answer, lambda z: z.text), ' '))"
)


def answers_query(keys: Sequence[str] = ()) -> str:
    """Selects each answer with its question, the reference and what it took, over the views of these.

    Args:
        keys: columns of all of them that tell tasks apart; none where they hold one task.
    """
    own = "".join(f"{key}, " for key in keys)
    return f"""
SELECT {own}row_index, r.sample_id, replicate,
       coalesce(nullif({_QUESTION}, ''), {_content(_LAST_ASKED)}, {_content("s.messages[-1]")}, '') AS question,
       r.answer, coalesce(s.label, array_to_string({_REFERENCES}, ' | ')) AS expected, r.status, r.finish_reason,
       r.error_kind, length(r.answer) AS length, r.prompt_tokens, r.completion_tokens, t.latency_ms, s.data_tag,
       r.response_key
FROM responses r LEFT JOIN telemetry t USING ({own}row_index, replicate) LEFT JOIN samples s USING ({own}row_index)
"""  # noqa: S608


# A step of an episode: a turn of the model or the simulated user, then each call of a tool with what it answered. Steps
# count from 1; the parent of a call is its turn, and that of a turn the step before it.
_STEPS_QUERY = """
WITH episodes AS (
    SELECT r.run_id, r.task_id, r.row_index, r.sample_id, r.replicate, r.status, r.turns, t.turn_telemetry
    FROM responses r LEFT JOIN telemetry t USING (run_id, task_id, row_index, replicate)
    WHERE r.turns IS NOT NULL
), turns AS (
    SELECT * EXCLUDE (turns, turn_telemetry), generate_subscripts(turns, 1) AS turn, unnest(turns) AS said,
           unnest(turn_telemetry) AS took
    FROM episodes
), numbered AS (
    SELECT *, coalesce(len(said.tool_outputs), 0) AS answered,
           (sum(1 + answered) OVER episode)::BIGINT - answered AS step,
           coalesce(said.actor, 'model') AS actor,
           turn = max(turn) FILTER (WHERE said.actor IS NULL)
                  OVER (PARTITION BY run_id, task_id, row_index, replicate) AS ends
    FROM turns
    WINDOW episode AS (PARTITION BY run_id, task_id, row_index, replicate ORDER BY turn)
), calls AS (
    SELECT *, generate_subscripts(said.tool_outputs, 1) AS call, unnest(said.tool_outputs) AS content,
           unnest(said.tool_statuses) AS called_status, unnest(took.tool_ms) AS ms,
           unnest(took.tool_sources) AS called_source
    FROM numbered
), named AS (
    SELECT *, json_extract_string(said.tool_calls, '$[' || (call - 1) || '].function.name') AS tool FROM calls
)
SELECT run_id, task_id, row_index, sample_id, replicate, step, nullif(step - 1, 0) AS parent, turn, 0 AS call,
       actor, CASE actor WHEN 'user' THEN 'user' ELSE 'assistant' END AS role,
       said.answer AS content, NULL AS tool, NULL AS arguments,
       CASE WHEN ends THEN status ELSE 'ok' END AS status,
       said.call_key AS call_key, said.prompt_tokens AS prompt_tokens, said.completion_tokens AS completion_tokens,
       took.latency_ms / 1000 AS seconds, took.cost AS cost, took.source AS source
FROM numbered
UNION ALL
SELECT run_id, task_id, row_index, sample_id, replicate, step + call, step, turn, call,
       CASE WHEN tool IN ('bash', 'python') THEN 'box' ELSE 'tool' END, 'tool', content, tool,
       json_extract_string(said.tool_calls, '$[' || (call - 1) || '].function.arguments'), called_status,
       NULL, NULL, NULL, ms / 1000, NULL, called_source
FROM named
"""

JOINED = {
    "answers": JoinedView(answers_query(_RUN), ("responses", "telemetry", "samples")),
    "steps": JoinedView(_STEPS_QUERY, ("responses", "telemetry")),
}
"""The views by name."""
