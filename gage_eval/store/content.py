"""The content hash: a digest of a table's logical rows, independent of how Arrow stores them.

Every column becomes a tree of byte streams (validity, lengths, values), each hashed separately, chunk by chunk:

* validity: one byte per slot, 1 or 0;
* lengths of strings, binaries and lists: int64, 0 where the slot is null;
* values: little-endian, zero where the slot is null; floats with one zero and one NaN.

Different Arrow forms of equal data have equal hashes: chunking, slices and their offsets, bytes under null
slots, maps and lists of key-value structs. Column names, their order and the types (apart from those) are part of the
hash. Only the types that tables of the store have are known: other types, and other encodings of these, are refused.
"""

import hashlib
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gage_eval.base.canonical import JsonValue, digest

_FORM = 1


class _Node(Protocol):
    def feed(self, array: pa.Array) -> None: ...

    def described(self) -> JsonValue: ...


def content_hash(table: pa.Table) -> str:
    """sha256 (64 hex digits) of the rows of a table, in order.

    Raises:
        TypeError: a column is not of one of the types that tables have.
    """
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        node = _Slots(field.type)
        for chunk in column.chunks:
            node.feed(chunk)
        columns.append([field.name, node.described()])
    return digest({"form": _FORM, "rows": table.num_rows, "columns": columns})


def _streams(kind: pa.DataType) -> _Node:
    """The streams of a type."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _Bytes(kind)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _List(kind)
    if pa.types.is_struct(kind):
        return _Struct(kind)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _FixedWidth(kind)
    raise TypeError(f"a column of type {kind} has no content hash")


@lru_cache(maxsize=256)
def _of_nulls(kind: pa.DataType, count: int) -> JsonValue:
    """The description of this number of null slots."""
    node = _streams(kind)
    node.feed(pa.nulls(count, kind))
    return node.described()


def _valid(array: pa.Array) -> npt.NDArray[np.uint8]:
    """One byte per slot: 1 where there is a value."""
    count = len(array)
    bits = array.buffers()[0] if count else None
    if bits is None or array.null_count == 0:
        return np.ones(count, np.uint8)
    first, last = array.offset // 8, (array.offset + count + 7) // 8
    unpacked = np.unpackbits(np.frombuffer(bits, np.uint8)[first:last], bitorder="little")
    skip = array.offset - first * 8
    return unpacked[skip : skip + count]


class _Slots:
    """Slots that can be null. As long as all are, they are only counted: most columns of a part have no value."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._nulls = 0
        self._inner: _Node | None = None

    def feed(self, array: pa.Array) -> None:
        if self._inner is None:
            if array.null_count == len(array):
                self._nulls += len(array)
                return
            self._inner = _streams(self._kind)
            self._inner.feed(pa.nulls(self._nulls, self._kind))
        self._inner.feed(array)

    def described(self) -> JsonValue:
        return _of_nulls(self._kind, self._nulls) if self._inner is None else self._inner.described()


