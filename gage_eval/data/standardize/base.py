"""Code that preprocessors share: reading fields, options and answers, and building messages.

A built-in preprocessor is a class whose arguments are the config's ``preprocess_kwargs``. Its ``to_sample`` turns one
record into a Sample-shaped dict (`gage_eval.data.sample.rules.normalise_sample` settles the rest) or raises
`RecordRejected`. Fields are dotted paths; digits index lists.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from gage_eval.base import canonical, patterns
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import MISSING, walk
from gage_eval.data.sample.record import RecordRejected, kind_of
from gage_eval.data.sample.rules import MEDIA_TYPES, TEXTUAL, option_letter

Preprocessor: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

_SAMPLE_OBJECTS = ("metadata", "data_tag", "sampling_params", "generation_params", "eval_config", "extra")
# How many fields of a record an error names.
_FIELDS_SHOWN = 20
_SAMPLE_TEXTS = ("id", "task_type", "label", "unconditioned_input")
# The segment types of media by their short names: image, audio, video, file.
MEDIA_KINDS = {kind.removesuffix("_url"): kind for kind in MEDIA_TYPES}


@dataclass(frozen=True, slots=True)
class Choice:
    """A candidate answer and its id."""

    id: str
    text: str


def read(record: Mapping[str, Any], field: str) -> Any:
    """The value at a dotted path of the record; None when it is missing or null.

    A key that itself contains the dots comes first.
    """
    if field in record:
        return record[field]
    if "." not in field:
        return None
    value = walk(record, field)
    return None if value is MISSING else value


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


def build_messages(question: str | list[dict[str, Any]], system_prompt: str | None) -> list[dict[str, Any]]:
    """One user message, of text or segments, after the system message if there is one."""
    user = {"role": "user", "content": question}
    return [{"role": "system", "content": system_prompt}, user] if system_prompt else [user]


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


def image_segment(address: str) -> dict[str, Any]:
    """The segment of a message that shows the image at an address."""
    return {"type": "image_url", "image_url": {"url": address}}


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


def set_options(
    sample: dict[str, Any], choices: list[Choice], answer: Any, index_base: int, field: str
) -> dict[str, Any]:
    """Give the sample its options and, from the answer, the reference.

    Returns:
        ``option_map`` and ``correct_choice``, which belong in the metadata.

    Raises:
        RecordRejected: the answer is not one of the choices.
    """
    sample["options"] = [{"id": choice.id, "content": choice.text} for choice in choices]
    sample["choices_role"] = "options"
    sample["references"] = []
    facts: dict[str, Any] = {"option_map": {choice.id: choice.text for choice in choices}}
    if answer is not None:
        # A label that repeats the answer, for example as an index, becomes the letter; any other label must agree.
        if sample.get("label") == answer:
            del sample["label"]
        correct = correct_choice(answer, choices, index_base, field)
        facts["correct_choice"] = correct.id
        sample["references"] = [correct.id]
    return facts


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


@dataclass(frozen=True)
class AnswerRule:
    """How the final answer is taken out of an answer's text.

    Attributes:
        split: the answer is what follows the last occurrence of this text (GSM8K: ``"#### "``).
        regex: the answer is the last match's first group, or the whole match.
        strip: characters that are removed (``","`` for thousands separators).
    """

    split: str | None
    regex: str | None
    strip: str | None

    def __call__(self, text: str, field: str) -> str:
        """The final answer, without outer white space when a rule applied.

        Raises:
            RecordRejected: the text has no answer of that form, or the search takes too long.
        """
        if self.split is not None:
            _, separator, tail = text.rpartition(self.split)
            if not separator:
                raise RecordRejected(f"{field}: there is no '{self.split}' before a final answer.")
            text = tail.strip()
        if self.regex is not None:
            try:
                last = patterns.find(self.regex, text, take="last")
            except patterns.PatternTooSlow as error:
                raise RecordRejected(f"{field}: {error}.") from None
            if last is None:
                raise RecordRejected(f"{field}: no answer matches '{self.regex}'.")
            text = ((last[1] if last.re.groups else last[0]) or "").strip()
        for character in self.strip or "":
            text = text.replace(character, "")
        return text

    @cached_property
    def active(self) -> bool:
        """Whether the rule changes anything."""
        return bool(self.split or self.regex or self.strip)


def answer_rule(split: str | None, regex: str | None, strip: str | None) -> AnswerRule:
    """The rule of the arguments ``answer_split``, ``answer_regex`` and ``answer_strip``.

    Raises:
        InputError: the regular expression is wrong, or the text to split at is empty.
    """
    if split == "":
        raise InputError("answer_split: it is empty; name the text before the final answer.")
    if regex is not None and (problem := patterns.problem(regex)) is not None:
        raise InputError(f"answer_regex: '{regex}' is not a regular expression ({problem}).")
    return AnswerRule(split, regex, strip)


def choices_of(value: Any, field: str) -> list[Choice]:
    """Candidates in the forms that datasets use.

    A list of texts (ids A, B, …), a list of ``{label or id, text or content}``, an object ``{"A": text}``, or
    one of two lists ``{"text": [...], "label": [...]}``.

    Raises:
        RecordRejected: it has another form, fewer than two candidates, or equal ids.
    """
    if type(value) is dict and type(value.get("text")) is list and type(value.get("label")) is list:
        if len(value["text"]) != len(value["label"]):
            raise RecordRejected(f"{field}: it has {len(value['text'])} texts and {len(value['label'])} labels.")
        pairs = list(zip(value["label"], value["text"], strict=True))
    elif type(value) is dict:
        pairs = list(value.items())
    elif type(value) is list:
        pairs = [_labelled(item, index) for index, item in enumerate(value)]
    else:
        raise RecordRejected(f"{field}: the choices must be a list or an object, not {kind_of(value)}.")
    choices = [Choice(text_of(name, field), text_of(text, field)) for name, text in pairs]
    if len(choices) < 2:
        raise RecordRejected(f"{field}: a question needs at least two choices, but has {len(choices)}.")
    if len({choice.id for choice in choices}) < len(choices):
        raise RecordRejected(f"{field}: two choices have the same id.")
    return choices


def correct_choice(value: Any, choices: list[Choice], index_base: int, field: str) -> Choice:
    """The candidate that an answer refers to.

    A number is an index, counted from ``index_base``. A string is an id, else a choice's text, else an index. A
    boolean is the choice that reads true or false, in any case.

    Raises:
        RecordRejected: it refers to none of them, or to a text that several have.
    """
    if type(value) is int:
        return _at(value - index_base, choices, value, field)
    if type(value) is bool:
        named = [choice for choice in choices if choice.text.strip().casefold() == canonical.canonical_text(value)]
        if len(named) == 1:
            return named[0]
        raise RecordRejected(f"{field}: {canonical.canonical_text(value)} is not one of the choices.")
    if type(value) is not str:
        raise RecordRejected(f"{field}: the answer must be a letter, an index or a text, not {kind_of(value)}.")
    wanted = value.strip()
    for fold in (str, str.casefold):
        matches = [choice for choice in choices if fold(choice.id) == fold(wanted)]
        if len(matches) == 1:
            return matches[0]
    matches = [choice for choice in choices if choice.text.strip() == wanted]
    if len(matches) > 1:
        raise RecordRejected(f"{field}: several choices read '{wanted[:60]}'.")
    if matches:
        return matches[0]
    # Limited, because int() refuses thousands of digits with its own error.
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 10:
        return _at(int(wanted) - index_base, choices, wanted, field)
    bare = wanted.strip("().:")
    matches = [choice for choice in choices if choice.id.casefold() == bare.casefold()]
    if len(matches) == 1:
        return matches[0]
    raise RecordRejected(f"{field}: '{wanted[:60]}' is not one of the choices.")


def _at(index: int, choices: list[Choice], shown: object, field: str) -> Choice:
    if not 0 <= index < len(choices):
        text = str(shown) if type(shown) is str or abs(index) < 10**9 else "a huge number"
        raise RecordRejected(f"{field}: index {text} is not one of the {len(choices)} choices.")
    return choices[index]


def _labelled(item: Any, index: int) -> tuple[Any, Any]:
    if type(item) is not dict:
        return option_letter(index), item
    name = next((item[key] for key in ("id", "label") if item.get(key) is not None), option_letter(index))
    return name, next((item[key] for key in ("content", "text") if item.get(key) is not None), None)
