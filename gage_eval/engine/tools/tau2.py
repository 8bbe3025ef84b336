"""The tools of tau²-bench's domains, for samples of the loader `tau2`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, NotInstalled
from gage_eval.data import tau2_checkout
from gage_eval.engine.tools.python import ToolSet, called, named_arguments, shown
from gage_eval.extend import registry
from gage_eval.models.client.tools import Effects, EpisodeState, ToolError, ToolFailed


@dataclass(frozen=True, eq=False)
class Tau2Tool:
    """A tool of a domain, whose state is shared by both sides: `gage_eval.models.client.tools.DefinedTool`.

    Attributes:
        domain: its name.
        actor: whose tool it is.
        definition: as the checkout gives it.
    """

    effects: ClassVar[Effects] = "state"
    is_repeatable: ClassVar[bool] = False

    domain: tau2_checkout.Domain
    actor: tau2_checkout.Actor
    definition: dict[str, Any]

    @property
    def name(self) -> str:
        """As the model calls it."""
        return str(self.definition["function"]["name"])

    @property
    def identity(self) -> JsonValue:
        """The tool, and the code of its domain."""
        code = tau2_checkout.identity(self.domain)
        return {"tau2": self.domain, "actor": self.actor, "code": code, "definition": self.definition}

    async def run(self, arguments: str, state: EpisodeState) -> str:
        """See `Tool`."""
        values = {"state": state, "arguments": named_arguments(arguments)}
        try:
            content, is_error = await called(self._answer, values)
        except (InputError, tau2_checkout.SessionLost) as error:
            raise ToolFailed(f"tool '{self.name}' failed: {error}") from error
        if is_error:
            raise ToolError(content)
        return shown(content)

    def normalised(self, content: str) -> str:
        """The content."""
        return content

    def _answer(self, state: EpisodeState, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        session = state.objects.get(Tau2Tool)
        if session is None:
            session = state.objects[Tau2Tool] = tau2_checkout.Session(self.domain)
            state.exits.callback(session.close)
            session.ask("begin", task=state.sample["metadata"]["tau2"])
        content, is_error = session.ask("call", actor=self.actor, name=self.name, arguments=arguments)
        return content, is_error


class _OfDomain(ToolSet):
    domain: ClassVar[tau2_checkout.Domain]
    actor: ClassVar[tau2_checkout.Actor] = "assistant"

    @classmethod
    def all(cls) -> list[Tau2Tool]:
        """Without a checkout there are none, and the loader says that it is missing."""
        try:
            described = tau2_checkout.described(cls.domain)
        except NotInstalled:
            return []
        return [Tau2Tool(cls.domain, cls.actor, definition) for definition in described[cls.actor]]


@registry.tools.register("tau2_airline")
class Airline(_OfDomain):
    """The agent's tools of the domain airline."""

    domain = "airline"


@registry.tools.register("tau2_retail")
class Retail(_OfDomain):
    """The agent's tools of the domain retail."""

    domain = "retail"


@registry.tools.register("tau2_telecom")
class Telecom(_OfDomain):
    """The agent's tools of the domain telecom."""

    domain = "telecom"


@registry.tools.register("tau2_telecom_user")
class TelecomUser(_OfDomain):
    """The user's tools of the domain telecom."""

    domain, actor = "telecom", "user"
