"""The path language of configs: ``sample.metadata.answers.0``, ``model_output.answer``.

A path is a root and parts separated by dots; a part is a key of a mapping, or digits that index a list. The
roots are those of `gage_eval.base.inputs` (``sample``, ``model_output``, ``judge_output``, ``verdicts``). A path
without a known root starts at ``sample``. A path below ``verdicts`` reads the verdicts of all judges, slots and draws
as a list. There is nothing else: no slices, no filters, no attribute access, no evaluation.

The Sample contract (tables.SAMPLES) decides what a sample holds. Spellings of older configs and record
formats are answered by `ALIASES`, the one table for them; what the sample itself holds always comes first.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any, Final, TypeAlias

from gage_eval.base.errors import InputError
from gage_eval.base.inputs import INPUTS, RESPONSES_INPUT, SAMPLES_INPUT, Input, input_at
from gage_eval.base.tables import SAMPLES

RowValues: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""What stands at a root: the fields of a row, or those of all rows of an answer."""


class Missing(Enum):
    """The type of `MISSING`, so that ``is MISSING`` narrows."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing.MISSING
"""Nothing is there; not the same as a null that is there."""

_COLUMNS = frozenset(SAMPLES.arrow.names)
_BRACKETS = re.compile(r"\[(\d+)\]")


def walk(value: Any, parts: str | Sequence[str], default: Any = MISSING) -> Any | Missing:
    """The value at a dotted path below ``value``, or the default.

    Digits index lists (not below zero); every other part is a key of a mapping. For anything else on the way,
    null included, there is no value. A null at the end is None.

    >>> walk({"a": [{"b": 1}]}, "a.0.b")
    1
    """
    for part in parts.split(".") if isinstance(parts, str) else parts:
        if isinstance(value, Mapping):
            value = value.get(part, MISSING)
        elif isinstance(value, list | tuple) and part.isascii() and part.isdigit():
            index = int(part) if len(part) < 10 else len(value)
            value = value[index] if index < len(value) else MISSING
        else:
            return default
        if value is MISSING:
            return default
    return value


def walk_or_key(value: Any, path: str, default: Any = MISSING) -> Any | Missing:
    """`walk`, but a key of ``value`` that holds the dots itself comes first."""
    return value[path] if isinstance(value, Mapping) and path in value else walk(value, path, default)


@dataclass(frozen=True)
class Alias:
    """One spelling that the Sample contract does not have.

    Attributes:
        spelling: the path's first parts below ``sample``.
        columns: columns of tables.SAMPLES that ``view`` reads.
        view: makes the value from a sample, or returns `MISSING`.
        reads: what that is, in words, for documentation.
    """

    spelling: tuple[str, ...]
    columns: frozenset[str]
    view: Callable[[Mapping[str, Any]], Any]
    reads: str


@dataclass(frozen=True)
class Path:
    """A compiled path. Build it with `compile_path`."""

    text: str
    root: str
    parts: tuple[str, ...]
    alias: Alias | None = None

    @property
    def canonical(self) -> str:
        """The one spelling of what this path reads; ``label`` and ``sample.label`` have the same."""
        return ".".join((self.root, *self.parts))

    @property
    def input(self) -> Input:
        """The input that it reads."""
        return input_at(self.root, self.parts[0] if self.parts else None)

    @property
    def is_listed(self) -> bool:
        """Whether it reads all rows of an answer, as a list."""
        return self.root == self.input.listed

    @property
    def reads_label(self) -> bool:
        """Whether it is the sample's label, which stands for its references."""
        return self.alias is not None and self.alias.view is _label and self.parts == self.alias.spelling

    @cached_property
    def sample_columns(self) -> frozenset[str]:
        """The columns of tables.SAMPLES this path can read; empty for the other roots."""
        if self.root != SAMPLES_INPUT.root:
            return frozenset()
        if not self.parts:
            return _COLUMNS
        own = frozenset({self.parts[0] if self.parts[0] in _COLUMNS else "extra"})
        return own | self.alias.columns if self.alias else own

    @property
    def response_columns(self) -> frozenset[str]:
        """The columns of tables.RESPONSES this path can read; empty for other inputs."""
        if self.input is not RESPONSES_INPUT:
            return frozenset()
        return frozenset(self.parts[:1]) & RESPONSES_INPUT.columns

    def get(self, sample: Mapping[str, Any] | None = None, **others: RowValues) -> Any | Missing:
        """The value this path names, or `MISSING`. Keys no Sample field has are looked up in ``extra``.

        Args:
            sample: its fields.
            others: the values of the other roots, by root.
        """
        if self.is_listed:
            values = [walk(row, self.parts) for row in others.get(self.root) or ()]
            return [None if value is MISSING else value for value in values] or MISSING
        if self.root != SAMPLES_INPUT.root:
            return walk(others.get(self.root), self.parts)
        if sample is None:
            return MISSING
        value = walk(sample, self.parts)
        if value is MISSING and self.parts and self.parts[0] not in _COLUMNS:
            value = walk(sample.get("extra"), self.parts)
        if (value is MISSING or value is None) and self.alias is not None:
            viewed = self.alias.view(sample)
            if viewed is not MISSING:
                return walk(viewed, self.parts[len(self.alias.spelling) :])
        return value


