"""A backend of the test's own making, and a generate step over numbered prompts."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.tables import RESPONSE_TELEMETRY, RESPONSES
from gage_eval.engine.generate import Generate
from gage_eval.engine.job import Job
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext, BaseBackend
from gage_eval.models.backends.dummy import DummyConfig
from gage_eval.models.client.types import Request, Response
from gage_eval.store import Artifact, ArtifactWriter, Store

KEY = digest("an action")
MODEL = digest("a model")
Answer = Callable[[Request], Awaitable[Response]]


class Scripted(BaseBackend[DummyConfig]):
    """Answers as a function says, and remembers what it was asked."""

    type = "scripted"
    capabilities = frozenset({"chat"})

    def __init__(self, answer: Answer, width: int = 8) -> None:
        super().__init__(DummyConfig(max_concurrency=width), BackendContext(Path()))
        self._answer = answer
        self.asked: list[Request] = []

    def body(self, request: Request) -> dict[str, JsonValue]:
        return {"messages": request.messages if request.kind == "chat" else None, **request.params}

    async def open(self, log_folder: Path | None) -> None: ...

    async def call(self, request: Request, body: bytes) -> Response:
        self.asked.append(request)
        response = await self._answer(request)
        response.attempts = 1
        return response

    async def close(self) -> None: ...


async def echo(request: Request) -> Response:
    """The last message of the request, as an answer."""
    assert request.messages
    return Response("ok", answer=f"re: {request.messages[-1]['content']}", finish_reason="stop")


class Prompts:
    """Rows of prompts, cut into parts: `gage_eval.engine.job.Source`."""

    def __init__(self, *parts: Sequence[str], replicates: int = 1, kind: str = "chat", turns: int = 1) -> None:
        self._prompts = parts
        self.parts = [(index, len(part) * replicates) for index, part in enumerate(parts)]
        self._replicates = replicates
        self._kind = kind
        self._turns = turns

    def open(self, part: int) -> "PromptsPart":
        return PromptsPart(self, part)

    def request(self, part: int, ask: int) -> Request:
        """The request of an ask of a part."""
        place, replicate = divmod(ask, self._replicates)
        row = sum(len(earlier) for earlier in self._prompts[:part]) + place
        prompt = self._prompts[part][place]
        return Request(
            self._kind,
            messages=[{"role": "user", "content": f"{prompt}{'?' * turn}"} for turn in range(self._turns)],
            sample_id=f"s{row}",
            row_index=row,
            replicate=replicate,
            draw=replicate,
        )


@dataclass
class PromptsPart:
    """One part of some prompts."""

    prompts: Prompts
    part: int

    def render(self, start: int, stop: int) -> list[Request]:
        return [self.prompts.request(self.part, ask) for ask in range(start, stop)]


@dataclass
class Step:
    """A generate step and the writers of what comes out."""

    engine: Generate
    responses: ArtifactWriter
    telemetry: ArtifactWriter


def step_of(store: Store, source: Prompts, backend: Scripted, key: str = KEY, **job: Any) -> Step:
    """A generate step that has not begun."""
    responses, telemetry = store.writer(RESPONSES), store.writer(RESPONSE_TELEMETRY)
    wip, folder = store.wip(key), store.scratch(key)
    return Step(
        Generate(Job(source, backend, MODEL, store, wip, folder, responses, telemetry, **job)), responses, telemetry
    )


def generate(store: Store, source: Prompts, backend: Scripted, key: str = KEY, **job: Any) -> "Done":
    """Run a generate step and commit its results."""
    step = step_of(store, source, backend, key, **job)
    with Runtime() as runtime:
        runtime.call(step.engine.run())
    return Done(step.engine, step.responses.commit(), step.telemetry.commit())


class Done(NamedTuple):
    """A generate step that finished."""

    engine: Generate
    responses: Artifact
    telemetry: Artifact

    def column(self, name: str) -> list[Any]:
        """A column of the responses."""
        return list(self.responses.table(columns=[name])[name].to_pylist())
