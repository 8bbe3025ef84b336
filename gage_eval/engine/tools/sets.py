"""The tools of one sample's episodes."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.engine.final_state import final_state
from gage_eval.engine.tools.box import AgentBox, BoxTool, opened
from gage_eval.engine.tools.mcp import McpServer, McpTool
from gage_eval.engine.tools.python import ToolSet, of_plugin
from gage_eval.engine.tools.recorded import RecordedTool, recorded_tools
from gage_eval.extend import registry
from gage_eval.extend.loading import PluginError
from gage_eval.extend.registry import Plugin
from gage_eval.models.client.tools import DefinedTool, EpisodeState, Tool

# Of the tools that a sample has, a message names so many.
_MOST_NAMED = 20


@dataclass(frozen=True)
class EpisodeTools:
    """The tools that an adapter names, and those that a sample has outputs of: `gage_eval.models.client.tools.Tools`.

    Attributes:
        own: of the adapter, by name; they win.
        recorded: of the sample, by name.
        sample: the sample, which a class of tools is made from.
    """

    own: Mapping[str, DefinedTool]
    recorded: Mapping[str, RecordedTool]
    sample: Mapping[str, Any]

    @cached_property
    def identity(self) -> JsonValue:
        """The tools; and the sample, if it is in the state of one of them."""
        has_state = any(tool.effects != "none" for tool in self.own.values())
        files = None if self._box is None else self._box.files_identity(self.sample)
        return {
            "own": [tool.identity for tool in self.own.values()],
            "recorded": [tool.identity for tool in self.recorded.values()],
            "sample": digest(self.sample) if has_state else None,
            **({"files": files} if files is not None else {}),
        }

    @property
    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """Those of the adapter's tools that the sample offers, by ``metadata.tool_names``; by default all."""
        return self.defined([*self.own] if self._offered is None else self._offered)

    def defined(self, names: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """See `Tools`. What a sample defines itself is not here."""
        return [self.own[name].definition for name in names if isinstance(name, str) and name in self.own]

    def fault(self, definitions: Sequence[Mapping[str, Any]] | None, script: Sequence[Mapping[str, Any]]) -> str | None:
        """What is wrong about the names of tools in the sample and in the turns of its user; None if nothing is.

        Args:
            definitions: of the tools that the request offers; those that the sample defines itself are among them.
            script: the turns of a scripted user.
        """
        places = {"metadata.tool_names": self._offered or []}
        places |= {f"turn {number} of its user": turn.get("tool_names") or [] for number, turn in enumerate(script, 1)}
        if not any(places.values()):
            return None
        known = dict.fromkeys([*_names(definitions), *self.own])
        for place, names in places.items():
            if unknown := [name for name in names if not isinstance(name, str) or name not in known]:
                tools = ", ".join([*known][:_MOST_NAMED])
                return f"{place} names '{str(unknown[0])[:80]}', which is none of its tools: {tools}."
        return None

    def get(self, name: str) -> Tool | None:
        """See `Tools`."""
        return self.own.get(name) or self.recorded.get(name)

    def begin(self) -> EpisodeState:
        """See `Tools`."""
        return EpisodeState(self.sample)

    async def final_state(self, state: EpisodeState) -> str | None:
        """See `Tools`. An episode that ran no command has the files that its box begins with."""
        if self._box is None or not (artifacts := self._box.artifacts_of(self.sample)):
            return None
        assert state.keep is not None
        limits = self._box.limits_of(self.sample)
        return await final_state(await opened(self._box, state), artifacts, limits, state.keep)

    @property
    def _offered(self) -> list[Any] | None:
        names = (self.sample.get("metadata") or {}).get("tool_names")
        return names if isinstance(names, list) else None

    @cached_property
    def _box(self) -> AgentBox | None:
        return next(
            (tool.box for tool in self.own.values() if isinstance(tool, BoxTool | McpTool) and tool.box is not None),
            None,
        )


def tools_of(
    names: Sequence[str], box: AgentBox | None = None, servers: Sequence[McpServer] = ()
) -> dict[str, DefinedTool]:
    """The tools that a config names, by the names that models call.

    Args:
        names: of plug-ins.
        box: of the tools that need one; without it they can be described, and not run.
        servers: that have more tools; none is started here.

    Raises:
        InputError: a name has no tool, it cannot be described to a model, or two tools have one name.
    """
    own = [tool for name in names for tool in _of_plugin(registry.tools.get(name), box)]
    for tool in own:
        # What a server describes is checked when it is asked.
        assert tool.definition
    tools: dict[str, DefinedTool] = {}
    for tool in (*own, *(tool for server in servers for tool in server.tools())):
        if tool.name in tools:
            raise PluginError(f"two tools are named '{tool.name}'; rename one of them.")
        tools[tool.name] = tool
    return tools


def _of_plugin(plugin: Plugin[Any], box: AgentBox | None) -> Sequence[DefinedTool]:
    made = plugin.obj if inspect.isclass(plugin.obj) else object
    if issubclass(made, ToolSet):
        return made.all()
    return [made(box)] if issubclass(made, BoxTool) else of_plugin(plugin)


def episode_tools(own: Mapping[str, DefinedTool], sample: Mapping[str, Any]) -> EpisodeTools:
    """The tools of a sample's episodes."""
    return EpisodeTools(own, recorded_tools(sample), sample)


def merged(definitions: Sequence[Mapping[str, Any]] | None, added: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """Definitions of tools, and after them those of other tools."""
    named = {*_names(definitions)}
    more = [entry for entry in added if entry["function"]["name"] not in named]
    return [*(definitions or ()), *more] or None


def _names(definitions: Sequence[Any] | None) -> list[str]:
    functions = [entry.get("function") for entry in definitions or () if isinstance(entry, Mapping)]
    return [str(function["name"]) for function in functions if isinstance(function, Mapping) and "name" in function]
