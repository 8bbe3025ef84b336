"""Requests as readable text."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from gage_eval.base.canonical import canonical_text
from gage_eval.cli.output import indented, say
from gage_eval.report.console import clean, counted

if TYPE_CHECKING:
    from gage_eval.authoring.preview import PreviewedRequest, PreviewedUser


def print_request(preview: "PreviewedRequest") -> None:
    """Print a request: messages as blocks under their roles, parameters in one line."""
    request, body = preview.rendered.request, preview.rendered.body
    repeated = f" · replicate {request.replicate}" if request.replicate else ""
    say(
        f"{preview.task_id} · {preview.stage} · sample {request.sample_id}{repeated} · row {request.row_index} · "
        f"key {preview.rendered.key[:8]}"
    )
    for line in body_lines(body, by_turns=request.kind == "turns"):
        print(line)
    if preview.user is not None:
        _print_user(preview.user)


def _print_user(user: "PreviewedUser") -> None:
    """Print the simulated user of an episode, and what it is asked first."""
    if user.speaks_first:
        print("  [user]\n    … what the simulated user says")
    simulated, script = user.user, user.user.script
    say(
        f"simulated user {user.adapter_id} · {user.model or counted(len(script or ()), 'turn') + ' of a script'} · "
        f"at most {counted(simulated.max_turns, 'turn')} · ends with {simulated.stop}"
    )
    if user.first is None:
        for turn in (script or ())[:1]:
            print("  [first turn]")
            print(indented(turn["content"], "    "))
        return
    for line in body_lines(user.first.body):
        print(line)
    if not user.speaks_first:
        print("  [user]\n    … the model's answer")


def body_lines(body: Mapping[str, Any], *, by_turns: bool = False) -> Iterator[str]:
    """The lines of a request's body; with ``by_turns``, the places where the model answers before the next question."""
    shown = {name: value for name, value in body.items() if name not in ("messages", "prompt")}
    if shown:
        yield "  " + clean(" ".join(f"{name}={canonical_text(value)}" for name, value in sorted(shown.items())))
    if body.get("prompt") is not None:
        yield "  [prompt]"
        yield indented(str(body["prompt"]), "    ")
    messages = body.get("messages") or []
    for message, following in zip_longest(messages, messages[1:]):
        yield f"  [{clean(str(message.get('role')))}]"
        yield indented(_content(message), "    ")
        if by_turns and message.get("role") == "user" and following and following.get("role") != "assistant":
            yield "  [assistant]"
            yield "    … the model's answer, before the next question"


def _content(message: Mapping[str, Any]) -> str:
    """A message's content: text as it is, other segments as JSON."""
    content = message.get("content")
    segments = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    parts = [segment["text"] if segment.get("type") == "text" else canonical_text(segment) for segment in segments]
    rest = {name: value for name, value in message.items() if name not in ("role", "content") and value is not None}
    if rest:
        parts.append(canonical_text(rest))
    return "\n".join(parts)
