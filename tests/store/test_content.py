"""The content hash stands for the rows and nothing else."""

import hashlib
import math
import struct
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.tables import MESSAGES
from gage_eval.store import content_hash

STRUCT = pa.struct([("name", pa.string()), ("score", pa.float64()), ("tags", pa.list_(pa.int32()))])
SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("small", pa.int8()),
        ("flag", pa.bool_()),
        ("score", pa.float64()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("words", pa.list_(pa.string())),
        ("nested", pa.list_(STRUCT)),
        ("record", STRUCT),
        ("pairs", pa.map_(pa.string(), pa.float64())),
    ]
)

_score = st.none() | st.floats(width=64) | st.sampled_from([0.0, -0.0, math.nan])
_text = st.none() | st.text(max_size=5)
_struct = st.none() | st.fixed_dictionaries(
    {"name": _text, "score": _score, "tags": st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=3)}
)
_row = st.fixed_dictionaries(
    {
        "number": st.none() | st.integers(-(2**63), 2**63 - 1),
        "small": st.none() | st.integers(-128, 127),
        "flag": st.none() | st.booleans(),
        "score": _score,
        "text": _text,
        "raw": st.none() | st.binary(max_size=5),
        "words": st.none() | st.lists(_text, max_size=3),
        "nested": st.none() | st.lists(_struct, max_size=3),
        "record": _struct,
        "pairs": st.none() | st.lists(st.tuples(st.text(max_size=3), _score), max_size=3),
    }
)
_rows = st.lists(_row, max_size=12)


def reference_hash(table: pa.Table) -> str:
    """The hash as its definition says it, value by value."""
    columns = [
        [field.name, _reference(field.type, column.to_pylist())]
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return digest({"form": 1, "rows": table.num_rows, "columns": columns})


def _reference(kind: pa.DataType, values: list[Any]) -> JsonValue:
    valid = _sha(bytes(value is not None for value in values))
    present = [value for value in values if value is not None]
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        children = [[field.name, _reference(field.type, [v and v[field.name] for v in values])] for field in fields]
        return ["struct", valid, children]
    if pa.types.is_map(kind):
        item = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        flat = [{"key": key, "value": value} for pairs in present for key, value in pairs]
        return ["list", valid, _lengths(values), _reference(item, flat)]
    if pa.types.is_list(kind):
        return ["list", valid, _lengths(values), _reference(kind.value_type, [v for vs in present for v in vs])]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        data = [value.encode() if isinstance(value, str) else value for value in present]
        lengths = [None if v is None else v.encode() if isinstance(v, str) else v for v in values]
        name = "string" if pa.types.is_string(kind) else "binary"
        return [name, valid, _lengths(lengths), _sha(b"".join(data))]
    code = {"int64": "<q", "int8": "<b", "int32": "<i", "bool": "<B", "double": "<d"}[str(kind)]
    return [str(kind), valid, _sha(b"".join(struct.pack(code, _plain(value)) for value in values))]


def _plain(value: Any) -> Any:
    if value is None or value == 0:
        return 0
    return math.nan if value != value else value


def _lengths(values: list[Any]) -> str:
    return _sha(b"".join(struct.pack("<q", 0 if value is None else len(value)) for value in values))


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(_rows)
def test_the_fast_hash_is_the_defined_one(values: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(values, SCHEMA)

    assert content_hash(table) == reference_hash(table)


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(_rows, _rows, st.integers(0, 12), st.integers(0, 12))
def test_slicing_and_chunking_do_not_matter(
    before: list[dict[str, Any]], values: list[dict[str, Any]], cut: int, skip: int
) -> None:
    whole = pa.Table.from_pylist(values, SCHEMA)
    sliced = pa.Table.from_pylist(before + values, SCHEMA).slice(len(before))
    chunked = pa.concat_tables([sliced.slice(0, cut), sliced.slice(cut)])

    assert content_hash(sliced) == content_hash(chunked) == content_hash(whole)
    assert content_hash(chunked.slice(skip)) == content_hash(pa.Table.from_pylist(values[skip:], SCHEMA))


@settings(max_examples=50, deadline=None)
@given(_rows)
def test_a_parquet_file_keeps_the_hash(values: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(values, SCHEMA)
    buffer = BytesIO()
    pq.write_table(table, buffer, row_group_size=3, compression="snappy")

    assert content_hash(pq.read_table(BytesIO(buffer.getvalue()))) == content_hash(table)


@settings(max_examples=100, deadline=None)
@given(_rows, _rows)
def test_other_rows_have_another_hash(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    table_of_left, two = pa.Table.from_pylist(left, SCHEMA), pa.Table.from_pylist(right, SCHEMA)

    assert (content_hash(table_of_left) == content_hash(two)) == (reference_hash(table_of_left) == reference_hash(two))


def test_a_map_is_a_list_of_structs() -> None:
    values: list[list[tuple[str, int | None]] | None] = [[("a", 1), ("b", None)], None, []]
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.int64())]))
    as_list = pa.array([None if v is None else [{"key": k, "value": n} for k, n in v] for v in values], pairs)
    as_map = pa.array(values, pa.map_(pa.string(), pa.int64()))

    assert content_hash(pa.table({"c": as_map})) == content_hash(pa.table({"c": as_list}))


