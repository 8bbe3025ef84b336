"""A judge's verdict, and the plug-ins that read it from the judge's text.

    @verdict_parser("out_of_five", version=1)
    def out_of_five(text: str, *, label: str = "Grade") -> Verdict | None: ...

A parser takes the text and keyword-only parameters, and returns None where it finds no verdict.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from gage_eval.base.canonical import JsonValue, canonical_text
from gage_eval.base.errors import InputError
from gage_eval.extend import registry
from gage_eval.scoring.metrics.guarded import no_unicode
from gage_eval.scoring.metrics.plugin_calls import PluginCall, read_call

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_PARSER = "default"
_LARGEST = sys.float_info.max

PAIR_OUTCOMES: Mapping[str, float] = {
    "a": 1.0,
    "a>b": 1.0,
    "a>>b": 1.0,
    "b<a": 1.0,
    "b<<a": 1.0,
    "b": 0.0,
    "b>a": 0.0,
    "b>>a": 0.0,
    "a<b": 0.0,
    "a<<b": 0.0,
    "tie": 0.5,
    "c": 0.5,
    "a=b": 0.5,
    "b=a": 0.5,
}
"""The share of a win that a verdict on a pair gives the answer shown first, by the verdict in lower case."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict.

    Attributes:
        answer: as text; ``judge_output.answer``.
        score: a finite number; ``judge_output.score``.
        fields: any other fields, each as ``judge_output.NAME``.
        unread: why there is no verdict, although some of it could be read.
    """

    answer: str | None = None
    score: float | None = None
    fields: Mapping[str, JsonValue] = field(default_factory=dict)
    unread: str | None = None


class VerdictReader(Protocol):
    """Reads the verdict in a judge's response."""

    @property
    def name(self) -> str:
        """For messages."""

    def identity(self) -> JsonValue:
        """Its part of keys."""

    def read_row(self, row: Mapping[str, Any]) -> Verdict | None:
        """The verdict in a row of responses; None where there is none."""


@dataclass(frozen=True)
class VerdictParser(PluginCall):
    """A verdict parser with its parameters."""

    @property
    def name(self) -> str:
        """For messages."""
        return self.plugin.name

    def read_row(self, row: Mapping[str, Any]) -> Verdict | None:
        """See `VerdictReader`."""
        return self.read(row["answer"] or "")

    def wrong(self, verdict: Any) -> str | None:
        if verdict is None:
            return None
        if not isinstance(verdict, Verdict):
            return f"{type(verdict).__name__}, not a Verdict or None"
        score: Any = verdict.score
        if score is not None and not isinstance(score, int | float):
            return f"a Verdict whose score is {type(score).__name__}, not a number"
        if score is not None and not -_LARGEST <= score <= _LARGEST:
            return "a Verdict whose score is not a finite number"
        answer: Any = verdict.answer
        if answer is not None and not isinstance(answer, str):
            return f"a Verdict whose answer is {type(answer).__name__}, not a text"
        if answer is not None and (why := no_unicode(answer)) is not None:
            return f"a Verdict whose answer is {why}"
        try:
            canonical_text(dict(verdict.fields))
        except (TypeError, ValueError) as error:
            return f"a Verdict whose fields have no JSON form: {error}"
        return None

    def read(self, text: str) -> Verdict | None:
        """Read the verdict in a judge's text; None where there is none.

        Raises:
            RowFailed: a plug-in failed, or returned something that is not a verdict. Errors of built-in parsers pass
                through.
        """
        verdict: Verdict | None = self.function(text, **self.params)
        if verdict is None:
            return None
        return verdict if verdict.fields or verdict.answer is not None or verdict.score is not None else None


def verdict_parser(name: str, *, version: int = 1, one_of: Sequence[str] = ()) -> Callable[[F], F]:
    """Decorator: register a verdict parser: a function from a text (and keyword-only parameters) to a `Verdict`.

    Args:
        name: the name used in configs.
        version: increase it whenever a result can change.
        one_of: parameters of which a config must give at least one.
    """
    return registry.verdict_parsers.register(name, version=version, one_of=tuple(one_of))


def read_parser(entry: JsonValue = None) -> VerdictParser:
    """The parser named by an adapter's ``verdict_parser``: a name, or ``{name: {parameters}}``; None for the default.

    Raises:
        InputError: the parser does not exist, or a parameter does not fit.
    """
    parser = read_call(VerdictParser, registry.verdict_parsers, DEFAULT_PARSER if entry is None else entry)
    needed = parser.plugin.info.get("one_of", ())
    if needed and all(parser.params[name] is None for name in needed):
        raise InputError(f"verdict parser {parser.plugin.name} needs {' or '.join(map(repr, needed))}.")
    return parser
