"""Tools written in Python: a function without effects, or a class whose methods change the state of one episode.

    @tool("search")
    def search(query: str, limit: int = 5) -> list[str]:
        '''Titles that contain the query.'''

    class Cart:
        '''Made for each episode from its sample.'''

        def __init__(self, sample): ...
        def add(self, item: str) -> str: ...

The definition that a model sees is made of name, docstring and annotations.
"""

import asyncio
import inspect
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model

from gage_eval.base.canonical import JsonValue, canonical_text, decode
from gage_eval.extend.loading import PluginError, is_path, plugin_errors
from gage_eval.extend.registry import Plugin
from gage_eval.models.client.tools import DefinedTool, Effects, EpisodeState, ToolError, ToolFailed
from gage_eval.models.client.types import without_surrogates

TIMEOUT_S = 60.0
LONGEST_OUTPUT = 1 << 16
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_PASSED_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, eq=False)
class PythonTool:
    """A function, or a method of a class that is made once per episode: `gage_eval.models.client.tools.Tool`.

    Attributes:
        name: as the model calls it.
        function: the function; for a method, as the class has it.
        plugin: where it comes from.
        effects, is_repeatable: see `Tool`.
        timeout_s: seconds that a call may take.
    """

    name: str
    function: Callable[..., Any]
    plugin: Plugin[Any]
    effects: Effects
    is_repeatable: bool
    timeout_s: float

    @property
    def identity(self) -> JsonValue:
        """The plug-in's code, and what of it is called."""
        return {"tool": self.name, "plugin": self.plugin.identity(), "effects": self.effects}

    @cached_property
    def definition(self) -> dict[str, Any]:
        """The definition in OpenAI form.

        Raises:
            PluginError: the name or the arguments cannot be described to a model.
        """
        if not _NAME.fullmatch(self.name):
            raise PluginError(f"tool '{self.name}': a name has up to 64 letters, digits, _ and -.")
        schema = self._arguments.model_json_schema()
        for titled in (schema, *schema.get("properties", {}).values()):
            titled.pop("title", None)
        about = inspect.getdoc(self.function) or ""
        return {"type": "function", "function": {"name": self.name, "description": about, "parameters": schema}}

    async def run(self, arguments: str, state: EpisodeState) -> str:
        """See `Tool`."""
        try:
            read = self._arguments.model_validate_json(arguments or "{}")
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise ToolError(f"{place or 'arguments'}: {first['msg']}") from None
        fields = self._arguments.model_fields
        values = {str(fields[name].alias): getattr(read, name) for name in read.model_fields_set}
        function = self._bound(state)
        try:
            made = await asyncio.wait_for(called(function, values), self.timeout_s)
        except ToolError:
            raise
        except TimeoutError:
            raise ToolFailed(f"tool '{self.name}' took longer than {self.timeout_s:g} s") from None
        except Exception as error:
            text = " ".join(str(error).split())[:300]  # it may repeat an argument of the model, of any length
            raise ToolFailed(f"tool '{self.name}' failed: {type(error).__name__}: {text}") from error
        return self._text(made)

    def normalised(self, content: str) -> str:
        """See `Tool`; by ``normalise`` of the plug-in, if it has one."""
        normalise = self.plugin.info.get("normalise") or getattr(self.plugin.obj, "normalise", None)
        return content if normalise is None else str(normalise(content))

    @cached_property
    def _arguments(self) -> type[BaseModel]:
        """The arguments of a call."""
        what = f"tool {self.plugin.location}"
        with plugin_errors(what):
            hints = get_type_hints(self.function)
            parameters = list(inspect.signature(self.function).parameters.values())[self._is_method :]
        if unnamed := [parameter.name for parameter in parameters if parameter.kind not in _PASSED_BY_NAME]:
            raise PluginError(f"{what}: models pass arguments by name, which '{unnamed[0]}' does not take.")
        # A field may not have any name that an argument has.
        fields: dict[str, Any] = {
            f"argument_{number}": (
                hints.get(parameter.name, Any),
                Field(... if parameter.default is parameter.empty else parameter.default, alias=parameter.name),
            )
            for number, parameter in enumerate(parameters)
        }
        try:
            model: type[BaseModel] = create_model("arguments", __config__=ConfigDict(extra="forbid"), **fields)
            model.model_json_schema()
        except PydanticUserError as error:
            raise PluginError(f"{what}: {str(error).splitlines()[0]}") from None
        return model

    @property
    def _is_method(self) -> bool:
        return inspect.isclass(self.plugin.obj)

    def _bound(self, state: EpisodeState) -> Callable[..., Any]:
        if not self._is_method:
            return self.function
        owner = state.objects.get(self.plugin.obj)
        if owner is None:
            try:
                owner = state.objects[self.plugin.obj] = self.plugin.obj(state.sample)
            except Exception as error:
                raise ToolFailed(f"{self.plugin.location} cannot be made: {type(error).__name__}: {error}") from error
        method: Callable[..., Any] = getattr(owner, self.function.__name__)
        return method

    def _text(self, made: Any) -> str:
        """What the model is shown: a text as it is, anything else as JSON; cut where it is too long."""
        try:
            text = made if isinstance(made, str) else canonical_text(made)
        except (TypeError, ValueError):
            raise ToolFailed(
                f"tool '{self.name}' returned a {type(made).__name__}, which is neither text nor JSON"
            ) from None
        return shown(text)


