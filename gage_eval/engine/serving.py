"""A server of an engine or a box on a work pool: it starts, is announced in the store, and ends when no run needs it.

What runs and servers tell each other is in `gage_eval.store.serving`; the runs' side is
`gage_eval.models.backends.pools`.
"""

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from gage_eval.base.canonical import JsonValue, canonical_text
from gage_eval.base.errors import EndpointFailed, GageError, InputError, StoreError
from gage_eval.models.backends.base import BackendContext, Blocks
from gage_eval.models.backends.build import build_backend
from gage_eval.models.backends.certificates import Certificate, new_certificate
from gage_eval.models.backends.gpus import GPUs, NeededGPUs, devices
from gage_eval.models.backends.pooled_boxes import ServedBox
from gage_eval.models.backends.served import StartedServer
from gage_eval.store import Store
from gage_eval.store.bundles import write_files
from gage_eval.store.serving import BOX, LEASE_S, ServerState, ServingFolder, ServingSpec

# How often a server looks at the signs of runs; and how long no run may ask before it ends for another engine.
_LOOK_EVERY_S = 1.0
_YIELD_S = 10.0

_OTHER_MODEL = (
    "the model on this machine is not the one that the run means: its files differ. Put the same files here, or name "
    "the model on the hub with its revision."
)

_log = logging.getLogger(__name__)


@runtime_checkable
class Servable(Protocol):
    """A backend whose engine is a server that other machines can ask, or a box for their programs."""

    @property
    def model_material(self) -> JsonValue:
        """Identity of the model's files, or of the box."""
        ...

    @property
    def prefix(self) -> int | None:
        """The token that replaces an empty likelihood context."""
        ...

    async def serve(self, host: str, certificate: Certificate | None) -> Sequence[StartedServer]:
        """Start its servers, which listen at an address of this machine, with TLS if there is a certificate.

        Raises:
            InputError, EndpointFailed: they do not start; none is left running.
        """
        ...


def serve(store: Store, key: str, server: str, *, host: str, tls: bool, blocks: Blocks | None = None) -> str:
    """Serve an engine until no run needs it, or another engine waits for its GPUs. Returns why it ended.

    Args:
        store: where runs and servers meet.
        key: the engine's key.
        server: the name of this server.
        host: the address of this machine that it listens at.
        tls: make a certificate for it, which only the runs know.
        blocks: the blocks of the Prefect API, if there is one.

    Raises:
        GageError: the engine does not start, or it ended by itself.
    """
    with ExitStack() as opened:
        return asyncio.run(_Server(store, key, server, host, tls, blocks, opened).run())


