"""The program of a role adapter: what it is, and the agent that it is for a sample."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue, canonical_text, digest, sha256_hex
from gage_eval.box.types import BoxSpec
from gage_eval.models.client.agents import Agent
from gage_eval.pipeline.boxes import AgentBoxes, CannotRun, contents_of, sandbox_of


@dataclass(frozen=True)
class AgentProgram:
    """A program of a config.

    Attributes:
        boxes: where it runs.
        files: on this machine, by their paths in the box.
        others: as in `Agent`.
    """

    command: Sequence[str]
    files: Mapping[str, Path]
    env: Mapping[str, str]
    answer_file: str | None
    max_turns: int
    boxes: AgentBoxes

    @cached_property
    def contents(self) -> Mapping[str, bytes]:
        """What the files hold.

        Raises:
            InputError: one of them cannot be read.
        """
        return contents_of(self.files, "agent.files")

    @cached_property
    def identity(self) -> dict[str, JsonValue]:
        """What determines what it does, besides the sample."""
        return {
            "command": list(self.command),
            "files": {path: sha256_hex(content) for path, content in self.contents.items()},
            "env": dict(self.env),
            "answer_file": self.answer_file,
            "max_turns": self.max_turns,
            "box": self.boxes.identity,
        }

    def agent(self, sample: Mapping[str, Any], *, takes_tools: bool) -> Agent:
        """The agent of a sample's episodes.

        Args:
            sample: the sample.
            takes_tools: whether the model can call tools.
        """

        def spec() -> BoxSpec:
            own = self.boxes.spec(sample)
            return replace(own, files={**own.files, **self.contents}, env={**own.env, **self.env})

        files = self.boxes.files_identity(sample)
        artifacts: Sequence[str] = ()
        limits = self.boxes.limits
        # Otherwise its box cannot be made either.
        with suppress(CannotRun):
            artifacts, limits = self.boxes.artifacts_of(sample), self.boxes.limits_of(sample)
        return Agent(
            self.command,
            self.answer_file,
            self.max_turns,
            limits,
            spec,
            takes_tools,
            {**self.identity, "sandbox": _sandbox(sample), "sandbox_files": files},
            artifacts,
        )


def _sandbox(sample: Mapping[str, Any]) -> JsonValue:
    try:
        return digest(canonical_text(dict(sandbox_of(sample))))
    except (CannotRun, ValueError) as error:
        return str(error)
