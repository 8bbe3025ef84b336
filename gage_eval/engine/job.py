"""What a generate step is asked to do, and what it holds while it does it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

import pyarrow as pa

from gage_eval.backends.base import Backend
from gage_eval.client.budget import Budget, Price
from gage_eval.client.limiter import Limiter
from gage_eval.client.types import Request
from gage_eval.engine.episodes import Outcome
from gage_eval.store import Artifact, ArtifactWriter, Claims, Store
from gage_eval.store.wip import Wip

MIN_CHUNK_ROWS = 16

# Told (rows done, rows, figures).
Progress: TypeAlias = Callable[..., None]


class WorkGone(Exception):
    """The finished chunks of this action were cleared away: another process has committed it meanwhile."""


class Source(Protocol):
    """The requests of a generate step, rendered when they are due."""

    @property
    def parts(self) -> Sequence[tuple[int, int]]:
        """(part index, rows) in order."""

    @property
    def replicates(self) -> int: ...

    def read(self, part: int) -> pa.Table:
        """The rows of a part; called in a worker thread."""

    def render(self, rows: pa.Table) -> list[Request]:
        """The requests of some rows, replicates of a row side by side; called in a worker thread."""


@dataclass
class Job:
    """One generate step.

    Attributes:
        source: its requests.
        backend: the opened backend that answers.
        model_identity: digest of the model's identity.
        store: holds answers of other runs.
        wip: chunks of this action.
        log_folder: write-ahead logs of this action, all writers'.
        responses, telemetry: writers of the outputs; None in a worker, which leaves its chunks to whoever writes them.
        workers: processes that share the action, all told the same number.
        claims: this process's claims on chunks, where others work on the action too.
        is_over: whether somebody committed the action meanwhile.
        max_inflight: most requests of this step under way.
        pool: a limit shared with other steps, beside that of the backend.
        reuse: take answers from other runs (a refresh does not).
        mended: responses and telemetry of an earlier end of this action, of which the error rows are asked again;
            they alone: what other runs hold may be older than the answers kept here.
        budget: what the run's answers may take.
        price: of the backend's tokens.
        progress: told how far it is.
    """

    source: Source
    backend: Backend
    model_identity: str
    store: Store
    wip: Wip
    log_folder: Path
    responses: ArtifactWriter | None
    telemetry: ArtifactWriter | None
    workers: int = 1
    claims: Claims | None = None
    is_over: Callable[[], bool] = lambda: False
    max_inflight: int | None = None
    pool: Limiter | None = None
    reuse: bool = True
    mended: tuple[Artifact, Artifact] | None = None
    budget: Budget = field(default_factory=Budget)
    price: Price = field(default_factory=Price)
    progress: Progress = lambda done, total, **figures: None


@dataclass(slots=True)
class Item:
    """One request on its way: where its outcome belongs, and what is sent."""

    chunk: "Chunk"
    position: int
    request: Request
    body: bytes
    key: str


@dataclass(slots=True, eq=False)
class Chunk:
    """Rows start…stop of a part and their outcomes, in order.

    Attributes:
        repeats: (position, first) of requests that are the same as an earlier one of the chunk.
        left: requests whose outcome is awaited, repeats left out.
    """

    part: int
    start: int
    stop: int
    requests: list[Request] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    outcomes: list[Outcome | None] = field(default_factory=list)
    repeats: list[tuple[int, int]] = field(default_factory=list)
    left: int = 0

    @property
    def name(self) -> str:
        """Its name among the chunks of an action."""
        return f"{self.part}-{self.start}-{self.stop}"


@dataclass
class Tally:
    """What a generate step did, for progress and the stage's counts."""

    total: int
    done: int = 0
    sent: int = 0
    reused: int = 0
    replayed: int = 0
    retried: int = 0
    in_flight: int = 0
    errors: int = 0


def chunk_rows(part_rows: int, total_rows: int, workers: int) -> int:
    """Rows of a chunk: min(part, rows / (4 · workers)), so that every worker has several to take."""
    return max(1, min(part_rows, max(MIN_CHUNK_ROWS, math.ceil(total_rows / (4 * workers)))))
