"""Render prompt templates to messages.

A template sees ``sample`` (without ``raw_assets``), ``payload``, ``history``, ``extras``,
``prompt_params`` and, for judges, ``model_answer`` and, in a task with ``against``, ``pair``. A missing variable is
an error that names it, never an empty string. The content of a message with media is a list of parts. Printed, it is
their text, with a marker such as ``[image]`` for each medium.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from gage_eval.base.errors import InputError, nearest
from gage_eval.data.sample.rules import ROLES, content_text

MAX_OUTPUT = 4 * 1024 * 1024
"""The largest number of characters of a rendered text."""

Message: TypeAlias = dict[str, Any]
Template: TypeAlias = Callable[[Mapping[str, Any]], tuple[str, str | None]]
"""Variables → (text, None), or an empty text and the error in one sentence."""

VARIABLES = ("sample", "payload", "history", "extras", "prompt_params", "model_answer", "pair")
"""What a template of a prompt can read."""

_QUOTED = re.compile(r"'([^']*)' is undefined|has no (?:attribute|element) '?([^']*)'?")


class PromptError(InputError):
    """A prompt cannot be rendered for a sample. The message names prompt, sample and variable."""


class _Parts(list[Any]):
    """The parts of a message's content, whose text form is for people and models."""

    def __str__(self) -> str:
        return content_text(self)


class PromptRenderer:
    """A prompt of the config, compiled once.

    Args:
        template: Jinja text of one user message, or a list of ``{role, content}`` with Jinja texts; None for
            a prompt that only adds a system message.
        params: ``prompt_params`` in templates.
        system_prompt: Jinja text of the system message.
        prompt_id: its name in messages.

    Raises:
        InputError: a template's syntax is wrong (the message names the line), or the prompt has another form.
    """

    def __init__(
        self,
        template: str | Sequence[Mapping[str, str]] | None,
        params: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        *,
        prompt_id: str = "prompt",
    ) -> None:
        self._prompt_id = prompt_id
        self._params = dict(params or {})
        self._parts: list[tuple[str, Template]] = []
        if system_prompt:
            self._parts.append(("system", compile_template(system_prompt, f"prompt '{prompt_id}', system_prompt")))
        for index, (role, source) in enumerate(_sources(template, prompt_id)):
            location = (
                f"prompt '{prompt_id}'" if isinstance(template, str) else f"prompt '{prompt_id}', message {index}"
            )
            self._parts.append((role, compile_template(source, location)))
        self._adds_system_only = template is None

    def render(
        self,
        *,
        sample: Mapping[str, Any],
        payload: Mapping[str, Any] | None = None,
        history: Sequence[Mapping[str, Any]] | None = None,
        extras: Mapping[str, Any] | None = None,
        model_answer: str | None = None,
        pair: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> list[Message]:
        """The messages for one sample, contents as plain strings.

        A prompt without a template puts its system message before the history. Without a history it puts it before the
        sample's own messages, in place of a system message at their beginning.

        Raises:
            PromptError: a variable is missing, a value has the wrong type, or the text is too long.
        """
        visible = {key: value for key, value in sample.items() if key != "raw_assets"}
        if visible.get("messages"):
            visible["messages"] = _printable(visible["messages"])
        variables: dict[str, Any] = {
            "sample": visible,
            "payload": {**payload, "sample": visible} if payload else {},
            "history": _printable(history or []),
            "extras": extras or {},
            "prompt_params": self._params,
        }
        if model_answer is not None:
            variables["model_answer"] = model_answer
        if pair is not None:
            variables["pair"] = pair
        messages: list[Message] = []
        for role, template in self._parts:
            text, problem = template(variables)
            if problem is not None:
                raise PromptError(f"prompt '{self._prompt_id}', sample '{sample.get('id')}': {problem}")
            messages.append({"role": role, "content": text})
        if self._adds_system_only:
            own = history or sample.get("messages") or []
            skipped = 1 if messages and own and own[0]["role"] == "system" else 0
            messages.extend(dict(message) for message in own[skipped:])
        return messages


def _printable(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The messages, with contents that a template can print."""
    if not any(isinstance(message.get("content"), list) for message in messages):
        return messages
    return [
        {**message, "content": _Parts(message["content"])} if isinstance(message.get("content"), list) else message
        for message in messages
    ]


def misspelt_variables(source: str) -> dict[str, str]:
    """Variables of a prompt's template that are almost one of `VARIABLES`, each with the one that was meant.

    Other unknown names are left to the run: a template may ask whether they are defined.
    """
    from gage_eval.data.prompts.sandbox import variables_of

    unknown = variables_of(source).difference(VARIABLES)
    return {name: meant for name in sorted(unknown) if (meant := nearest(name, VARIABLES)) is not None}


def compile_template(source: str, location: str) -> Template:
    """Compile a Jinja text to a function of its variables. jinja2 is loaded here, on first use.

    Raises:
        InputError: its syntax is wrong, or it is nested too deep; the message names ``location``, and the line.
    """
    from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError, UndefinedError

    from gage_eval.data.prompts.sandbox import generator

    try:
        generate = generator(source)
    except TemplateSyntaxError as error:
        raise InputError(f"{location}, line {error.lineno}: {(error.message or 'it is broken').rstrip('.')}.") from None
    except (SyntaxError, RecursionError, MemoryError):
        # Python compiles what Jinja makes of it, and allows twenty nested blocks.
        raise InputError(f"{location}: its blocks or brackets are nested too deep.") from None
    except ValueError as error:
        raise InputError(f"{location}: {error}.") from None

    def render(variables: Mapping[str, Any]) -> tuple[str, str | None]:
        pieces: list[str] = []
        length = 0
        try:
            for piece in generate(variables):
                length += len(piece)
                if length > MAX_OUTPUT:
                    return "", f"the text is longer than {MAX_OUTPUT:,} characters."
                pieces.append(piece)
        except UndefinedError as error:
            return "", _undefined(error.message or "a variable is undefined")
        except SecurityError as error:
            return "", f"{(error.message or 'the template does what the sandbox forbids').rstrip('.')}."
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            return "", f"the template fails on this data ({str(error).rstrip('.')})."
        except (RecursionError, MemoryError):
            return "", "the template needs too much memory."
        return "".join(pieces), None

    return render


def _undefined(message: str) -> str:
    quoted = _QUOTED.search(message)
    name = (quoted[1] or quoted[2]) if quoted else ""
    return f"the template uses '{name}', which is not defined ({message})." if name else f"{message}."


def _sources(template: str | Sequence[Mapping[str, str]] | None, prompt_id: str) -> list[tuple[str, str]]:
    if template is None:
        return []
    if isinstance(template, str):
        return [("user", template)]
    out = []
    for index, part in enumerate(template):
        role, content = part.get("role"), part.get("content")
        if role not in ROLES or not isinstance(content, str):
            known = ", ".join(ROLES)
            raise InputError(f"prompt '{prompt_id}', message {index}: it needs a role ({known}) and a content.")
        out.append((role, content))
    return out
