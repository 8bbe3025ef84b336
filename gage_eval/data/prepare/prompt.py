"""The content of a request: messages, and a single text made of them for models that complete text."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.data.sample.record import RecordRejected


class Prompt(NamedTuple):
    """The messages of a request and what is made of them.

    Attributes:
        messages: with their examples, and with stored media.
        media: facts about their media; None without media.
        text: the messages as one text; None where the backend makes it.
        choices: the texts that a likelihood request compares; each follows the messages.
        unconditioned: the text before the choices when they are scored without the question.
    """

    messages: list[dict[str, Any]]
    media: JsonValue = None
    text: str | None = None
    choices: list[str] | None = None
    unconditioned: str | None = None


def prompt_of(
    messages: list[dict[str, Any]],
    media: JsonValue,
    options: Sequence[Mapping[str, str]],
    unconditioned: str | None,
    *,
    kind: str,
    choices: str,
    target_delimiter: str,
) -> Prompt:
    """The prompt of one sample.

    Args:
        messages, media: as in `Prompt`.
        options: of the sample; likelihood compares them.
        unconditioned: the sample's ``unconditioned_input``, as JSON.
        kind: the task's mode.
        choices: which text of an option is compared: ``content`` or ``id``.
        target_delimiter: between the question and a choice; for ``partial_likelihood`` between a choice and the
            messages, which follow it.

    Raises:
        RecordRejected: a request that is text holds media, or a likelihood request has no options.
    """
    if kind == "chat":
        return Prompt(messages, media)
    text = text_of(messages)
    if kind == "completion":
        return Prompt(messages, media, text)
    if not options:
        raise RecordRejected("options: likelihood requests compare options, and there are none.")
    if kind == "partial_likelihood":
        return Prompt(messages, media, target_delimiter + text, [option[choices] for option in options])
    templated = kind == "chat_likelihood"
    # A chat's template ends where an answer begins.
    delimiter = "" if templated and not _is_begun(messages) else target_delimiter
    compared = [f"{delimiter}{option[choices]}" for option in options]
    return Prompt(messages, media, None if templated else text, compared, _unconditioned(unconditioned))


def text_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """The messages as one text to complete: their contents, a blank line between two messages.

    Raises:
        RecordRejected: they hold media, which no completion takes.
    """
    texts = []
    for message in messages:
        content = message.get("content") or []
        if any(segment["type"] != "text" for segment in content):
            raise RecordRejected("completion and likelihood requests are text, and the messages hold media.")
        texts.append("".join(segment["text"] for segment in content))
    return "\n\n".join(texts)


def _is_begun(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a chat ends with the beginning of the answer, without white space after it."""
    return bool(messages) and messages[-1]["role"] == "assistant" and not text_of(messages[-1:])[-1:].isspace()


def _unconditioned(value: str | None) -> str | None:
    text = None if value is None else decode(value)
    if text is not None and not isinstance(text, str):
        raise RecordRejected("unconditioned_input: likelihood requests are text, and this is a list.")
    return text