def named_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call by name, for a tool that checks them itself.

    Raises:
        ToolError: the model wrote no JSON object.
    """
    try:
        values = decode(text or "{}")
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise ToolError("the arguments must be an object")
    return values


def shown(text: str, longest: int = LONGEST_OUTPUT) -> str:
    """The output of a tool as the model sees it: cut where it is too long."""
    clean = str(without_surrogates(text))
    over = len(clean) - longest
    return clean if over <= 0 else f"{clean[:longest]}\n[{over:,} more characters]"


async def called(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The result of a function, which runs in a new thread unless it is a coroutine function.

    A thread that never returns ends with the process. The loop would wait for one of its pool.
    """
    if inspect.iscoroutinefunction(function):
        return await function(**values)
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Any] = loop.create_future()

    def settle(set_it: Callable[[Any], None], value: Any) -> None:
        if not result.done():
            set_it(value)

    def work() -> None:
        try:
            outcome: tuple[Callable[[Any], None], Any] = (result.set_result, function(**values))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - raised where the result is waited for
            # A future takes no StopIteration, and a loop ends with SystemExit.
            is_odd = isinstance(error, StopIteration | SystemExit)
            outcome = (result.set_exception, RuntimeError(repr(error)) if is_odd else error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=work, name="gage-tool", daemon=True).start()
    return await result


class ToolSet(ABC):
    """A plug-in that stands for several tools."""

    @classmethod
    @abstractmethod
    def all(cls) -> Sequence[DefinedTool]:
        """The tools."""


def of_plugin(plugin: Plugin[Any]) -> list[PythonTool]:
    """The tools of a function or a class.

    Raises:
        PluginError: a class has no public method, or a declaration is wrong.
    """
    obj, info = plugin.obj, plugin.info
    effects = info.get("effects", "state" if inspect.isclass(obj) else "none")
    if effects not in get_args(Effects):
        raise PluginError(f"tool {plugin.location}: effects is one of {', '.join(get_args(Effects))}, not {effects!r}.")
    if inspect.isclass(obj):
        functions = {
            name: function
            for name, function in inspect.getmembers(obj, inspect.isfunction)
            if not name.startswith("_") and name != "normalise"
        }
        if not functions:
            raise PluginError(f"tool {plugin.location}: the class has no public method that a model could call.")
    else:
        functions = {obj.__name__ if is_path(plugin.name) else plugin.name: obj}
    repeatable, timeout_s = bool(info.get("repeatable", False)), float(info.get("timeout_s", TIMEOUT_S))
    return [PythonTool(name, function, plugin, effects, repeatable, timeout_s) for name, function in functions.items()]
