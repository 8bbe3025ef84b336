"""A guard around plug-in functions that are called row by row."""

from collections.abc import Callable, Mapping
from typing import Any

from gage_eval.base.errors import visible
from gage_eval.base.interrupts import raise_if_received
from gage_eval.extend.loading import failure, is_ours


class RowFailed(Exception):
    """A plug-in failed on one row; the message names the plug-in, the method and the line."""


def guarded(function: Callable[..., Any], what: str, wrong: Callable[[Any], str | None]) -> Callable[..., Any]:
    """Wrap a function: any error or wrong result becomes a `RowFailed`.

    Args:
        function: the plug-in's function.
        what: its name in messages, as ``rows.py:length()``.
        wrong: says what is wrong with a result; None when nothing is.
    """

    def call(*args: Any, **params: Any) -> Any:
        try:
            result = function(*args, **params)
            # The result may be an object whose methods are also plug-in code.
            why = wrong(result)
        except BaseException as error:
            if is_ours(error):
                raise
            raise RowFailed(failure(what, error)) from error
        raise_if_received()
        if why is not None:
            raise RowFailed(f"{what} gave {why}.")
        return result

    return call


def no_text(result: Any) -> str | None:
    """What is wrong with the result of a filter over texts; None when nothing is."""
    if result is None:
        return None
    return no_unicode(result) if isinstance(result, str) else f"{type(result).__name__}, not a text or None"


def no_unicode(text: str) -> str | None:
    """What is wrong with a text that no table can hold; None for all others."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"a text that is not Unicode ({visible(text[error.start : error.end])} at character {error.start + 1:,})"
    return None


def no_texts(result: Any) -> str | None:
    """What is wrong with the result of a filter over replicates."""
    if not isinstance(result, Mapping):
        return f"{type(result).__name__}, not a mapping of positions to texts"
    for position, text in result.items():
        if type(position) is not int or not isinstance(text, str | None):
            return f"{{{position!r}: {type(text).__name__}}}, not positions with texts"
        if (why := no_text(text)) is not None:
            return why
    return None
