"""Stands in for a work pool: each server of an engine is a process of this machine."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gage_eval.engine.host import SharedEngines
from gage_eval.observability.events import Event, RunWarning
from gage_eval.runs import RunOptions, RunSession
from gage_eval.runs.inline import carry_out
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.store.serving import ServingSpec

_SERVER = """
import sys
from gage_eval.config.settings import load_settings
from gage_eval.engine import serving
from gage_eval.base.errors import GageError
from gage_eval.store import Store

url, key, server, lease_s = sys.argv[1:]
serving.LEASE_S = float(lease_s)
try:
    tls = load_settings().serve_tls
    print(serving.serve(Store.open(url), key, server, host="127.0.0.1", tls=tls), flush=True)
except GageError as error:
    sys.exit(str(error))
"""


@dataclass
class LocalPool:
    """A `Launcher` whose servers are processes.

    Attributes:
        folder: has their logs.
        env: what their environment has in addition.
        lease_s: how long a server without a run stays. The next run of a test may begin late.
        specs: the engine of each server, in the order of starting.
        servers: their processes.
    """

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    lease_s: float = 600.0
    specs: list[ServingSpec] = field(default_factory=list)
    servers: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def launch(self, spec: ServingSpec, store: str, server: str) -> "PoolServer":
        log = self.folder / f"server-{len(self.servers)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _SERVER, store, spec.key, server, str(self.lease_s)],
                env={**os.environ, **self.env},
                stdout=output,
                stderr=output,
            )
        self.specs.append(spec)
        self.servers.append(process)
        return PoolServer(process, log)

    def log(self, number: int) -> str:
        """What a server said."""
        return (self.folder / f"server-{number}.log").read_text()

    def close(self) -> None:
        """End all servers."""
        for process in self.servers:
            process.kill()
            process.wait()


@dataclass
class PoolServer:
    """A server of a `LocalPool`."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def ended(self) -> str | None:
        status = self.process.poll()
        return None if status is None else f"its process ended with {status}: {self.log.read_text()[-500:]}"

    def notice(self) -> str | None:
        return None

    def close(self) -> None: ...


class Warnings:
    """An observer that keeps the warnings of a run."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def emit(self, event: Event) -> None:
        if isinstance(event, RunWarning):
            self.texts.append(event.message)


def run_on_pool(options: RunOptions, pool: LocalPool, host: SharedEngines | None = None) -> tuple[RunReader, list[str]]:
    """Run in this process with its engines on a pool. Returns the run, and the warnings of its user."""
    told = Warnings()
    with RunSession(options, [told], host=host, launcher=pool) as session:
        run_id = carry_out(session).run_id
    return RunReader.open(Locations.at(options.store), run_id), told.texts