class _FixedWidth:
    """Booleans and numbers."""

    def __init__(self, kind: pa.DataType) -> None:
        self._name = str(kind)
        self._boolean = bool(pa.types.is_boolean(kind))
        self._floating = bool(pa.types.is_floating(kind))
        self._width = kind.bit_width // 8
        self._validity = hashlib.sha256()
        self._values = hashlib.sha256()

    def feed(self, array: pa.Array) -> None:
        if len(array) == 0:
            return
        valid = _valid(array)
        self._validity.update(valid.data)
        self._values.update(self._bytes(array, valid).data)

    def _bytes(self, array: pa.Array, valid: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        count, offset = len(array), array.offset
        buffer = array.buffers()[1]
        if self._boolean:
            unpacked = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
            return unpacked[offset : offset + count] * valid
        if self._floating:
            floats = np.frombuffer(buffer, np.dtype(f"<f{self._width}"))[offset : offset + count]
            # Adding +0 turns -0 into 0; where() fixes the payloads of NaNs and the bytes under nulls.
            floats = np.where(np.isnan(floats), np.array(np.nan, floats.dtype), floats + floats.dtype.type(0))
            return np.where(valid == 1, floats, floats.dtype.type(0))
        raw = np.frombuffer(buffer, np.uint8, count * self._width, offset * self._width)
        if array.null_count == 0:
            return raw
        return np.ascontiguousarray(raw.reshape(count, self._width) * valid[:, None])

    def described(self) -> JsonValue:
        return [self._name, self._validity.hexdigest(), self._values.hexdigest()]


class _Bytes:
    """Strings and binaries."""

    def __init__(self, kind: pa.DataType) -> None:
        self._name = str(kind)
        self._validity = hashlib.sha256()
        self._lengths = hashlib.sha256()
        self._values = hashlib.sha256()

    def feed(self, array: pa.Array) -> None:
        if len(array) == 0:
            return
        valid = _valid(array)
        lengths, start, stop = self._extent(array)
        if array.null_count and (lengths[valid == 0] != 0).any():
            # A null slot may cover bytes that are not part of any value.
            lengths = np.where(valid == 1, lengths, 0)
            _, start, stop = self._extent(array := array.drop_null())
        self._validity.update(valid.data)
        self._lengths.update(lengths.astype("<i8", copy=False).data)
        data = array.buffers()[2]
        if data is not None and stop > start:
            self._values.update(memoryview(data)[start:stop])

    def _extent(self, array: pa.Array) -> tuple[npt.NDArray[np.int64], int, int]:
        """Length of every slot, and where the values begin and end in the data buffer."""
        if len(array) == 0:
            return np.empty(0, np.int64), 0, 0
        offsets = np.frombuffer(array.buffers()[1], "<i4")[array.offset : array.offset + len(array) + 1]
        return np.diff(offsets).astype(np.int64, copy=False), int(offsets[0]), int(offsets[-1])

    def described(self) -> JsonValue:
        return [self._name, self._validity.hexdigest(), self._lengths.hexdigest(), self._values.hexdigest()]


class _List:
    """Lists, and maps, which are lists of key-value structs."""

    def __init__(self, kind: pa.DataType) -> None:
        self._map = bool(pa.types.is_map(kind))
        item = pa.struct([("key", kind.key_type), ("value", kind.item_type)]) if self._map else kind.value_type
        self._items = _Slots(item)
        self._validity = hashlib.sha256()
        self._lengths = hashlib.sha256()

    def feed(self, array: pa.Array) -> None:
        if len(array) == 0:
            return
        if self._map:
            array = _as_list(array)
        valid = _valid(array)
        self._validity.update(valid.data)
        lengths = np.diff(array.offsets.to_numpy(zero_copy_only=False)).astype("<i8")
        self._lengths.update(np.where(valid == 1, lengths, 0).data)
        # flatten() skips the bytes under null slots and outside the slice.
        self._items.feed(array.flatten())

    def described(self) -> JsonValue:
        return ["list", self._validity.hexdigest(), self._lengths.hexdigest(), self._items.described()]


def _as_list(array: pa.MapArray) -> pa.ListArray:
    """A map as a list of structs, without a copy. `keys` and `items` ignore the offset, so the buffers are used."""
    pairs = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    return pa.Array.from_buffers(
        pa.list_(pairs.type),
        len(array),
        array.buffers()[:2],
        array.null_count,
        array.offset,
        children=[pairs],
    )


class _Struct:
    """Structs: own validity, then every field."""

    def __init__(self, kind: pa.DataType) -> None:
        self._fields = [(kind.field(i).name, _Slots(kind.field(i).type)) for i in range(kind.num_fields)]
        self._validity = hashlib.sha256()

    def feed(self, array: pa.Array) -> None:
        self._validity.update(_valid(array).data)
        # flatten() makes a field null where the struct is.
        for (_, node), child in zip(self._fields, array.flatten(), strict=True):
            node.feed(child)

    def described(self) -> JsonValue:
        return [
            "struct",
            self._validity.hexdigest(),
            [[name, node.described()] for name, node in self._fields],
        ]
