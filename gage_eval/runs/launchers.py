"""Launchers: what starts a group of shards, on this machine or elsewhere."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

from gage_eval.base.errors import InputError
from gage_eval.engine.shard_groups import Launched
from gage_eval.models.backends.placement import Placement

# How long processes have to end by themselves when their group has ended.
_STOP_S = 10.0


class Launcher(Protocol):
    """Starts shards."""

    def launch(self, url: str, shards: int) -> Launched:
        """Start the shards of a group.

        Args:
            url: the group's URL.
            shards: how many; they are numbered from 0.

        Raises:
            InputError: they cannot be started.
        """


# The launcher for a placement.
Launchers: TypeAlias = Callable[[Placement], Launcher]


class LocalProcesses:
    """Starts shards as processes on this machine.

    Args:
        log_folder: where they write their output; None for a temporary folder.
    """

    def __init__(self, log_folder: Path | None) -> None:
        self._log_folder = log_folder or Path(tempfile.mkdtemp(prefix="gage-eval-shards-"))

    def launch(self, url: str, shards: int) -> Launched:
        """Start the processes."""
        self._log_folder.mkdir(parents=True, exist_ok=True)
        name = url.rpartition("/")[2][:8]
        logs = [self._log_folder / f"shard-{name}-{number}.log" for number in range(shards)]
        return _Processes([_start(url, number, log) for number, log in enumerate(logs)], logs)


class _Processes:
    def __init__(self, processes: "list[subprocess.Popen[bytes]]", logs: list[Path]) -> None:
        self._processes = processes
        self._logs = logs

    def ended(self, number: int) -> str | None:
        status = self._processes[number].poll()
        if status is None:
            return None
        words = self._logs[number].read_text(errors="replace").strip().splitlines()[-1:]
        return " ".join([f"its process ended with status {status}.", *words])

    def notice(self) -> str | None:
        return None

    def close(self) -> None:
        for process in self._processes:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(url: str, number: int, log: Path) -> "subprocess.Popen[bytes]":
    # Ctrl-C is for the parent, which ends the group. The option -P leaves the working folder out of the path.
    command = [sys.executable, "-P", "-m", "gage_eval.runs.shard", url, str(number)]
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - our own module
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )


def local_launchers(log_folder: Path | None) -> Launchers:
    """The launchers of a run without a Prefect API."""

    def launcher(placement: Placement) -> Launcher:
        if placement.work_pool not in (None, "local"):
            raise InputError(
                f"the work pool '{placement.work_pool}' needs a Prefect API: set PREFECT_API_URL, or serve the model "
                "here by --set role_adapters.ADAPTER.resource_requirement.work_pool=local."
            )
        return LocalProcesses(log_folder)

    return launcher
