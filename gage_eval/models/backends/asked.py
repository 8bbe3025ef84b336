"""What a request asks: in the form of OpenAI's API, and whether it asks anything."""

from collections.abc import Mapping
from typing import Any

from gage_eval.base.canonical import JsonValue
from gage_eval.models.client.types import KINDS, Request, Response


def request_content(request: Request) -> dict[str, JsonValue]:
    """What a request asks, in OpenAI's form: its messages or prompt, and its tools."""
    body: dict[str, JsonValue] = {}
    if request.kind == "chat":
        body["messages"] = request.messages
    else:
        body["prompt"] = request.prompt
    if request.tools:
        body["tools"] = request.tools
        if request.tool_choice is not None:
            body["tool_choice"] = request.tool_choice
    return body


def is_empty(request: Request) -> bool:
    """Whether a request asks nothing: such a row is skipped, not sent."""
    kind = KINDS.get(request.kind)
    is_medium = request.kind == "embed" and request.messages is not None
    if kind is not None and kind.needs != "messages" and not is_medium:
        value = getattr(request, kind.needs)
        return value is None or value == [] or (not kind.may_be_blank and not value.strip())
    for message in request.messages or ():  # noqa: SIM110 - once per request, and a generator takes three times as long
        if message.get("role") != "system" and _says_something(message):
            return False
    return True


def likelihood_body(request: Request, defaults: Mapping[str, Any]) -> dict[str, JsonValue]:
    """What a likelihood depends on. Sampling parameters do not count, variables of the chat template do."""
    body: dict[str, JsonValue] = {"prompt": request.prompt}
    if request.prompt is None:
        body = {"messages": request.messages}
        merged = {**defaults, **request.params}
        body |= {name: merged[name] for name in ("reasoning_effort", "chat_template_kwargs") if merged.get(name)}
    body["choices"] = list(request.choices or [])
    if request.unconditioned is not None:
        body["unconditioned"] = request.unconditioned
    return body


def skipped() -> Response:
    """The response to an empty prompt."""
    return Response("skipped", error_kind="empty_prompt")


def last_text(request: Request) -> str:
    """The text of a prompt, or of the last message a user wrote."""
    if request.kind == "completion":
        return request.prompt or ""
    for message in reversed(request.messages or []):
        if message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            return "".join(part.get("text") or "" for part in content or [])
    return ""


def _says_something(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    if isinstance(content, str):
        return bool(content.strip())
    if message.get("tool_calls"):
        return True
    return any(part.get("type") != "text" or (part.get("text") or "").strip() for part in content or ())
