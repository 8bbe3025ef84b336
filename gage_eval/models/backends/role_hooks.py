"""``role_adapters[].class_path``: a user's class that changes the requests and answers of a role.

    class Adapter:
        version = 1

        def prepare(self, request: Request, context: Mapping[str, Any]) -> Request: ...
        def parse(self, response: Response) -> Response: ...

Either may be missing. `prepare` makes the request that is sent of the rendered one; ``context`` holds ``sample``,
``model_output`` and ``support_output``. `parse` makes the response that metrics and judges read of the one that was
received. The model's raw answer is stored too, so that a changed `parse` sends nothing.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from gage_eval.base.canonical import JsonValue, canonical_json
from gage_eval.base.errors import GageError, visible
from gage_eval.base.statuses import ANSWERED
from gage_eval.base.tables import RESPONSES
from gage_eval.extend.loading import PluginError, load_object, plugin_errors, version_of, without_folders
from gage_eval.extend.protocols import refuses
from gage_eval.models.backends.guarded import check_response
from gage_eval.models.client.types import Request, Response

# The hooks and what they take.
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {"prepare": ("request", "context"), "parse": ("response",)}
# What `parse` may change of a row.
_PARSED = ("status", "answer", "reasoning", "tool_calls", "error_kind")


@dataclass(frozen=True)
class RoleHooks:
    """The hooks of one role adapter.

    Attributes:
        path: ``pkg.mod:Class``, ``pkg.mod.Class`` or ``folder/file.py:Class``.
    """

    path: str

    @property
    def name(self) -> str:
        """The hook's name in messages and keys."""
        return without_folders(self.path)

    @cached_property
    def _loaded(self) -> tuple[Any, str]:
        kind, origin = load_object(self.path)
        if not isinstance(kind, type):
            raise PluginError(f"'{self.name}' is a {type(kind).__name__}, not a class.")
        own = {name: getattr(kind, name) for name in _ARGUMENTS if hasattr(kind, name)}
        if not own:
            raise PluginError(f"'{self.name}' has neither 'prepare' nor 'parse'.")
        for name, method in own.items():
            if not callable(method):
                raise PluginError(f"{self.name}.{name} is a {type(method).__name__}, not a method.")
            takes = _ARGUMENTS[name]
            has_self = not isinstance(inspect.getattr_static(kind, name), staticmethod | classmethod)
            if why := refuses(method, len(takes) + has_self):
                raise PluginError(f"{self.name}.{name}() must take ({', '.join(takes)}): {why}.")
        with plugin_errors(f"{self.name}()"):
            return kind(), origin

    @property
    def prepares(self) -> bool:
        """Whether the hook changes requests."""
        return hasattr(self._loaded[0], "prepare")

    @property
    def parses(self) -> bool:
        """Whether the hook parses answers."""
        return hasattr(self._loaded[0], "parse")

    def identity(self) -> JsonValue:
        """Its code, for keys.

        Raises:
            InputError: the class does not exist or cannot be built.
        """
        adapter, origin = self._loaded
        return {"class": self.name, "origin": origin, "version": version_of(adapter, self.name)}

    def prepare(self, request: Request, context: Mapping[str, Any]) -> Request:
        """The request that is sent. Whose it is stays as it was.

        Raises:
            PluginError: the hook failed or gave no request.
        """
        what = f"{self.name}.prepare()"
        with plugin_errors(f"{what}, for sample '{request.sample_id}',"):
            made = self._loaded[0].prepare(request, context)
        if not isinstance(made, Request):
            raise PluginError(f"{what} gave {type(made).__name__}, not a Request.")
        _check_request(what, made)
        return replace(
            made,
            sample_id=request.sample_id,
            row_index=request.row_index,
            replicate=request.replicate,
            draw=request.draw,
        )

    def parse(self, table: pa.Table) -> tuple[pa.Table, dict[int, str]]:
        """`tables.RESPONSES` rows as metrics and judges read them; rows without an answer stay as they are.

        Returns:
            The rows, and a sentence for each row on which the hook failed, by position: such rows are in error.
        """
        rows, failures = table.to_pylist(), {}
        for position, row in enumerate(rows):
            if row["status"] not in ANSWERED:
                continue
            try:
                made = self._parsed(Response(**{name: row[name] for name in _PARSED}), row["sample_id"])
            except GageError as error:
                failures[position] = str(error)
                made = Response("error", error_kind="hook_failed")
            row.update({name: getattr(made, name) for name in _PARSED})
        return pa.Table.from_pylist(rows, schema=RESPONSES.arrow), failures

    def said_of_parse(self, line: str) -> bool:
        """Whether the line is a sentence about a failure of `parse`."""
        return line.startswith(f"{self.name}.parse(), for sample '")

    def _parsed(self, received: Response, sample_id: str) -> Response:
        what = f"{self.name}.parse(), for sample '{sample_id}',"
        with plugin_errors(what):
            made = self._loaded[0].parse(received)
        check_response(what, made)
        return made  # type: ignore[no-any-return]  # checked


def _check_request(what: str, made: Request) -> None:
    messages, params = made.messages, made.params
    are_mappings = isinstance(messages, list) and all(isinstance(message, dict) for message in messages)
    if messages is not None and not are_mappings:
        raise PluginError(f"{what} gave a Request whose messages are not a list of dicts.")
    if not isinstance(params, dict):
        raise PluginError(f"{what} gave a Request whose params are {type(params).__name__}, not a dict.")
    for name in ("kind", "prompt", "lookup"):
        value = getattr(made, name)
        if not isinstance(value, str) and (value is not None or name == "kind"):
            raise PluginError(f"{what} gave a Request whose {name} is {type(value).__name__}, not a text.")
    try:
        canonical_json([messages, params, made.kind, made.prompt, made.lookup, made.choices, made.unconditioned])
        canonical_json([made.tools, made.tool_choice, made.tool_set and made.tool_set.identity])
    except ValueError as error:
        raise PluginError(f"{what} gave a Request that cannot be sent: {visible(str(error)).rstrip('.')}.") from error
