"""Score some rows of a part. The score of a row depends on no other row, or on the answers to the same sample alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.data.prepare.media import MediaReader, MediaRules
from gage_eval.scoring.metrics.bind import BoundMetric
from gage_eval.scoring.metrics.media_content import media_from
from gage_eval.scoring.metrics.overrides import COLUMN, score_samples
from gage_eval.scoring.metrics.rows import Tables, columns_read
from gage_eval.store import Store

# Fewer rows are not worth another process.
FEWEST_ROWS = 32
# At once: as Python objects, the steps of a thousand agents take ten times the memory of their table.
MOST_ROWS = 512


@dataclass(frozen=True)
class Inputs:
    """The inputs of metrics.

    Attributes:
        artifacts: artifact ids by input, without inputs that no metric reads.
        columns: the needed columns of samples and responses. All are read where samples set parameters, because these
            may name other fields.
        known: the metrics that samples may name in their ``eval_config``.
        media: where the media are that the samples name.
    """

    artifacts: Mapping[str, str]
    columns: Mapping[str, tuple[str, ...]]
    known: frozenset[str] = frozenset()
    media: MediaRules = field(default_factory=MediaRules)

    @classmethod
    def of(
        cls,
        metrics: Sequence[BoundMetric],
        artifacts: Mapping[str, str],
        known: Collection[str],
        media: MediaRules | None = None,
    ) -> "Inputs":
        """What these metrics read from the artifacts.

        Args:
            metrics: all that are scored together.
            artifacts: ids by input.
            known, media: as above.
        """
        read = artifacts.keys() & {"samples"}.union(*(metric.inputs for metric in metrics))
        columns = columns_read([path for metric in metrics for path in metric.field_paths])
        own = {name: artifacts[name] for name in sorted(read)}
        return cls(own, columns, frozenset(known), media or MediaRules())


@dataclass(frozen=True)
class Rows:
    """The responses ``start`` to ``stop`` (exclusive) of a part."""

    part: int
    start: int
    stop: int


class RowReader:
    """Reads the inputs of rows. Those of the last part stay in memory: its rows may come one after another."""

    def __init__(self, store: Store, inputs: Inputs) -> None:
        self.inputs = inputs
        self.media = MediaReader(inputs.media, store.media)
        self._store = store
        sets_parameters = bool(store.artifact(inputs.artifacts["samples"]).counts.get(COLUMN))
        self._columns: Mapping[str, Sequence[str]] = {} if sets_parameters else inputs.columns
        self._part = lru_cache(len(inputs.artifacts))(self._read_part)

    def tables(self, rows: Rows) -> Tables:
        """The responses of these rows, and the rows of the other inputs that belong to them."""
        tables = {name: self._part(name, rows.part) for name in self.inputs.artifacts}
        if rows.stop - rows.start == tables["responses"].num_rows:
            return tables
        tables["responses"] = own = tables["responses"].slice(rows.start, rows.stop - rows.start)
        span = pc.min_max(own["row_index"]).as_py()
        return {
            name: _between(table, span["min"], span["max"])
            if name != "responses" and "row_index" in table.column_names
            else table
            for name, table in tables.items()
        }

    def _read_part(self, name: str, part: int) -> pa.Table:
        return self._store.artifact(self.inputs.artifacts[name]).read(part, columns=self._columns.get(name))


def score_rows(metrics: Sequence[BoundMetric], reader: RowReader, rows: Rows) -> list[pa.Table]:
    """The score rows of each metric (`gage_eval.base.tables.SCORES`)."""
    size = max(1, rows.stop - rows.start) if joins_replicates(metrics) else MOST_ROWS
    starts = range(rows.start, max(rows.stop, rows.start + 1), size)
    pieces = [_scored(metrics, reader, Rows(rows.part, start, min(start + size, rows.stop))) for start in starts]
    return [pa.concat_tables(of_metric) for of_metric in zip(*pieces, strict=True)]


def joins_replicates(metrics: Sequence[BoundMetric]) -> bool:
    """Whether a filter reads all answers to a sample, so that they must be scored together."""
    return any(pipeline.per_sample for metric in metrics for pipeline in metric.filters)


def _scored(metrics: Sequence[BoundMetric], reader: RowReader, rows: Rows) -> list[pa.Table]:
    tables = reader.tables(rows)
    with media_from(reader.media.content):
        return [score_samples(metric, tables, known=reader.inputs.known) for metric in metrics]


def _between(table: pa.Table, first: int, last: int) -> pa.Table:
    """The rows of these samples."""
    index = table["row_index"]
    return table.filter(pc.and_(pc.greater_equal(index, first), pc.less_equal(index, last)))
