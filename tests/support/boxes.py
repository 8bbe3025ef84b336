"""An executor that runs nothing: a function says how each program ends."""

from collections.abc import Callable, Mapping, Sequence

from gage_eval.box.types import Box, BoxSpec, Containment, Execution, Limits, Program

_BARE = BoxSpec()
Ends = Callable[[Program, BoxSpec], Execution]


def by_its_word(program: Program, spec: BoxSpec) -> Execution:
    """A program ends as its first word says; an empty word passes."""
    word = program.code.split()[0]
    status = word if word in ("failed", "timed_out", "box_error", "tampered") else "passed"
    passed = status == "passed"
    return Execution(
        status,
        "" if passed else "assertion",
        "" if passed else f"assert {word}",
        tests_passed=2 if passed else 1,
        tests_failed=0 if passed else 1,
        cpu_s=0.25,
        outputs=[f"{program.code} {line}" for line in program.stdin],
    )


class FakeExecutor:
    """Runs nothing.

    Attributes:
        ran: the programs that it was asked to run, with their limits and surroundings.
    """

    name = "fake"
    containment: Containment = "namespaces"
    slots = 4

    def __init__(self, ends: Ends = by_its_word, version: str = "1") -> None:
        self.ran: list[tuple[Program, Limits, BoxSpec]] = []
        self.closed = 0
        self._ends = ends
        self._version = version

    @property
    def identity(self) -> Mapping[str, str]:
        return {"interpreter": self._version}

    def resolve(self, image: str | None) -> tuple[Containment, str | None]:
        return self.containment, image

    async def execute(self, program: Program, limits: Limits, spec: BoxSpec = _BARE) -> Execution:
        self.ran.append((program, limits, spec))
        return self._ends(program, spec)

    async def open(self, spec: BoxSpec, limits: Limits) -> Box:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed += 1

    @property
    def codes(self) -> Sequence[str]:
        """The code of the programs that were run, in order of their text."""
        return sorted(program.code for program, _, _ in self.ran)
