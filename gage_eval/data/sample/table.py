"""Samples and messages as Arrow columns, and back without loss.

Tables are built column by column from flat lists and offsets: nested arrays from nested dicts cost ten times
as much. Open objects are canonical JSON text.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.base import canonical
from gage_eval.base.tables import FEW_SHOT, MESSAGE, OPTION, REFERENCE, SAMPLES, SEGMENT
from gage_eval.data.sample.rules import MEDIA_TYPES

_STRING = pa.string()
_MEDIA = frozenset(MEDIA_TYPES)
_TEXT_COLUMNS = ("id", "schema_version", "task_type", "label", "choices_role")
_JSON_COLUMNS = (
    "sandbox", "metadata", "data_tag", "raw_assets", "tools", "tool_choice", "sampling_params",
    "generation_params", "eval_config", "unconditioned_input",
)  # fmt: skip
# Fields that a run writes to a Sample have no column. They are stored under these names in `extra`, where the
# contract does not allow the name of a field.
_RUNTIME_FIELDS = ("predict_result", "eval_result")


def samples_to_table(samples: Sequence[Mapping[str, Any]], row_indexes: Sequence[int]) -> pa.Table:
    """The `tables.SAMPLES` table of normalised samples (`gage_eval.data.sample.rules.normalise_sample`).

    Raises:
        ValueError: the lengths differ.
    """
    if len(samples) != len(row_indexes):
        raise ValueError(f"{len(samples)} samples, but {len(row_indexes)} row indexes")
    # Most datasets use a few of the fields: the other columns are nulls, made without reading the rows.
    used = set[str]().union(*samples)
    if not used.isdisjoint(_RUNTIME_FIELDS):
        used.add("extra")
        samples = [_with_runtime_fields(sample) for sample in samples]
    arrays = [pa.array(row_indexes, pa.int64())]
    for field in islice(SAMPLES.arrow, 1, None):
        if field.name in used:
            arrays.append(_ENCODERS[field.name]([sample.get(field.name) for sample in samples]))
        else:
            arrays.append(pa.nulls(len(samples), field.type))
    return pa.Table.from_arrays(arrays, schema=SAMPLES.arrow)


def rows_of(table: pa.Table, columns: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """The samples of a table, in canonical form with absent fields left out.

    Args:
        table: of the schema `tables.SAMPLES`, or some of its columns.
        columns: the columns to read; by default all the table has but ``row_index``.
    """
    names = [name for name in table.column_names if name != "row_index"] if columns is None else list(columns)
    rows: list[dict[str, Any]] = [{} for _ in range(table.num_rows)]
    for name in names:
        column = table.column(name)
        if column.null_count < len(column):
            _set(rows, name, _DECODERS[name](_one_array(column)))
    if "extra" in names:
        for row in rows:
            _restore_runtime_fields(row)
    return rows


def messages_to_array(conversations: Sequence[list[dict[str, Any]] | None]) -> pa.Array:
    """A `tables.MESSAGES` array, one list of messages per row.

    Content may be a list of segments, a plain string (one text segment) or absent.
    """
    return _list_array(conversations, _message_array)


def messages_from_array(array: pa.Array | pa.ChunkedArray, *, collapse: bool = True) -> list[list[dict[str, Any]]]:
    """The messages of a `tables.MESSAGES` array in OpenAI's form; an empty list for a null row.

    Args:
        array: the column, sliced or chunked as it may be.
        collapse: content of a single text segment becomes a plain string; otherwise it stays a list.
    """
    lists = _lists_of(_one_array(array), lambda values: _messages_of(values, collapse=collapse))
    return [messages or [] for messages in lists]


def _list_array(lists: Sequence[Sequence[Any] | None], inner: Callable[[list[Any]], pa.Array]) -> pa.ListArray:
    filled = [items or () for items in lists] if None in lists else cast(Sequence[Sequence[Any]], lists)
    offsets = np.zeros(len(filled) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, filled), np.int32, len(filled)), out=offsets[1:])
    # The offset of a null list is null, as `from_arrays` expects.
    nulls = None if filled is lists else np.array([*(items is None for items in lists), False])
    return pa.ListArray.from_arrays(pa.array(offsets, mask=nulls), inner(list(chain.from_iterable(filled))))


def _struct_array(kind: pa.StructType, arrays: list[pa.Array]) -> pa.StructArray:
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _text_array(values: list[str | None]) -> pa.Array:
    return pa.array(values, _STRING)


def _json_array(values: Sequence[Any]) -> pa.Array:
    if not any(value is not None for value in values):
        return pa.nulls(len(values), _STRING)
    return pa.array([None if value is None else canonical.canonical_text(value) for value in values], _STRING)


def _rest_array(items: Sequence[Mapping[str, Any]], known: frozenset[str]) -> pa.Array:
    """The keys beyond the known ones as JSON text, null where there are none."""
    if all(item.keys() <= known for item in items):
        return pa.nulls(len(items), _STRING)
    rests = [{key: value for key, value in item.items() if key not in known} or None for item in items]
    return _json_array(rests)


_MESSAGE_KEYS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})
_FEW_SHOT_KEYS = ("messages", "options", "references", "label", "tools", "tool_choice")


def _message_array(messages: list[dict[str, Any]]) -> pa.Array:
    count = len(messages)
    roles = _text_array(list(map(itemgetter("role"), messages)))
    contents = [message.get("content") for message in messages]
    content = _list_array(
        [[{"type": "text", "text": item}] if type(item) is str else item for item in contents], _segment_array
    )
    if all(len(message) == 2 for message in messages) and None not in contents:
        nulls = pa.nulls(count, _STRING)
        return _struct_array(MESSAGE, [roles, content, nulls, nulls, nulls, nulls])
    return _struct_array(
        MESSAGE,
        [
            roles,
            content,
            _json_array([message.get("tool_calls") for message in messages]),
            _text_array([message.get("tool_call_id") for message in messages]),
            _text_array([message.get("name") for message in messages]),
            _rest_array(messages, _MESSAGE_KEYS),
        ],
    )


def _segment_array(segments: list[dict[str, Any]]) -> pa.Array:
    types = list(map(itemgetter("type"), segments))
    plain = all(len(segment) == 2 for segment in segments)
    if plain and types.count("text") == len(types):
        nulls = pa.nulls(len(types), _STRING)
        texts = _text_array(list(map(itemgetter("text"), segments)))
        return _struct_array(SEGMENT, [_text_array(types), texts, nulls, nulls])
    return _struct_array(
        SEGMENT,
        [
            _text_array(types),
            _text_array([segment["text"] if segment["type"] == "text" else None for segment in segments]),
            _text_array(
                [segment[segment["type"]]["url"] if segment["type"] in _MEDIA else None for segment in segments]
            ),
            _json_array([_segment_rest(segment) for segment in segments]),
        ],
    )


def _segment_rest(segment: dict[str, Any]) -> dict[str, Any] | None:
    """A segment's keys except type, text and url. Extra keys of a medium's object are under the segment's type."""
    kind = segment["type"]
    rest = {key: value for key, value in segment.items() if key not in ("type", kind)}
    if kind in _MEDIA and len(segment[kind]) > 1:
        rest[kind] = {key: value for key, value in segment[kind].items() if key != "url"}
    return rest or None


