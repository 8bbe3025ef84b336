"""Requests as readable text."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gage_eval.cli.output import indented
from gage_eval.report.console import clean

if TYPE_CHECKING:
    from gage_eval.authoring.preview import PreviewedRequest


def print_request(one: "PreviewedRequest") -> None:
    """Print a request: messages as blocks under their roles, parameters in one line."""
    request, body = one.rendered.request, one.rendered.body
    repeated = f" · replicate {request.replicate}" if request.replicate else ""
    print(
        clean(
            f"{one.task_id} · {one.stage} · sample {request.sample_id}{repeated} · row {request.row_index} · "
            f"key {one.rendered.key[:8]}"
        )
    )
    for line in body_lines(body):
        print(line)


def body_lines(body: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a request's body."""
    from gage_eval.base.canonical import canonical_text

    shown = {name: value for name, value in body.items() if name not in ("messages", "prompt")}
    if shown:
        yield "  " + clean(" ".join(f"{name}={canonical_text(value)}" for name, value in sorted(shown.items())))
    if body.get("prompt") is not None:
        yield "  [prompt]"
        yield indented(str(body["prompt"]), "    ")
    for message in body.get("messages") or []:
        yield f"  [{clean(str(message.get('role')))}]"
        yield indented(_content(message), "    ")


def _content(message: Mapping[str, Any]) -> str:
    """A message's content: text as it is, other segments as JSON."""
    from gage_eval.base.canonical import canonical_text

    content = message.get("content")
    segments = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    parts = [segment["text"] if segment.get("type") == "text" else canonical_text(segment) for segment in segments]
    rest = {name: value for name, value in message.items() if name not in ("role", "content") and value is not None}
    if rest:
        parts.append(canonical_text(rest))
    return "\n".join(parts)
