"""Adds the options of a multiple-choice question to its messages where they are missing."""

from collections.abc import Mapping
from typing import Any


def lacks_options(sample: Mapping[str, Any]) -> bool:
    """Whether a sample or few-shot example is a multiple-choice question whose messages hold none of its options.

    A sample with options and without a task type counts as one.
    """
    options, task_type = sample.get("options"), sample.get("task_type")
    # What a sample brings along as an example may have any JSON value as its task type.
    if not options or (isinstance(task_type, str) and task_type.replace("_", "-") != "multiple-choice"):
        return False
    messages = sample.get("messages") or []
    texts = [segment.get("text", "") for message in messages for segment in message.get("content") or ()]
    return bool(messages) and not any(option["content"].strip() in text for option in options for text in texts)


def with_options(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The messages of a sample or few-shot example, with missing options listed at the end of the last user message.

    Args:
        sample: ``messages`` with content as segments, ``options`` and ``task_type``.
    """
    messages: list[dict[str, Any]] = sample["messages"]
    if not lacks_options(sample):
        return messages
    listed = "\n".join(f"{option['id']}. {option['content'].strip()}" for option in sample["options"])
    last = next((place for place in reversed(range(len(messages))) if messages[place]["role"] == "user"), None)
    if last is None:
        return messages
    *before, end = messages[last].get("content") or [{"type": "text", "text": ""}]
    if end["type"] == "text":
        content = [*before, {**end, "text": f"{end['text']}\n\n{listed}" if end["text"] else listed}]
    else:
        content = [*before, end, {"type": "text", "text": listed}]
    return [*messages[:last], {**messages[last], "content": content}, *messages[last + 1 :]]
