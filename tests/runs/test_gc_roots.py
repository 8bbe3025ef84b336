"""What a collection must keep for the runs there are."""

from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from gage_eval.runs.folder import RunFolder
from gage_eval.runs.gc_roots import find_roots
from gage_eval.runs.options import Locations
from gage_eval.runs.record import ConfigRecord, RunRecord, RunStatus
from gage_eval.store import Store


def test_runs_that_did_not_finish_are_unfinished(tmp_path: Path) -> None:
    locations = Locations(str(tmp_path / "store"), str(tmp_path / "runs"))
    config = ConfigRecord(source="mine.yaml", digest="0", text="")
    for status in get_args(RunStatus):
        record = RunRecord(
            status=status, created=datetime(2026, 1, 1, tzinfo=UTC), name="small", tasks=[], options={}, config=config
        )
        RunFolder.create(locations, f"run-{status}", record)

    roots = find_roots(Store.open(locations.store), locations)

    assert roots.unfinished == {"run-failed", "run-interrupted", "run-running"}
    assert (roots.runs, roots.under_way) == (4, ())
