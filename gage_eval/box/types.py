"""What is run in a box, within which limits, and what came of it."""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from gage_eval.base.errors import GageError

# `calls`: the tests run in another process than the answer and call its functions with data. `stdio`: the answer reads
# stdin and writes stdout, and no expected output enters the box. `script`: the tests run in the answer's own process,
# which can forge their result.
Mode: TypeAlias = Literal["calls", "stdio", "script"]

# What keeps a program in: kernel namespaces of its own, a container, or nothing.
Containment: TypeAlias = Literal["namespaces", "container", "none"]

# `passed` to `tampered` are verdicts on the program and final. `box_error` is no verdict: the box itself failed, or the
# program waited for a processor until its wall time was over. It is run again.
Status: TypeAlias = Literal[
    "passed", "failed", "timed_out", "out_of_memory", "crashed", "refused", "tampered", "box_error"
]


class BoxError(GageError):
    """A box could not be made, or failed. It says nothing about the program."""


class BoxRefused(BoxError):
    """An open box did not do what it was asked: a file is not there, or is a link. It goes on."""


class BoxUnavailable(BoxError):
    """This machine cannot contain programs in the way that was asked for. The message says what to install or set."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use. All of it is in the key of an execution."""

    cpu_s: float = 5.0
    """Processor time of all its processes. It decides whether a program is too slow."""
    wall_s: float | None = None
    """Wall time, which only ends a program. Ten times `cpu_s` where it is None."""
    memory_mb: int = 1024
    """Memory of all its processes, files in memory included."""
    processes: int = 32
    files: int = 4096
    files_mb: int = 64
    """What it may write, in sum."""
    output_kb: int = 64
    """Of stdout and of stderr each; what comes after it is cut."""

    @property
    def wall(self) -> float:
        """Seconds of wall time."""
        return self.cpu_s * 10 if self.wall_s is None else self.wall_s


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """The surroundings of a program."""

    image: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Content by path, relative to the work folder."""
    setup: str | None = None
    """A shell command that runs in the box once, before the first program."""
    env: Mapping[str, str] = field(default_factory=dict)
    listens: bool = False
    """Open a socket at 127.0.0.1 of the box, and hand it to the evaluator: `Box.listener`."""
    starts: Sequence[Sequence[str]] = ()
    """Commands that run at the same time as the others, from the setup to the end of the box: `Box.started`."""
    writable: bool = False
    """All of the image can be written, by its root user. Paths start at ``/``, and commands run in the image's own
    folder with its variables. Containers only; what is written is bounded by the size of one file."""


@dataclass(frozen=True, slots=True)
class Program:
    """A model's program with its tests."""

    mode: Mode
    code: str
    """Source of the answer."""
    entry: str | None = None
    """The function that the tests call. Needed by `calls`."""
    prelude: str = ""
    """Trusted Python that both sides have: imports and helpers of the benchmark."""
    tests: str = ""
    """Python that fails with an exception. `calls` and `script` run it."""
    stdin: Sequence[str] = ()
    """One input per run of a `stdio` program."""
    command: Sequence[str] = ()
    """What runs the answer, where that is not Python: the answer is in `file`, in the work folder. `stdio` only."""
    file: str = "program"


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of a program."""

    status: Status
    reason: str = ""
    """One word on why it ended so: `assertion`, `exception`, `cpu`, `idle`, `starved`, `memory`, `output`, `exit 3`."""
    text: str = ""
    """The first failing assertion or the last line of a traceback, for people."""
    tests_passed: int = 0
    tests_failed: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_mb: float = 0.0
    stdout: str = ""
    stderr: str = ""
    outputs: Sequence[str] = ()
    """Of a `stdio` program: stdout of each run, cut at `Limits.output_kb`."""
    is_cut: bool = False
    is_near_limit: bool = False
    """It used more than half of its CPU time or memory: another machine may decide otherwise."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of one command in an open box."""

    exit: int | None
    stdout: bytes
    stderr: bytes
    cpu_s: float
    wall_s: float
    peak_mb: float
    reason: str = ""
    """Why it was ended: `cpu`, `idle`, `starved`, `memory`, `output`. Empty where it ended by itself."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of a command of `BoxSpec.starts`."""

    exit: int | None
    """None while it runs."""
    stderr: str
    """The end of it."""
    reason: str = ""
    """Why it was ended: `cpu`, `memory`. Empty where it was not."""


class Box(Protocol):
    """An open box: its files stay from one command to the next, until it is closed."""

    listener: socket.socket | None
    """Accepts what programs in the box connect to, where `BoxSpec.listens`."""
    started: Sequence[socket.socket]
    """Stdin and stdout of each command of `BoxSpec.starts`."""
    root: str
    """Where its paths start, for commands: ``.``, or ``/`` where `BoxSpec.writable`."""

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", limits: Limits | None = None) -> Ran:
        """Run a command in the work folder."""

    async def state(self, number: int) -> Beside:
        """What is known of a command of `BoxSpec.starts`."""

    async def put(self, path: str, content: bytes) -> None:
        """Write a file, by its path in the work folder."""

    async def take(self, path: str) -> bytes:
        """Read a regular file of the work folder. Links are refused."""

    async def close(self) -> None:
        """End all its processes and remove its files."""


class Executor(Protocol):
    """Opens boxes and runs programs, at most `slots` at a time."""

    containment: Containment
    slots: int

    @property
    def identity(self) -> Mapping[str, str]:
        """What can change a verdict in all images: interpreter, version of the harness."""

    def resolve(self, image: str | None) -> tuple[Containment, str | None]:
        """What contains the programs of an image, and what its name stands for here, which is in their keys."""

    async def execute(self, program: Program, limits: Limits, spec: BoxSpec = BoxSpec()) -> Execution:
        """Run a program with its tests in surroundings that nothing else has used."""

    async def open(self, spec: BoxSpec, limits: Limits) -> Box:
        """Open a box for several commands.

        Raises:
            BoxError: the setup failed, or the executor cannot make what the spec asks for.
        """

    async def close(self) -> None:
        """End all boxes."""