def compile_path(text: str) -> Path:
    """Parse a path.

    Raises:
        InputError: the path is empty, has an empty part, or indexes with brackets.
    """
    return _compiled(text, frozenset().union(*(source.roots for source in INPUTS.values())))


@lru_cache(maxsize=4096)
def _compiled(text: str, roots: frozenset[str]) -> Path:
    parts = tuple(text.split("."))
    if not all(parts):
        raise InputError(f"path {text!r} has an empty part. Write e.g. sample.metadata.answers.0.")
    if _BRACKETS.search(text):
        dotted = _BRACKETS.sub(r".\1", text)
        raise InputError(f"path {text!r} uses brackets. Write {dotted!r}.")
    root = SAMPLES_INPUT.root
    if parts[0] in roots:
        root, parts = parts[0], parts[1:]
    if root == SAMPLES_INPUT.root:
        for spelling, (other, rest) in _OTHER_ROOTS.items():
            if parts[: len(spelling)] == spelling:
                return Path(text, other, rest + parts[len(spelling) :])
    if root == RESPONSES_INPUT.root and parts[:1] in _OF_RESPONSES:
        parts = _OF_RESPONSES[parts[:1]] + parts[1:]
    alias = _ALIAS_OF.get(parts[:2]) or _ALIAS_OF.get(parts[:1]) if root == SAMPLES_INPUT.root else None
    return Path(text, root, parts, alias)


def resolve(path: str, *, sample: Mapping[str, Any] | None = None, **others: RowValues) -> Any | Missing:
    """The value at ``path``, or `MISSING`; ``others`` are the values of the other roots, by root.

    Raises:
        InputError: the path cannot be parsed.
    """
    return compile_path(path).get(sample, **others)


def reference_text(reference: Any) -> str | Missing:
    """One reference as text: its text segments joined by spaces, else the address of its first medium."""
    answer = reference.get("answer", MISSING) if isinstance(reference, Mapping) else reference
    if isinstance(answer, str):
        return answer
    if not isinstance(answer, list | tuple):
        return MISSING if answer is MISSING or answer is None else str(answer)
    segments = [segment for segment in answer if isinstance(segment, Mapping)]
    texts = [segment["text"] for segment in segments if isinstance(segment.get("text"), str)]
    if texts:
        return " ".join(texts)
    return next((url for segment in segments if (url := _media_url(segment)) is not None), MISSING)


