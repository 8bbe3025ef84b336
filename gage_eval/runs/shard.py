"""A shard: a process that serves model sessions from the store, one after another, on any machine.

python -m gage_eval.runs.shard URL NUMBER
"""

import logging
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import digest
from gage_eval.base.errors import BudgetSpent, GageError, RunCancelled, StoreError
from gage_eval.engine.gpus import hold_gpus
from gage_eval.engine.host import EngineHost
from gage_eval.engine.job import Tally
from gage_eval.engine.runtime import Runtime
from gage_eval.engine.session import ANSWERED, ModelSession, SessionFolder
from gage_eval.engine.shard_groups import GroupFolder
from gage_eval.models.backends.base import BackendContext, Blocks
from gage_eval.models.backends.gpus import devices
from gage_eval.models.client.budget import Budget
from gage_eval.pipeline.sharing import serve
from gage_eval.report.timings import Spent
from gage_eval.runs.usage import spent_by
from gage_eval.store import Store
from gage_eval.store.heartbeats import Heartbeat

# How often a shard looks for work and for its end; and the time it has to stop before it is killed.
_LOOK_EVERY_S = 1.0
_STOP_S = 3.0
_HOLDER_GONE = "the run that asked for the shards is gone"

_log = logging.getLogger(__name__)


def serve_at(url: str, number: int, *, blocks: Blocks | None = None) -> int:
    """Serve the sessions of the group with this URL until the group ends. Returns the number of sent requests.

    The engine keeps running for the next session. A session that fails or is cancelled leaves the shard to the next
    one. The shard stops when the group ends, and when its holder shows no sign of life.

    Args:
        url: the group's URL.
        number: the shard's number, counted from 0.
        blocks: the blocks of the Prefect API, if there is one.

    Raises:
        RunCancelled: the last session was cancelled, or the holder is gone.
        GageError: the last session could not be served; the answers so far are kept.
    """
    group = GroupFolder.at(url)
    # The engines stop first: they use what is opened.
    with ExitStack() as opened, EngineHost() as host:
        return _Shard(group, number, host, opened, blocks).run()


class _Shard:
    """Serves the sessions that the holder of its group names.

    Args:
        group: its group.
        number: its number in the group.
        host: keeps the engines.
        opened: what is held until the end: GPUs and temporary folders.
        blocks: the blocks of the Prefect API, if there is one.
    """

    def __init__(
        self, group: GroupFolder, number: int, host: EngineHost, opened: ExitStack, blocks: Blocks | None
    ) -> None:
        self._number = number
        self._host = host
        self._blocks = blocks
        self._opened = opened
        self._holder = group.watch_holder()
        # Folders with files that sessions bring, by the digest of the files.
        self._folders: dict[str, Path] = {}
        self._env: dict[str, str] | None = None
        self._changed = threading.Condition()
        self._sign: Mapping[str, Any] | None = None
        self._over: str | None = None
        self._serving: _Serving | None = None
        self._finished = threading.Event()
        opened.callback(self._finished.set)

    def run(self) -> int:
        """Serve until the group ends. Returns the number of sent requests."""
        threading.Thread(target=self._watch, name="gage-eval-shard", daemon=True).start()
        sent, failure, last = 0, None, None
        while (asked := self._next(last)) is not None:
            last, failure = asked["session"], None
            try:
                sent += self._serve(SessionFolder.at(last), asked["base"])
            except (GageError, RunCancelled) as error:
                failure = error
                _log.warning("%s", error)
        if failure is not None:
            raise failure
        if self._over == _HOLDER_GONE:
            raise RunCancelled(_HOLDER_GONE)
        return sent

    def _next(self, last: str | None) -> Mapping[str, Any] | None:
        """The sign of the holder that names another session than the last one; None when the group has ended."""
        with self._changed:
            while self._over is None:
                if self._sign is not None and self._sign["session"] not in (None, last):
                    return self._sign
                self._changed.wait()
        return None

    def _serve(self, place: SessionFolder, base: str | None) -> int:
        session = place.session()
        folder = self._folder(place, session) if base is None else Path(base)
        self._serving = _Serving(place, session, self._number, self._host, self._blocks)
        try:
            return self._serving.run(folder, self._environment)
        finally:
            self._serving = None

    def _folder(self, place: SessionFolder, session: ModelSession) -> Path:
        """A folder with the files that a session brings. The same files are the same engine's: they stay in place."""
        name = digest(dict(session.engine.files))
        if name not in self._folders:
            folder = self._opened.enter_context(tempfile.TemporaryDirectory(prefix="gage-eval-session-"))
            place.unpack(session, Path(folder))
            self._folders[name] = Path(folder)
        return self._folders[name]

    def _environment(self, serving: "_Serving") -> Mapping[str, str]:
        """The environment of the engine, with the GPUs that the shard holds until its end."""
        if self._env is None:
            serving.check()
            env = dict(os.environ)
            needed = serving.session.engine.gpus
            if needed and (gpus := devices(env)):
                held = hold_gpus(gpus, needed, waiting=serving.wait_for_gpus, check=serving.check)
                env["CUDA_VISIBLE_DEVICES"] = ",".join(self._opened.enter_context(held))
            self._env = env
        return self._env

    def _watch(self) -> None:
        """Take sessions from the holder's sign, and stop what has ended."""
        while self._over is None:
            sign = self._holder.look()
            over = None if sign is None else sign["ended"]
            with self._changed:
                self._sign = sign or self._sign
                self._over = over or (_HOLDER_GONE if self._holder.is_gone else None)
                self._changed.notify()
            serving = self._serving
            if serving is not None:
                serving.look(self._over)
            if self._finished.wait(_LOOK_EVERY_S if self._over is None else _STOP_S):
                return
        # An engine that does not stop dies with this process.
        _log.warning("the shard did not stop in %g s and is killed", _STOP_S)
        os._exit(1)


