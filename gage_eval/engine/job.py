"""A generate step: its inputs (`Job`) and its state while it runs."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeAlias

import pyarrow as pa

from gage_eval.box.types import Executor
from gage_eval.engine.answers import StepAnswers
from gage_eval.engine.episodes import Outcome
from gage_eval.models.backends.base import Backend
from gage_eval.models.client.budget import Budget
from gage_eval.models.client.episode_limits import Price
from gage_eval.models.client.limiter import Limiter
from gage_eval.models.client.types import Request
from gage_eval.models.client.watch import Retry
from gage_eval.store import Artifact, ArtifactWriter, Store
from gage_eval.store.wip import Wip

# The asks of a step are cut into about this many chunks.
CHUNKS = 4
MIN_CHUNK_ASKS = 16
# Episodes of agents in a chunk at most: their turns are in memory until it is stored.
EPISODES_IN_CHUNK = 512

# Called with (asks done, all asks, figures).
Progress: TypeAlias = Callable[..., None]


class SupersededByOtherRun(Exception):
    """The chunks of this action were removed: another process has committed the action."""


class Source(Protocol):
    """The requests of a generate step, part by part."""

    @property
    def parts(self) -> Sequence[tuple[int, int]]:
        """(part index, number of asks) in order."""

    def open(self, part: int) -> "PartSource":
        """Read what the requests of a part are made from; called in a worker thread."""


class PartSource(Protocol):
    """The asks of one part."""

    def render(self, start: int, stop: int) -> list[Request]:
        """One request for each of the asks ``start`` to ``stop`` (exclusive); called in a worker thread."""


class Watch(Protocol):
    """Receives the answers and retries of single asks, in any thread. Must be fast, and must not raise."""

    def answered(self, request: Request, outcome: Outcome) -> None:
        """An ask has its outcome."""

    def retried(self, request: Request, retry: Retry) -> None:
        """A request failed and is sent again."""


class NoWatch:
    """A `Watch` that does nothing."""

    def answered(self, request: Request, outcome: Outcome) -> None:
        """Do nothing."""

    def retried(self, request: Request, retry: Retry) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class UserModel:
    """The model of simulated users.

    Attributes:
        backend, model_identity, pool, price: as in `Job`.
    """

    backend: Backend
    model_identity: str
    pool: Limiter | None = None
    price: Price = field(default_factory=Price)


@dataclass
class Job:
    """One generate step.

    Attributes:
        source: what is asked.
        backend: an opened backend.
        model_identity: digest of the model's identity.
        store: holds answers of other runs.
        wip: chunks of this action.
        log_folder: write-ahead logs of this action, of all writers.
        responses, telemetry: writers of the outputs.
        max_inflight: most requests of this step in flight.
        most_in_chunk: asks of a chunk at most; None for as many as a part has.
        prefetch_factor: requests that are rendered ahead, as a multiple of those in flight; None for the default.
        pool: a limit shared with other steps, in addition to the backend's.
        reuse: take answers from other runs; false for a refresh.
        answers: the answers that other steps of this run get.
        earlier: responses and telemetry of this action's earlier result: only its errors and `ask_again` are asked
            again, and no answer is taken from other runs, because theirs may be older.
        ask_again: keys of the earlier result's answers that do not count.
        budget: limits on tokens, costs and time of the run's answers.
        price: price of the backend's tokens.
        progress: called with the progress.
        watch: receives every answer and retry.
        executor: makes the boxes of tools; None where no tool needs one.
        user: the model of simulated users; None without them.
    """

    source: Source
    backend: Backend
    model_identity: str
    store: Store
    wip: Wip
    log_folder: Path
    responses: ArtifactWriter
    telemetry: ArtifactWriter
    max_inflight: int | None = None
    most_in_chunk: int | None = None
    prefetch_factor: int | None = None
    pool: Limiter | None = None
    reuse: bool = True
    answers: StepAnswers = field(default_factory=StepAnswers)
    earlier: tuple[Artifact, Artifact] | None = None
    ask_again: frozenset[str] = frozenset()
    budget: Budget = field(default_factory=Budget)
    price: Price = field(default_factory=Price)
    progress: Progress = lambda done, total, **figures: None
    watch: Watch = field(default_factory=NoWatch)
    executor: Callable[[], Executor] | None = None
    user: UserModel | None = None

    def finished_chunks(self, part: int) -> Iterator[tuple[int, int, dict[str, pa.Table]]]:
        """(start, stop, tables) of a part's finished chunks, of any process.

        Raises:
            SupersededByOtherRun: the chunks were removed.
        """
        try:
            for chunk in self.wip.chunks(part):
                yield chunk.start, chunk.stop, chunk.tables()
        except FileNotFoundError as error:
            raise SupersededByOtherRun from error


@dataclass(slots=True)
class Item:
    """One request to send, and the place of its outcome in a chunk.

    Attributes:
        steps_ended: how many steps of the run had ended when the store was searched for its answer.
    """

    chunk: "Chunk"
    position: int
    request: Request
    body: bytes
    key: str
    steps_ended: int


@dataclass(slots=True, eq=False)
class Chunk:
    """The asks ``start`` to ``stop`` (exclusive) of a part and their outcomes, in order.

    Attributes:
        repeats: (position, first) of requests that equal an earlier one of the chunk.
        left: requests without an outcome, not counting repeats.
    """

    part: int
    start: int
    stop: int
    requests: list[Request] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    outcomes: list[Outcome | None] = field(default_factory=list)
    repeats: list[tuple[int, int]] = field(default_factory=list)
    left: int = 0

    def find_repeats(self) -> dict[str, int]:
        """The first position of each key without an outcome. `repeat_outcomes` answers the other positions."""
        firsts: dict[str, int] = {}
        for i, key in enumerate(self.keys):
            if self.outcomes[i] is None and (first := firsts.setdefault(key, i)) != i:
                self.repeats.append((i, first))
        self.left = len(firsts)
        return firsts

    def record_outcome(self, position: int, outcome: Outcome) -> bool:
        """Set the outcome of an ask. Returns whether it was the last missing one."""
        self.outcomes[position] = outcome
        self.left -= 1
        return self.left == 0

    def repeat_outcomes(self) -> list[Outcome]:
        """Give each repeated ask the outcome of the first equal one."""
        repeated = []
        for position, first in self.repeats:
            outcome = self.outcomes[first]
            assert outcome is not None
            repeated.append(replace(outcome, source="repeated"))
            self.outcomes[position] = repeated[-1]
        return repeated


@dataclass
class Tally:
    """Counts of a generate step, for progress and the stage's result."""

    total: int
    done: int = 0
    sent: int = 0
    reused: int = 0
    replayed: int = 0
    retried: int = 0
    in_flight: int = 0
    errors: int = 0

    def count_known(self, outcomes: Sequence[Outcome | None]) -> None:
        """Count a chunk's outcomes that are known before anything is sent."""
        for outcome in outcomes:
            if outcome is not None:
                self.done += 1
                if outcome.response.status == "error":
                    self.errors += 1
                elif outcome.source == "log":
                    self.replayed += 1
                else:
                    self.reused += 1


def chunk_size(part_asks: int, all_asks: int, most: int | None = None) -> int:
    """Asks in a chunk: min(part, all / `CHUNKS`, most), and not too few."""
    return max(1, min(part_asks, most or part_asks, max(MIN_CHUNK_ASKS, math.ceil(all_asks / CHUNKS))))


def chunks_of(parts: Sequence[tuple[int, int]], most: int | None = None) -> dict[int, list[Chunk]]:
    """The chunks of each part, with so many asks at most. A part without asks has none."""
    whole = sum(asks for _, asks in parts)
    return {
        part: [Chunk(part, start, min(start + size, asks)) for start in range(0, asks, size)]
        for part, asks in parts
        if (size := chunk_size(asks, whole, most))
    }
