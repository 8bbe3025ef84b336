"""The fetch of a run's data: it is told, and a cancelled run ends it."""

import hashlib
from pathlib import Path

import pytest

from gage_eval.base.errors import RunCancelled
from gage_eval.data.datasets.fetch import DataCache
from gage_eval.data.datasets.origins import DataOrigin, OriginFile, OriginPath
from gage_eval.observability.events import Event, FetchFinished, FetchProgress
from gage_eval.runs.fetching import fetch_data
from tests.support.data_server import serving

DATA = b"{}\n" * 400_000
COMMIT = "0123456789" * 4
ORIGIN = DataOrigin(
    name="mine",
    repository="github.com/owner/name",
    commit=COMMIT,
    licence="MIT",
    non_commercial=False,
    files={"rows.jsonl": OriginFile(bytes=len(DATA), sha256=hashlib.sha256(DATA).hexdigest())},
)


def test_a_cancelled_run_stops_fetching_and_the_next_one_continues(tmp_path: Path) -> None:
    told: list[Event] = []

    class Keeps:
        def emit(self, event: Event) -> None:
            told.append(event)

    def cancelled() -> None:
        if any(isinstance(event, FetchProgress) and event.done for event in told):
            raise RunCancelled("the run was cancelled")

    files = [OriginPath(ORIGIN, "rows.jsonl")]
    with serving({f"owner/name/{COMMIT}/rows.jsonl": DATA}) as server:
        data = DataCache(tmp_path, base_url=server.url)
        with pytest.raises(RunCancelled):
            fetch_data(files, data, Keeps(), cancelled)
        assert data.missing(files) == files
        assert not any(isinstance(event, FetchFinished) for event in told)

        fetch_data(files, data, Keeps())
        assert data.missing(files) == []
        assert isinstance(told[-1], FetchFinished)
