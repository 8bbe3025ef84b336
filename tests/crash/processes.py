"""``gage run`` as a process that is killed, and what it had on disk by then."""

import glob
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import orjson
from support.logs import read_logs
from support.waiting import PATIENCE_S

from gage_eval.base.canonical import encode
from gage_eval.engine.episodes import response_key
from gage_eval.pipeline.plan import make_plan
from gage_eval.runs.options import RunOptions, load
from gage_eval.store import Store


class Gage:
    """``gage`` in a folder, one process at a time.

    Args:
        folder: where the config lies; the store is ``.gage`` in it.
        launcher: the Python arguments that stand for ``gage``.
    """

    def __init__(self, folder: Path, launcher: tuple[str, ...] = ("-m", "gage_eval")) -> None:
        self.folder = folder
        self.wip = folder / ".gage" / "wip"
        self._launcher = launcher

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start it; output goes to a file that `said` reads."""
        with (self.folder / "output.txt").open("wb") as output:
            return subprocess.Popen(
                [sys.executable, *self._launcher, *arguments, "--inline"],
                cwd=self.folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def said(self) -> str:
        return (self.folder / "output.txt").read_text()

    def finish(self, *arguments: str) -> None:
        """Run it to its end, which must be a good one."""
        process = self.start(*arguments)
        assert process.wait(PATIENCE_S) == 0, self.said()

    def logged_bytes(self, without: Collection[str] = ()) -> int:
        """Size of all answers in write-ahead logs, without those of some actions, by key."""
        return sum(_size(file) for file in map(Path, self._found("*.log")) if file.parts[-3] not in without)

    def logs(self) -> list[Path]:
        """The folders of the write-ahead logs that are there now."""
        return [Path(folder) for folder in self._found("")]

    def _found(self, name: str) -> list[str]:
        # Unlike pathlib, glob passes over folders that go away while it looks.
        return glob.glob(str(self.wip / "*" / "log" / name))

    def kept_keys(self) -> set[str]:
        """Response keys of every answer on disk: logged, or in a finished chunk."""
        keys = {key for folder in self.logs() for key, _ in read_logs(folder)}
        store = Store.open(str(self.folder / ".gage"))
        for wip in store.wips():
            for chunk in wip.chunks(0):
                keys |= set(chunk.tables()["responses"]["response_key"].to_pylist())
        for action in store.actions.all("infer"):
            keys |= set(store.artifact(action.outputs["responses"]).table()["response_key"].to_pylist())
        return keys


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def until(true: Callable[[], bool], process: "subprocess.Popen[bytes]") -> bool:
    """Wait until something holds; False when the process ended before."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        if process.poll() is not None:
            return False
        assert time.monotonic() < end, "what was waited for never came"
        time.sleep(0.001)
    return True


def sent_keys(config: Path, bodies: list[Any]) -> list[str]:
    """Response keys of the requests an endpoint received."""
    identity = make_plan(load(RunOptions(config=str(config)))).tasks[0].infer.model_identity
    return [response_key(identity, encode(body), 0) for body in bodies]


def outputs(folder: Path) -> dict[str, dict[str, str]]:
    """Artifact ids of every action by stage, without what the weather determines."""
    processes: dict[str, dict[str, str]] = {}
    for action in Store.open(str(folder / ".gage")).actions.all():
        assert action.stage not in processes, f"two actions of {action.stage}"
        assert action.complete
        # The answers of boxes hold how long the programs took.
        processes[action.stage] = {
            name: id_
            for name, id_ in action.outputs.items()
            if not name.endswith("telemetry") and name != "execution_responses"
        }
    return processes


def status(folder: Path, run_id: str) -> str:
    """What run.json says of a run."""
    return str(orjson.loads((folder / ".gage" / "runs" / run_id / "run.json").read_bytes())["status"])


def descendants(pid: int) -> set[tuple[int, str]]:
    """The processes below a process, each with the time of its start."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append((int(path.parent.name), fields[19]))
    processes: set[tuple[int, str]] = set()
    waiting = [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        processes.update(below)
        waiting += [child for child, _ in below]
    return processes


def lives(pid: int, started: str) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[19] == started and fields[0] != "Z"
