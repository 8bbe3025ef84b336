"""The tools ``bash`` and ``python``: commands in a box, which an episode keeps from its first command to its end."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.box.types import Box, BoxError, BoxSpec, Executor, Limits, Ran
from gage_eval.extend import registry
from gage_eval.models.client.tools import Effects, EpisodeState, ToolError, ToolFailed
from gage_eval.models.client.types import without_surrogates

_LONGEST_COMMAND = 1 << 17
_VARYING = re.compile(
    r"""\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?)?([ ]?(Z|[+-]\d\d:?\d\d))?   # 2026-11-26 03:27:16.5 +0000
    | \b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ ]+\d{1,2}[ ]+(\d\d:\d\d(:\d\d)?|\d{4})\b   # as ls and date
    | \b\d\d:\d\d:\d\d([.,]\d+)?\b
    | \b(\d+m)?\d+([.,]\d+)?[ ]?(s|ms|us|µs|ns|seconds?)\b   # in 0.02s
    | \b(pid|PID)[ :=]*\d+ | ^\[\d+\][ ]\d+$   # [1] 4711
    | \btmp[\w.]{6,}   # tmp.x1Y2z3, tmpab12cd34
    """,
    re.VERBOSE | re.MULTILINE,
)
_ENDED = {
    "cpu": "it used more than {limits.cpu_s:g} s of processor time",
    "idle": "it was still there after {limits.wall:g} s",
    "memory": "it used more than {limits.memory_mb} MB of memory",
    "output": "it wrote too much",
}


class AgentBox(Protocol):
    """The boxes of an adapter's episodes."""

    @property
    def identity(self) -> JsonValue:
        """What determines what commands do, besides the sample."""

    def limits_of(self, sample: Mapping[str, Any]) -> Limits:
        """What one command may use.

        Raises:
            BoxError: the sample says it in another form.
        """

    def artifacts_of(self, sample: Mapping[str, Any]) -> Sequence[str]:
        """The files of a box that are taken at the end of an episode.

        Raises:
            BoxError: the sample names them in another form.
        """

    def files_identity(self, sample: Mapping[str, Any]) -> JsonValue:
        """The content of the files that a sample brings; None where it brings none."""

    def spec(self, sample: Mapping[str, Any]) -> BoxSpec:
        """The surroundings that a sample sets, with the MCP servers that run there.

        Raises:
            BoxError: they cannot be made.
        """

    def executor(self) -> Executor:
        """A new executor, for boxes outside of a run.

        Raises:
            BoxError: this machine has none.
        """


@dataclass(frozen=True, eq=False)
class BoxTool:
    """A tool that runs a command: `gage_eval.models.client.tools.Tool`.

    Attributes:
        box: the boxes; None only while a config is checked.
    """

    name: ClassVar[str]
    argument: ClassVar[str]
    description: ClassVar[str]
    effects: ClassVar[Effects] = "state"
    is_repeatable: ClassVar[bool] = False

    box: AgentBox | None = None

    @property
    def identity(self) -> JsonValue:
        """The tool, its limits and the box."""
        assert self.box is not None
        return {"tool": self.name, "box": self.box.identity}

    @property
    def definition(self) -> dict[str, Any]:
        """The definition in OpenAI form."""
        parameters = {
            "type": "object",
            "properties": {self.argument: {"type": "string"}},
            "required": [self.argument],
            "additionalProperties": False,
        }
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    def argv(self, text: str) -> tuple[list[str], bytes]:
        """The command for an argument, and its stdin."""
        raise NotImplementedError

    async def run(self, arguments: str, state: EpisodeState) -> str:
        """See `Tool`: what the command printed, and how it ended if not well."""
        assert self.box is not None
        argv, stdin = self.argv(self._argument(arguments))
        try:
            limits = self.box.limits_of(state.sample)
            box = await opened(self.box, state)
            ran = await box.run(argv, stdin=stdin, limits=limits)
        except BoxError as error:
            raise ToolFailed(str(error), "box_error") from None
        if ran.reason == "starved":
            raise ToolFailed("the command waited for a processor until its time was over", "box_error")
        return _shown(ran, limits)

    def normalised(self, content: str) -> str:
        """The content without times, durations, process ids and temporary names, which differ from run to run."""
        return without_varying(content)

    def _argument(self, arguments: str) -> str:
        try:
            read = decode(arguments)
        except ValueError:
            read = None
        text = read.get(self.argument) if isinstance(read, dict) and len(read) == 1 else None
        if not isinstance(text, str):
            raise ToolError(f"the arguments must be an object with the text '{self.argument}'")
        if "\0" in text or len(text) > _LONGEST_COMMAND:
            raise ToolError(f"{self.argument}: at most {_LONGEST_COMMAND:,} characters, none of them NUL")
        return str(without_surrogates(text))


@registry.tools.register("bash")
class Bash(BoxTool):
    """Runs a command of bash in the episode's box."""

    name, argument = "bash", "command"
    description = (
        "Run a command of bash and get what it prints. Files stay until the end; background processes and variables "
        "end with the command. There is no network."
    )

    def argv(self, text: str) -> tuple[list[str], bytes]:
        """See `BoxTool`."""
        return ["bash", "-c", text], b""


@registry.tools.register("python")
class Python(BoxTool):
    """Runs a program of Python in the episode's box."""

    name, argument = "python", "code"
    description = (
        "Run a program of Python and get what it prints. Files stay until the end; variables end with the program. "
        "There is no network."
    )

    def argv(self, text: str) -> tuple[list[str], bytes]:
        """See `BoxTool`."""
        return ["python3", "-"], text.encode()


def without_varying(content: str) -> str:
    """A text without times, durations, process ids and temporary names."""
    return _VARYING.sub("…", content)


async def opened(boxes: AgentBox, state: EpisodeState) -> Box:
    """The box of an episode, which is made for its first use.

    Raises:
        BoxError: it cannot be made.
    """
    box: Box | None = state.objects.get(AgentBox)
    if box is None:
        assert state.executor is not None
        executor = await asyncio.to_thread(state.executor)
        spec = await asyncio.to_thread(boxes.spec, state.sample)
        box = await executor.open(spec, boxes.limits_of(state.sample))
        state.objects[AgentBox] = box
        state.exits.push_async_callback(box.close)
    return box


def _shown(ran: Ran, limits: Limits) -> str:
    pieces = [ran.stdout.decode("utf-8", "replace")]
    if ran.stderr:
        pieces.append(f"[stderr]\n{ran.stderr.decode('utf-8', 'replace')}")
    if ran.reason:
        pieces.append(f"[ended: {_ENDED.get(ran.reason, ran.reason).format(limits=limits)}]")
    elif ran.exit:
        pieces.append(f"[exit {ran.exit}]")
    return "\n".join(piece.rstrip("\n") for piece in pieces if piece) or "[no output]"
