"""Read the columns that metrics need, and write the scores table, without building a dict per row."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base import canonical
from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import MISSING, Path, reference_texts, walk
from gage_eval.base.inputs import RESPONSES_INPUT, SAMPLES_INPUT, Input, columns_at, is_open
from gage_eval.base.statuses import Reason, ScoreStatus
from gage_eval.base.tables import SCORES
from gage_eval.data.sample.table import rows_of
from gage_eval.scoring.metrics.base import FieldKind, Score
from gage_eval.scoring.metrics.parse_schema import ParseSchema
from gage_eval.scoring.metrics.scale import DEFAULT, Scale
from gage_eval.scoring.metrics.text_utils import as_text

Tables: TypeAlias = Mapping[str, pa.Table]
"""The rows of a part that metrics read: tables by the names of `gage_eval.base.inputs`."""

_ScoreRow: TypeAlias = tuple[
    int, str | None, ScoreStatus, int, str | None, Reason | None, str | None, str | None, str | None
]
"""Position of the response, filter, status, end of its numbers; extracted, reason, explanation, components, metadata.

Plain tuples: one is made for every response and filter.
"""

_ROW_WIDTH = 9
_KEYS = ("row_index", "sample_id", "replicate")
_OF_ALL_SAMPLES = frozenset({"row_index", "id", "eval_config"})
_OF_ALL_RESPONSES = frozenset({*_KEYS, "status", "answer", "error_kind"})
_PLAIN_SAMPLE = frozenset({"id", "schema_version", "task_type", "choices_role", "label"})
# Above this the interval around a mean of two values could become infinite.
_LARGEST = 1e305


def columns_read(paths: Collection[Path]) -> dict[str, tuple[str, ...]]:
    """The columns of samples and responses that scoring needs, with these field paths."""
    samples = _OF_ALL_SAMPLES.union(*(path.sample_columns for path in paths))
    responses = _OF_ALL_RESPONSES.union(*(path.response_columns for path in paths))
    return {"samples": tuple(sorted(samples)), "responses": tuple(sorted(responses))}


def rows_of_filter(scores: pa.Table, name: str | None) -> pa.Table:
    """The rows of `tables.SCORES` that belong to a filter; None for those without one."""
    own = pc.is_null(scores["filter"]) if name is None else pc.equal(scores["filter"], name)
    return scores.filter(pc.fill_null(own, fill_value=False))


def values_of(scores: pa.Table, key: str) -> pa.Array:
    """The value of a key in each row of `tables.SCORES`; null where a row has none."""
    return pc.map_lookup(scores["values"].combine_chunks(), pa.scalar(key), "first")


def check_path(path: Path, owner: str, parsed: Collection[str] = ()) -> None:
    """Refuse a path that no row can have; ``parsed`` holds the fields of the task's ``parse_schema``.

    Raises:
        InputError: the input has no such column, or the path ends at its root.
    """
    if path.root == SAMPLES_INPUT.root:
        return
    known = columns_at(path.root)
    if not path.parts:
        raise InputError(f"{owner}: path '{path.text}' names no field. {path.root} has {', '.join(known)}.")
    if reads_parsed(path) and parsed:
        field = path.parts[1] if len(path.parts) > 1 else ""
        if field not in parsed:
            raise InputError(
                f"{owner}: the parse_schema has no '{field}'. It has {', '.join(parsed)}.{closest(field, parsed)}"
            )
        return
    if reads_parsed(path):
        raise InputError(f"{owner}: '{path.text}' needs a parse_schema in the task.")
    if path.parts[0] not in known and not is_open(path.root):
        raise InputError(
            f"{owner}: {path.root} has no '{path.parts[0]}'. It has {', '.join(known)}.{closest(path.parts[0], known)}"
        )


def reads_parsed(path: Path) -> bool:
    """Whether the path is inside the parsed answers of ``parse_schema``."""
    return path.root == RESPONSES_INPUT.root and path.parts[:1] == ("parsed",)


class Rows:
    """The responses of a part joined with the other inputs, one value per response."""

    def __init__(self, tables: Tables, schema: ParseSchema | None = None) -> None:
        """Args:
        tables: by the names of `gage_eval.base.inputs`; ``samples`` and ``responses`` must be there.
        schema: parses answers for ``model_output.parsed``.
        """
        samples, responses = tables["samples"], tables["responses"]
        self.responses = responses
        self._schema = schema
        self._tables = tables
        self._samples = samples
        self._orders: dict[str, list[int | None] | None] = {}
        self._groups: dict[str, list[list[int]]] = {}
        self._reasons: dict[tuple[str, bool], Sequence[Any]] = {}
        self._rows_of: dict[int | None, list[int]] | None = None
        self._sample_of = positions_of(
            samples.column("row_index").to_pylist(), responses.column("row_index").to_pylist()
        )
        if self._sample_of is not None and None in self._sample_of:
            row = responses.column("row_index")[self._sample_of.index(None)].as_py()
            raise ValueError(f"the response of row {row} has no sample")

    def values(self, path: Path, kind: FieldKind = "value") -> Sequence[Any]:
        """One value per response, None where it is missing, in the form that a metric needs."""
        values, flat_text = self._read(path)
        if kind in ("reference", "list_reference"):
            return self._with_alternatives(path, kind, values)
        if kind == "value" or (kind == "text" and flat_text):
            return values
        return [None if value is None else in_form(value, kind) for value in values]

    def _with_alternatives(self, path: Path, kind: FieldKind, values: Sequence[Any]) -> Sequence[Any]:
        """The reference of each response: a text, or a tuple of texts where the sample has several."""
        labels = [None if value is None else in_form(value, kind) for value in values]
        if path.reads_label and "references" in self._samples.column_names:
            for sample_row, texts in _several(self._samples).items():
                for row in self._responses_of(sample_row):
                    labels[row] = alternatives(path, labels[row], texts)
        return labels

    def _responses_of(self, sample_row: int) -> Sequence[int]:
        if self._sample_of is None:
            return (sample_row,)
        if self._rows_of is None:
            self._rows_of = {}
            for row, position in enumerate(self._sample_of):
                self._rows_of.setdefault(position, []).append(row)
        return self._rows_of.get(sample_row, ())

    def missing_reason(self, path: Path, row: int) -> Reason:
        """Why the response at ``row`` is unscored when the path has no value; a table's ``reason`` comes first."""
        source = path.input
        if "reason" not in source.columns:
            return source.missing
        key = source.name, path.is_listed
        if key not in self._reasons:
            self._reasons[key] = self._joined(source, ("reason",), listed=path.is_listed)[0]
        reason = self._reasons[key][row]
        return (next(filter(None, reason), None) if isinstance(reason, list) else reason) or source.missing

    def _read(self, path: Path) -> tuple[Sequence[Any], bool]:
        if path.root == SAMPLES_INPUT.root:
            return self._sample_values(path)
        if reads_parsed(path):
            return self._parsed_values(path), False
        return self._joined(path.input, path.parts, listed=path.is_listed)

    def _parsed_values(self, path: Path) -> Sequence[Any]:
        assert self._schema is not None, "check_path refuses such a path without a schema"
        answers = self.responses.column("answer").to_pylist()
        parsed = ({} if answer is None else self._schema.parse(answer) for answer in answers)
        return [_or_none(walk(fields, path.parts[1:])) for fields in parsed]

    def _sample_values(self, path: Path) -> tuple[Sequence[Any], bool]:
        samples = self._samples
        flat = len(path.parts) == 1 and path.parts[0] in _PLAIN_SAMPLE
        values: Sequence[Any]
        if flat and (path.alias is None or not samples.column(path.parts[0]).null_count):
            values = samples.column(path.parts[0]).to_pylist()
        else:
            flat = False
            columns = path.sample_columns.intersection(samples.column_names)
            values = [_or_none(path.get(row)) for row in rows_of(samples, columns)]
        if self._sample_of is not None:
            values = [values[row] for row in self._sample_of if row is not None]
        return values, flat

    def _joined(self, source: Input, parts: tuple[str, ...], *, listed: bool) -> tuple[Sequence[Any], bool]:
        """A column of an input, or a value below it, one per response; and whether it is plain text.

        Args:
            source: the input.
            parts: of the path.
            listed: the values of all rows of a response, as a list, instead of that of its only row.

        Raises:
            InputError: a response has several rows, and not all are read.
        """
        table = self._tables.get(source.name)
        if table is None:
            return [None] * self.responses.num_rows, False
        if source.open_column is not None and parts[0] not in source.columns:
            parts = (source.open_column, *parts)
        values, flat = _column(table, parts, source.json_columns)
        if table is self.responses:
            return values, flat
        if listed:
            rows = [[values[row] for row in group] for group in self._rows_by_response(source, table)]
            return [None if all(value is None for value in group) else group for group in rows], False
        if source.name not in self._orders:
            known = keys(table, source.key)
            if source.listed is not None and len(set(known)) < len(known):
                raise InputError(
                    f"some answers have several {source.listed}, and '{source.root}.{parts[0]}' reads the only one. "
                    f"Read '{source.listed}.{parts[0]}', the list of all."
                )
            self._orders[source.name] = positions_of(known, keys(self.responses, source.key))
        order = self._orders[source.name]
        if order is not None:
            values = [None if row is None else values[row] for row in order]
        return values, flat

    def _rows_by_response(self, source: Input, table: pa.Table) -> list[list[int]]:
        """The rows of each response in an input, ordered by the columns that tell them apart."""
        if source.name not in self._groups:
            groups: dict[tuple[Any, ...], list[int]] = {}
            for row, key in enumerate(keys(table, source.key)):
                groups.setdefault(key, []).append(row)
            apart = keys(table, source.apart)
            for group in groups.values():
                # Nulls come first.
                group.sort(key=lambda row: [(value is not None, value) for value in apart[row]])
            self._groups[source.name] = [groups.get(key, []) for key in keys(self.responses, source.key)]
        return self._groups[source.name]


