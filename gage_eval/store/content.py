"""The content hash: a digest of a table's logical rows, independent of how Arrow stores them.

Every column becomes a tree of byte streams (validity, lengths, values), each hashed separately, chunk by chunk:

* validity: one byte per slot, 1 or 0;
* lengths of strings, binaries and lists: int64, 0 where the slot is null;
* values: little-endian, zero where the slot is null; floats with one zero and one NaN.

Different Arrow forms of equal data have equal hashes: chunking, slices and their offsets, bytes under null
slots, string and large_string and string_view, dictionaries, run ends, maps and lists of key-value structs.
Column names, their order and the types (apart from those) are part of the hash.
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
        TypeError: a column's type (a union) has no canonical form.
    """
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        node = _node(field.type)
        for chunk in column.chunks:
            node.feed(chunk)
        columns.append([field.name, node.described()])
    return digest({"form": _FORM, "rows": table.num_rows, "columns": columns})


def _node(kind: pa.DataType) -> _Node:
    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _Decoded(kind)
    if isinstance(kind, pa.BaseExtensionType):
        return _Storage(kind)
    if types.is_null(kind):
        return _Nothing()
    if types.is_union(kind):
        raise TypeError(f"a column of type {kind} has no content hash")
    return _Slots(kind)


def _slots(kind: pa.DataType) -> _Node:
    if _is_text(kind) or _is_bytes(kind):
        return _Bytes(kind)
    if _is_list(kind):
        return _List(kind)
    if pa.types.is_struct(kind):
        return _Struct(kind)
    return _FixedWidth(kind)


@lru_cache(maxsize=256)
def _of_nulls(kind: pa.DataType, count: int) -> JsonValue:
    """The description of this number of null slots."""
    node = _slots(kind)
    node.feed(pa.nulls(count, kind))
    return node.described()


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
        or types.is_map(kind)
    )


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


class _Nothing:
    """The null type: only the row count matters."""

    def feed(self, array: pa.Array) -> None:
        """No stream."""

    def described(self) -> JsonValue:
        return ["null"]


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
            self._inner = _slots(self._kind)
            self._inner.feed(pa.nulls(self._nulls, self._kind))
        self._inner.feed(array)

    def described(self) -> JsonValue:
        return _of_nulls(self._kind, self._nulls) if self._inner is None else self._inner.described()


class _Decoded:
    """Dictionaries and run ends: only the represented values count."""

    def __init__(self, kind: pa.DataType) -> None:
        self._dictionary = bool(pa.types.is_dictionary(kind))
        self._inner = _node(kind.value_type)

    def feed(self, array: pa.Array) -> None:
        if self._dictionary:
            self._inner.feed(array.dictionary_decode())
        else:
            import pyarrow.compute as pc

            self._inner.feed(pc.run_end_decode(array))

    def described(self) -> JsonValue:
        return self._inner.described()


class _Storage:
    """An extension type: its name and its storage."""

    def __init__(self, kind: pa.DataType) -> None:
        self._name = str(getattr(kind, "extension_name", kind))
        self._inner = _node(kind.storage_type)

    def feed(self, array: pa.Array) -> None:
        self._inner.feed(array.storage)

    def described(self) -> JsonValue:
        return ["extension", self._name, self._inner.described()]


class _FixedWidth:
    """Values of one width: booleans, numbers, decimals, times, fixed-size binaries."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._name = str(kind)
        self._boolean = bool(pa.types.is_boolean(kind))
        self._floating = bool(pa.types.is_floating(kind))
        self._width = 1 if self._boolean else kind.bit_width // 8
        self._validity = hashlib.sha256()
        self._values = hashlib.sha256()

    def feed(self, array: pa.Array) -> None:
        if len(array) == 0:
            return
        valid = _valid(array)
        self._validity.update(valid.data)
        if self._width:
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
    """Strings and binaries of any length."""

    def __init__(self, kind: pa.DataType) -> None:
        self._name = "string" if _is_text(kind) else "binary"
        self._view = bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))
        self._large = bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)) or self._view
        self._wide = pa.large_string() if self._name == "string" else pa.large_binary()
        self._validity = hashlib.sha256()
        self._lengths = hashlib.sha256()
        self._values = hashlib.sha256()

    def feed(self, array: pa.Array) -> None:
        if len(array) == 0:
            return
        if self._view:
            array = array.cast(self._wide)
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
        width = np.dtype("<i8") if self._large else np.dtype("<i4")
        offsets = np.frombuffer(array.buffers()[1], width)[array.offset : array.offset + len(array) + 1]
        return np.diff(offsets).astype(np.int64, copy=False), int(offsets[0]), int(offsets[-1])

    def described(self) -> JsonValue:
        return [self._name, self._validity.hexdigest(), self._lengths.hexdigest(), self._values.hexdigest()]


class _List:
    """Lists of every kind, and maps, which are lists of key-value structs."""

    def __init__(self, kind: pa.DataType) -> None:
        types = pa.types
        self._view = bool(types.is_list_view(kind) or types.is_large_list_view(kind))
        self._fixed = kind.list_size if types.is_fixed_size_list(kind) else None
        self._map = bool(types.is_map(kind))
        if self._map:
            item = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        else:
            item = kind.value_type
        self._items = _node(item)
        self._validity = hashlib.sha256()
        self._lengths = hashlib.sha256()

    def feed(self, array: pa.Array) -> None:
        if len(array) == 0:
            return
        if self._map:
            array = _as_list(array)
        valid = _valid(array)
        self._validity.update(valid.data)
        if self._fixed is not None:
            lengths = np.full(len(array), self._fixed, "<i8")
        elif self._view:
            # No cast to a list here: pyarrow 26 gives the last one the wrong end.
            lengths = array.sizes.to_numpy(zero_copy_only=False).astype("<i8")
        else:
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
        self._fields = [(kind.field(i).name, _node(kind.field(i).type)) for i in range(kind.num_fields)]
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
