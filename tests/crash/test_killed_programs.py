"""A run that is killed while programs are in boxes: what was logged is not run again, and no process is left."""

import json
import random
import signal
from pathlib import Path

import pytest
import yaml
from crash.processes import Gage, descendants, lives, outputs, until
from support.waiting import PATIENCE_S, wait_for

from gage_eval.box.executors import probe

PROGRAMS, SLOTS, KILLS = 60, 2, 4
# Each is another program and uses some processor time.
CODE = "import time\ndef double(x):\n    end = time.process_time() + 0.03\n    while time.process_time() < end: pass\n"


def project(folder: Path) -> Gage:
    folder.mkdir()
    metadata = {"entry": "double", "tests": ["assert double(4) == 8"]}
    rows = [{"question": f"Double, {number}.", "metadata": metadata} for number in range(PROGRAMS)]
    answers = [{"output": f"{CODE}    return {2 + number % 2} * x  # {number}"} for number in range(PROGRAMS)]
    for name, records in (("tasks", rows), ("answers", answers)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    replay = {"path": "answers.jsonl", "match": "row", "answer_field": "output"}
    section = {"mode": "calls", "entry": "metadata.entry", "tests": "metadata.tests", "slots": SLOTS}
    config = {
        "datasets": [{"dataset_id": "tasks", "params": {"path": "tasks.jsonl"}}],
        "backends": [{"backend_id": "recorded", "type": "replay", "config": replay}],
        "tasks": [{"task_id": "doubles", "dataset_id": "tasks", "execution": section}],
        "metrics": ["execution_passed"],
    }
    (folder / "doubles.yaml").write_text(yaml.safe_dump(config))
    return Gage(folder)


@pytest.mark.skipif(probe()[0].problem is not None, reason="no bubblewrap here")
def test_kills_run_nothing_twice_that_was_logged_and_leave_no_process(tmp_path: Path) -> None:
    rng = random.Random(31)
    gage = project(tmp_path / "killed")

    def logged() -> int:
        """Bytes of the executions in logs. Those of the answers are gone when their stage has ended."""
        return gage.logged_bytes() if (gage.folder / ".gage" / "actions" / "infer").exists() else 0

    kept = 0
    for number in range(KILLS):
        mark = logged() + rng.randrange(1, 3000)
        process = gage.start(*(("resume", "killed") if number else ("run", "doubles.yaml", "--run-id", "killed")))
        boxes: set[tuple[int, str]] = set()

        def runs_programs(mark: int = mark, pid: int = process.pid, boxes: set[tuple[int, str]] = boxes) -> bool:
            boxes.update(descendants(pid) if logged() >= mark else ())
            return len(boxes) >= SLOTS

        assert until(runs_programs, process), gage.said()
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        wait_for(lambda boxes=boxes: not any(lives(*box) for box in boxes), "the end of all boxes")
        # The answers of the replay are on disk, too.
        before, kept = kept, len(gage.kept_keys()) - PROGRAMS
        assert before < kept < PROGRAMS
    gage.finish("resume", "killed")
    run = json.loads((gage.folder / ".gage" / "runs" / "killed" / "run.json").read_text())
    (counts,) = (stage["counts"] for name, stage in run["stages"].items() if name.endswith("auto_eval"))
    assert (counts["programs_run"], counts["programs_reused"]) == (PROGRAMS - kept, kept)
    assert (counts["passed"], counts["failed"]) == (PROGRAMS // 2, PROGRAMS // 2)
    whole = project(tmp_path / "whole")
    whole.finish("run", "doubles.yaml")
    assert outputs(gage.folder) == outputs(whole.folder)
