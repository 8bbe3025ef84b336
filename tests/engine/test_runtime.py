import asyncio
import resource
import signal
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest

from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.dummy import Dummy

CONTEXT = BackendContext(Path())


async def add(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


async def fail() -> None:
    raise EndpointFailed("down")


def test_many_threads_share_one_loop() -> None:
    async def loop_id(n: int) -> tuple[int, int]:
        return await add(n, 1), id(asyncio.get_running_loop())

    with Runtime() as runtime, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: runtime.call(loop_id(n)), range(100)))
    assert [value for value, _ in results] == list(range(1, 101))
    assert len({loop for _, loop in results}) == 1


def test_a_loop_may_hold_more_connections_than_a_shell_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with Runtime() as runtime:
            assert runtime.call(add(1, 2)) == 3
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1024 + 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_error_comes_back_to_its_caller_only() -> None:
    with Runtime() as runtime:
        with pytest.raises(EndpointFailed, match="down"):
            runtime.call(fail())
        assert runtime.call(add(1, 2)) == 3


def test_an_interrupted_caller_leaves_only_after_the_coroutine_has_unwound() -> None:
    events: list[str] = []

    async def slow() -> None:
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
            events.append("unwound")
            raise

    with Runtime() as runtime, pytest.raises(KeyboardInterrupt):
        runtime.call(slow())
    assert events == ["unwound"]


def test_close_cancels_what_runs_and_ends_the_thread() -> None:
    before = threading.active_count()
    runtime = Runtime()
    started = threading.Event()

    async def forever() -> None:
        started.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: runtime.call(forever()))
        started.wait(120)
        runtime.close()
        with pytest.raises(CancelledError):
            waiting.result(120)
    runtime.close()
    assert threading.active_count() == before


def test_a_closed_runtime_and_a_call_from_the_loop_are_refused() -> None:
    runtime = Runtime()

    async def nested() -> None:
        runtime.call(add(1, 1))

    with pytest.raises(RuntimeError, match="loop it runs on"):
        runtime.call(nested())
    runtime.close()
    with pytest.raises(RuntimeError, match="closed"):
        runtime.call(add(1, 1))


def test_one_backend_for_the_same_config_however_it_is_written() -> None:
    with Runtime() as runtime:
        first = runtime.backend("dummy", {"answer": "a", "async_max_concurrency": 4}, CONTEXT)
        assert runtime.backend("dummy", {"max_concurrency": 4, "answer": "a"}, CONTEXT) is first
        assert runtime.backend("dummy", {"answer": "b"}, CONTEXT) is not first
        assert first.limiter.cap == 4


def test_threads_that_ask_at_once_open_a_backend_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Dummy] = []
    closed: list[Dummy] = []

    async def open_(self: Dummy, log_folder: Path | None) -> None:
        await asyncio.sleep(0.01)
        opened.append(self)

    async def close(self: Dummy) -> None:
        closed.append(self)

    monkeypatch.setattr(Dummy, "open", open_)
    monkeypatch.setattr(Dummy, "close", close)
    with Runtime() as runtime, ThreadPoolExecutor(8) as pool:
        backends = list(pool.map(lambda _: runtime.backend("dummy", {}, CONTEXT), range(16)))
    assert len(opened) == 1
    assert {id(backend) for backend in backends} == {id(opened[0])}
    assert closed == opened


def test_a_backend_that_cannot_open_is_closed_and_tried_again_when_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[str] = []

    async def open_(self: Dummy, log_folder: Path | None) -> None:
        tries.append("open")
        if tries.count("open") == 1:
            raise EndpointFailed("not yet")

    async def close(self: Dummy) -> None:
        tries.append("close")

    monkeypatch.setattr(Dummy, "open", open_)
    monkeypatch.setattr(Dummy, "close", close)
    with Runtime() as runtime:
        with pytest.raises(EndpointFailed):
            runtime.backend("dummy", {}, CONTEXT)
        assert tries == ["open", "close"]
        runtime.backend("dummy", {}, CONTEXT)


def test_a_backend_that_cannot_close_does_not_keep_others_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    async def close(self: Dummy) -> None:
        if self.config.answer == "bad":
            raise OSError("stuck")
        closed.append(self.config.answer)

    monkeypatch.setattr(Dummy, "close", close)
    runtime = Runtime()
    for answer in ("a", "bad", "b"):
        runtime.backend("dummy", {"answer": answer}, CONTEXT)
    with pytest.raises(ExceptionGroup, match="could not be closed"):
        runtime.close()
    assert sorted(closed) == ["a", "b"]


def test_concurrency_overrides_what_the_config_says() -> None:
    with Runtime(concurrency=3) as runtime:
        assert runtime.backend("dummy", {"max_concurrency": 50}, CONTEXT).limiter.cap == 3


def test_a_wrong_config_names_the_field_and_no_value() -> None:
    with Runtime() as runtime, pytest.raises(InputError) as caught:
        runtime.backend("openai_http", {"model": "m", "api_key": "sk-planted"}, CONTEXT)
    assert "backend 'openai_http': api_key: a key is never written into a config" in str(caught.value)
    assert "sk-planted" not in str(caught.value)
