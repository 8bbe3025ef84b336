"""The inputs of metrics, by name: the table and stage of each, and how its rows are joined to the answers.

Scoring goes through the responses row by row. Every other input is joined to them. A metric's field paths say which
inputs it reads; the stage auto_eval, the keys of scores and the DAG follow from that. A new kind of input is one more
entry here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from gage_eval.base.stages import Stage
from gage_eval.base.statuses import Reason
from gage_eval.base.tables import (
    EXECUTION_TELEMETRY,
    EXECUTIONS,
    JUDGMENTS,
    RESPONSE_TELEMETRY,
    RESPONSES,
    SAMPLES,
    TableSchema,
)

Grain: TypeAlias = Literal["sample", "answer", "verdict"]

# The columns that find the responses of a row. A verdict belongs to the answer that it judges.
_JOINS: Mapping[Grain, tuple[str, ...]] = {
    "sample": ("row_index",),
    "answer": ("row_index", "replicate"),
    "verdict": ("row_index", "replicate"),
}
# The columns that tell the rows of one answer apart, and order them.
_APART: Mapping[Grain, tuple[str, ...]] = {"sample": (), "answer": (), "verdict": ("judge", "slot", "draw")}


@dataclass(frozen=True)
class Input:
    """One kind of input.

    Attributes:
        name: of the input; also of the stage's output that holds it.
        root: where its field paths start. Inputs that share a root have different columns.
        table: its schema.
        stage: writes it.
        grain: what one row is about.
        listed: where paths start that read all rows of an answer, as a list in the order of `apart`; None where an
            answer has one row.
        join: columns by which a row finds its responses; those of the grain when left out. Rows of another run are
            joined by ``sample_id``.
        json_columns: columns of JSON text, which paths go into.
        open_column: the JSON column that holds whatever is not a column; None when there is none.
        missing: why a score is unscored when nothing is at the path. A table with a column ``reason`` says it by row.
    """

    name: str
    root: str
    table: TableSchema
    stage: Stage
    grain: Grain = "answer"
    listed: str | None = None
    join: tuple[str, ...] = ()
    json_columns: frozenset[str] = frozenset()
    open_column: str | None = None
    missing: Reason = "missing_field"

    @cached_property
    def columns(self) -> frozenset[str]:
        return frozenset(self.table.arrow.names)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns by which a row finds its responses."""
        return self.join or _JOINS[self.grain]

    @property
    def apart(self) -> tuple[str, ...]:
        """The columns that tell the rows of one answer apart."""
        return _APART[self.grain]

    @property
    def roots(self) -> frozenset[str]:
        """The roots of its field paths."""
        return frozenset({self.root} if self.listed is None else {self.root, self.listed})


SAMPLES_INPUT = Input("samples", "sample", SAMPLES, "standardize", "sample")
RESPONSES_INPUT = Input(
    "responses", "model_output", RESPONSES, "infer", json_columns=frozenset({"tool_calls", "logprobs", "artifacts"})
)

INPUTS: dict[str, Input] = {
    entry.name: entry
    for entry in (
        SAMPLES_INPUT,
        RESPONSES_INPUT,
        Input("response_telemetry", "model_output", RESPONSE_TELEMETRY, "infer", missing="not_measured"),
        Input(
            "judgments",
            "judge_output",
            JUDGMENTS,
            "judge",
            "verdict",
            "verdicts",
            json_columns=frozenset({"parsed"}),
            open_column="parsed",
            missing="no_verdict",
        ),
        Input("executions", "execution", EXECUTIONS, "auto_eval", missing="not_run"),
        Input("execution_telemetry", "execution", EXECUTION_TELEMETRY, "auto_eval", missing="not_run"),
    )
}
"""Every input by its name. Samples and responses go into all scoring; the others where a metric reads them."""


def input_at(root: str, column: str | None) -> Input:
    """The input that a path with this root reads; ``column`` is what follows the root."""
    known = _with_root(root)
    return next((entry for entry in known if column in entry.columns), known[0])


def columns_at(root: str) -> list[str]:
    """The columns that paths with this root may read, in order."""
    return sorted(frozenset().union(*(entry.columns for entry in _with_root(root))))


def is_open(root: str) -> bool:
    """Whether paths with this root may name what is not a column."""
    return any(entry.open_column is not None for entry in _with_root(root))


def _with_root(root: str) -> list[Input]:
    return [entry for entry in INPUTS.values() if root in entry.roots]
