"""Arrow schema of every table that stages write, each with its version.

The same schema for every dataset: messages, options and references are typed nested columns; open objects
(metadata, tools, parameters, unknown keys) are canonical JSON text. A change of a schema raises its version,
which is part of every artifact id.
"""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class TableSchema:
    """Name, version and columns of a table."""

    name: str
    version: int
    arrow: pa.Schema

    def empty(self) -> pa.Table:
        """A table of this schema without rows."""
        return self.arrow.empty_table()


def _columns(kind: pa.DataType, *names: str) -> list[tuple[str, pa.DataType]]:
    """Several columns of one type."""
    return [(name, kind) for name in names]


# The columns that tell the rows of one answer.
_OF_ANSWER = [("row_index", pa.int64()), ("sample_id", pa.string()), ("replicate", pa.int32())]
# One part of a message's content. `url` is that of image_url, audio_url, video_url or file_url;
# `extra` holds a segment's other keys (image detail, …) as canonical JSON.
SEGMENT = pa.struct([("type", pa.string()), ("text", pa.string()), ("url", pa.string()), ("extra", pa.string())])
MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.list_(SEGMENT)),
        *_columns(pa.string(), "tool_calls", "tool_call_id", "name", "extra"),
    ]
)
MESSAGES = pa.list_(MESSAGE)
OPTION = pa.struct([("id", pa.string()), ("content", pa.string())])
REFERENCE = pa.struct([("answer", pa.list_(SEGMENT)), ("meta", pa.string())])
FEW_SHOT = pa.struct(
    [
        ("messages", MESSAGES),
        ("options", pa.list_(OPTION)),
        ("references", pa.list_(REFERENCE)),
        *_columns(pa.string(), "label", "tools", "tool_choice", "extra"),
    ]
)

# `row_index` counts the loaded rows from 0; `line` is the 1-based line (or record) of the source, for messages.
RAW = TableSchema("raw", 1, pa.schema([("row_index", pa.int64()), ("line", pa.int64()), ("record", pa.string())]))

SAMPLES = TableSchema(
    "samples",
    1,
    pa.schema(
        [
            ("row_index", pa.int64()),
            *_columns(pa.string(), "id", "schema_version", "task_type"),
            ("messages", MESSAGES),
            ("options", pa.list_(OPTION)),
            ("references", pa.list_(REFERENCE)),
            ("label", pa.string()),
            ("few_shot_examples", pa.list_(FEW_SHOT)),
            ("golden_trajectories", pa.list_(MESSAGES)),
            *_columns(
                pa.string(),
                "sandbox",
                "metadata",
                "data_tag",
                "raw_assets",
                "tools",
                "tool_choice",
                "sampling_params",
                "generation_params",
                "eval_config",
                "unconditioned_input",
                "choices_role",
                "extra",
            ),
        ]
    ),
)

REJECTS = TableSchema(
    "rejects",
    2,
    pa.schema(
        [
            ("row_index", pa.int64()),
            ("file", pa.string()),  # of several files of a source; null otherwise
            ("line", pa.int64()),  # in the file
            *_columns(pa.string(), "stage", "reason", "record"),
        ]
    ),
)

# What an episode needs, free of any model. `params` are the sample's and the task's sampling parameters, merged.
# `prompt` is the text of completion and likelihood requests, `choices` what likelihood compares as its continuations.
# `media_meta`: {embed, media: [{url, type, media_type, bytes, width, height}]}; a frame has also the hash of its video,
# its index and its time. The last three say who makes one text of the messages: (backend, backend, model) for chat,
# (none, preprocess, manual) for the others.
PREPARED = TableSchema(
    "prepared",
    2,
    pa.schema(
        [
            ("row_index", pa.int64()),
            ("sample_id", pa.string()),
            ("kind", pa.string()),  # the task's mode
            ("replicates", pa.int32()),
            ("messages", MESSAGES),
            ("prompt", pa.string()),
            ("choices", pa.list_(pa.string())),
            *_columns(
                pa.string(),
                "unconditioned_input",
                "tools",
                "tool_choice",
                "params",
                "media_meta",
                "chat_template_mode",
                "rendered_by",
                "template_source",
            ),
        ]
    ),
)

