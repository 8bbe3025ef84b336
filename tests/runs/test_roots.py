"""What a collection must keep for the runs there are."""

from pathlib import Path

from gage_eval.runs.folder import RunFolder
from gage_eval.runs.options import Locations
from gage_eval.runs.roots import find_roots
from gage_eval.store import Store


def test_runs_that_did_not_come_to_their_end_are_unfinished(tmp_path: Path) -> None:
    locations = Locations(str(tmp_path / "store"), str(tmp_path / "runs"))
    for status in ("completed", "failed", "interrupted", "running"):
        record = {
            "status": status, "created": "2026-01-01T00:00:00+00:00", "process": {"host": "elsewhere"},
            "name": "small", "tasks": [], "options": {},
        }  # fmt: skip
        RunFolder.create(locations, f"run-{status}", record).close()

    roots = find_roots(Store.open(locations.store), locations)

    assert roots.unfinished == {"run-failed", "run-interrupted", "run-running"}
    assert (roots.runs, roots.under_way) == (4, ())
