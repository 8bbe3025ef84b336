"""Engines on work pools, as runs see them: servers elsewhere that come, answer like any endpoint, and may be lost.

A run holds an engine as long as it needs it: it renews a sign in the store (`gage_eval.store.serving`), follows the
signs of the servers, and has the pool start one where there is none. A server that is lost is replaced, and only what
it had in flight is sent again.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gage_eval.base.errors import EndpointFailed, GageError, InputError, StoreError
from gage_eval.models.client.http1 import HTTPClient
from gage_eval.models.client.route import route_to
from gage_eval.store import Store
from gage_eval.store.bundles import put_files
from gage_eval.store.serving import ServingFolder, ServingSpec

T = TypeVar("T")

# How often the signs of servers are looked at.
_LOOK_EVERY_S = 1.0
# How long a server may take to say that it is there, and a server that lives may stay out of reach.
_PROBE_S = 3.0
_REACHED_WITHIN_S = 10.0
# A larger file does not travel with an engine, in bytes.
_LARGEST_FILE = 64 * 2**20
# A request that so many servers were lost with may be what ends them.
_LOST_AT_MOST = 3


class ServerLaunch(Protocol):
    """A server that a work pool was asked to start."""

    def ended(self) -> str | None:
        """Why the server no longer runs; None while it may run or wait for its start."""

    def notice(self) -> str | None:
        """A sentence for the user while the server cannot start; None if there is nothing to say."""

    def close(self) -> None:
        """Withdraw the request if it has not been started."""


class Launcher(Protocol):
    """Has work pools start servers."""

    def launch(self, spec: ServingSpec, store: str, server: str) -> ServerLaunch:
        """Have a machine of a work pool start a server.

        Args:
            spec: the engine, whose spec is in the store.
            store: URL of the store.
            server: the server's name.

        Raises:
            InputError: the pool cannot start it.
        """


@dataclass(frozen=True)
class Pools:
    """What the engines of a run need to be served on work pools.

    Attributes:
        store: where runs and servers meet.
        launcher: has the pools start servers.
        tell: receives sentences for the user.
    """

    store: Store
    launcher: Launcher
    tell: Callable[[str], None]

    async def hold(self, spec: ServingSpec, files: Mapping[str, bytes]) -> "list[HeldEngine]":
        """Hold an engine, with a server that answers.

        Args:
            spec: the engine.
            files: content of the files that its config names, by path.

        Raises:
            GageError: it cannot be served; the message has the engine's own error.
        """
        await asyncio.to_thread(put_files, self.store.media, files)
        engine = HeldEngine(self, spec)
        await engine.start()
        return [engine]


def files_of(config: Mapping[str, Any], folder: Path) -> dict[str, bytes]:
    """The files of the config's folder that an engine needs, by path below it: they travel to its machine.

    Raises:
        InputError: a model is named by a relative path, which another machine does not have.
    """
    folder = folder.resolve()
    contents: dict[str, bytes] = {}
    for setting, value in config.items():
        if not isinstance(value, str) or not value or Path(value).is_absolute() or "://" in value:
            continue
        place = Path(os.path.normpath(folder / value))
        inside = place.is_relative_to(folder) and place.resolve().is_relative_to(folder)
        if inside and place.is_file() and place.stat().st_size <= _LARGEST_FILE:
            contents[place.relative_to(folder).as_posix()] = place.read_bytes()
        elif setting.endswith("path") and place.exists():
            raise InputError(
                f"{setting} '{value}' is a path on this machine, which the machines of a work pool cannot read. Give "
                "an absolute path that they have, or a name on the hub."
            )
    return contents


class ServerLost(Exception):
    """The server is gone, and what it had in flight has to be sent again."""


@dataclass(eq=False)
class HeldServer:
    """A server that answers.

    Attributes:
        base_url: where it listens, up to and with /v1.
        token: what it asks of its callers.
        certificate: the certificate (PEM) that it shows; None for one that speaks plain HTTP.
        prefix: the token that replaces an empty likelihood context there; None where it is not known.
        sign: name of the sign that announced it.
        lost: why it is gone; None while it answers.
    """

    base_url: str
    token: str = field(repr=False)
    certificate: str | None = field(repr=False)
    prefix: int | None
    sign: str
    lost: str | None = None
    calls: set["asyncio.Future[Any]"] = field(default_factory=set, repr=False)


class HeldEngine:
    """The servers of an engine on a work pool, held from `start` until `close`. Use it from one event loop.

    Attributes:
        tell: receives sentences for the user.
        gpus: how many GPUs its servers hold.
        last_words: why a server ended, if one did.
    """

    def __init__(self, pools: Pools, spec: ServingSpec) -> None:
        self.tell = pools.tell
        self.gpus = 0
        self.last_words: str | None = None
        self._pools = pools
        self._spec = spec
        self._folder = ServingFolder(pools.store.objects, spec.key)
        self._signs = self._folder.servers()
        self._name = secrets.token_hex(8)
        self._want = self._folder.want(self._name, self._state)
        # By token.
        self._servers: dict[str, HeldServer] = {}
        # Since when announced servers cannot be reached, and what their signs counted then.
        self._unreached: dict[str, tuple[float, int]] = {}
        # The server that was asked for last, its name, and whether it has shown a sign.
        self._launched: ServerLaunch | None = None
        self._server = ""
        self._appeared = False
        self._told: set[str] = set()
        self._failure: GageError | None = None
        self._changed = asyncio.Condition()
        self._nudge = asyncio.Event()
        self._waiting = 0
        self._asked = False
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Hold the engine and wait for the first server.

        Raises:
            GageError: it cannot be served.
        """
        try:
            await asyncio.to_thread(self._want.start)
            self._following = asyncio.create_task(self._follow())
            await self.servers()
        except BaseException:
            await self.close()
            raise

    def is_alive(self) -> bool:
        """Whether the engine is held. Its servers may change."""
        return self._following is not None and not self._following.done()

    async def close(self) -> None:
        """Let the engine go. Its servers end soon, unless another run needs them."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait({following})
        self._want.stop()
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        with suppress(StoreError):  # it lapses
            self._folder.discard("wants", self._name)
        if self._launched is not None:
            self._launched.close()

    def _state(self) -> dict[str, Any]:
        """The content of this run's sign: where the model is served, whether the run waits for a server, and whether it
        sends requests.
        """
        asks = self._asked or any(server.calls for server in self._servers.values())
        self._asked = False
        return {"pool": self._spec.pool, "waits": self._waits, "busy": asks}

    @property
    def _waits(self) -> bool:
        return self._waiting > 0 and not self._servers

    async def servers(self) -> list[HeldServer]:
        """The servers that answer now, at least one: waits until there is one.

        Raises:
            GageError: none can be started.
        """
        if not self._servers:
            self._waiting += 1
            try:
                if self._waiting == 1:
                    self._failure = None
                    self._nudge.set()
                    # An idle engine that has the GPUs ends when it sees this.
                    await asyncio.to_thread(self._want.write)
                async with self._changed:
                    await self._changed.wait_for(lambda: self._servers or self._failure is not None)
            finally:
                self._waiting -= 1
            if not self._servers:
                assert self._failure is not None
                raise self._failure
        return list(self._servers.values())

    @property
    def ready(self) -> list[HeldServer]:
        """The servers that answer now, perhaps none."""
        return list(self._servers.values())

    def look(self) -> None:
        """A server could not be reached: look at once whether it is gone."""
        self._nudge.set()

    async def ask(self, server: HeldServer, call: Coroutine[Any, Any, T]) -> T:
        """The result of a call to a server.

        Raises:
            ServerLost: the server ended before it answered.
            EndpointFailed: the server lives, and cannot answer any call.
        """
        task = asyncio.ensure_future(call)
        server.calls.add(task)
        self._asked = True
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if server.lost is None or (current is not None and current.cancelling()):
                raise
            raise ServerLost(server.lost) from None
        except EndpointFailed as error:
            if server.lost is None and await _answers(server):
                raise
            self._drop(server, str(error))
            raise ServerLost(str(error)) from error
        finally:
            server.calls.discard(task)

    def _drop(self, server: HeldServer, why: str) -> None:
        """A server is gone: its calls end, and others are sent elsewhere."""
        if server.lost is not None:
            return
        server.lost = why
        self._servers.pop(server.token, None)
        if server.sign == self._server:
            # Another one may be started before its sign lapses.
            self._launched = None
        if server.calls:
            lost = f"{len(server.calls):,} requests in flight are sent again"
            self.tell(f"a server of {self._label} is gone: {why.rstrip('.')}; {lost}.")
        for call in server.calls:
            call.cancel()

    @property
    def _label(self) -> str:
        return f"{self._spec.what} on work pool '{self._spec.pool}'"

    async def _follow(self) -> None:
        """Keep the list of servers as their signs say, and have a server started while one is waited for."""
        while True:
            try:
                await self._turn()
            except StoreError:
                pass  # The signs are looked at again.
            except GageError as error:
                self._failure = error
            if self._servers or self._failure is not None:
                async with self._changed:
                    self._changed.notify_all()
            try:
                # Not `wait_for`, which may swallow a cancellation.
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await self._nudge.wait()
            except TimeoutError:
                continue
            self._nudge.clear()
            for server in list(self._servers.values()):
                if not await _answers(server):
                    self._drop(server, "it does not answer any more")

    async def _turn(self) -> None:
        signs = await asyncio.to_thread(self._signs.look)
        announced = {
            server["token"]: HeldServer(server["url"], server["token"], server.get("certificate"), sign["prefix"], name)
            for name, sign in signs.items()
            if sign["state"] == "ready"
            for server in sign["servers"]
        }
        for token in self._servers.keys() - announced.keys():
            server = self._servers[token]
            self._drop(server, signs.get(server.sign, {}).get("error") or "it ended")
        for token in announced.keys() - self._servers.keys():
            if await self._reaches(announced[token], signs[announced[token].sign]["renewal"]):
                self._servers[token] = announced[token]
        self.gpus = sum(signs[name]["gpus"] for name in {server.sign for server in self._servers.values()})
        self._appeared = self._appeared or self._server in signs
        ended = {name: sign for name, sign in signs.items() if sign["state"] in ("failed", "lost")}
        for name, sign in ended.items():
            await asyncio.to_thread(self._folder.discard, "servers", name)
            del signs[name]
            self.last_words = sign["error"]
        failed = next((sign["error"] for sign in ended.values() if sign["state"] == "failed"), None)
        if failed is not None and self._waits:
            self._launched = None
            raise EndpointFailed(f"{self._label} does not start: {failed}")
        if self._waits and self._failure is None:
            await self._get_server(signs)

    async def _reaches(self, server: HeldServer, renewal: int) -> bool:
        """Whether an announced server answers here.

        Raises:
            EndpointFailed: it lives, and does not.
        """
        if await _answers(server):
            self._unreached.pop(server.token, None)
            return True
        since, first = self._unreached.setdefault(server.token, (time.monotonic(), renewal))
        if renewal != first and time.monotonic() - since > _REACHED_WITHIN_S and self._waits:
            raise EndpointFailed(
                f"{self._label} listens at {server.base_url}, which cannot be reached from here. Set "
                "GAGE_EVAL_SERVE_HOST in the pool's job to an address of its machine that the run's machine reaches."
            )
        return False

    async def _get_server(self, signs: Mapping[str, Mapping[str, Any]]) -> None:
        """Have a server started unless one is on its way.

        Raises:
            GageError: the pool cannot start it, or it ended before it answered.
        """
        if any(sign["state"] == "waiting" for sign in signs.values()):
            self._say(f"{self._label} waits for {self._spec.gpus} free GPUs.")
        if any(sign["state"] in ("waiting", "starting") for sign in signs.values()):
            return
        if self._launched is not None and self._server in signs:
            return  # It will be reached, or its sign lapses.
        if self._launched is not None and not self._appeared:
            ended = await asyncio.to_thread(self._launched.ended)
            if ended is not None:
                self._launched = None
                raise EndpointFailed(f"{self._label} does not start: {ended}")
            if (notice := await asyncio.to_thread(self._launched.notice)) is not None:
                self._say(notice)
            return
        self._server, self._appeared = secrets.token_hex(8), False
        self._launched = await asyncio.to_thread(self._launch)

    def _launch(self) -> ServerLaunch:
        self._folder.put_spec(self._spec)
        return self._pools.launcher.launch(self._spec, self._pools.store.url, self._server)

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.tell(text)


async def until_answered(
    pick: Callable[[], Awaitable[tuple[HeldEngine, HeldServer]]], call: Callable[[HeldServer], Coroutine[Any, Any, T]]
) -> T:
    """The result of a call to a server. If the server is lost, another one is asked.

    Args:
        pick: waits for a server.
        call: asks it.

    Raises:
        EndpointFailed: several servers were lost with this call.
        GageError: no server can be started.
    """
    lost = 0
    while True:
        held, server = await pick()
        try:
            return await held.ask(server, call(server))
        except ServerLost as error:
            lost += 1
            if lost == _LOST_AT_MOST:
                why = held.last_words or error
                raise EndpointFailed(f"{lost} servers were lost one after the other: {why}") from error


async def _answers(server: HeldServer) -> bool:
    """Whether the server answers requests with this token."""
    headers = {"Authorization": f"Bearer {server.token}"}
    route = route_to(server.base_url, {}, server.certificate)
    client = HTTPClient(route, headers=headers, env={}, timeout_s=_PROBE_S, connect_timeout_s=_PROBE_S)
    try:
        return await client.status("models") == 200
    finally:
        await client.close()