# tool_outputs: what the called tools answered, in the order of the calls. tool_statuses: of each, ok or error (told to
# the model). call_key: the response key of the turn itself. actor: user for a turn of the simulated user, else null.
TURN = pa.struct(
    [
        *_columns(pa.string(), "answer", "reasoning", "finish_reason", "tool_calls"),
        ("tool_outputs", pa.list_(pa.string())),
        ("tool_statuses", pa.list_(pa.string())),
        *_columns(pa.int64(), "prompt_tokens", "completion_tokens"),
        *_columns(pa.string(), "call_key", "actor"),
    ]
)

# status: `statuses.ResponseStatus`. `turns` only where an episode made several calls. artifacts: the final state of an
# episode that declares some, {files: {path: {url, bytes}}, problem, text}.
RESPONSES = TableSchema(
    "responses",
    3,
    pa.schema(
        [
            *_OF_ANSWER,
            *_columns(pa.string(), "status", "answer", "reasoning", "tool_calls", "finish_reason"),
            ("turns", pa.list_(TURN)),
            ("logprobs", pa.string()),
            *_columns(pa.int64(), "prompt_tokens", "completion_tokens"),
            *_columns(pa.string(), "error_kind", "response_key", "artifacts"),
        ]
    ),
)

# cost: by the backend's prices, null without any. source: as that of a response. tool_ms and tool_sources (run, or
# journal) in the order of the calls.
TURN_TELEMETRY = pa.struct(
    [
        *_columns(pa.float64(), "latency_ms", "cost"),
        ("source", pa.string()),
        ("tool_ms", pa.list_(pa.float64())),
        ("tool_sources", pa.list_(pa.string())),
    ]
)

# A token of an answer and the likeliest other one.
TOKEN = pa.struct(
    [("token", pa.string()), ("logprob", pa.float64()), ("other", pa.string()), ("other_logprob", pa.float64())]
)

# Telemetry varies between runs, so no other content hash depends on it. prompt_digest: sha256 of the token ids of the
# prompt, where the engine tells them. tokens: where the sampling parameter token_logprobs asks for them.
RESPONSE_TELEMETRY = TableSchema(
    "response_telemetry",
    3,
    pa.schema(
        [
            *_OF_ANSWER,
            *_columns(pa.float64(), "latency_ms", "ttft_ms"),
            ("attempts", pa.int32()),
            ("errors", pa.list_(pa.string())),
            ("model_fingerprint", pa.string()),
            ("source", pa.string()),  # sent, log, reused, or repeated
            ("turn_telemetry", pa.list_(TURN_TELEMETRY)),  # of each of the turns
            ("prompt_digest", pa.string()),
            ("tokens", pa.list_(TOKEN)),
            ("diverged", pa.list_(pa.string())),  # messages of attempts that differed from the journal
        ]
    ),
)

# What a stage asks where samples set it: one row per question, in part order. `replicate` is that of the answer it is
# about, `judge` the adapter that is asked, `slot` a seat or position, `draw` counts equal questions. `binding` is the
# digest of model, prompt and parameters. An ask without a judge and a binding is not asked. No key counts `why`.
ASKS = TableSchema(
    "asks",
    2,
    pa.schema(
        [
            ("row_index", pa.int64()),
            ("replicate", pa.int32()),
            ("judge", pa.string()),
            *_columns(pa.int32(), "slot", "draw"),
            *_columns(pa.string(), "binding", "why"),
        ]
    ),
)