def test_bytes_under_null_slots_do_not_matter() -> None:
    offsets = pa.py_buffer(struct.pack("<4i", 0, 1, 7, 8))
    validity = pa.py_buffer(bytes([0b101]))
    hidden = pa.Array.from_buffers(pa.string(), 3, [validity, offsets, pa.py_buffer(b"ahiddenb")])
    numbers = pa.Array.from_buffers(pa.int64(), 3, [validity, pa.py_buffer(struct.pack("<3q", 1, 99, 2))])

    assert content_hash(pa.table({"t": hidden, "n": numbers})) == content_hash(
        pa.table({"t": ["a", None, "b"], "n": [1, None, 2]})
    )


def test_what_is_next_to_each_other_is_kept_apart() -> None:
    pairs = [
        (pa.array(["ab", "c"]), pa.array(["a", "bc"])),
        (pa.array([""]), pa.array([None], pa.string())),
        (pa.array([[1], [2, 3]]), pa.array([[1, 2], [3]])),
        (pa.array([{"a": None}], pa.struct([("a", pa.int64())])), pa.array([None], pa.struct([("a", pa.int64())]))),
        (pa.array([1], pa.int64()), pa.array([1], pa.int32())),
        (pa.array([1], pa.int64()), pa.array([1], pa.uint64())),
        (pa.array(["a"]), pa.array([b"a"])),
        (pa.array([0.5]), pa.array([0.25])),
    ]
    for left, right in pairs:
        assert content_hash(pa.table({"c": left})) != content_hash(pa.table({"c": right})), (left, right)
    assert content_hash(pa.table({"c": [1]})) != content_hash(pa.table({"d": [1]}))


@pytest.mark.parametrize(
    "column",
    [
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
        pa.array(["a"]).dictionary_encode(),
        pa.array(["a"], pa.large_string()),
        pa.array(["a"], pa.string_view()),
        pa.array([[1]], pa.large_list(pa.int64())),
        pa.array([[1]], pa.list_(pa.int64(), 1)),
        pa.array([[1]], pa.list_view(pa.int64())),
        pa.array([1], pa.timestamp("s")),
        pa.array([{"a": None}]),
        pa.nulls(1),
    ],
    ids=lambda column: str(column.type),
)
def test_types_that_no_table_has_are_refused(column: pa.Array) -> None:
    with pytest.raises(TypeError, match="no content hash"):
        content_hash(pa.table({"c": column}))


def test_the_hash_is_the_same_for_ever() -> None:
    """Artifact ids in all stores rest on it: when this fails, the form of the hash needs a new number."""
    table = pa.table(
        {
            "row_index": pa.array([0, 1, None], pa.int64()),
            "score": pa.array([-0.0, math.nan, 1.5]),
            "ok": pa.array([True, None, False]),
            "data_tag": pa.array([[("lang", "de")], None, []], pa.map_(pa.string(), pa.string())),
            "messages": pa.array(
                [[{"role": "user", "content": [{"type": "text", "text": "Wie geht’s?"}]}], None, []], MESSAGES
            ),
        }
    )

    assert content_hash(table) == "d22939745656d00b3f48a7f353f389f80546eafe7116f0242562a49fddc4b001"
