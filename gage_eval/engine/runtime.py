"""The event loop of a run: one thread, shared by all tasks."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from gage_eval.backends.base import Backend, BackendConfig, BackendContext
from gage_eval.backends.build import build_backend, forget_backend, parse_config
from gage_eval.canonical import digest
from gage_eval.client.budget import Budget
from gage_eval.client.limiter import Limiter
from gage_eval.engine.answers import RunAnswers
from gage_eval.engine.shared_limits import SharedLimits
from gage_eval.errors import GageError, RunCancelled
from gage_eval.store.objects import Objects

T = TypeVar("T")

_WAKE_EVERY_S = 0.5


class Runtime:
    """Runs coroutines for callers in any thread, and keeps the backends they share.

    The loop (uvloop where there is one) starts with the first call. Use as a context manager, or `close`.

    Args:
        concurrency: overrides the backends' own `max_concurrency`.
        budget: limits on the run's answers; unlimited by default.
        log_folder: where started engines write their logs; None for no logs.
        objects: the store in which runs share the limits of endpoints (`shared: true`); None to share nothing.
        limit_changed: called with an endpoint's name, and the old and the new limit of its requests in flight.
    """

    def __init__(
        self,
        concurrency: int | None = None,
        log_folder: Path | None = None,
        budget: Budget | None = None,
        objects: Objects | None = None,
        limit_changed: Callable[[str, int, int], None] | None = None,
    ) -> None:
        self._objects = objects
        self._shared: list[SharedLimits] = []
        self._concurrency = concurrency
        self._limit_changed = limit_changed
        self.budget = budget or Budget()
        self.answers = RunAnswers()
        self._pools: dict[str, Limiter] = {}
        self.log_folder = log_folder
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._backends: dict[str, Future[Backend]] = {}
        # GPUs of each opened backend, and since when it holds them.
        self._gpus: list[tuple[int, float]] = []
        self._closed = False
        self._cancelled = False

    def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result.

        If the wait is interrupted (KeyboardInterrupt, or an exception that another thread sets), the coroutine
        is cancelled and finishes its clean-up before the interruption is raised.

        Raises:
            RunCancelled: the runtime was cancelled before.
            RuntimeError: the runtime is closed, or the caller runs on the loop.
        """
        outcome: _Outcome[T] = _Outcome()

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(coro)
            outcome.task = task
            task.add_done_callback(outcome.settle)

        try:
            loop = self._schedule(begin)
        except (RuntimeError, RunCancelled):
            coro.close()
            raise
        try:
            outcome.wait()
        except BaseException:
            if not outcome.settled:
                loop.call_soon_threadsafe(outcome.cancel)
                outcome.wait()
            raise
        return outcome.result()

    def backend(self, type_: str, config: Mapping[str, Any], context: BackendContext) -> Backend:
        """The backend of a type and config. It is opened once and shared by all callers with the same type and config.

        Raises:
            InputError: the config is wrong.
            EndpointFailed: it cannot be opened. The next call tries again.
        """
        parsed = parse_config(type_, config)
        key = digest([type_, parsed.model_dump(mode="json"), str(context.base_dir)])
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
            if (gpus := getattr(backend, "gpus", 0)) > 0:
                self._gpus.append((gpus, began))
        except BaseException as error:
            with self._lock:
                self._backends.pop(key, None)
            # The next call tries with a new backend.
            forget_backend(type_, parsed, context)
            mine.set_exception(error)
            raise
        mine.set_result(backend)
        return backend

    def _share(self, backend: Backend, config: BackendConfig) -> None:
        """Let other runs of the store have their part of an endpoint's limits, if its config says so."""
        share = getattr(backend, "share_limits", None)
        if self._objects is None or share is None or not getattr(config, "shared", False):
            return

        def apply(slots: int, part: float) -> None:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(share, slots, part)

        values = config.model_dump(mode="json")
        limiter = backend.limiter
        endpoint = [values["base_url"], values["model"]]
        limits = SharedLimits(self._objects, endpoint, limiter.cap, lambda: limiter.is_busy, apply)
        limits.start()
        self._shared.append(limits)

    @property
    def gpu_seconds(self) -> float | None:
        """Seconds since the start of each engine on this machine, times its GPUs; None without such engines."""
        now = time.monotonic()
        return sum(gpus * (now - began) for gpus, began in self._gpus) if self._gpus else None

    def pool(self, name: str, size: int) -> Limiter:
        """The limit of this name, shared by all callers."""
        with self._lock:
            return self._pools.setdefault(name, Limiter(size))

    def cancel(self) -> None:
        """Cancel what runs and refuse new calls. Backends stay open until `close`. Any thread may call it."""
        with self._lock:
            self._cancelled = True
            if self._loop is not None and not self._closed:
                self._loop.call_soon_threadsafe(_cancel_all)

    def close(self) -> None:
        """Cancel what runs, close all backends, stop the loop. A second call does nothing.

        Raises:
            GageError, ExceptionGroup: some backends could not be closed; everything else is closed.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        opened = [future.result() for future in self._backends.values() if _succeeded(future)]
        for limits in self._shared:
            limits.stop()
        try:
            asyncio.run_coroutine_threadsafe(_shut_down(opened), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _schedule(self, begin: Callable[[], None]) -> asyncio.AbstractEventLoop:
        """Let the loop call `begin`. This holds the lock, so that `close` finds what it must cancel."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("call() would wait for the loop it runs on")
        with self._lock:
            if self._closed:
                raise RuntimeError("the runtime is closed")
            if self._cancelled:
                raise RunCancelled("the run was cancelled")
            if self._loop is None:
                self._loop = _new_loop()()
                # An engine that must die with its parent dies with the thread that spawned it: this one,
                # which lives as long as the runtime.
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="gage-engine", daemon=True)
                self._thread.start()
            self._loop.call_soon_threadsafe(begin)
            return self._loop


