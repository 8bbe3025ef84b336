"""The functions of BFCL's simulated classes, for samples of the loader `bfcl`."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import NotInstalled
from gage_eval.data import bfcl
from gage_eval.engine.tools.python import ToolSet, named_arguments, shown
from gage_eval.extend import registry
from gage_eval.models.client.tools import Effects, EpisodeState, ToolError

# That of the published long context is longer than what other tools may answer.
_LONGEST_OUTPUT = 1 << 20


@registry.tools.register("bfcl", version=2)
@dataclass(frozen=True, eq=False)
class BfclTool(ToolSet):
    """A function of a simulated class: `gage_eval.models.client.tools.DefinedTool`.

    Attributes:
        name: as the model calls it.
    """

    effects: ClassVar[Effects] = "state"
    is_repeatable: ClassVar[bool] = False

    name: str

    @classmethod
    def all(cls) -> "list[BfclTool]":
        """The functions of all classes. Without the package there are none, and the loader says that it is missing."""
        try:
            return [cls(name) for name in bfcl.functions()]
        except NotInstalled:
            # Suites can be listed and checked without it.
            return []

    @property
    def identity(self) -> JsonValue:
        """The function, and the code of all classes."""
        return {"bfcl": self.name, "code": bfcl.identity(), "definition": self.definition}

    @cached_property
    def definition(self) -> dict[str, Any]:
        """The published document in OpenAI's form, with its rules for types."""
        return bfcl.definition(bfcl.functions()[self.name][1])

    async def run(self, arguments: str, state: EpisodeState) -> str:
        """See `Tool`."""
        values = named_arguments(arguments)
        simulation = state.objects.get(BfclTool)
        if simulation is None:
            simulation = state.objects[BfclTool] = bfcl.Simulation(state.sample["metadata"]["bfcl"])
        text, is_error = simulation.call(self.name, (), values)
        if is_error:
            raise ToolError(text)
        return shown(text, _LONGEST_OUTPUT)

    def normalised(self, content: str) -> str:
        """The content."""
        return content