class _Serving:
    """One session, as a shard serves it.

    Attributes:
        session: what to serve.
    """

    def __init__(
        self, place: SessionFolder, session: ModelSession, number: int, host: EngineHost, blocks: Blocks | None
    ) -> None:
        self.session = session
        self._place = place
        self._host = host
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

    def run(self, folder: Path, environment: "Callable[[_Serving], Mapping[str, str]]") -> int:
        """Serve the session; the last sign of life says how it went. Returns the number of sent requests.

        Args:
            folder: the folder that relative paths are relative to.
            environment: the environment of the engine; may wait for GPUs.
        """
        self._beat.start()
        try:
            sent = self._serve(folder, environment)
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

    def _serve(self, folder: Path, environment: "Callable[[_Serving], Mapping[str, str]]") -> int:
        session, store = self.session, self._store
        env = environment(self)
        limits: dict[str, Any] = dict(session.limits)
        budget = Budget(**limits)
        with Runtime(session.concurrency, budget=budget, objects=store.objects, loop=self._host.loop) as runtime:
            self._runtime = runtime
            if session.budget is not None:
                runtime.share_budget(session.budget)
            self.check()
            context = BackendContext(
                folder, store.media.get, env, self._blocks, store.media.path, engines=self._host.engines
            )
            try:
                sent = serve(session, store, runtime, context, progress=self._begun)
            except BaseException as error:
                if self._stopped is None:
                    raise
                if self._stopped != ANSWERED:
                    raise RunCancelled(self._stopped) from error
                sent = sum(tally.sent for tally in self._tallies)
            # The parent need not wait until the backend is closed.
            self._state = "done"
            self._tell()
            return sent

    def check(self) -> None:
        """Raise RunCancelled if the session has ended."""
        if self._stopped is not None:
            raise RunCancelled(self._stopped)

    def wait_for_gpus(self, text: str) -> None:
        """Tell the parent that GPUs are missing, which can end shards that hold some."""
        _log.warning("%s", text)
        self._state = "waiting"
        self._tell()

    def look(self, over: str | None) -> None:
        """Stop if the session has ended, or its group.

        Args:
            over: why the group has ended, if it has.
        """
        reason = over
        with suppress(StoreError):  # the next look asks again
            reason = reason or self._place.ended()
        if reason is None or self._stopped is not None:
            return
        if reason == ANSWERED:
            # The parent waits for the end of the session, and counts what the last sign says.
            self._tell()
        else:
            _log.warning("the session has ended: %s", reason)
        self._stopped = reason
        if self._runtime is not None:
            self._runtime.cancel()
        if over is None and not self._finished.wait(_STOP_S):
            _log.warning("the session did not stop in %g s; the shard is killed", _STOP_S)
            os._exit(1)

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


def main(arguments: list[str]) -> int:
    """Serve a group's sessions as a process. Returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    url, number = arguments
    try:
        serve_at(url, int(number))
    except RunCancelled:
        return 0
    except GageError as error:
        _log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