def _new_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _cancel_all() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


async def _open(backend: Backend, log_folder: Path | None) -> None:
    try:
        await backend.open(log_folder)
    except BaseException:
        await backend.close()
        raise


async def _shut_down(backends: list[Backend]) -> None:
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)
    results = await asyncio.gather(*(backend.close() for backend in backends), return_exceptions=True)
    failed = [result for result in results if isinstance(result, Exception)]
    if failed and all(isinstance(error, GageError) for error in failed):
        # All are sentences for the user; one is enough.
        raise failed[0]
    if failed:
        raise ExceptionGroup("backends could not be closed", failed)


class _Outcome(Generic[T]):
    """The result of a coroutine. Another thread waits for it on a bare lock.

    An interruption may be raised at any instruction of the waiting thread. Futures wait on a condition variable: an
    interruption inside it can leave its lock held, and the loop would wait for that lock forever. Acquiring a bare
    lock is one instruction.
    """

    def __init__(self) -> None:
        self.task: asyncio.Task[T] | None = None
        self.settled = False
        self._pending = threading.Lock()
        self._pending.acquire()

    def settle(self, task: "asyncio.Task[T]") -> None:
        """Called on the loop when the task is done."""
        self.settled = True
        self._pending.release()

    def cancel(self) -> None:
        """Called on the loop."""
        assert self.task is not None
        self.task.cancel()

    def wait(self) -> None:
        """Wait until the task is done; `result` returns its result."""
        # Wake up now and then: a signal that arrives just before the wait is handled only then.
        while not self._pending.acquire(timeout=_WAKE_EVERY_S):
            pass

    def result(self) -> T:
        """The result, or what the task raised; `concurrent.futures.CancelledError` when it was cancelled."""
        assert self.task is not None
        if self.task.cancelled():
            raise CancelledError
        return self.task.result()


def _succeeded(future: Future[Backend]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None
