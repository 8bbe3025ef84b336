"""The section `execution` of a task: which programs are run with which tests, and within which limits."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.base.field_paths import compile_path
from gage_eval.base.inputs import RESPONSES_INPUT, SAMPLES_INPUT
from gage_eval.base.marks import identity, nested, scheduling, semantic
from gage_eval.config.base_model import ConfigModel, check_in_box
from gage_eval.models.backends.base import is_key_reference
from gage_eval.models.backends.placement import HERE
from gage_eval.models.client.tools import Effects

BOX_TOOLS = frozenset({"bash", "python"})
"""The tools that run commands in a box."""

# Less wall time than this multiple of the CPU time would make a busy machine decide.
_WALL_PER_CPU = 10


class ExecutionLimitsConfig(ConfigModel):
    """What one program may use."""

    cpu_s: float = semantic("auto_eval", 5.0, gt=0, le=3600)
    wall_s: float | None = semantic("auto_eval", None, gt=0, le=36_000)
    memory_mb: int = semantic("auto_eval", 1024, ge=16)
    processes: int = semantic("auto_eval", 32, ge=1)
    files: int = semantic("auto_eval", 4096, ge=1)
    files_mb: int = semantic("auto_eval", 64, ge=1)
    output_kb: int = semantic("auto_eval", 64, ge=1)


class ExecutionConfig(ConfigModel):
    """The programs of a task's answers, which are run with tests in a box."""

    mode: Literal["calls", "stdio", "script", "final_state"] = semantic("auto_eval")
    program: str = semantic("auto_eval", "model_output.answer", min_length=1)
    filters: list[JsonValue] = semantic("auto_eval", [])
    entry: str | None = semantic("auto_eval", None, min_length=1)
    prelude: str | None = semantic("auto_eval", None, min_length=1)
    tests: str | None = semantic("auto_eval", None, min_length=1)
    expected: str | None = semantic("auto_eval", None, min_length=1)
    inputs: str | None = semantic("auto_eval", None, min_length=1)
    outputs: str | None = semantic("auto_eval", None, min_length=1)
    # Its content is in the key.
    check: str | None = identity("auto_eval", None, min_length=1)
    command: list[str] | None = semantic("auto_eval", None, min_length=1)
    file: str = semantic("auto_eval", "program", pattern=r"^\w[\w.-]*$")
    image: str | None = semantic("auto_eval", None, min_length=1)
    limits: ExecutionLimitsConfig | None = nested(None)
    compat: Literal["official"] | None = semantic("auto_eval", None)
    executor: Literal["auto", "bubblewrap", "docker", "podman"] = scheduling("auto")
    slots: int | None = scheduling(None, ge=1, le=1024)
    # The key has what contained the programs, if anything.
    allow_unsafe: bool = scheduling(default=False)
    roots: dict[str, str] = scheduling({})
    work_pool: str | None = scheduling(None, min_length=1)
    replicas: int = scheduling(1, ge=1, le=64)

    @field_validator("program", "entry", "prelude", "tests", "expected", "inputs", "outputs")
    @classmethod
    def _is_a_field(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            path = compile_path(value)
        except InputError as error:
            raise ValueError(str(error)) from error
        if path.root not in (SAMPLES_INPUT.root, RESPONSES_INPUT.root) or not path.parts:
            raise ValueError("name a field of the sample or of the answer, as sample.metadata.tests")
        return value

    @model_validator(mode="after")
    def _has_what_its_mode_needs(self) -> Self:
        needed = {
            "calls": ("entry", "tests"),
            "script": ("tests",),
            "stdio": ("inputs", "outputs"),
            "final_state": () if self.check is not None else ("tests",),
        }[self.mode]
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            raise ValueError(f"mode {self.mode} needs {' and '.join(map(repr, missing))}, the path of a field")
        extra = [name for name in ("entry", "tests", "inputs", "outputs") if getattr(self, name) and name not in needed]
        extra = [name for name in extra if (name, self.mode) not in (("entry", "script"), ("tests", "final_state"))]
        # In mode script, the tests run where the program could read what they expect.
        if self.expected is not None and self.mode not in ("calls", "script"):
            extra.append("expected")
        if self.check is not None and self.mode != "final_state":
            extra.append("check")
        if extra:
            raise ValueError(f"mode {self.mode} reads no '{extra[0]}': remove it, or set another mode")
        if self.command is not None and self.mode not in ("stdio", "final_state"):
            raise ValueError("'command' runs programs of other languages: set mode: stdio, or remove it")
        return self

    @model_validator(mode="after")
    def _suits_its_work_pool(self) -> Self:
        if self.work_pool in (None, HERE):
            return self
        for name in ("allow_unsafe", "roots"):
            if getattr(self, name):
                raise ValueError(f"'{name}' is for programs on the run's own machine: remove it, or 'work_pool'")
        return self

    @model_validator(mode="after")
    def _lets_cpu_time_decide(self) -> Self:
        if self.compat is not None or self.limits is None or self.limits.wall_s is None:
            return self
        cpu, wall = self.limits.cpu_s, self.limits.wall_s
        if wall < _WALL_PER_CPU * cpu:
            raise ValueError(
                f"'limits.wall_s' is {wall:g}, less than {_WALL_PER_CPU} times 'limits.cpu_s': a busy machine would "
                f"decide. Set at least {_WALL_PER_CPU * cpu:g}, or compat: official"
            )
        return self


class EpisodeLimitsConfig(ConfigModel):
    """Limits of one episode, in addition to its rounds. The turn that reaches one is its last."""

    tokens: int | None = semantic("infer", None, ge=1)
    cost: float | None = semantic("infer", None, gt=0.0)
    model_s: float | None = semantic("infer", None, gt=0.0)
    same_calls: int | None = semantic("infer", None, ge=2)
    rounds_per_turn: int | None = semantic("infer", None, ge=1)


class SimulatorConfig(ConfigModel):
    """How a simulated user talks, and how it ends a conversation."""

    stop: str = semantic("infer", "###STOP###", min_length=1)
    max_turns: int = semantic("infer", 20, ge=1, le=1000)
    # Where samples have the user's turns; without it, the adapter's model writes them.
    script: str | None = semantic("infer", None, min_length=1)

    @field_validator("script")
    @classmethod
    def _is_a_field_of_samples(cls, value: str | None) -> str | None:
        if value is not None and compile_path(value).root != "sample":
            raise ValueError("a script is a field of the sample, as metadata.user_turns")
        return value


class McpServerConfig(ConfigModel):
    """A server of the Model Context Protocol, whose tools the model may call. A command runs in the episode's box."""

    command: list[str] = semantic("infer", [])
    # By their paths in the box. Their content is in the key.
    files: dict[str, str] = identity("infer", {})
    allow_unsafe: bool = semantic("infer", default=False)
    url: str | None = semantic("infer", None, pattern=r"^https?://")
    token: str | None = scheduling(None, repr=False)
    names: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]] = semantic("infer", min_length=1)
    # By default those of a server in a box are in its state, and all others outside.
    effects: Effects | None = semantic("infer", None)
    # What a call that was interrupted does, and how long one may take, is in no answer.
    repeatable: bool = scheduling(default=False)
    timeout_s: float = scheduling(60.0, gt=0, le=3600)

    @model_validator(mode="after")
    def _is_one_server(self) -> Self:
        if bool(self.command) == (self.url is not None):
            raise ValueError("a server has either a 'command' that starts it or a 'url'")
        if self.allow_unsafe and self.url is not None:
            raise ValueError("'allow_unsafe' is for a 'command': remove it")
        if self.token is not None and self.url is None:
            raise ValueError("'token' is for a 'url', since no secret enters a box: remove it")
        if self.token is not None and not is_key_reference(self.token):
            raise ValueError("a token is never written into a config: use env:NAME or block:name")
        if self.files and not self.is_boxed:
            raise ValueError("'files' are for a command in a box: remove them")
        check_in_box(self.files)
        return self

    @property
    def is_boxed(self) -> bool:
        """Whether it runs in the episode's box."""
        return bool(self.command) and not self.allow_unsafe


class BoxConfig(ConfigModel):
    """The boxes of `bash`, `python` and MCP servers: one for each episode, with limits for each command."""

    image: str | None = semantic("infer", None, min_length=1)
    cpu_s: float = semantic("infer", 60.0, gt=0, le=3600)
    memory_mb: int = semantic("infer", 2048, ge=16)
    processes: int = semantic("infer", 64, ge=1)
    files: int = semantic("infer", 16_384, ge=1)
    files_mb: int = semantic("infer", 256, ge=1)
    output_kb: int = semantic("infer", 16, ge=1)
    artifacts: list[str] = semantic("infer", [], max_length=100)
    executor: Literal["auto", "bubblewrap", "docker", "podman"] = scheduling("auto")
    # A box waits while its model thinks, so there are more of them than processors.
    slots: int = scheduling(16, ge=1, le=1024)
    allow_unsafe: bool = scheduling(default=False)
    roots: dict[str, str] = scheduling({})

    @field_validator("artifacts")
    @classmethod
    def _stay_in_the_box(cls, value: list[str]) -> list[str]:
        check_in_box(value)
        return value
