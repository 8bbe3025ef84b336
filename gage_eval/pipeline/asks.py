"""Asks: what a stage asks its models, one row per question.

In the implicit form, which every ordinary run has, ask ``i`` of a part is about prepared row ``i // r``, replicate
``i % r``, and all asks have one binding. Nothing is stored for this form.

The explicit form is a table (`tables.ASKS`) in part order, which a stage stores as an output. Its rows name the
prepared row, the replicate of the answer that is judged, the judge, the slot (a seat of a panel, a swapped position),
the draw (equal questions asked again) and the binding. An ask without a judge is not asked. A stage has one job per
judge, whatever the number of bindings: those of a part are made when the part is read. The responses of a job have the
order of its asks.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base.canonical import digest
from gage_eval.pipeline.generate_spec import Binding, GenerateSpec
from gage_eval.pipeline.outputs import received, telemetry_of
from gage_eval.store import Artifact, ArtifactWriter
from gage_eval.store.content import content_hash

# (position of the prepared row, binding, [(replicate, draw), …]) of consecutive asks about one row.
RowAsks: TypeAlias = tuple[int, Binding, Sequence[tuple[int, int]]]
# (row index, replicate) of an answer that is judged.
AnswerKey: TypeAlias = tuple[int, int]


class AskTable(Protocol):
    """Explicit asks, part by part."""

    @property
    def parts(self) -> Sequence[int]:
        """Indexes of the parts, in order."""

    def read(self, part: int) -> pa.Table:
        """`tables.ASKS` rows of a part."""

    def bindings(self, part: int) -> Mapping[str, Binding]:
        """The bindings of a part's asks, by digest."""


@dataclass(frozen=True)
class StoredAsks:
    """Explicit asks that are read from the store.

    Attributes:
        artifact: `tables.ASKS`.
        computed: makes the bindings.
    """

    artifact: Artifact
    computed: AskTable

    @property
    def parts(self) -> Sequence[int]:
        return [part.index for part in self.artifact.parts]

    def read(self, part: int) -> pa.Table:
        return self.artifact.read(part)

    def bindings(self, part: int) -> Mapping[str, Binding]:
        return self.computed.bindings(part)


@dataclass(frozen=True)
class ChangedAsks:
    """Explicit asks that are made of others: an `AskTable`.

    Attributes:
        table: the others.
        change: receives the index of a part and its asks.
    """

    table: AskTable
    change: Callable[[int, pa.Table], pa.Table]

    @property
    def parts(self) -> Sequence[int]:
        return self.table.parts

    def read(self, part: int) -> pa.Table:
        return self.change(part, self.table.read(part))

    def bindings(self, part: int) -> Mapping[str, Binding]:
        return self.table.bindings(part)


def about(asks: pa.Table, answers: Container[AnswerKey]) -> pa.Array:
    """Of each ask, whether it is about one of some answers."""
    keys = zip(asks["row_index"].to_pylist(), asks["replicate"].to_pylist(), strict=True)
    return pa.array([key in answers for key in keys], pa.bool_())


def write_asks(table: AskTable, writer: ArtifactWriter) -> None:
    """Write explicit asks as an artifact."""
    for part in table.parts:
        writer.write(part, table.read(part))


def identity_of(table: AskTable) -> str:
    """Digest of explicit asks, without their reasons."""
    return digest([content_hash(table.read(part).drop_columns(["why"])) for part in table.parts])


class PartAsks(Protocol):
    """The asks of one job in one part."""

    def between(self, start: int, stop: int) -> Iterator[RowAsks]:
        """The asks ``start`` to ``stop`` (exclusive)."""

    def of_row(self, position: int) -> range:
        """The asks about the prepared row at a position."""