# One row per verdict. As in `ASKS`, (row_index, replicate, judge, slot, draw) tells verdicts apart. `judge` is null
# where the task's judge gives each answer one verdict. status: `statuses.JudgmentStatus`. `reason` says why there is
# no verdict, `explanation` is the same as a sentence. `binding` is null where no judge was asked. `decided_by` is
# `statuses.RULE` or the adapter of the judge that gave the verdict.
JUDGMENTS = TableSchema(
    "judgments",
    4,
    pa.schema(
        [
            *_OF_ANSWER,
            ("judge", pa.string()),
            *_columns(pa.int32(), "slot", "draw"),
            *_columns(pa.string(), "status", "answer"),
            ("score", pa.float64()),
            *_columns(pa.string(), "text", "parsed", "reason", "explanation", "binding", "response_key", "decided_by"),
        ]
    ),
)

# One row per answer whose program was run (`box.types.Execution`). `code` is the program as it was run, null where the
# answer holds none. `containment` is what kept it in: namespaces, container or none.
EXECUTIONS = TableSchema(
    "executions",
    1,
    pa.schema(
        [
            *_OF_ANSWER,
            *_columns(pa.string(), "mode", "containment", "status", "reason", "text"),
            *_columns(pa.int32(), "tests_passed", "tests_failed"),
            *_columns(pa.string(), "code", "stdout", "stderr"),
            ("is_cut", pa.bool_()),
        ]
    ),
)

# What varies between two runs of the same program.
EXECUTION_TELEMETRY = TableSchema(
    "execution_telemetry",
    1,
    pa.schema([*_OF_ANSWER, *_columns(pa.float64(), "cpu_s", "wall_s", "peak_mb"), ("is_near_limit", pa.bool_())]),
)

# status: `statuses.ScoreStatus`; `reason` says why, `explanation` says it in words. `values` by value key (score, acc,
# …). Canonical JSON are `components`, what a corpus aggregate needs beyond the values; `metadata`, further facts of the
# metric about the row; and `overrides`, the parameters that the sample's eval_config set.
SCORES = TableSchema(
    "scores",
    4,
    pa.schema(
        [
            *_OF_ANSWER,
            *_columns(pa.string(), "filter", "status"),
            ("values", pa.map_(pa.string(), pa.float64())),
            *_columns(pa.string(), "extracted", "reason", "explanation", "components", "metadata", "overrides"),
        ]
    ),
)

# One row per aggregated number. `n` counts samples, `rows` the score rows that count, each replicate one. `scores` is
# the artifact id the row was computed from.
METRICS = TableSchema(
    "metrics",
    6,
    pa.schema(
        [
            *_columns(pa.string(), "metric_id", "implementation", "filter"),
            ("slice_field", pa.string()),  # null: over all rows
            ("slice_value", pa.string()),  # null with a field: rows without it
            *_columns(pa.string(), "value_key", "aggregation"),
            ("higher_is_better", pa.bool_()),  # of the number; null: neither
            ("bound_low", pa.float64()),  # the range of the number, null for no end
            ("bound_high", pa.float64()),
            # of one answer's values: `metrics.scale.Scale`
            (
                "scale",
                pa.struct(
                    [
                        ("higher_is_better", pa.bool_()),
                        *_columns(pa.float64(), "low", "high", "perfect"),
                        ("binary", pa.bool_()),
                    ]
                ),
            ),
            *_columns(pa.float64(), "value", "stderr", "ci_low", "ci_high"),
            ("interval", pa.string()),  # wilson, t, order, bootstrap, or null
            *_columns(pa.int64(), "n", "rows", "unparsed"),
            ("unparsed_credited", pa.int64()),  # of these, those with a value above 0
            *_columns(
                pa.int64(), "unscored", "overridden", "truncated", "looped", "limit", "refused", "error", "skipped"
            ),
            ("scores", pa.string()),
        ]
    ),
)

# One row: the task's part of summary.json as canonical JSON, without times.
REPORT = TableSchema("report", 1, pa.schema([("summary", pa.string())]))

ALL: dict[str, TableSchema] = {
    schema.name: schema
    for schema in (
        RAW,
        SAMPLES,
        REJECTS,
        PREPARED,
        RESPONSES,
        RESPONSE_TELEMETRY,
        ASKS,
        JUDGMENTS,
        EXECUTIONS,
        EXECUTION_TELEMETRY,
        SCORES,
        METRICS,
        REPORT,
    )
}
