"""The engines that this process has started. Backends that need the same engine share it.

An engine is one or several processes that have loaded a model. Its key holds everything that it was started with, so
equal keys mean equal answers. By default an engine stops when no backend uses it any more. Where several runs follow
each other, it waits for the next one; a run that is cancelled while its engine loads leaves it to the next one, too.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from gage_eval.models.backends.gpus import GPUs, NeededGPUs

if TYPE_CHECKING:
    from gage_eval.models.backends.pools import Pools


class EnginePart(Protocol):
    """One process of an engine, a server or a worker; or the servers of an engine on a work pool."""

    def is_alive(self) -> bool:
        """Whether it runs."""
        ...

    async def close(self) -> None:
        """End the process."""
        ...


PartT = TypeVar("PartT", bound=EnginePart)


@dataclass(eq=False)
class Engine(Generic[PartT]):
    """An engine that was started.

    Attributes:
        key: what it was started with.
        parts: its processes; several replicas share the requests.
        gpus: the GPUs of this machine that it holds.
        users: how many backends use it now.
        failed: whether a request found that it cannot answer any more.
    """

    key: str
    parts: Sequence[PartT]
    gpus: Sequence[str] = ()
    users: int = 0
    failed: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether another backend may use it."""
        return not self.failed and all(part.is_alive() for part in self.parts)


class Engines:
    """Starts engines, hands them to backends, and stops them. Use it from one event loop.

    Args:
        keep_idle: leave an engine running that no backend uses, until `keep` or `close`.

    Attributes:
        pools: starts engines on work pools; None where there is no Prefect API.
        out_of_memory: called when an engine did not get its memory, with its name, the share of the GPU's memory that
            it asked for, and the share that it is started with now.
    """

    def __init__(self, *, keep_idle: bool = False) -> None:
        self.pools: Pools | None = None
        self.out_of_memory: Callable[[str, float, float], None] = lambda name, share, less: None
        self._keep_idle = keep_idle
        self._gpus = GPUs()
        self._engines: dict[str, Engine[Any]] = {}
        self._starting: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        # Starts of engines that may outlive the caller, by key.
        self._loading: dict[str, asyncio.Future[Engine[Any]]] = {}

    async def use(
        self, key: str, start: Callable[[Sequence[str]], Awaitable[Sequence[PartT]]], gpus: NeededGPUs | None = None
    ) -> Engine[PartT]:
        """The engine with this key. It is started if there is none, or if the one that was there has failed.

        Every call needs a `release`.

        Args:
            key: of the engine.
            start: starts it on the GPUs that it holds until it stops.
            gpus: those of this machine that it needs. The start waits for them.

        Raises:
            EndpointFailed, InputError: it cannot be started; nothing is left running.
        """
        async with self._starting[key]:
            engine = self._engines.get(key)
            if engine is not None and not engine.is_usable:
                del self._engines[key]
                await self._stop_if_idle(engine)
                engine = None
            if engine is None:
                begin = partial(self._start, key, start, gpus or NeededGPUs())
                engine = self._engines[key] = await self._load(key, begin)
            engine.users += 1
            return engine

    async def _start(
        self, key: str, start: Callable[[Sequence[str]], Awaitable[Sequence[PartT]]], needed: NeededGPUs
    ) -> Engine[PartT]:
        gpus = await self._gpus.hold(needed)
        try:
            return Engine(key, await start(gpus), gpus)
        except BaseException:
            self._gpus.release(gpus)
            raise

    async def _load(self, key: str, start: Callable[[], Coroutine[Any, Any, Engine[PartT]]]) -> Engine[PartT]:
        if not self._keep_idle:
            return await start()
        loading = self._loading.get(key)
        if loading is not None and loading.done() and not _is_loaded(loading):
            await self._abandon(loading)
            loading = None
        if loading is None:
            loading = self._loading[key] = asyncio.ensure_future(start())
        engine = await asyncio.shield(loading)
        del self._loading[key]
        return engine

    async def release(self, engine: Engine[Any]) -> None:
        """Note that a backend no longer needs its engine."""
        engine.users -= 1
        if not self._keep_idle or not engine.is_usable or self._engines.get(engine.key) is not engine:
            await self._stop_if_idle(engine)

    async def keep(self, keys: Collection[str]) -> None:
        """Stop the engines that no backend uses and that are not among these."""
        idle = [engine for engine in self._engines.values() if engine.key not in keys]
        abandoned = [key for key in self._loading if key not in keys and not self._starting[key].locked()]
        loading = [self._loading.pop(key) for key in abandoned]
        await asyncio.gather(*map(self._stop_if_idle, idle), *map(self._abandon, loading))

    async def close(self) -> None:
        """Stop all engines."""
        engines, self._engines = list(self._engines.values()), {}
        loading, self._loading = list(self._loading.values()), {}
        await asyncio.gather(*map(self._stop, engines), *map(self._abandon, loading))

    async def _stop_if_idle(self, engine: Engine[Any]) -> None:
        if engine.users == 0:
            if self._engines.get(engine.key) is engine:
                del self._engines[engine.key]
            await self._stop(engine)

    async def _stop(self, engine: Engine[Any]) -> None:
        try:
            await asyncio.gather(*(part.close() for part in engine.parts))
        finally:
            gpus, engine.gpus = engine.gpus, ()
            self._gpus.release(gpus)

    async def _abandon(self, loading: "asyncio.Future[Engine[Any]]") -> None:
        """Stop an engine without a user; a start that is cancelled leaves nothing running."""
        loading.cancel()
        await asyncio.wait([loading])
        if not loading.cancelled() and loading.exception() is None:
            await self._stop(loading.result())


def _is_loaded(loading: "asyncio.Future[Engine[Any]]") -> bool:
    """Whether the start is finished and its engine still runs."""
    failed = loading.cancelled() or loading.exception() is not None
    return not failed and loading.result().is_usable