@dataclass(eq=False)
class ScoreRows:
    """Collects score rows as flat lists and makes the table of `tables.SCORES`.

    Attributes:
        value_keys: keys of the metric's numbers, in order; a plain number is the first.
        renamed: new names for keys of the metric.
        scales: of the keys; an unparsed answer gets their worst value.
    """

    value_keys: Sequence[str]
    renamed: Mapping[str, str] = field(default_factory=dict)
    scales: Mapping[str, Scale] = field(default_factory=dict)
    _rows: list[_ScoreRow] = field(default_factory=list)
    # The numbers of all rows, one after another, with their keys.
    _keys: list[str] = field(default_factory=list)
    _items: list[float] = field(default_factory=list)

    def add_number(self, row: int, name: str | None, value: float, extracted: str | None) -> None:
        """Add a number for the response at ``row``. If it is not finite, or above 1e305, the row is unscored."""
        if not _usable(value):
            self.add(row, name, Score.unscored(f"the metric gave {_shown(value)}", reason="metric_failed"), None)
            return
        self._keys.append(self.value_keys[0])
        self._items.append(float(value))
        self._row(row, name, "scored", extracted)

    def add(self, row: int, name: str | None, score: Score, extracted: str | None) -> None:
        """Add a score for the response at ``row``; ``extracted`` is the text that filters took from the answer."""
        status, reason, explanation = score.status, score.reason, score.explanation
        value = score.value
        if status == "scored" and type(value) is float and _usable(value):
            # The usual case, in which nothing has to be searched.
            self._keys.append(self.value_keys[0])
            self._items.append(value)
        elif status != "unscored":
            values = self._values(score)
            bad = next((key for key, value in values.items() if not _usable(value)), None)
            if bad is None:
                self._keys.extend(values)
                self._items.extend(map(float, values.values()))
            else:
                status, reason = "unscored", "metric_failed"
                explanation = f"the metric gave {_shown(values[bad])} for {bad}"
        components = None if score.components is None else canonical.canonical_text(score.components)
        metadata = canonical.canonical_text(dict(score.metadata)) if score.metadata else None
        self._row(row, name, status, score.extracted or extracted, reason, explanation, components, metadata)

    def records(self) -> list[dict[str, Any]]:
        """The score rows so far, without keys of responses."""
        records, start = [], 0
        for _, name, status, stop, *rest in self._rows:
            values = dict(zip(self._keys[start:stop], self._items[start:stop], strict=True))
            texts = zip(("extracted", "reason", "explanation", "components", "metadata"), rest, strict=True)
            records.append({"filter": name, "status": status, "values": values, **dict(texts)})
            start = stop
        return records

    def table(self, responses: pa.Table) -> pa.Table:
        """The score rows, with the keys of their responses."""
        rows, names, statuses, ends, *texts = zip(*self._rows, strict=True) if self._rows else [()] * _ROW_WIDTH
        taken = pa.array(rows, pa.int64())
        columns = [responses.column(name).take(taken) for name in _KEYS]
        columns += [
            pa.array(names, pa.string()),
            pa.array(statuses, pa.string()),
            pa.MapArray.from_arrays(
                pa.array([0, *ends], pa.int32()),
                pa.array(self._keys, pa.string()),
                pa.array(self._items, pa.float64()),
            ),
            *(pa.array(column, pa.string()) for column in texts),
            pa.nulls(len(self._rows), pa.string()),
        ]
        return pa.Table.from_arrays(columns, schema=SCORES.arrow)

    def _values(self, score: Score) -> dict[str, float]:
        if isinstance(score.value, Mapping):
            return {self.renamed.get(key, str(key)): value for key, value in score.value.items()}
        if score.status != "unparsed":
            return {self.value_keys[0]: score.value}
        if score.value:
            return dict.fromkeys(self.value_keys, score.value)
        worst = {key: self.scales.get(key, DEFAULT).worst for key in self.value_keys}
        return {key: value for key, value in worst.items() if value is not None}

    def _row(
        self,
        row: int,
        name: str | None,
        status: ScoreStatus,
        extracted: str | None,
        reason: Reason | None = None,
        explanation: str | None = None,
        components: str | None = None,
        metadata: str | None = None,
    ) -> None:
        entry = (row, name, status, len(self._keys), extracted, reason, explanation, components, metadata)
        self._rows.append(entry)


