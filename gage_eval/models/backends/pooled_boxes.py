"""Programs that run on a work pool: the pool's end, which serves a box, and the run's, which sends programs to it.

Servers come, are announced, lost and replaced as those of engines are (`gage_eval.models.backends.pools`).
"""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import EndpointFailed, GageError
from gage_eval.box.engine_api import ENGINES
from gage_eval.box.executors import ExecutorSettings, is_pinned, open_executor
from gage_eval.box.programs import executor_identity
from gage_eval.box.types import Box, BoxError, BoxSpec, Containment, Execution, Limits, Program
from gage_eval.models.backends import box_service
from gage_eval.models.backends.box_service import LARGEST_REQUEST, READY, request_body
from gage_eval.models.backends.boxed import box_identity
from gage_eval.models.backends.certificates import Certificate
from gage_eval.models.backends.child import Child
from gage_eval.models.backends.pools import HeldEngine, HeldServer, Pools, until_answered
from gage_eval.models.backends.served import StartedServer, in_url
from gage_eval.models.client.http1 import FAILURES, HTTPClient
from gage_eval.models.client.route import route_to
from gage_eval.store.serving import BOX, ServingSpec

# Programs that are sent to a box at a time, where the config sets none. Those that it has no slot for wait there.
_AT_ONCE = 32
# The longest time for all runs of a program, and between two signs of its server.
_LONGEST_S, _SILENT_S = 24 * 3600.0, 60.0
_CONNECT_S = 10.0
# How often a program is sent to a server whose connection broke, but which lives.
_ATTEMPTS = 3
_START_S = 120.0
_OK = 200
# What the process of a box needs; the server's own environment may hold secrets.
_ENVIRONMENT = (
    *("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "HOME", "TMPDIR", "LANG", "PYTHONPATH"),
    *("DOCKER_HOST", "CONTAINER_HOST", "XDG_RUNTIME_DIR"),
)
_BARE = BoxSpec()
_EXECUTION: TypeAdapter[Execution] = TypeAdapter(Execution)


class ServedBox:
    """A box for runs on other machines (`gage_eval.engine.serving.Servable`).

    Args:
        config: the executor and its slots, of the spec.
    """

    prefix = None

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = {name: config[name] for name in ("executor", "slots")}

    @property
    def model_material(self) -> JsonValue:
        """What of this machine's box can change a verdict.

        Raises:
            BoxUnavailable: this machine can make none.
        """
        return box_identity(open_executor(ExecutorSettings(**self._config)))

    async def serve(self, host: str, certificate: Certificate | None) -> Sequence[StartedServer]:
        """Start the service, which listens at an address of this machine.

        Args:
            host: the address.
            certificate: what it shows; None for plain HTTP.

        Raises:
            EndpointFailed: it does not start; nothing is left running.
        """
        token = secrets.token_urlsafe(24)
        shown = None if certificate is None else [str(certificate.file), str(certificate.key_file)]
        child = Child(
            "the box",
            [sys.executable, "-P", "-m", box_service.__name__],
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            hidden=(token,),
            stdin=json.dumps({**self._config, "host": host, "token": token, "certificate": shown}).encode(),
            stdout=True,
        )
        port = await child.first_line(READY, _START_S)
        scheme, pem = ("http", None) if certificate is None else ("https", certificate.pem)
        return [StartedServer(child, f"{scheme}://{in_url(host)}:{port}/v1", token, pem)]


class PoolExecutor:
    """Runs programs on a work pool (`gage_eval.box.types.Executor`).

    Args:
        settings: the pool, and the executor of its machines.
        pools: has the pool start boxes; None where no program is run, only the identity is read.
    """

    def __init__(self, settings: ExecutorSettings, pools: Pools | None) -> None:
        assert settings.work_pool is not None
        self.containment: Containment = "container" if settings.executor in ENGINES else "namespaces"
        self.slots = settings.replicas * (settings.slots or _AT_ONCE)
        self._pool = settings.work_pool
        config = {"executor": settings.executor, "slots": settings.slots}
        specs = [
            ServingSpec(self._pool, BOX, {**config, "replica": number}, 0, box_identity(self))
            for number in range(settings.replicas)
        ]
        self._replicas = [] if pools is None else [_Replica(pools, spec) for spec in specs]
        self._clients: dict[str, HTTPClient] = {}

    @cached_property
    def identity(self) -> Mapping[str, str]:
        """That of a box with this interpreter and this version of gage-eval: a server with another one is refused."""
        return executor_identity(self.containment)

    def resolve(self, image: str | None) -> tuple[Containment, str | None]:
        """What contains the programs of an image; its name is a digest."""
        return (self.containment if image is None else "container"), image

    async def execute(self, program: Program, limits: Limits, spec: BoxSpec = _BARE) -> Execution:
        """Run a program with its tests on the pool.

        Raises:
            GageError: no box can be started, or several were lost with this program.
        """
        if spec.image is not None and not is_pinned(spec.image):
            text = f"image {spec.image!r} may differ between the machines of a work pool: name it by its digest"
            return Execution("box_error", "image", text)
        body = request_body(program, limits, spec)
        if len(body) > LARGEST_REQUEST:
            text = f"the program and its files have {len(body):,} bytes; a work pool takes {LARGEST_REQUEST:,}"
            return Execution("box_error", "spec", text)
        assert self._replicas, "a run without a Prefect API refuses work pools"
        return await until_answered(self._server, lambda server: self._ask(server, body))

    async def open(self, spec: BoxSpec, limits: Limits) -> Box:
        """Refused: an open box stays on the machine of its run."""
        raise BoxError(f"work pool '{self._pool}' runs whole programs and opens no boxes")

    async def close(self) -> None:
        """Let all boxes go."""
        await asyncio.gather(*(replica.close() for replica in self._replicas))
        await asyncio.gather(*(client.close() for client in self._clients.values()))

    async def _server(self) -> tuple[HeldEngine, HeldServer]:
        """The server with the least to do. Those that are missing are started in the background."""
        while True:
            coming = [replica.coming() for replica in self._replicas if not replica.ready and replica.failure is None]
            ready = [pair for replica in self._replicas for pair in replica.ready]
            if ready:
                return min(ready, key=lambda pair: len(pair[1].calls))
            if not coming:
                failures = (replica.failure for replica in self._replicas)
                raise next(failure for failure in failures if failure is not None)
            ended, _ = await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()

    async def _ask(self, server: HeldServer, body: bytes) -> Execution:
        """What a server answers.

        Raises:
            EndpointFailed: it cannot be reached, or refuses.
        """
        client = self._client(server)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                answer = await client.post("executions", body)
                break
            except FAILURES as error:
                if attempt == _ATTEMPTS:
                    raise EndpointFailed(f"the box at {server.base_url} does not answer: {error}") from error
        if answer.status != _OK:
            text = answer.body[:200].decode("utf-8", "replace")
            raise EndpointFailed(f"the box at {server.base_url} refused a program ({answer.status}): {text}")
        try:
            return _EXECUTION.validate_json(answer.body, strict=True)
        except ValidationError as error:
            raise EndpointFailed(
                f"the box at {server.base_url} sent no execution: {error.errors()[0]['msg']}"
            ) from None

    def _client(self, server: HeldServer) -> HTTPClient:
        if server.token not in self._clients:
            self._clients[server.token] = HTTPClient(
                route_to(server.base_url, {}, server.certificate),
                headers={"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"},
                env={},
                timeout_s=_LONGEST_S,
                connect_timeout_s=_CONNECT_S,
                idle_timeout_s=_SILENT_S,
            )
        return self._clients[server.token]


class _Replica:
    """One box of the pool, held from its first program on.

    Attributes:
        failure: why it cannot be started; then it is not tried again.
    """

    def __init__(self, pools: Pools, spec: ServingSpec) -> None:
        self.failure: GageError | None = None
        self._pools, self._spec = pools, spec
        self._held: HeldEngine | None = None
        self._coming: asyncio.Task[None] | None = None

    @property
    def ready(self) -> list[tuple[HeldEngine, HeldServer]]:
        """Its servers that answer now."""
        return [] if self._held is None else [(self._held, server) for server in self._held.ready]

    def coming(self) -> "asyncio.Task[None]":
        """Ends when its server answers, or cannot be started."""
        if self._coming is None or self._coming.done():
            self._coming = asyncio.create_task(self._come())
        return self._coming

    async def _come(self) -> None:
        try:
            if self._held is None:
                (self._held,) = await self._pools.hold(self._spec, {})
            await self._held.servers()
        except GageError as error:
            self.failure = error
            self._pools.tell(str(error))

    async def close(self) -> None:
        """Let it go."""
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.gather(self._coming, return_exceptions=True)
        if self._held is not None:
            await self._held.close()
