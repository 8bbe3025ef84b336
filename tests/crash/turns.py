"""Two calls for each of some rows, asked through the engine: ``turns.py STORE URL ROWS KIND``."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import canonical_text, digest
from gage_eval.base.tables import RESPONSE_TELEMETRY, RESPONSES
from gage_eval.engine.generate import Generate
from gage_eval.engine.job import Job, Tally
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.client.tools import Effects, EpisodeState, Tool
from gage_eval.models.client.types import Request
from gage_eval.store import Artifact, Store

KEY = digest("turns")


class Adding:
    """One tool, which adds 1000 to a row and writes down that it ran."""

    is_repeatable = False
    definitions = ()

    def __init__(self, row: int, effects: Effects, executed: Path) -> None:
        self.identity = row
        self.effects = effects
        self._executed = executed

    def defined(self, names: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        return []

    def get(self, name: str) -> Tool | None:
        return self if name == "add" else None

    def begin(self) -> EpisodeState:
        return EpisodeState()

    async def final_state(self, state: EpisodeState) -> None:
        return None

    async def run(self, arguments: str, state: EpisodeState) -> str:
        with self._executed.open("a") as file:
            file.write(f"{self.identity + 1000}\n")
        return str(self.identity + 1000)

    def normalised(self, content: str) -> str:
        return content


class Conversations:
    """Rows of two calls each: two questions (``turns``), or one whose tool call is answered by a tool
    without (``tools``) or with a state (``state``)."""

    def __init__(self, rows: int, kind: str, executed: Path) -> None:
        self.parts = [(0, rows)]
        self._kind = kind
        self._executed = executed

    def open(self, part: int) -> "Conversations":
        return self

    def render(self, start: int, stop: int) -> list[Request]:
        return [self._request(row) for row in range(start, stop)]

    def _request(self, row: int) -> Request:
        question = {"role": "user", "content": f"What is {row} + 1?"}
        if self._kind == "turns":
            more = {"role": "user", "content": f"And what is {row} + 1000?"}
            return Request("turns", messages=[question, more], sample_id=str(row), row_index=row)
        return Request(
            "tools",
            messages=[question],
            tools=[{"type": "function", "function": {"name": "add"}}],
            tool_set=Adding(row, "state" if self._kind == "state" else "none", self._executed),
            tool_rounds=1,
            sample_id=str(row),
            row_index=row,
        )


def executed_by(store: Store) -> Path:
    """The file beside a store with a line for each tool that ran."""
    assert store.objects.local_root is not None
    return store.objects.local_root.with_suffix(".txt")


def ask(store: Store, url: str, rows: int, kind: str) -> tuple[Artifact, Tally]:
    """Make both calls of every row; the work of an earlier, killed process of the same store is resumed."""
    with Runtime() as runtime:
        backend = runtime.backend(
            "openai_http", {"base_url": url, "model": "mock", "max_concurrency": 4}, BackendContext(Path())
        )
        responses, telemetry = store.writer(RESPONSES), store.writer(RESPONSE_TELEMETRY)
        job = Job(
            source=Conversations(rows, kind, executed_by(store)),
            backend=backend,
            model_identity=digest(backend.identity()),
            store=store,
            wip=store.wip(KEY),
            log_folder=store.scratch(KEY),
            responses=responses,
            telemetry=telemetry,
        )
        tally = runtime.call(Generate(job).run())
        telemetry.commit()
        return responses.commit(), tally


if __name__ == "__main__":
    answered, counted = ask(Store.open(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
    sys.stdout.write(canonical_text({"responses": answered.id, "sent": counted.sent, "replayed": counted.replayed}))
