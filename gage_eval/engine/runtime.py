"""Resources that the tasks of a run share: the event loop, the backends, the budget and the answers."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from gage_eval.base.canonical import digest
from gage_eval.base.errors import GageError, RunCancelled
from gage_eval.engine.answers import RunAnswers
from gage_eval.engine.loop import EventLoop
from gage_eval.engine.shared_limits import SharedLimits
from gage_eval.models.backends.base import Backend, BackendConfig, BackendContext
from gage_eval.models.backends.build import build_backend, forget_backend, parse_config
from gage_eval.models.backends.pools import Pools
from gage_eval.models.client.budget import Budget
from gage_eval.models.client.limiter import Limiter
from gage_eval.store.objects import Objects

T = TypeVar("T")
B = TypeVar("B", bound=Backend)


class Runtime:
    """Runs coroutines for callers in any thread, and keeps the backends they share.

    Use as a context manager, or `close`.

    Args:
        concurrency: overrides the backends' own `max_concurrency`.
        budget: limits on the run's answers; unlimited by default.
        log_folder: where started engines write their logs; None for no logs.
        objects: the store in which runs share the limits of endpoints (`shared: true`); None to share nothing.
        limit_changed: called with an endpoint's name, and the old and the new limit of its requests in flight.
        loop: a loop that other runs use too; by default one of its own.

    Attributes:
        pools: has work pools run programs; None where there is no Prefect API.
    """

    def __init__(
        self,
        concurrency: int | None = None,
        log_folder: Path | None = None,
        budget: Budget | None = None,
        objects: Objects | None = None,
        limit_changed: Callable[[str, int, int], None] | None = None,
        loop: EventLoop | None = None,
        engine_started: Callable[[str, float, int], None] = lambda backend, seconds, gpus: None,
    ) -> None:
        self.pools: Pools | None = None
        self._objects = objects
        self._shared: list[SharedLimits] = []
        self._concurrency = concurrency
        self._limit_changed = limit_changed
        self._engine_started = engine_started
        self.budget = budget or Budget()
        self.answers = RunAnswers()
        self._pools: dict[str, Limiter] = {}
        self.log_folder = log_folder
        self._lock = threading.Lock()
        self._owns_loop = loop is None
        self._loop = loop or EventLoop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._backends: dict[str, Future[Backend]] = {}
        # The engine of each opened backend that has one.
        self._engine_keys: dict[str, str] = {}
        # GPUs of each opened backend, and since when it holds them; and what closed ones took.
        self._gpus: dict[str, tuple[int, float]] = {}
        self._gpu_seconds: float | None = None
        self._closed = False
        self._cancelled = False

    def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result (see `EventLoop.call`).

        Raises:
            RunCancelled: the runtime was cancelled before.
            RuntimeError: the runtime is closed, or the caller runs on the loop.
        """
        with self._lock:
            closed, cancelled = self._closed, self._cancelled
        if closed or cancelled:
            coro.close()
            raise RuntimeError("the runtime is closed") if closed else RunCancelled("the run was cancelled")
        return self._loop.call(coro, begun=self._begun)

    def _begun(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # It was cancelled or closed since the call.
        if self._cancelled or self._closed:
            task.cancel()

    def backend(self, type_: str, config: Mapping[str, Any], context: BackendContext) -> Backend:
        """The backend of a type and config. It is opened once and shared by all callers with the same type and config.

        Raises:
            InputError: the config is wrong.
            EndpointFailed: it cannot be opened. The next call tries again.
        """
        parsed = parse_config(type_, config)
        place = context.placement
        key = digest([type_, parsed.model_dump(mode="json"), str(context.base_dir), place and place.work_pool])
        with self._lock:
            known = self._backends.get(key)
            mine: Future[Backend] = Future() if known is None else known
            if known is None:
                self._backends[key] = mine
        if known is not None:
            return known.result()
        try:
            backend = build_backend(type_, parsed, context)
            if self._concurrency is not None:
                backend.limiter.resize(self._concurrency)
            if self._limit_changed is not None:
                backend.limiter.on_change = partial(self._limit_changed, getattr(parsed, "base_url", None) or type_)
            began = time.monotonic()
            self.call(_open(backend, self.log_folder))
            self._share(backend, parsed)
            engine = getattr(backend, "engine_key", lambda: None)()
            if (gpus := getattr(backend, "gpus", 0)) > 0:
                self._gpus[key] = gpus, began
            if engine is not None:
                self._engine_started(type_, time.monotonic() - began, gpus)
        except BaseException as error:
            with self._lock:
                self._backends.pop(key, None)
            # The next call tries with a new backend.
            forget_backend(type_, parsed, context)
            mine.set_exception(error)
            raise
        mine.set_result(backend)
        if engine is not None:
            with self._lock:
                self._engine_keys[key] = engine
        return backend

    def shared(self, key: str, make: Callable[[], B]) -> B:
        """An open backend that no config names: that of the first caller with this key, until `close`."""
        with self._lock:
            if key not in self._backends:
                self._backends[key] = Future()
                self._backends[key].set_result(make())
            return cast(B, self._backends[key].result())

    def _share(self, backend: Backend, config: BackendConfig) -> None:
        """Let other runs of the store have their part of an endpoint's limits, if its config says so."""
        share = getattr(backend, "share_limits", None)
        if self._objects is None or share is None or not getattr(config, "shared", False):
            return

        def apply(permits: int, part: float) -> None:
            self._loop.soon(partial(share, permits, part))

        values = config.model_dump(mode="json")
        limiter = backend.limiter
        endpoint = [values["base_url"], values["model"]]
        limits = SharedLimits(
            self._objects, endpoint, limiter.cap, lambda: limiter.is_busy, lambda: limiter.active, apply
        )
        limits.start()
        self._shared.append(limits)

    @property
    def gpu_seconds(self) -> float | None:
        """Seconds for which the run used each engine, times its GPUs; None without engines on GPUs."""
        now = time.monotonic()
        if not self._gpus:
            return self._gpu_seconds
        return (self._gpu_seconds or 0.0) + sum(gpus * (now - began) for gpus, began in self._gpus.values())

    def release(self, engine_key: str) -> None:
        """Close the backends that use an engine, because nothing in this run needs it any longer.

        The engine stops, or waits for other runs that share it. A later call of `backend` opens it again.
        """
        with self._lock:
            keys = [key for key, engine in self._engine_keys.items() if engine == engine_key]
            gone = [self._backends.pop(key).result() for key in keys]
            for key in keys:
                del self._engine_keys[key]
                if key in self._gpus:
                    gpus, began = self._gpus.pop(key)
                    self._gpu_seconds = (self._gpu_seconds or 0.0) + gpus * (time.monotonic() - began)
        if gone:
            self.call(_close(gone))

    def has_engine(self, engine_key: str) -> bool:
        """Whether a backend of this run uses an engine now."""
        with self._lock:
            return engine_key in self._engine_keys.values()

    def pool(self, name: str, size: int) -> Limiter:
        """The limit of this name, shared by all callers."""
        with self._lock:
            return self._pools.setdefault(name, Limiter(size))

    def cancel(self) -> None:
        """Cancel what runs and refuse new calls. Backends stay open until `close`. Any thread may call it."""
        with self._lock:
            self._cancelled = True
        self._loop.soon(self._cancel_tasks)

    def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()

    def close(self) -> None:
        """Cancel what runs, close all backends, and stop the loop if it is the runtime's own.

        A second call does nothing.

        Raises:
            GageError, ExceptionGroup: some backends could not be closed; everything else is closed.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            for limits in self._shared:
                limits.stop()
            if self._loop.is_started:
                self._loop.call(self._shut_down())
        finally:
            if self._owns_loop:
                self._loop.close()

    async def _shut_down(self) -> None:
        # Other runs may use the loop: only the tasks of this one end.
        running = set(self._tasks)
        self._cancel_tasks()
        if running:
            await asyncio.wait(running)
        await _close([future.result() for future in self._backends.values() if _succeeded(future)])

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _open(backend: Backend, log_folder: Path | None) -> None:
    try:
        await backend.open(log_folder)
    except BaseException:
        await backend.close()
        raise


async def _close(backends: list[Backend]) -> None:
    results = await asyncio.gather(*(backend.close() for backend in backends), return_exceptions=True)
    failed = [result for result in results if isinstance(result, Exception)]
    if failed and all(isinstance(error, GageError) for error in failed):
        # All are sentences for the user; one is enough.
        raise failed[0]
    if failed:
        raise ExceptionGroup("backends could not be closed", failed)


def _succeeded(future: Future[Backend]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
