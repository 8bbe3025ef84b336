"""Runs whose models are served by shards on this machine, and what can be seen of them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.runs import write_config
from support.waiting import PATIENCE_S, Stopwatch, wait_for

from gage_eval.base.processes import born
from gage_eval.store import Store

# Both sides of a session stop within this time.
STOP_S = 15.0


def placed_config(folder: Path, url: str, *, rows: int, shards: int = 2, tasks: int = 1, **changes: Any) -> Path:
    """A config of tasks on the sums whose model is served by shards."""
    adapter = {
        "adapter_id": "dut",
        "role_type": "dut_model",
        "backend_id": "mock",
        "resource_requirement": {"shards": shards},
    }
    return write_config(
        folder,
        url,
        rows=rows,
        role_adapters=[adapter],
        tasks=[{"task_id": f"t{k}", "dataset_id": "sums", "sampling_params": {"seed": k}} for k in range(tasks)],
        **changes,
    )


def signs(store: Store) -> list[dict[str, Any]]:
    """The signs of life of all shards in a store."""
    found = []
    for item in list(store.objects.list("sessions")):
        if "/shards/" in item.path:
            try:
                found.append(json.loads(store.objects.get(item.path)))
            except FileNotFoundError:
                continue
    return found


class Started:
    """A ``gage run`` under way, and its shards.

    Args:
        folder: the working folder.
        store: URL of the store.
        arguments: of ``gage``.
    """

    def __init__(self, folder: Path, store: str, *arguments: str) -> None:
        self.store = Store.open(store)
        self.output = folder / "output.txt"
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gage_eval", *arguments, "--inline", "--store", store],
                cwd=folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def signs(self) -> list[dict[str, Any]]:
        """The signs of life of the shards."""
        return signs(self.store)

    def pids(self, count: int) -> list[int]:
        """The processes of the shards, once all of them serve."""
        self.until(lambda: len([sign for sign in self.signs() if sign["state"] == "serving"]) == count)
        return [sign["pid"] for sign in self.signs()]

    def until(self, true: Callable[[], bool]) -> None:
        """Wait until something holds."""
        end = time.monotonic() + PATIENCE_S
        while not true():
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < end, "what was waited for never came"
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def end(self) -> int:
        """Wait for the end and return the exit code."""
        return self.process.wait(PATIENCE_S)


def seconds_until_gone(pids: list[int]) -> float:
    """How long some processes go on."""
    starts = {pid: born(pid) for pid in pids}
    with Stopwatch() as watch:
        wait_for(
            lambda: not any(starts[pid] and born(pid) == starts[pid] for pid in pids), "the processes end", every_s=0.1
        )
    return watch.seconds
