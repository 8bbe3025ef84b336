"""The Jinja text of a preprocessor's user message."""

from collections.abc import Mapping, Sequence
from typing import Any

from gage_eval.data.prompts.render import Template, compile_template
from gage_eval.data.sample.record import RecordRejected


class QuestionTemplate:
    """Renders the user message from ``question``, ``options`` and the whole ``record``.

    Raises:
        InputError: the template's syntax is wrong; the message names the line.
    """

    def __init__(self, source: str) -> None:
        self._template: Template = compile_template(source, "preprocess_kwargs.template")

    def render(self, question: str, options: Sequence[Mapping[str, str]], record: Mapping[str, Any]) -> str:
        """The message's text.

        Raises:
            RecordRejected: the record lacks a variable of the template, or the text is too long.
        """
        text, problem = self._template({"question": question, "options": options, "record": record})
        if problem is not None:
            raise RecordRejected(f"template: {problem}")
        return text