@dataclass(frozen=True)
class Asks:
    """The asks of one model in a stage: the work of one job.

    Attributes:
        spec: the model.
        output: name of the output that holds the responses.
        binding: of every ask, in the implicit form.
        table: the explicit asks of the whole stage; None for the implicit form.
    """

    spec: GenerateSpec
    output: str
    binding: Binding | None = None
    table: AskTable | None = None

    @classmethod
    def implicit(cls, binding: Binding) -> "Asks":
        """One ask for each replicate of each prepared row, all with one binding."""
        return cls(binding.spec, binding.spec.output, binding)

    @property
    def received(self) -> str:
        """Name of the output with the raw answers. `output` has them after the adapter's own `parse`, if any."""
        hooks = self.spec.hooks
        return received(self.output) if hooks is not None and hooks.parses else self.output

    @property
    def telemetry(self) -> str:
        """Name of the output that holds the telemetry of the responses."""
        return telemetry_of(self.output)

    def work_key(self, key: str) -> str:
        """Key of the job's work in progress. For the main job it is the action's key."""
        return key if self.output == self.spec.output else digest([key, self.output])

    def counts(self, prepared: Artifact) -> list[tuple[int, int]]:
        """(part index, asks) in order."""
        if self.table is None:
            replicates = _replicates(prepared)
            return [(part.index, part.rows * replicates) for part in prepared.parts]
        return [(part.index, self._own(self.table, part.index).num_rows) for part in prepared.parts]

    def rows(self, part: int, responses: Artifact) -> list[dict[str, Any]]:
        """The asks of a part as rows of `tables.ASKS`, in the order of the responses; the implicit ones too."""
        if self.table is not None:
            return list(self._own(self.table, part).to_pylist())
        assert self.binding is not None
        common = {"judge": self.spec.adapter_id, "slot": 0, "draw": 0, "binding": self.binding.digest, "why": None}
        return [{**row, **common} for row in responses.read(part, columns=["row_index", "replicate"]).to_pylist()]

    def open(self, part: int, prepared: Artifact, only: Sequence[int] | None = None) -> tuple[pa.Table, PartAsks]:
        """The prepared rows of a part that are asked about, and the asks about them.

        Args:
            part: index of the part.
            prepared: the table of prepared rows.
            only: row indexes; of an ordinary run, other rows need not be there.
        """
        rows = prepared.read(part, rows=only if self.table is None else None)
        if self.table is None:
            assert self.binding is not None
            return rows, _ImplicitPart(self.binding, rows["replicates"][0].as_py() if rows.num_rows else 1)
        table = self._own(self.table, part)
        rows = rows.filter(pc.is_in(rows["row_index"], pc.unique(table["row_index"])))
        positions = pc.index_in(table["row_index"], rows["row_index"]).to_pylist()
        return rows, _ExplicitPart(self.table.bindings(part), positions, table)

    def _own(self, table: AskTable, part: int) -> pa.Table:
        """The asks of this model in a part."""
        asks = table.read(part)
        return asks.filter(pc.equal(asks["judge"], self.spec.adapter_id))


def _replicates(prepared: Artifact) -> int:
    """Replicates per row, the same for all rows of a task."""
    for part in prepared.parts:
        if part.rows:
            return int(prepared.read(part.index, columns=["replicates"])["replicates"][0].as_py())
    return 1


class _ImplicitPart:
    def __init__(self, binding: Binding, replicates: int) -> None:
        self._binding = binding
        self._replicates = replicates
        # Two replicates may have the same answer. A judge is asked once about equal answers.
        draws = [0] * replicates if binding.spec.role == "judge_model" else range(replicates)
        self._pairs = list(zip(range(replicates), draws, strict=True))

    def between(self, start: int, stop: int) -> Iterator[RowAsks]:
        count = self._replicates
        for row in range(start // count, -(-stop // count)):
            first, last = max(start - row * count, 0), min(stop - row * count, count)
            yield row, self._binding, self._pairs if last - first == count else self._pairs[first:last]

    def of_row(self, position: int) -> range:
        return range(position * self._replicates, (position + 1) * self._replicates)


class _ExplicitPart:
    def __init__(self, bindings: Mapping[str, Binding], positions: list[int], table: pa.Table) -> None:
        self._bindings = bindings
        self._positions = positions
        self._columns = [table[name].to_pylist() for name in ("binding", "replicate", "draw")]

    def between(self, start: int, stop: int) -> Iterator[RowAsks]:
        asks = zip(self._positions[start:stop], *(column[start:stop] for column in self._columns), strict=True)
        for (position, binding), same in groupby(asks, lambda ask: ask[:2]):
            yield position, self._bindings[binding], [(replicate, draw) for _, _, replicate, draw in same]

    def of_row(self, position: int) -> range:
        first = self._positions.index(position)
        return range(first, first + self._positions.count(position))
