"""What every importer gives, whatever the tool: answers with their samples, and what could not be mapped."""

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.imports.values import mapping, number, sequence, text

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
NOT_IN_LOG = "(not in the log)"


@dataclass(frozen=True)
class ImportedAnswer:
    """One answer of a log.

    Attributes:
        sample_id: its sample.
        replicate: which answer of the sample, from 0.
        messages: what was asked, in OpenAI's form.
        answer: the text; None where the model gave none.
        scores: the tool's own scores by name.
        references: correct answers.
        options: the candidates of a multiple-choice question.
        error: why there is no answer, where the log says so.
        metadata: further facts about the sample.
    """

    sample_id: str
    replicate: int
    messages: list[dict[str, Any]]
    answer: str | None
    scores: dict[str, float] = field(default_factory=dict)
    references: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    error: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class ImportedLog:
    """A log.

    Attributes:
        tool: that wrote it.
        version: of the tool; None if the log does not say.
        task: its name.
        model: its name; None if the log does not say.
        answers: in the log's order.
        unmapped: how many rows have something that is not imported, by its field.
        lower: scores of which less is better.
        other_files: those that were read with it.
        models: those that rows name, for `settle_model`.
    """

    tool: str
    version: str | None = None
    task: str = "log"
    model: str | None = None
    answers: list[ImportedAnswer] = field(default_factory=list)
    unmapped: Counter[str] = field(default_factory=Counter)
    lower: set[str] = field(default_factory=set)
    other_files: list[Path] = field(default_factory=list, compare=False)
    models: set[str | None] = field(default_factory=set, compare=False)
    _counts: Counter[str] = field(default_factory=Counter, compare=False)

    def leave(self, name: str) -> None:
        """Count a field of a row that is not imported."""
        self.unmapped[name] += 1

    def leave_others(self, row: dict[str, Any], known: Collection[str]) -> None:
        """Count the fields of a row that are neither known nor empty."""
        for name, value in row.items():
            if name not in known and value not in (None, [], {}, ""):
                self.leave(name)

    def next_replicate(self, sample_id: str) -> int:
        """The number of a sample's next answer, where the tool does not count them."""
        self._counts[sample_id] += 1
        return self._counts[sample_id] - 1

    def settle_model(self, name: str) -> None:
        """Take the model that the rows name, if they do.

        Raises:
            InputError: they name several.
        """
        models = sorted(filter(None, self.models))
        if len(models) > 1:
            named = ", ".join(models[:5])
            raise InputError(f"'{name}' has answers of several models ({named}); split it by model.")
        self.model = next(iter(models), self.model)


def scores_of(values: Any, log: ImportedLog, prefix: str) -> dict[str, float]:
    """The scores of an object that are numbers; the others are counted under ``PREFIX.NAME``."""
    scores = {}
    for name, value in mapping(values).items():
        known = number(value)
        if known is not None:
            scores[name] = known
        elif value is not None:
            log.leave(f"{prefix}.{name}")
    return scores


def prompt_of(prompt: Any) -> Any:
    """A prompt, or the messages that it holds as JSON text."""
    if isinstance(prompt, str) and prompt.startswith("[{"):
        try:
            return json.loads(prompt)
        except (ValueError, RecursionError):
            return prompt
    return prompt


def asked_of(messages: Any, log: ImportedLog) -> list[Any]:
    """The messages of a conversation before the model's first answer; later turns are counted as not imported."""
    first: list[Any] = []
    for message in sequence(messages):
        if mapping(message).get("role") == "assistant" and mapping(message).get("source") != "input":
            break
        first.append(message)
    if len(sequence(messages)) > len(first) + 1:
        log.leave("messages after the first answer")
    return first


def reply_of(output: dict[str, Any], log: ImportedLog) -> str:
    """The text of the first choice of an answer in OpenAI's form; empty without one."""
    choices = sequence(output.get("choices"))
    return content_of(mapping(mapping(choices[0]).get("message")).get("content"), log) if choices else ""


def content_of(content: Any, log: ImportedLog) -> str:
    """The text of a message. Parts that are not text are named in brackets: no file or address of a log is opened."""
    if isinstance(content, str):
        return content
    shown = []
    for part in sequence(content):
        kind = text(mapping(part).get("type")) or "part"
        known = text(mapping(part).get("text"))
        if known is not None:
            shown.append(known)
        else:
            log.leave(f"content: {kind}")
            shown.append("" if kind in ("reasoning", "thinking") else f"[{kind}]")
    return "".join(shown)


def messages_of(value: Any, log: ImportedLog) -> list[dict[str, Any]]:
    """A prompt or a conversation as messages in OpenAI's form."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    messages = []
    for message in sequence(value):
        role = mapping(message).get("role")
        if role not in _ROLES:
            log.leave("messages: role")
            role = "user"
        made: dict[str, Any] = {"role": role, "content": content_of(mapping(message).get("content"), log)}
        calls = [_call(call) for call in sequence(mapping(message).get("tool_calls"))]
        if calls and role == "assistant":
            made["tool_calls"] = calls
        if role == "tool" and isinstance(message.get("tool_call_id"), str):
            made["tool_call_id"] = message["tool_call_id"]
        messages.append(made)
    return messages or [{"role": "user", "content": NOT_IN_LOG}]


def _call(call: Any) -> dict[str, Any]:
    """A tool call, also in Inspect's form, where the function is a name."""
    function = mapping(call).get("function")
    inner = mapping(call) if isinstance(function, str) else mapping(function)
    name = function if isinstance(function, str) else inner.get("name")
    arguments = inner.get("arguments")
    return {
        "id": text(mapping(call).get("id")) or "",
        "type": "function",
        "function": {
            "name": text(name) or "",
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
        },
    }
