"""A run that somebody cancels from another thread: what is under way stops, nothing new starts, nothing is an error."""

import threading
from pathlib import Path

import pytest
from support.workspace import write_config, write_rows

from gage_eval.base.errors import RunCancelled
from gage_eval.observability.events import Event, StageFailed, StageStarted
from gage_eval.runs import RunOptions, RunSession, run_inline
from gage_eval.runs.inline import carry_out
from gage_eval.runs.resume import resumed

TASKS = [{"task_id": name, "dataset_id": "sums"} for name in ("left", "right")]


class Canceller:
    """Cancels a session from another thread when a stage starts, and waits until that is done."""

    def __init__(self, stage: str) -> None:
        self.session: RunSession | None = None
        self.failed: list[StageFailed] = []
        self.started: list[str] = []
        self._stage = stage

    def emit(self, event: Event) -> None:
        if isinstance(event, StageFailed):
            self.failed.append(event)
        if isinstance(event, StageStarted):
            self.started.append(event.stage)
            if event.stage == self._stage:
                assert self.session is not None
                thread = threading.Thread(target=self.session.cancel)
                thread.start()
                thread.join()


@pytest.mark.parametrize("stage", ["load", "standardize", "preprocess", "infer", "auto_eval"])
@pytest.mark.parametrize("tasks", [TASKS[:1], TASKS], ids=["one task", "tasks side by side"])
def test_a_cancelled_run_stops_as_interrupted_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, tasks: list[dict[str, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    write_config(tmp_path, tasks=tasks)
    canceller = Canceller(stage)
    options = RunOptions(config="mine.yaml", store="store", run_id="first")

    session = canceller.session = RunSession(options, [canceller])

    with pytest.raises(RunCancelled), session:
        carry_out(session)

    assert "report" not in canceller.started
    assert canceller.failed
    assert all(event.interrupted for event in canceller.failed)
    record = session.folder.record()
    assert record.status == "interrupted"
    assert {entry.state for entry in record.stages.values()} <= {"finished", "cached", "stopped"}
    assert run_inline(resumed("first", store="store")).summary.metrics[0].n == 6