def _usable(value: float) -> bool:
    return -_LARGEST <= value <= _LARGEST


def _shown(value: float) -> str:
    """A number that is not usable. Python writes no integer of many digits."""
    return f"a number beyond {_LARGEST:g}" if isinstance(value, int) else str(value)


def positions_of(known: Sequence[Any], wanted: Sequence[Any]) -> list[int | None] | None:
    """The position of each wanted key among the known keys; None when the sequences are equal."""
    if known == wanted:
        return None
    row_of = {key: row for row, key in enumerate(known)}
    return [row_of.get(key) for key in wanted]


def keys(table: pa.Table, columns: Sequence[str] = RESPONSES_INPUT.key) -> list[tuple[Any, ...]]:
    """The key of each row: of an answer its sample's row index and its replicate."""
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


def _column(table: pa.Table, parts: Sequence[str], json_columns: Collection[str]) -> tuple[Sequence[Any], bool]:
    column = table.column(parts[0])
    values = column.to_pylist()
    if parts[0] in json_columns:
        values = [None if text is None else canonical.decode(text) for text in values]
    if len(parts) > 1:
        return [_or_none(walk(value, parts[1:])) for value in values], False
    return values, pa.types.is_string(column.type) and parts[0] not in json_columns


def _or_none(value: Any) -> Any:
    return None if value is MISSING else value


