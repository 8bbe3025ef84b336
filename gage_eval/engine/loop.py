"""An event loop in its own thread, for callers in other threads."""

import asyncio
import resource
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_WAKE_EVERY_S = 0.5
# Each request in flight has a connection, and most systems begin with 256 or 1,024 open files a process.
_OPEN_FILES = 65536


class EventLoop:
    """Runs coroutines for callers in any thread. The loop (uvloop where there is one) starts with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def call(self, coro: Coroutine[Any, Any, T], *, begun: Callable[["asyncio.Task[T]"], None] | None = None) -> T:
        """Run a coroutine on the loop and wait for its result.

        If the wait is interrupted (KeyboardInterrupt, or an exception that another thread sets), the coroutine
        is cancelled and finishes its clean-up before the interruption is raised.

        Args:
            coro: the coroutine.
            begun: called on the loop with its task, before it runs.

        Raises:
            RuntimeError: the loop is closed, or the caller runs on it.
        """
        outcome: _Outcome[T] = _Outcome()

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(coro)
            outcome.task = task
            task.add_done_callback(outcome.settle)
            if begun is not None:
                begun(task)

        try:
            loop = self._schedule(begin)
        except RuntimeError:
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

    def soon(self, callback: Callable[[], object]) -> None:
        """Schedule a call on the loop, unless it never started or is closed. Any thread may call this."""
        with self._lock:
            if self._loop is not None and not self._closed:
                self._loop.call_soon_threadsafe(callback)

    @property
    def is_started(self) -> bool:
        """Whether anything was called on it, and it is not closed."""
        return self._loop is not None and not self._closed

    def close(self) -> None:
        """Cancel what runs, and stop the loop. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(_cancel_the_rest(), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _schedule(self, begin: Callable[[], None]) -> asyncio.AbstractEventLoop:
        """Have the loop call `begin`. This holds the lock, so that `close` finds what it must cancel."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("call() would wait for the loop it runs on")
        with self._lock:
            if self._closed:
                raise RuntimeError("the loop is closed")
            if self._loop is None:
                _allow_open_files()
                self._loop = _new_loop()()
                # An engine that must die with its parent dies with the thread that spawned it: this one,
                # which lives as long as the engines.
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="gage-engine", daemon=True)
                self._thread.start()
            self._loop.call_soon_threadsafe(begin)
            return self._loop


def _allow_open_files() -> None:
    """Raise this process's limit of open files as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # macOS refuses more than its kernel allows.
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


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


async def _cancel_the_rest() -> None:
    running = asyncio.all_tasks() - {asyncio.current_task()}
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


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
