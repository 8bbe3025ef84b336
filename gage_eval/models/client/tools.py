"""What an episode knows of its tools."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import GageError
from gage_eval.box.types import Executor

Effects: TypeAlias = Literal["none", "state", "outside"]
"""What a call changes. ``none``: nothing, and its output depends on the arguments alone. ``state``: the state of its
episode. ``outside``: something that a second call would change again."""


class ToolError(GageError):
    """The model gets this sentence as the output of its call, and the episode goes on. Tools raise it."""


class ToolFailed(Exception):
    """A tool failed for a reason that is not the model's: its row ends in an error, and is asked again another time.

    Attributes:
        kind: of the row's error: ``tool_error`` or ``box_error``.
    """

    def __init__(self, message: str, kind: str = "tool_error") -> None:
        super().__init__(message)
        self.kind = kind


class Observation(NamedTuple):
    """What came of a call of a tool.

    Attributes:
        content: of the message that the model gets.
        is_error: whether it tells the model what was wrong.
        ms: how long the tool ran.
        source: ``run``, or ``journal`` for that of an earlier call.
    """

    content: str
    is_error: bool = False
    ms: float = 0.0
    source: str = "run"


@dataclass
class EpisodeState:
    """What the tools of one attempt of an episode keep from call to call.

    Attributes:
        sample: whose episode it is.
        objects: what a class of tools is for this episode, by class.
        executor: makes boxes, if a tool needs one; may take a while.
        exits: what is closed at the end of the attempt.
        keep: stores bytes, and returns their address.
    """

    sample: Mapping[str, Any] = field(default_factory=dict)
    objects: dict[Any, Any] = field(default_factory=dict)
    executor: Callable[[], Executor] | None = None
    exits: AsyncExitStack = field(default_factory=AsyncExitStack)
    keep: Callable[[bytes], str] | None = None


class Tool(Protocol):
    """A tool that an episode may run."""

    @property
    def effects(self) -> Effects:
        """What a call changes."""

    @property
    def is_repeatable(self) -> bool:
        """Of effects outside: whether a call may be made again if it is not known whether it took effect."""

    @property
    def identity(self) -> JsonValue:
        """What determines its outputs, apart from the arguments and the episode's state."""

    async def run(self, arguments: str, state: EpisodeState) -> str:
        """The content of the tool's message.

        Args:
            arguments: as the model wrote them; JSON text if it kept to the form.
            state: of the episode.

        Raises:
            ToolError: the arguments cannot be used.
            ToolFailed: the tool cannot be run.
        """

    def normalised(self, content: str) -> str:
        """A content without what differs from run to run, such as times and process ids."""


class DefinedTool(Tool, Protocol):
    """A tool that defines itself."""

    @property
    def name(self) -> str:
        """As the model calls it."""

    @property
    def definition(self) -> dict[str, Any]:
        """The definition in OpenAI form.

        Raises:
            InputError: it cannot be described to a model.
        """


class Tools(Protocol):
    """The tools that an episode may run."""

    @property
    def identity(self) -> JsonValue:
        """What determines their outputs; part of the episode's key."""

    @property
    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """Definitions in OpenAI form, of those that define themselves."""

    def defined(self, names: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Definitions of some of them."""

    def get(self, name: str) -> Tool | None:
        """A tool by its name; None if there is none."""

    def begin(self) -> EpisodeState:
        """The state of a new attempt."""

    async def final_state(self, state: EpisodeState) -> str | None:
        """The declared files of the episode's box; None where none are declared.

        Raises:
            BoxError: the box failed, or cannot be made.
        """
