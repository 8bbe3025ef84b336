"""Promises of engines that runs leave to each other: what a cancelled run began to load is not loaded twice."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from gage_eval.base.errors import EndpointFailed
from gage_eval.models.backends.engines import Engines


@dataclass
class Part:
    """A process of an engine; its own child."""

    closed: bool = False

    @property
    def child(self) -> Any:
        return self

    def is_alive(self) -> bool:
        return not self.closed

    async def close(self) -> None:
        self.closed = True


@dataclass
class Loader:
    """Starts an engine when it may."""

    may: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    starts: int = 0
    cancelled: int = 0
    error: Exception | None = None

    async def __call__(self, gpus: Sequence[str] = ()) -> Sequence[Part]:
        self.starts += 1
        self.begun.set()
        try:
            await self.may.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return [Part()]


async def cancelled_while_loading(engines: Engines, load: Loader) -> None:
    """A run that is cancelled while its engine loads."""
    run = asyncio.create_task(engines.use("engine", load))
    await load.begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def test_an_engine_goes_on_loading_for_the_next_run_when_one_is_cancelled() -> None:
    engines, load = Engines(keep_idle=True), Loader()
    await cancelled_while_loading(engines, load)
    load.may.set()
    engine = await engines.use("engine", load)
    assert (load.starts, load.cancelled) == (1, 0)
    await engines.close()
    assert all(part.closed for part in engine.parts)


async def test_an_engine_of_one_run_stops_loading_with_it() -> None:
    engines, load = Engines(), Loader()
    await cancelled_while_loading(engines, load)
    assert load.cancelled == 1


@pytest.mark.parametrize("is_loaded", [False, True])
async def test_an_engine_that_no_run_waits_for_is_stopped_with_the_others(is_loaded: bool) -> None:
    engines, load, loaded, parts = Engines(keep_idle=True), Loader(), asyncio.Event(), list[Part]()

    async def start(gpus: Sequence[str]) -> Sequence[Part]:
        parts.extend(await load())
        loaded.set()
        return parts

    run = asyncio.create_task(engines.use("engine", start))
    await load.begun.wait()
    run.cancel()
    await asyncio.wait([run])
    if is_loaded:
        load.may.set()
        await loaded.wait()
    await engines.keep(["another"])
    assert load.cancelled == (not is_loaded)
    assert all(part.closed for part in parts)
    await engines.use("engine", Loader(may=_set()))
    assert load.starts == 1


async def test_an_engine_that_failed_while_no_run_waited_is_started_again() -> None:
    engines, load = Engines(keep_idle=True), Loader(error=EndpointFailed("out of memory"))
    await cancelled_while_loading(engines, load)
    load.may.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    load.error = None
    engine = await engines.use("engine", load)
    assert load.starts == 2
    assert engine.is_usable


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event
