"""Candidate answers of multiple-choice questions, in the forms that datasets use."""

from dataclasses import dataclass
from typing import Any

from gage_eval.base import canonical
from gage_eval.data.sample.record import RecordRejected, kind_of
from gage_eval.data.sample.rules import option_letter
from gage_eval.data.standardize.fields import text_of


@dataclass(frozen=True, slots=True)
class Choice:
    """A candidate answer and its id."""

    id: str
    text: str


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
