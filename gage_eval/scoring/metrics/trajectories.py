"""Tool calls of responses and golden trajectories in one form for comparison."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gage_eval.base import canonical
from gage_eval.base.canonical import JsonValue

_SIGNS = re.compile(r"[ ,./\-_*^]")


class Call(NamedTuple):
    """A tool call: the tool's name and its arguments as canonical JSON text, which compare as values."""

    name: str
    arguments: str

    def bare(self) -> "Call":
        """The same call without its arguments."""
        return Call(self.name, "")


def read_steps(messages: JsonValue) -> list[list[Call]]:
    """The calls of each message or turn that calls tools, in order.

    Turns of a simulated user are left out. ``tool_calls`` are in OpenAI's form
    (``{"function": {"name", "arguments"}}``) or plain (``{"name", "arguments"}``), or the JSON text of such a list.
    Arguments are an object or its JSON text; text that is not JSON equals only itself.

    Raises:
        ValueError: an item is not a tool call.
    """
    steps: list[list[Call]] = []
    for message in messages if isinstance(messages, list) else []:
        is_read = isinstance(message, Mapping) and message.get("actor") != "user"
        value = message.get("tool_calls") if is_read else None
        calls = _decoded(value) if isinstance(value, str) else value
        if isinstance(calls, list) and calls:
            steps.append([_call(item) for item in calls])
        elif calls:
            raise ValueError(f"{str(calls)[:80]} is not a list of tool calls")
    return steps


def function_of(call: Any) -> tuple[str, Mapping[str, Any]] | None:
    """Name and arguments of a call in the form of the API; None where its arguments are not a JSON object."""
    function = call.get("function") if isinstance(call, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    try:
        read = canonical.decode(arguments or "{}") if isinstance(arguments, str) else arguments
    except ValueError:
        return None
    return (str(function.get("name")), read) if isinstance(function, dict) and isinstance(read, dict) else None


def calls_text(messages: JsonValue) -> str:
    """The calls of messages or turns for people, as ``weather {"city":"Rome"}``; empty without any in a known form."""
    try:
        return "; ".join(f"{call.name} {call.arguments}" for step in read_steps(messages) for call in step)
    except ValueError:
        return ""


def shared(first: Sequence[Call], second: Sequence[Call]) -> int:
    """How many calls both lists share; repeated calls count as often as they occur in both."""
    return (Counter(first) & Counter(second)).total()


def is_subsequence(wanted: Sequence[Call], calls: Sequence[Call]) -> bool:
    """Whether the wanted calls occur in order, with other calls allowed between them."""
    rest = iter(calls)
    return all(call in rest for call in wanted)


def as_accepted(steps: Sequence[Sequence[Call]], gold: Sequence[Call]) -> list[list[Call]]:
    """The calls, each as the golden call that accepts it, an unused one first; the others equal none.

    The arguments of a golden call are the accepted values of each parameter, as in BFCL's possible answers: an empty
    text among them means that it may be left out. Texts compare without case, spaces and the signs ``,./-_*^``, as in
    BFCL's AST checker (Patil et al. 2025).
    """
    unused = list(gold)

    def accepted(call: Call) -> Call:
        # The lists of accepted values are not arguments themselves: a call that makes them is not the golden one.
        other = Call(call.name, f"not accepted: {call.arguments}")
        chosen = next((golden for golden in (*unused, *gold) if _accepts(golden, call)), other)
        if chosen in unused:
            unused.remove(chosen)
        return chosen

    return [[accepted(call) for call in step] for step in steps]


def _accepts(golden: Call, call: Call) -> bool:
    if golden.name != call.name:
        return False
    return _is_accepted_object(_decoded(golden.arguments), _decoded(call.arguments))


def _is_accepted_object(accepted: JsonValue, made: JsonValue) -> bool:
    """Whether each parameter has an accepted value, and none is there that is not named."""
    if not isinstance(accepted, dict) or not isinstance(made, dict) or made.keys() - accepted.keys():
        return False
    return all(
        any(_is_accepted(option, made[name]) for option in _options(options))
        if name in made
        else "" in _options(options)
        for name, options in accepted.items()
    )


def _options(options: JsonValue) -> Sequence[JsonValue]:
    return options if isinstance(options, list) else [options]


def _is_accepted(option: JsonValue, made: JsonValue) -> bool:
    if isinstance(option, dict):
        return _is_accepted_object(option, made)
    if isinstance(option, list):
        return isinstance(made, list) and len(made) == len(option) and all(map(_is_accepted, option, made))
    if isinstance(option, str) and isinstance(made, str):
        return standard_text(option) == standard_text(made)
    return option == made and isinstance(option, bool) == isinstance(made, bool)


def standard_text(text: str) -> str:
    """A text as BFCL's AST checker compares it: without case, spaces and the signs ``,./-_*^``; ``'`` is ``"``."""
    return _SIGNS.sub("", text).lower().replace("'", '"')


def _call(item: JsonValue) -> Call:
    inner = item.get("function") if isinstance(item, Mapping) else None
    call = inner if isinstance(inner, Mapping) else item
    name = call.get("name") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(name, str):
        raise ValueError(f"{str(item)[:80]} is not a tool call")
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    return Call(name, canonical.canonical_text({} if arguments is None else arguments))


def _decoded(text: str) -> JsonValue:
    try:
        return canonical.decode(text) if text.strip() else None
    except ValueError:
        return text
