"""A run that is killed while programs are in boxes: what was logged is not run again, and no process is left."""

import json
import random
import signal
from pathlib import Path

import yaml
from crash.processes import Gage, descendants, lives, outputs, until
from support.boxes import NEEDS_BOX
from support.logs import read_logs
from support.waiting import PATIENCE_S, wait_for

from gage_eval.models.client.types import Response
from gage_eval.store import Store

PROGRAMS, SLOTS = 60, 2
# The actions that run programs, with the one before; each is killed twice.
KILLED = {"expected_outputs": "infer", "executions": "expected_outputs"}
KILLS = 2
# Each is another program and uses some processor time.
BUSY = "import time\nend = time.process_time() + 0.03\nwhile time.process_time() < end: pass\n"


def project(folder: Path) -> Gage:
    """Half of the answers are right; what is right is printed by a program of each sample."""
    folder.mkdir()
    rows, answers = [], []
    for number in range(PROGRAMS):
        expected = f"{BUSY}print(8)  # {number}"
        metadata = {"entry": "double", "tests": ["assert double(4) == int(EXPECTED)"], "expected": expected}
        rows.append({"question": f"Double, {number}.", "metadata": metadata})
        answers.append({"output": f"{BUSY}def double(x): return {2 + number % 2} * x  # {number}"})
    for name, records in (("tasks", rows), ("answers", answers)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    replay = {"path": "answers.jsonl", "match": "row", "answer_field": "output"}
    paths = {name: f"metadata.{name}" for name in ("entry", "tests", "expected")}
    config = {
        "datasets": [{"dataset_id": "tasks", "params": {"path": "tasks.jsonl"}}],
        "backends": [{"backend_id": "recorded", "type": "replay", "config": replay}],
        "tasks": [
            {"task_id": "doubles", "dataset_id": "tasks", "execution": {"mode": "calls", "slots": SLOTS, **paths}}
        ],
        "metrics": ["execution_passed"],
    }
    (folder / "doubles.yaml").write_text(yaml.safe_dump(config))
    return Gage(folder)


def committed(gage: Gage) -> dict[str, set[str]]:
    """Keys of the actions by stage."""
    ids: dict[str, set[str]] = {}
    for file in (gage.folder / ".gage" / "actions").glob("*/[0-9a-f]*.json"):
        ids.setdefault(file.parent.name, set()).add(file.stem)
    return ids


def logged(gage: Gage, before: str) -> int:
    """Bytes in logs of the action that follows another one."""
    done = committed(gage)
    if before not in done:
        return 0
    return gage.logged_bytes(set().union(*done.values()))


def on_disk(gage: Gage) -> dict[str, str | None]:
    """What came of each program, its seconds included, by key: of those in logs and in finished chunks."""
    ids = {}
    for wip in Store.open(str(gage.folder / ".gage")).wips():
        for key, payload in read_logs(gage.wip / wip.key / "log"):
            ids[key] = Response.from_bytes(payload).answer
        for chunk in wip.chunks():
            table = chunk.tables()["responses"]
            ids.update(zip(table["response_key"].to_pylist(), table["answer"].to_pylist(), strict=True))
    return ids


@NEEDS_BOX
def test_kills_run_nothing_twice_that_was_logged_and_leave_no_process(tmp_path: Path) -> None:
    rng = random.Random(31)
    gage = project(tmp_path / "killed")
    ended: dict[str, str | None] = {}
    kept = 0
    for before in KILLED.values():
        kept = 0
        for _ in range(KILLS):
            mark = logged(gage, before) + rng.randrange(1, 3000)
            process = gage.start(*(("resume", "killed") if ended else ("run", "doubles.yaml", "--run-id", "killed")))
            boxes: set[tuple[int, str]] = set()

            def runs_programs(
                mark: int = mark, before: str = before, pid: int = process.pid, boxes: set[tuple[int, str]] = boxes
            ) -> bool:
                boxes.update(descendants(pid) if logged(gage, before) >= mark else ())
                return len(boxes) >= SLOTS

            assert until(runs_programs, process), gage.said()
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE_S)
            wait_for(lambda boxes=boxes: not any(lives(*box) for box in boxes), "the end of all boxes")
            there = on_disk(gage)
            assert kept < len(there) < PROGRAMS
            kept = len(there)
            ended = there | ended
    gage.finish("resume", "killed")
    run = json.loads((gage.folder / ".gage" / "runs" / "killed" / "run.json").read_text())
    (counts,) = (stage["counts"] for name, stage in run["stages"].items() if name.endswith("auto_eval"))
    assert (counts["programs_run"], counts["programs_reused"]) == (PROGRAMS - kept, kept)
    assert (counts["passed"], counts["failed"]) == (PROGRAMS // 2, PROGRAMS // 2)
    assert ended.items() <= stored(gage).items(), "a program was run again"
    whole = project(tmp_path / "whole")
    whole.finish("run", "doubles.yaml")
    assert without_measurements(gage) == without_measurements(whole)


def stored(gage: Gage) -> dict[str, str | None]:
    """What came of each program in the end, by key."""
    store = Store.open(str(gage.folder / ".gage"))
    return {
        row["response_key"]: row["answer"]
        for stage in KILLED
        for action in store.actions.all(stage)
        for name, id_ in action.outputs.items()
        if name.endswith("_responses")
        for row in store.artifact(id_).table().to_pylist()
    }


def without_measurements(gage: Gage) -> dict[str, dict[str, str]]:
    """The ids of all outputs but the engine's logs of programs, which hold their seconds."""
    ids = outputs(gage.folder)
    return {stage: {n: id_ for n, id_ in of.items() if not n.endswith("_responses")} for stage, of in ids.items()}