def in_form(value: JsonValue, kind: FieldKind) -> Any:
    """A value in the form that a metric needs."""
    if kind in ("text", "list_reference") or (kind == "reference" and not isinstance(value, list | tuple)):
        return as_text(value)
    if kind == "texts":
        return [as_text(item) for item in value] if isinstance(value, list | tuple) else [as_text(value)]
    if kind == "reference" and isinstance(value, list | tuple) and value:
        texts = tuple(as_text(item) for item in value if item is not None)
        return texts if len(texts) > 1 else texts[0] if texts else None
    return value


def alternatives(path: Path, label: Any, texts: Sequence[str]) -> Any:
    """All references of a sample at the path of its label. The label comes first.

    Its own value at such a path, ``metadata.correct_choice`` for example, stays the only one.
    """
    if isinstance(label, tuple) or len(texts) < 2:
        return label
    if label is None or (path.parts != ("label",) and label.strip() not in {text.strip() for text in texts}):
        return label
    own = label if path.parts == ("label",) else texts[0]
    answers = tuple(dict.fromkeys((own, *texts[1:])))
    return answers if len(answers) > 1 else label


def _several(samples: pa.Table) -> dict[int, list[str]]:
    """The references as texts, by row of the samples, where there is more than one."""
    lengths = pc.list_value_length(samples.column("references"))
    if (pc.max(lengths).as_py() or 0) < 2:
        return {}
    rows = pc.indices_nonzero(pc.fill_null(pc.greater(lengths, 1), fill_value=False)).to_pylist()
    chosen = rows_of(samples.select(["references"]).take(pa.array(rows, pa.int64())), ["references"])
    return {row: reference_texts(sample) for row, sample in zip(rows, chosen, strict=True)}