def _option_array(options: list[dict[str, str]]) -> pa.Array:
    ids = _text_array([option["id"] for option in options])
    return _struct_array(OPTION, [ids, _text_array([option["content"] for option in options])])


def _reference_array(references: list[dict[str, Any]]) -> pa.Array:
    answers = _list_array([reference["answer"] for reference in references], _segment_array)
    return _struct_array(REFERENCE, [answers, _json_array([reference.get("meta") for reference in references])])


def _few_shot_array(examples: list[dict[str, Any]]) -> pa.Array:
    columns = [_ENCODERS[name]([example.get(name) for example in examples]) for name in _FEW_SHOT_KEYS]
    return _struct_array(FEW_SHOT, [*columns, _rest_array(examples, frozenset(_FEW_SHOT_KEYS))])


def _with_runtime_fields(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    runtime = {name: sample[name] for name in _RUNTIME_FIELDS if sample.get(name) is not None}
    return {**sample, "extra": {**(sample.get("extra") or {}), **runtime}} if runtime else sample


def _one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _lists_of(array: pa.ListArray, inner: Callable[[pa.Array], list[Any]]) -> list[list[Any] | None]:
    items: Iterator[Any] = iter(inner(array.flatten()))
    lengths = pc.list_value_length(array).to_pylist()
    return [None if length is None else list(islice(items, length)) for length in lengths]


def _json_values(array: pa.Array) -> list[Any]:
    if array.null_count == len(array):
        return [None] * len(array)
    return [None if text is None else canonical.decode(text) for text in array.to_pylist()]


def _messages_of(array: pa.StructArray, *, collapse: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": role} for role in array.field("role").to_pylist()]
    contents = array.field("content")
    if collapse and (texts := _only_texts(contents)) is not None:
        _set(messages, "content", texts)
    else:
        for message, content in zip(messages, _lists_of(contents, _segments_of), strict=True):
            if content is not None:
                message["content"] = _collapsed(content) if collapse else content
    for name, decoded in _OF_MESSAGE.items():
        column = array.field(name)
        if column.null_count < len(column):
            _set(messages, name, decoded(column))
    _update(messages, _json_values(array.field("extra")))
    return messages


def _only_texts(contents: pa.ListArray) -> list[str] | None:
    """The texts of contents that are one text segment each, as most are; None where one of them is anything else."""
    if contents.null_count or pc.unique(pc.list_value_length(contents)).to_pylist() != [1]:
        return None
    segments = contents.flatten()
    if segments.field("extra").null_count < len(segments) or pc.unique(segments.field("type")).to_pylist() != ["text"]:
        return None
    texts: list[str] = segments.field("text").to_pylist()
    return texts


def _conversations_of(array: pa.Array) -> list[list[dict[str, Any]] | None]:
    return _lists_of(array, lambda values: _messages_of(values, collapse=False))


def _collapsed(content: list[dict[str, Any]]) -> Any:
    if len(content) == 1 and len(content[0]) == 2 and content[0]["type"] == "text":
        return content[0]["text"]
    return content


def _segments_of(array: pa.StructArray) -> list[dict[str, Any]]:
    types, texts = array.field("type").to_pylist(), array.field("text").to_pylist()
    urls, extras = array.field("url"), array.field("extra")
    if urls.null_count == len(array) and extras.null_count == len(array):
        return [{"type": kind, "text": text} for kind, text in zip(types, texts, strict=True)]
    out: list[dict[str, Any]] = []
    for kind, text, url, extra in zip(types, texts, urls.to_pylist(), _json_values(extras), strict=True):
        segment: dict[str, Any] = {"type": kind, **(extra or {})}
        segment[kind] = text if kind == "text" else {"url": url, **segment.get(kind, {})}
        out.append(segment)
    return out


def _options_of(array: pa.StructArray) -> list[dict[str, Any]]:
    pairs = zip(array.field("id").to_pylist(), array.field("content").to_pylist(), strict=True)
    return [{"id": name, "content": content} for name, content in pairs]


def _references_of(array: pa.StructArray) -> list[dict[str, Any]]:
    references = [{"answer": answer} for answer in _lists_of(array.field("answer"), _segments_of)]
    _set(references, "meta", _json_values(array.field("meta")))
    return references


def _few_shot_of(array: pa.StructArray) -> list[dict[str, Any]]:
    examples: list[dict[str, Any]] = [{} for _ in range(len(array))]
    for name in _FEW_SHOT_KEYS:
        _set(examples, name, _DECODERS[name](array.field(name)))
    _update(examples, _json_values(array.field("extra")))
    return examples


def _set(rows: Sequence[dict[str, Any]], name: str, values: Sequence[Any]) -> None:
    for row, value in zip(rows, values, strict=True):
        if value is not None:
            row[name] = value


def _update(rows: Sequence[dict[str, Any]], rests: Sequence[dict[str, Any] | None]) -> None:
    for row, rest in zip(rows, rests, strict=True):
        if rest:
            row.update(rest)


def _restore_runtime_fields(row: dict[str, Any]) -> None:
    extra = row.get("extra")
    if not extra:
        return
    for name in _RUNTIME_FIELDS:
        if name in extra:
            row[name] = extra.pop(name)
    if not extra:
        del row["extra"]


_ENCODERS: dict[str, Callable[[list[Any]], pa.Array]] = {
    **dict.fromkeys(_TEXT_COLUMNS, _text_array),
    **dict.fromkeys((*_JSON_COLUMNS, "extra"), _json_array),
    "messages": messages_to_array,
    "options": lambda rows: _list_array(rows, _option_array),
    "references": lambda rows: _list_array(rows, _reference_array),
    "few_shot_examples": lambda rows: _list_array(rows, _few_shot_array),
    "golden_trajectories": lambda rows: _list_array(rows, messages_to_array),
}
_OF_MESSAGE: dict[str, Callable[[pa.Array], Sequence[Any]]] = {
    "tool_call_id": pa.Array.to_pylist,
    "name": pa.Array.to_pylist,
    "tool_calls": _json_values,
}
_DECODERS: dict[str, Callable[[pa.Array], Sequence[Any]]] = {
    **dict.fromkeys(_TEXT_COLUMNS, pa.Array.to_pylist),
    **dict.fromkeys((*_JSON_COLUMNS, "extra"), _json_values),
    "row_index": pa.Array.to_pylist,
    "messages": _conversations_of,
    "options": lambda array: _lists_of(array, _options_of),
    "references": lambda array: _lists_of(array, _references_of),
    "few_shot_examples": lambda array: _lists_of(array, _few_shot_of),
    "golden_trajectories": lambda array: _lists_of(array, _conversations_of),
}
