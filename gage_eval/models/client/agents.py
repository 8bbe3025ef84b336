"""What an episode knows of a program that is its agent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gage_eval.base.canonical import JsonValue
from gage_eval.box.types import BoxSpec, Limits


@dataclass(frozen=True, eq=False)
class Agent:
    """A program that runs in a box and asks the model through a relay.

    Attributes:
        command: with the placeholder ``{prompt_file}``.
        answer_file: holds the answer at the end; None: it is what the program prints.
        max_turns: of the model, in one episode.
        limits: of the program.
        spec: gives the box of the sample; raises `BoxError` where it cannot be made.
        takes_tools: whether the model can call tools.
        identity: what determines what the program does.
        artifacts: the files of its box that are taken at the end.
    """

    command: Sequence[str]
    answer_file: str | None
    max_turns: int
    limits: Limits
    spec: Callable[[], BoxSpec]
    takes_tools: bool
    identity: JsonValue
    artifacts: Sequence[str] = ()
