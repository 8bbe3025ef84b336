"""A shard: a process that serves a model session from the store, on any machine.

python -m gage_eval.runs.shard URL NUMBER [FOLDER]
"""

import logging
import os
import socket
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gage_eval.backends.base import BackendContext, Blocks
from gage_eval.backends.gpus import devices
from gage_eval.client.budget import Budget
from gage_eval.engine.gpus import hold_gpus
from gage_eval.engine.job import Tally
from gage_eval.engine.runtime import Runtime
from gage_eval.engine.session import ANSWERED, ModelSession, SessionFolder
from gage_eval.errors import BudgetSpent, GageError, RunCancelled, StoreError
from gage_eval.report.timings import Spent
from gage_eval.runs.usage import spent_by
from gage_eval.stages.sharing import serve
from gage_eval.store import Store
from gage_eval.store.heartbeats import Heartbeat

# How often a shard looks whether its session has ended; and the time it has to stop before it is killed.
_LOOK_EVERY_S = 1.0
_STOP_S = 3.0

_log = logging.getLogger(__name__)


def serve_at(url: str, number: int, *, folder: Path | None = None, blocks: Blocks | None = None) -> int:
    """Serve the session with this URL until all its chunks are answered. Returns the number of sent requests.

    The shard stops when the session ends, and when its parent shows no sign of life.

    Args:
        url: the session's URL.
        number: the shard's number, counted from 0.
        folder: the folder that relative paths are relative to; by default one with the files that the session brings.
        blocks: the blocks of the Prefect API, if there is one.

    Raises:
        RunCancelled: the session has ended, or its parent is gone.
        GageError: the session cannot be served; the answers so far are kept.
    """
    place = SessionFolder.at(url)
    session = place.session()
    shard = _Shard(place, session, number, blocks)
    with ExitStack() as opened:
        if folder is None:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="gage-eval-session-")))
            place.unpack(session, folder)
        return shard.run(folder)


class _Shard:
    def __init__(self, place: SessionFolder, session: ModelSession, number: int, blocks: Blocks | None) -> None:
        self._place = place
        self._session = session
        self._store: Store = place.store
        self._blocks = blocks
        self._state = "starting"
        self._error: str | None = None
        self._limit: str | None = None
        self._tallies: list[Tally] = []
        self._beat = Heartbeat(self._store.objects, place.shard_path(number), self._sign)
        self._runtime: Runtime | None = None
        self._stopped: str | None = None
        self._finished = threading.Event()

    def run(self, folder: Path) -> int:
        """Serve the session; the last sign of life says how it went."""
        self._beat.start()
        threading.Thread(target=self._watch, name="gage-eval-session", daemon=True).start()
        try:
            sent = self._serve(folder)
        except BaseException as error:
            self._state = "failed"
            self._error = str(error) if isinstance(error, GageError) else f"{type(error).__name__}: {error}"
            self._limit = str(error) if isinstance(error, BudgetSpent) else None
            raise
        else:
            self._state = "done"
            return sent
        finally:
            self._finished.set()
            self._beat.stop()
            self._tell()

    def _serve(self, folder: Path) -> int:
        session, store = self._session, self._store
        env = dict(os.environ)
        with ExitStack() as opened:
            if session.engine.gpus and (gpus := devices(env)):
                held = opened.enter_context(
                    hold_gpus(gpus, session.engine.gpus, waiting=_log.warning, check=self._check)
                )
                env["CUDA_VISIBLE_DEVICES"] = ",".join(held)
            limits: dict[str, Any] = dict(session.limits)
            runtime = Runtime(session.concurrency, budget=Budget(**limits), objects=store.objects)
            self._runtime = opened.enter_context(runtime)
            if session.budget is not None:
                runtime.share_budget(session.budget)
            self._check()
            context = BackendContext(folder, store.media.get, env, self._blocks, store.media.path)
            try:
                sent = serve(session, store, runtime, context, progress=self._begun)
            except BaseException as error:
                if self._stopped is None:
                    raise
                if self._stopped != ANSWERED:
                    raise RunCancelled(self._stopped) from error
                sent = sum(tally.sent for tally in self._tallies)
            # The parent need not wait until the engine has stopped.
            self._state = "done"
            self._tell()
            return sent

    def _check(self) -> None:
        if self._stopped is not None:
            raise RunCancelled(self._stopped)

    def _begun(self, tallies: list[Tally]) -> None:
        self._state = "serving"
        self._tallies = tallies
        self._tell()

    def _sign(self) -> dict[str, Any]:
        runtime = self._runtime
        return {
            "state": self._state,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "error": self._error,
            "limit": self._limit,
            "steps": [[tally.done, tally.in_flight, tally.sent, tally.retried] for tally in self._tallies],
            "spent": asdict(Spent() if runtime is None else spent_by(runtime)),
        }

    def _tell(self) -> None:
        try:
            # The parent removes the folder at the end; a sign that comes later would stay.
            if self._stopped is None:
                self._beat.write()
        except StoreError as error:
            _log.warning("the state of the shard cannot be written: %s", error)

    def _watch(self) -> None:
        """Stop the shard when the session ends or the parent is gone."""
        parent = self._place.watch_parent()
        while not self._finished.wait(_LOOK_EVERY_S):
            parent.look()
            reason = None
            try:
                reason = self._place.ended()
            except StoreError:
                continue
            if reason is None and parent.is_gone:
                reason = "the run that asked for the session is gone"
            if reason is not None:
                self._stop(reason)
                return

    def _stop(self, reason: str) -> None:
        if reason == ANSWERED:
            # The parent waits for the end of this process, and counts what its last sign says.
            self._tell()
        self._stopped = reason
        if reason != ANSWERED:
            _log.warning("the session has ended: %s", reason)
        if self._runtime is not None:
            self._runtime.cancel()
        if not self._finished.wait(_STOP_S):
            # An engine that does not stop dies with this process.
            _log.warning("the shard did not stop in %g s and is killed", _STOP_S)
            os._exit(1)


def main(arguments: list[str]) -> int:
    """Serve a session as a process. Returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    url, number, *folder = arguments
    try:
        serve_at(url, int(number), folder=Path(folder[0]) if folder else None)
    except RunCancelled:
        return 0
    except GageError as error:
        _log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
