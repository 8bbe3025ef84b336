"""Answers requests of the kind ``run``: an executor runs their programs. No config names this backend."""

from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

from gage_eval.base.canonical import JsonValue, canonical_text, sha256_hex
from gage_eval.box.types import BoxError, Execution, Executor
from gage_eval.models.backends.asked import is_empty, skipped
from gage_eval.models.client.limiter import Limiter
from gage_eval.models.client.types import Request, Response, without_surrogates

# Raise it when the same program in the same box gets another verdict from this module.
VERSION = 1
LARGEST_PROGRAM = 2**20
"""Characters of the longest program that is run."""

# A program that starved is run again so often before its row is an error.
_ATTEMPTS = 3


class BoxBackend:
    """Programs in, executions out (`gage_eval.box.types.Execution` as JSON text).

    Args:
        executor: runs them.
    """

    type = "box"
    capabilities = frozenset({"run"})
    lookup_field: str | None = None

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        # An image is the same for all programs of a run.
        self.resolve = cache(executor.resolve)
        self.limiter = Limiter(executor.slots)

    def identity(self) -> dict[str, JsonValue]:
        """What can change a verdict, besides the program, its tests, limits and surroundings.

        Executors of one containment with the same interpreter share their verdicts.
        """
        return box_identity(self.executor)

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The program, its tests, its limits and its surroundings; files by their hash."""
        boxed = request.program
        if boxed is None or boxed.program is None:
            return {"program": None}
        files = {path: sha256_hex(content) for path, content in sorted(boxed.spec.files.items())}
        limits = {**asdict(boxed.limits), "wall_s": boxed.limits.wall}
        lists = {name: list(getattr(boxed.program, name)) for name in ("stdin", "command")}
        program = {**asdict(boxed.program), **lists}
        return {
            "program": program,
            "limits": limits,
            "files": files,
            "image": self.resolve(boxed.spec.image)[1],
            "setup": boxed.spec.setup,
            "env": dict(boxed.spec.env),
            **({"writable": True} if boxed.spec.writable else {}),
            "wall_decides": boxed.wall_decides,
        }

    async def open(self, log_folder: Path | None) -> None:
        """Nothing to do: the executor is open."""

    async def call(self, request: Request, body: bytes) -> Response:
        """Run the program. A box error is an error of the row, so that a later run tries again."""
        if is_empty(request):
            return skipped()
        execution, attempts = await self._executed(request)
        response = Response("ok", execution_text(execution), latency_ms=execution.wall_s * 1000, attempts=attempts)
        if execution.status == "box_error":
            response.status, response.error_kind = "error", "box_error"
            response.errors = [execution.text or f"the box failed ({execution.reason})"]
        return response

    async def _executed(self, request: Request) -> tuple[Execution, int]:
        """The execution, and how often the program was run for it."""
        boxed = request.program
        assert boxed is not None
        refusal = _refusal(None if boxed.program is None else boxed.program.code)
        if boxed.program is None or refusal is not None:
            return refusal or Execution("refused"), 0
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                execution = await self.executor.execute(boxed.program, boxed.limits, boxed.spec)
            except BoxError as error:
                execution = Execution("box_error", "box", str(error))
            if execution.status != "box_error" or execution.reason != "starved":
                break
            if boxed.wall_decides:
                return replace(execution, status="timed_out", reason="wall"), attempt
        return execution, attempt

    def remember(self, request: Request, body: bytes) -> None:
        """Nothing to note."""

    async def close(self) -> None:
        """End all programs."""
        await self.executor.close()


def box_identity(executor: Executor) -> dict[str, JsonValue]:
    """What of an executor can change a verdict."""
    return {"version": VERSION, "containment": executor.containment, "box": dict(executor.identity)}


def execution_text(execution: Execution) -> str:
    """An execution as JSON text, which a log can hold."""
    return canonical_text(without_surrogates({**asdict(execution), "outputs": list(execution.outputs)}))


def _refusal(code: str | None) -> Execution | None:
    """The verdict on a program that is not run; None for any other."""
    if code is None or not code.strip():
        return Execution("refused", "no_program", "The answer holds no program.")
    if len(code) > LARGEST_PROGRAM:
        return Execution(
            "refused", "too_long", f"The program has {len(code):,} characters; the limit is {LARGEST_PROGRAM:,}."
        )
    if "\0" in code:
        return Execution("failed", "syntax", "The program holds a NUL character, which Python does not read.")
    return None