def reference_media(sample: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Type of segment and address of the references that are a medium without a text, in their order."""
    media = []
    for reference in sample.get("references") or []:
        answer = reference.get("answer") if isinstance(reference, Mapping) else None
        segments = [part for part in answer if isinstance(part, Mapping)] if isinstance(answer, list | tuple) else []
        if not any(isinstance(part.get("text"), str) for part in segments):
            media += [(part["type"], url) for part in segments if (url := _media_url(part)) is not None][:1]
    return media


def reference_texts(sample: Mapping[str, Any]) -> list[str]:
    """The references of a sample as texts."""
    return [text for item in sample.get("references") or [] if (text := reference_text(item)) is not MISSING]


def _reference_texts(sample: Mapping[str, Any]) -> list[str] | Missing:
    return reference_texts(sample) or MISSING


def _label(sample: Mapping[str, Any]) -> Any:
    label = sample.get("label")
    if label is not None:
        return label
    references = sample.get("references") or []
    return reference_text(references[0]) if references else MISSING


def _option_map(sample: Mapping[str, Any]) -> dict[str, Any] | Missing:
    return {str(item["id"]): item["content"] for item in sample.get("options") or []} or MISSING


def _choices(sample: Mapping[str, Any]) -> list[dict[str, Any]] | Missing:
    """``choices`` as older records spell it: the references or the options, by ``choices_role``.

    Each has ``message.content`` as segments. An option also has ``label`` and ``text``, so that the list
    serves as an option map.
    """
    if sample.get("choices_role") == "reference" or not sample.get("options"):
        answers = [item.get("answer") for item in sample.get("references") or [] if isinstance(item, Mapping)]
        contents = [[{"type": "text", "text": a}] if isinstance(a, str) else a for a in answers]
        return [_choice(index, content) for index, content in enumerate(contents)] or MISSING
    return [
        _choice(index, [{"type": "text", "text": item["content"]}]) | {"label": item["id"], "text": item["content"]}
        for index, item in enumerate(sample["options"])
    ]


def _choice(index: int, content: Any) -> dict[str, Any]:
    return {"index": index, "message": {"role": "assistant", "content": content}}


def _inputs(sample: Mapping[str, Any]) -> dict[str, Any] | Missing:
    """``inputs`` as older records spell it: the last user message's text and the media of all messages."""
    messages = sample.get("messages") or []
    if not messages:
        return MISSING
    prompt = ""
    media: dict[str, list[str]] = {}
    for message in messages:
        content = message.get("content")
        segments = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        if message.get("role") == "user":
            prompt = "\n".join(segment["text"] for segment in segments if isinstance(segment.get("text"), str))
        for segment in segments:
            url = _media_url(segment)
            if url is not None:
                media.setdefault(str(segment["type"]).removesuffix("_url"), []).append(url)
    return {"prompt": prompt, "multi_modal_data": media}


def _media_url(segment: Mapping[str, Any]) -> str | None:
    """The address of a media segment, in a table's form (``url``) or OpenAI's (``image_url.url``)."""
    kind = segment.get("type")
    if not isinstance(kind, str) or not kind.endswith("_url"):
        return None
    nested = segment.get(kind)
    url = nested.get("url") if isinstance(nested, Mapping) else nested or segment.get("url")
    return url if isinstance(url, str) else None


def _dataset_id(sample: Mapping[str, Any]) -> Any:
    metadata = sample.get("metadata") or {}
    return metadata.get("dataset_id", metadata.get("dataset", MISSING))


def _metadata(sample: Mapping[str, Any]) -> Any:
    return sample.get("metadata") or MISSING


def _task_type(sample: Mapping[str, Any]) -> Any:
    return sample.get("task_type") or MISSING


_REFERENCES = frozenset({"references"})
_LABEL = frozenset({"label", "references"})
_METADATA = frozenset({"metadata"})
_CHOICES = frozenset({"options", "references", "choices_role"})

ALIASES: tuple[Alias, ...] = (
    Alias(("label",), _LABEL, _label, "label, else the text of references.0"),
    Alias(("target",), _LABEL, _label, "label, else the text of references.0"),
    Alias(("targets",), _REFERENCES, _reference_texts, "the texts of references, a list"),
    Alias(("choices",), _CHOICES, _choices, "references or options, by choices_role"),
    Alias(("inputs",), frozenset({"messages"}), _inputs, "prompt: the last user text; multi_modal_data: media"),
    Alias(("question_type",), frozenset({"task_type"}), _task_type, "task_type"),
    Alias(("_dataset_id",), _METADATA, _dataset_id, "metadata.dataset_id, else metadata.dataset"),
    Alias(("_dataset_metadata",), _METADATA, _metadata, "metadata"),
    Alias(("metadata", "answers"), _REFERENCES, _reference_texts, "else the texts of references"),
    Alias(("metadata", "references"), _REFERENCES, _reference_texts, "else the texts of references"),
    Alias(("metadata", "correct_choice"), _LABEL, _label, "else label"),
    Alias(("metadata", "option_map"), frozenset({"options"}), _option_map, "else options: id to content"),
)
"""Every spelling below ``sample`` that is not a field of the Sample contract, and what it reads."""

_ALIAS_OF: dict[tuple[str, ...], Alias] = {alias.spelling: alias for alias in ALIASES}

# Fields of the first version's responses: the mean loss of a text, and a ranked list, which is an answer here.
_OF_RESPONSES: dict[tuple[str, ...], tuple[str, ...]] = {("loss",): ("logprobs", "loss"), ("candidates",): ("answer",)}

# Results that older records keep inside the sample.
_OTHER_ROOTS: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {
    ("predict_result", "0"): ("model_output", ()),
    ("model_output",): ("model_output", ()),
    ("eval_result",): ("judge_output", ()),
    ("judge_output",): ("judge_output", ()),
}