class _Server:
    """One server. What it holds until its end (GPUs, a temporary folder) is in ``opened``."""

    def __init__(
        self, store: Store, key: str, name: str, host: str, tls: bool, blocks: Blocks | None, opened: ExitStack
    ) -> None:
        self._store = store
        self._folder = ServingFolder(store.objects, key)
        self._name = name
        self._host = host
        self._tls = tls
        self._blocks = blocks
        self._opened = opened
        self._beat = self._folder.server(name, self._sign)
        self._wants = self._folder.wants()
        self._wants_of_others = self._folder.wants_of_others()
        self._state: ServerState = "starting"
        self._error: str | None = None
        self._prefix: int | None = None
        self._gpus = 0
        self._servers: list[StartedServer] = []
        self._wanted_at = self._busy_at = time.monotonic()
        self._over: str | None = None

    async def run(self) -> str:
        """Start and announce the engine; watch it until its end."""
        await asyncio.to_thread(self._beat.start)
        try:
            spec = await asyncio.to_thread(self._folder.spec)
            starting = asyncio.ensure_future(self._start(spec))
            try:
                while (over := await asyncio.to_thread(self._why_over, spec)) is None:
                    if starting.done():
                        starting.result()
                        await self._look_at_engine()
                        await asyncio.sleep(_LOOK_EVERY_S)
                    else:
                        await asyncio.wait({starting}, timeout=_LOOK_EVERY_S)
            finally:
                await self._stop(starting)
        except BaseException as error:
            self._state = "lost" if self._state == "ready" else "failed"
            self._error = str(error) if isinstance(error, GageError) else f"{type(error).__name__}: {error}"
            self._beat.stop()
            await asyncio.to_thread(self._tell)
            raise
        self._beat.stop()
        with suppress(StoreError):  # it lapses
            await asyncio.to_thread(self._folder.discard, "servers", self._name)
        return over

    async def _start(self, spec: ServingSpec) -> None:
        folder = self._temporary_folder()
        env = dict(os.environ)
        if spec.gpus and (gpus := devices(env)):
            machine = GPUs(waiting=self._wait_for_gpus)
            held = await machine.hold(NeededGPUs(gpus, spec.gpus))
            self._opened.callback(machine.release, held)
            env["CUDA_VISIBLE_DEVICES"] = ",".join(held)
            self._gpus = spec.gpus
            self._state = "starting"
            await asyncio.to_thread(self._tell)
        await asyncio.to_thread(write_files, self._store.media, spec.files, folder)
        backend = self._servable(spec, BackendContext(folder, env=env, blocks=self._blocks))
        model = await asyncio.to_thread(lambda: backend.model_material)
        if canonical_text(model) != canonical_text(spec.model):
            raise InputError(_other_box(model, spec.model) if spec.type == BOX else _OTHER_MODEL)
        self._prefix = await asyncio.to_thread(lambda: backend.prefix)
        certificate = await asyncio.to_thread(new_certificate, self._temporary_folder()) if self._tls else None
        self._servers = list(await backend.serve(self._host, certificate))
        self._state = "ready"
        await asyncio.to_thread(self._tell)
        _log.info("serving at %s", ", ".join(server.base_url for server in self._servers))

    def _temporary_folder(self) -> Path:
        return Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="gage-eval-serving-")))

    def _servable(self, spec: ServingSpec, context: BackendContext) -> Servable:
        if spec.type == BOX:
            return ServedBox(spec.config)
        backend: Any = build_backend(spec.type, spec.config, context)
        assert isinstance(backend, Servable), f"backend {spec.type} is not served"
        return backend

    async def _stop(self, starting: "asyncio.Future[None]") -> None:
        """End the engine, and what was begun to start it."""
        self._over = self._over or "the server ends"
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await asyncio.gather(*(server.close() for server in self._servers))

    async def _look_at_engine(self) -> None:
        """Announce only the servers of the engine that still run.

        Raises:
            EndpointFailed: none does.
        """
        ended = [server for server in self._servers if not server.is_alive()]
        if not ended:
            return
        self._servers = [server for server in self._servers if server not in ended]
        reason = await asyncio.to_thread(ended[0].child.ended)
        if not self._servers:
            raise EndpointFailed(str(reason))
        _log.warning("%s The others go on.", reason)
        await asyncio.to_thread(self._tell)

    def _why_over(self, spec: ServingSpec) -> str | None:
        """Why the server is to end now; None while it is needed."""
        now, wants = time.monotonic(), self._wants.look().values()
        if wants:
            self._wanted_at = now
        if any(want["busy"] or want["waits"] for want in wants):
            self._busy_at = now
        if now - self._wanted_at >= LEASE_S:
            self._over = "no run needs it any more"
        elif self._state == "waiting" and not any(want["waits"] for want in wants):
            self._over = "no run waits for it any more"
        elif (not wants or now - self._busy_at >= _YIELD_S) and self._others_wait(spec.pool):
            self._over = "another engine waits for its GPUs"
        return self._over

    def _others_wait(self, pool: str) -> bool:
        return any(want["waits"] and want["pool"] == pool for want in self._wants_of_others.look().values())

    def _wait_for_gpus(self, text: str) -> None:
        _log.warning("%s", text)
        self._state = "waiting"
        self._tell()

    def _sign(self) -> dict[str, Any]:
        return {
            "state": self._state,
            "error": self._error,
            "gpus": self._gpus,
            "prefix": self._prefix,
            "servers": [
                {"url": server.base_url, "token": server.key, "certificate": server.certificate}
                for server in self._servers
            ],
        }

    def _tell(self) -> None:
        with suppress(StoreError):  # the next renewal tells it
            self._beat.write()


def _other_box(here: JsonValue, there: JsonValue) -> str:
    return (
        f"the box of this machine is {canonical_text(here)}, and the run means {canonical_text(there)}: verdicts might "
        "differ. Use the same Python and version of gage-eval on both, and name 'execution.executor' if need be."
    )
