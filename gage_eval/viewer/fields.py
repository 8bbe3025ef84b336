"""The fields that a search line names: those of every answer. A task's slices come in addition."""

from collections.abc import Sequence

NUMBERS = {
    "score": "value",
    "tokens": "completion_tokens",
    "prompt_tokens": "prompt_tokens",
    "length": "length",
    "latency": "latency_ms",
    "replicate": "replicate",
    "row": "row_index",
}
"""Columns that terms such as ``tokens>400`` compare, by their name in the search line."""

TEXTS = {"asked": "asked", "answer": "answer", "read": "read", "expected": "expected", "id": "sample_id"}
"""Columns with texts, by their name in the search line."""

FIELDS = ("status", "reason", "error", "finish", "flip", "note", *NUMBERS, *TEXTS)
"""All names."""

# Labels are also what people say about answers: a field of that name is shown with where it is from.
_AMBIGUOUS = (*FIELDS, "label")


def slice_names(paths: Sequence[str]) -> list[str]:
    """A name for each slice field: the last part of its path, or the whole path where that part says something else.

    >>> slice_names(["data_tag.topic", "data_tag.length", "label", "metadata.level", "data_tag.level"])
    ['topic', 'data_tag.length', 'sample.label', 'metadata.level', 'data_tag.level']
    """
    short = [path.rpartition(".")[2] for path in paths]
    return [
        name if name not in _AMBIGUOUS and short.count(name) == 1 else path if path != name else f"sample.{path}"
        for path, name in zip(paths, short, strict=True)
    ]
