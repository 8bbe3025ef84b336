"""Steps around preprocessors: remove roles, add an instruction, and wrap users' own preprocessors."""

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.base.interrupts import raise_if_received
from gage_eval.data.sample.record import RecordRejected, kind_of
from gage_eval.data.sample.rules import ROLES
from gage_eval.data.standardize.fields import Preprocessor
from gage_eval.extend.loading import PluginError, is_ours, plugin_errors, said_by
from gage_eval.extend.registry import Plugin


def build(plugin: Plugin[Any], kwargs: Mapping[str, Any]) -> Preprocessor:
    """The preprocessor of a plug-in: a class with ``to_sample(record)``, or a function of a record.

    Built-in ones raise `RecordRejected` themselves. An error of another one rejects the record, with the error as the
    reason. It gets a copy of the record, so it may change the record.

    Args:
        plugin: the plug-in.
        kwargs: arguments of the class, or of the function after the record.

    Raises:
        PluginError: an object of the class cannot be made.
    """
    if plugin.is_builtin:
        builtin: Preprocessor = plugin.obj(**kwargs).to_sample
        return builtin
    to_sample: Callable[..., Any] = functools.partial(plugin.obj, **kwargs)
    if inspect.isclass(plugin.obj):
        with plugin_errors(f"{plugin.location}()"):
            to_sample = to_sample().to_sample

    def guarded(record: dict[str, Any]) -> dict[str, Any]:
        try:
            sample = to_sample(copy.deepcopy(record))
            made = dict(sample) if isinstance(sample, Mapping) else None
        except RecordRejected:
            raise
        except BaseException as error:
            # An error of gage-eval raised in it also rejects this record.
            if is_ours(error) and not isinstance(error, InputError):
                raise
            raise RecordRejected(reason_of(plugin.location, error)) from error
        raise_if_received()
        if made is None:
            raise RecordRejected(f"preprocessor {plugin.location} gave {kind_of(sample)}, not a sample.")
        return made

    return guarded


def parameters_of(plugin: Plugin[Any]) -> Sequence[inspect.Parameter] | None:
    """The parameters that ``preprocess_kwargs`` sets; None where the plug-in does not declare them.

    Raises:
        PluginError: a function takes no record.
    """
    try:
        parameters = list(inspect.signature(plugin.obj).parameters.values())
    except (TypeError, ValueError):
        return None
    if inspect.isclass(plugin.obj):
        return parameters
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise PluginError(f"preprocessor {plugin.location} must take a record as its first argument.")
    return parameters[1:]


def reason_of(name: str, error: BaseException) -> str:
    """Why foreign code could not do with a record, on one line."""
    text = said_by(error, 200)
    return f"{name} failed with {type(error).__name__}{f': {text}' if text else ''}."


def check_roles(roles: Iterable[str]) -> frozenset[str]:
    """Check the roles to remove from messages.

    Raises:
        InputError: a role does not exist.
    """
    chosen = frozenset(roles)
    for role in sorted(chosen - set(ROLES)):
        raise InputError(f"roles_to_remove: '{role}' is not a role ({', '.join(ROLES)}).")
    return chosen


def without_roles(record: dict[str, Any], roles: frozenset[str]) -> dict[str, Any]:
    """The record without the messages of some roles; the same record if there are none.

    Raises:
        RecordRejected: no message is left.
    """
    messages = record.get("messages")
    if not roles or type(messages) is not list:
        return record
    kept = [item for item in messages if not has_role(item, roles)]
    if len(kept) == len(messages):
        return record
    if not kept:
        raise RecordRejected(f"messages: none is left after removing those of {', '.join(sorted(roles))}.")
    return {**record, "messages": kept}


def has_role(message: Any, roles: frozenset[str]) -> bool:
    """Whether an item of a record's messages, which may be anything, is a message of one of the roles."""
    role = message.get("role") if type(message) is dict else None
    return type(role) is str and role in roles


def last_user(messages: list[Any]) -> int | None:
    """The index of the last user message among a record's messages, which may be anything."""
    users = (index for index, message in enumerate(messages) if has_role(message, frozenset({"user"})))
    return max(users, default=None)


def instructed(text: str, instruction: str | None) -> str:
    """The text, and the instruction as a paragraph after it."""
    return f"{text}\n\n{instruction}" if instruction else text
