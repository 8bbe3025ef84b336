"""Fields of records: read by dotted paths, checked, and mapped to fields of the Sample."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from gage_eval.base import canonical
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import walk
from gage_eval.data.sample.record import RecordRejected, kind_of
from gage_eval.data.sample.rules import MEDIA_TYPES, TEXTUAL

Preprocessor: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

_SAMPLE_OBJECTS = ("metadata", "data_tag", "sampling_params", "generation_params", "eval_config", "extra")


# How many fields of a record an error names.
_FIELDS_SHOWN = 20


_SAMPLE_TEXTS = ("id", "task_type", "label", "unconditioned_input")


# The segment types of media by their short names: image, audio, video, file.
MEDIA_KINDS = {kind.removesuffix("_url"): kind for kind in MEDIA_TYPES}


def read(record: Mapping[str, Any], field: str) -> Any:
    """The value at a dotted path of the record; None when it is missing or null.

    A key that itself contains the dots comes first.
    """
    if field in record:
        return record[field]
    if "." not in field:
        return None
    return walk(record, field, None)


def is_null(record: Mapping[str, Any], field: str) -> bool:
    """Whether a record has a field that is null: a value that is missing, not a mistake in the field's name."""
    if field in record:
        return record[field] is None
    return "." in field and walk(record, field) is None


def first_of(record: Mapping[str, Any], fields: Iterable[str]) -> tuple[str, Any]:
    """The first field that holds a value, and the value; ``("", None)`` when none does."""
    for field in fields:
        value = record.get(field)
        if value is None and "." in field:
            value = read(record, field)
        if value is not None:
            return field, value
    return "", None


def text_of(value: Any, field: str) -> str:
    """A string, or a number or boolean in canonical form.

    Raises:
        RecordRejected: it is something else; the reason names the field.
    """
    if type(value) is str:
        return value
    if type(value) in TEXTUAL:
        return canonical.canonical_text(value)
    raise RecordRejected(f"{field}: it must be a string, not {kind_of(value)}.")


def lacking(record: Mapping[str, Any], fields: Sequence[str], what: str, setting: str) -> RecordRejected:
    """Why a record without a field is rejected: what it lacks, which fields it has, and the setting that names one."""
    lacks = f"{fields[0]}: there is no {what}" if len(fields) == 1 else f"there is no {what} ({', '.join(fields)})"
    there = [str(name) for name, value in record.items() if value is not None]
    shown = ", ".join(there[:_FIELDS_SHOWN]) + (", …" if len(there) > _FIELDS_SHOWN else "")
    return RecordRejected(f"{lacks}. Fields here: {shown or 'none'}. Set {setting} to one of them.")


def listed(value: Any) -> list[Any]:
    """A list as it is, one value as a list, nothing as an empty one."""
    return value if type(value) is list else [] if value is None else [value]


def required(record: Mapping[str, Any], field: str, what: str, setting: str) -> Any:
    """The value of a field that must be there.

    Raises:
        RecordRejected: it is not there; the reason says what is lacking, and the setting that names the field.
    """
    value = read(record, field)
    if value is None:
        raise lacking(record, (field,), what, setting)
    return value


def answer_in(record: Mapping[str, Any], field: str) -> Any:
    """The answer in a field, which may be null; None where no field is named.

    Raises:
        RecordRejected: it is not there.
    """
    return None if not field or is_null(record, field) else required(record, field, "answer", "answer_field")


def question_in(record: Mapping[str, Any], field: str) -> str:
    """The question in a field that must be there.

    Raises:
        RecordRejected: it is not there, or is not text.
    """
    return text_of(required(record, field, "question", "question_field"), field)


def object_of(sample: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The sample's object of that name, empty when it has none.

    Raises:
        RecordRejected: it is not an object.
    """
    value = sample.get(name)
    if value is None:
        return {}
    if type(value) is not dict:
        raise RecordRejected(f"{name}: it must be an object, not {kind_of(value)}.")
    return value


def carry_over(record: Mapping[str, Any], used: Iterable[str]) -> dict[str, Any]:
    """The record without the top-level keys that were used."""
    kept = dict(record)
    for key in used:
        kept.pop(key, None)
    return kept


class FieldMap:
    """The ``fields`` argument: which fields of the Sample come from which fields of the record.

    Args:
        fields: Sample path → record path, as ``{"data_tag.topic": "subject", "id": "meta.0.uid"}``. A target
            is a text field of the Sample, a key of one of its objects, or a kind of media to show before the question.
        id_field: record path of the id; used where ``fields`` gives none.

    Raises:
        InputError: a target is not a field of the Sample.
    """

    def __init__(self, fields: Mapping[str, str] | None, id_field: str | None = None) -> None:
        self._targets: list[tuple[str, str, str]] = [("id", "", id_field)] if id_field else []
        for target, source in (fields or {}).items():
            top, _, key = target.partition(".")
            if not (top in _SAMPLE_OBJECTS and key) and target not in (*_SAMPLE_TEXTS, *MEDIA_KINDS):
                known = [*_SAMPLE_TEXTS, *MEDIA_KINDS, *(f"{name}.<key>" for name in _SAMPLE_OBJECTS)]
                raise InputError(f"fields.{target}: a target must be one of {', '.join(known)}.{closest(top, known)}")
            if not isinstance(source, str) or not source:
                raise InputError(f"fields.{target}: name the field of the record that it comes from.")
            self._targets.append((top, key, source))

    def apply(self, record: Mapping[str, Any], sample: dict[str, Any]) -> None:
        """Set the mapped fields; fields that the record lacks are left out.

        Raises:
            RecordRejected: the record's field of that name is not an object.
        """
        for top, key, source in self._targets:
            value = read(record, source)
            if value is None:
                continue
            if top in MEDIA_KINDS:
                inputs = object_of(sample, "inputs")
                sample["inputs"] = {**inputs, "multi_modal_data": {**object_of(inputs, "multi_modal_data"), top: value}}
                continue
            if not key:
                sample[top] = text_of(value, source)
                continue
            sample[top] = {**object_of(sample, top), key: value}


def addresses(value: Any, field: str, what: str = "an image") -> list[str]:
    """The addresses of media: one path or address, an object that holds it, or a list of these.

    Raises:
        RecordRejected: it is something else, or there is none.
    """
    urls = []
    for item in value if type(value) is list else [value]:
        address = next((item[key] for key in ("url", "path") if item.get(key)), None) if type(item) is dict else item
        if type(address) is not str or not address:
            raise RecordRejected(f"{field}: it must be the path of {what}, not {kind_of(address)}.")
        urls.append(address)
    if not urls:
        raise RecordRejected(f"{field}: there is no {what.partition(' ')[2]}.")
    return urls
