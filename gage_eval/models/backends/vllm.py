"""vLLM servers: one that runs already, or one or several that are started for the run."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import model_validator

from gage_eval.base.canonical import JsonValue, canonical_text, digest, sha256_hex
from gage_eval.base.errors import EndpointFailed
from gage_eval.base.marks import semantic
from gage_eval.base.ports import HeldPort, hold_port
from gage_eval.extend import registry
from gage_eval.models.backends.asked import is_empty, likelihood_body, skipped
from gage_eval.models.backends.base import BackendContext, BaseBackend, KeyedConfig, ThinkingConfig
from gage_eval.models.backends.certificates import Certificate
from gage_eval.models.backends.checkpoint import (
    check_engine,
    find_checkpoint,
    installed_version,
    model_identity,
    prefix_token,
)
from gage_eval.models.backends.child import Child
from gage_eval.models.backends.engines import Engine
from gage_eval.models.backends.gpus import NeededGPUs, devices
from gage_eval.models.backends.http_model import Address
from gage_eval.models.backends.media_server import MediaConfig
from gage_eval.models.backends.pools import HeldEngine, HeldServer, files_of, until_answered
from gage_eval.models.backends.replicas import needed_gpus
from gage_eval.models.backends.served import ServedClient, StartedServer, in_url
from gage_eval.models.backends.vllm_engine import MODEL_NAME, Replica, VLLMEngineConfig, start_replicas, started_with
from gage_eval.models.backends.vllm_likelihood import Likelihoods
from gage_eval.models.client.http import HTTPEndpoint
from gage_eval.models.client.http1 import HTTPClient
from gage_eval.models.client.limiter import Limiter
from gage_eval.models.client.route import route_to
from gage_eval.models.client.sampling import THINKING_BUDGET
from gage_eval.models.client.types import Request, Response
from gage_eval.store.serving import ServingSpec

_LOOK_EVERY_S = 0.25
# How long one look may take.
_LOOK_S = 5.0
_LOOPBACK = "127.0.0.1"


class VLLMConfig(VLLMEngineConfig, KeyedConfig, MediaConfig):
    """A vLLM server: a running one at `base_url`, or one that is started with `model_path`."""

    base_url: str | None = semantic("infer", None, description="A running server's URL, up to and with /v1.")
    model: str | None = semantic("infer", None, description="The model's name at a running server.")
    identity: str | None = semantic(
        "infer", None, description="What a running server runs (a revision, a date); a change asks for new answers."
    )

    @model_validator(mode="after")
    def _one_server(self) -> "VLLMConfig":
        if self.base_url is None:
            if self.model_path is None:
                raise ValueError("set model_path (a folder, or a name on the hub), or base_url of a running server")
            for name in ("model", "identity", "api_key"):
                if getattr(self, name) is not None:
                    raise ValueError(f"'{name}' belongs to a running server (base_url): remove it")
            return self
        if self.model is None:
            raise ValueError("set 'model' to the model's name at the running server")
        for name in ("model_path", "lora_path"):
            if getattr(self, name) is not None:
                raise ValueError(f"'{name}' belongs to a server that is started: remove it, or base_url")
        if self.model_extra:
            first = next(iter(self.model_extra))
            raise ValueError(f"'{first}' is not a field, and a running server takes no arguments: use default_params")
        return self


# Fields that say how a server is asked, and not with what it is started.
_OF_REQUESTS = {
    *(KeyedConfig.model_fields.keys() - {"deterministic"}),
    *(ThinkingConfig.model_fields.keys() - {"deterministic"}),
    *("base_url", "model", "identity", "reasoning_effort", "thinking_budget", "add_bos_token", "prefix_token_id"),
    "media_source",
}


@dataclass
class _Server:
    """One server and what talks to it. ``child`` is its process if it was started here."""

    client: ServedClient
    root: HTTPEndpoint
    likelihoods: Likelihoods
    child: Child | None = None
    active: int = 0

    async def close(self) -> None:
        await self.client.close()
        await self.root.close()


@registry.backends.register("vllm", version=2, config=VLLMConfig)
class VLLM(BaseBackend[VLLMConfig]):
    """A vLLM server, running already or started for the run: chat, completions, log-likelihoods, images."""

    type = "vllm"
    capabilities = frozenset(
        {"chat", "completion", "likelihood", "chat_likelihood", "tools", "images", "logprobs", "schema"}
    )

    def __init__(self, config: VLLMConfig, context: BackendContext) -> None:
        super().__init__(config, context)
        # An engine that gage starts queues what it cannot take at once.
        started = config.base_url is None
        limit = config.max_concurrency * (config.replicas if started else 1)
        self.limiter = Limiter(limit, adaptive=config.adaptive and not started)
        self._name = config.model or MODEL_NAME
        self._format = self._client()
        self._servers: list[_Server] = []
        self._engine: Engine[StartedServer] | Engine[HeldEngine] | None = None
        self._held: HeldEngine | None = None
        # Connections to the servers of a work pool, by token.
        self._connections: dict[str, _Server] = {}
        self._connecting = asyncio.Lock()
        # A request that was answered before; servers of a work pool come later.
        self._answered: tuple[Request, bytes] | None = None

    def engine_key(self) -> str | None:
        """A digest of the model's files and of the servers' arguments; None for a running server."""
        config = self.config
        if config.base_url is not None:
            return None
        if self.context.placement is not None:
            return self._spec()[0].key
        return digest(started_with(config, self.context, self.type))

    def _spec(self) -> tuple[ServingSpec, dict[str, bytes]]:
        """The engine for the machines of its work pool, and the files that travel there."""
        place, config = self.context.placement, self.config
        assert place is not None, "the run starts the engine itself"
        started = config.model_dump(mode="json", exclude_unset=True, exclude=_OF_REQUESTS)
        files = files_of(started, self.context.base_dir)
        digests = {name: sha256_hex(data) for name, data in files.items()}
        return ServingSpec(place.work_pool, self.type, started, place.gpus, self.model_material, digests), files

    @property
    def model_material(self) -> JsonValue:
        """Identity of the model's files, the same on all machines."""
        return model_identity(self.config, self.context, self.type)

    def identity(self) -> dict[str, JsonValue]:
        """The checkpoint and every semantic value; of a running server its URL, model and declared identity.

        Raises:
            InputError: the checkpoint is not there.
        """
        return {**super().identity(), **model_identity(self.config, self.context, self.type)}

    def _client(self) -> ServedClient:
        config = self.config
        thinking = {
            name: getattr(config, name)
            for name in ("reasoning_effort", "thinking_budget", "think_start", "think_end", "stop_after_thinking")
        }
        extra = {**thinking, "thinking_budget_field": THINKING_BUDGET}
        client = ServedClient(config, self.context, self.limiter, model=self._name, extra=extra)
        client.tells_token_ids = True
        return client

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The request body, as for an OpenAI-compatible endpoint; a likelihood's texts.

        Raises:
            InputError: a parameter would change what is asked of whom.
        """
        if request.kind == "likelihood":
            return likelihood_body(request, self.config.defaults)
        return self._format.body(request)

    @property
    def gpus(self) -> int:
        """How many GPUs its servers hold; 0 for a running server."""
        if self.context.placement is not None:
            return 0 if self._held is None else self._held.gpus
        return 0 if self.config.base_url is not None else self._needed().count

    def _needed(self) -> NeededGPUs:
        """The GPUs of this machine that servers here need, of those that the engine's own variables name."""
        return needed_gpus(self.config, replace(self.context, env={**self.context.env, **self.config.env}))

    def engine_version(self) -> str | None:
        """vLLM's version; None for a running server."""
        config = self.config
        return None if config.base_url is not None else installed_version("vllm", config.python, self.context.base_dir)

    def check_installed(self) -> None:
        """Check that the engine's library is where it will run."""
        if self.config.base_url is None and self.context.placement is None:
            check_engine("vllm", self.type, self.config.python, self.context.base_dir)

    async def open(self, log_folder: Path | None) -> None:
        """Start the servers and wait until their models are loaded, or find the running one.

        Raises:
            InputError: the interpreter, the model or the key is not there, or there are too few GPUs.
            EndpointFailed: a server ended or did not come up; the message ends with its last words.
        """
        config = self.config
        if config.base_url is not None:
            key = None if config.api_key is None else await asyncio.to_thread(self.context.secret, config.api_key)
            self._servers.append(await self._connected(Address(config.base_url, key), config.prefix_token_id))
        elif self.context.placement is not None:
            await self._hold()
        else:
            key = self.engine_key()
            assert key is not None, "servers that are started have a key"
            start = partial(self._start, log_folder, _LOOPBACK, None)
            started = await self.context.engines.use(key, start, self._needed())
            self._engine = started
            prefix = await asyncio.to_thread(lambda: self.prefix)
            for server in started.parts:
                address = Address(server.base_url, server.key, server.child.is_alive)
                self._servers.append(await self._connected(address, prefix, server.child))

    async def _hold(self) -> None:
        """Hold the engine on its work pool.

        Raises:
            GageError: it cannot be served.
        """
        pools = self.context.engines.pools
        assert pools is not None, "a run without a Prefect API refuses work pools"
        spec, files = await asyncio.to_thread(self._spec)
        held = await self.context.engines.use(spec.key, lambda _: pools.hold(spec, files))
        self._engine, self._held = held, held.parts[0]
        self._held.tell = pools.tell

    async def serve(self, host: str, certificate: Certificate | None) -> list[StartedServer]:
        """Start the servers for other machines.

        Args:
            host: the address of this machine that they listen at.
            certificate: what they show; None for plain HTTP.

        Raises:
            InputError, EndpointFailed: they do not start; none is left running.
        """
        return await self._start(None, host, certificate, devices(self.context.env))

    async def _start(
        self, log_folder: Path | None, host: str, certificate: Certificate | None, gpus: Sequence[str]
    ) -> list[StartedServer]:
        start = partial(self._start_one, host, certificate)
        return await start_replicas(self.config, self.context, self.type, log_folder, gpus, start)

    def _start_one(
        self, host: str, certificate: Certificate | None, replica: Replica
    ) -> tuple[Child, Awaitable[StartedServer]]:
        port, key, lora = hold_port(), secrets.token_urlsafe(24), replica.lora
        own = {
            "host": host,
            "port": port.number,
            "served_model_name": "base" if lora else MODEL_NAME,
            # A line for each request would make the log grow with the dataset.
            "disable_uvicorn_access_log": True,
        }
        if certificate is not None:
            own |= {"ssl_certfile": str(certificate.file), "ssl_keyfile": str(certificate.key_file)}
        adapters = {"enable_lora": True, "lora_modules": f"{MODEL_NAME}={lora}"} if lora else {}
        flags = _flags({**replica.arguments, **own, **adapters})
        child = Child(
            "vLLM's server",
            [replica.python, "-m", "vllm.entrypoints.openai.api_server", *flags],
            env={**replica.env, "VLLM_API_KEY": key},
            log=replica.log,
            hidden=(key,),
        )
        base_url = f"{'http' if certificate is None else 'https'}://{in_url(host)}:{port.number}/v1"
        server = StartedServer(child, base_url, key, None if certificate is None else certificate.pem)
        return child, self._ready(server, port)

    async def _ready(self, server: StartedServer, port: HeldPort) -> StartedServer:
        """The server, when its model is loaded."""
        child = server.child
        deadline = time.monotonic() + self.config.start_timeout
        # With the key: another process that took the port does not know it.
        headers = {"Authorization": f"Bearer {server.key}"}
        route = route_to(server.base_url, {}, server.certificate)
        client = HTTPClient(route, headers=headers, env={}, timeout_s=_LOOK_S, connect_timeout_s=_LOOK_S)
        try:
            while True:
                if not child.is_alive():
                    raise child.ended()
                if time.monotonic() > deadline:
                    raise await asyncio.to_thread(child.too_slow, self.config.start_timeout)
                if await client.status("models") == 200:
                    break
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            port.release()
            await client.close()
        return server

    async def _connected(self, address: Address, prefix: int | None, child: Child | None = None) -> _Server:
        client = self._client()
        await client.connect(address)
        if self._answered is not None:
            client.remember(*self._answered)
        root = client.endpoint_at(replace(address, base_url=address.base_url.rstrip("/").removesuffix("/v1")))
        await root.open()
        likelihoods = Likelihoods(client.endpoint, root, self._name, prefix, self.config.add_bos_token)
        return _Server(client, root, likelihoods, child)

    @property
    def prefix(self) -> int | None:
        """The token that replaces an empty likelihood context: the config's, else the checkpoint's BOS or EOS."""
        if self.config.prefix_token_id is not None:
            return self.config.prefix_token_id
        folder = find_checkpoint(self.config.model_path or "", self.context.base_dir, "model_path")
        return prefix_token(folder) if folder is not None else None

    async def call(self, request: Request, body: bytes) -> Response:
        """One answer of the server with the least to do; raises EndpointFailed with its last words when it died."""
        if is_empty(request):
            return skipped()
        if self._held is not None:
            return await self._call_on_pool(self._held, request, body)
        assert self._servers, "the backend is not open"
        server = min(self._servers, key=lambda server: server.active)
        try:
            return await self._ask(server, request, body)
        except EndpointFailed as error:
            if self._engine is not None:
                self._engine.failed = True
            if server.child is None or server.child.is_alive():
                raise
            raise EndpointFailed(f"{error} {server.child.last_words()}".strip()) from error

    def remember(self, request: Request, body: bytes) -> None:
        """See `Backend`."""
        self._answered = request, body
        for server in (*self._servers, *self._connections.values()):
            server.client.remember(request, body)

    async def _ask(self, server: _Server, request: Request, body: bytes) -> Response:
        server.active += 1
        try:
            if request.kind == "likelihood":
                return await server.likelihoods.answer(self.body(request))
            return await server.client.call(request, body)
        finally:
            server.active -= 1

    async def _call_on_pool(self, held: HeldEngine, request: Request, body: bytes) -> Response:
        """One answer of a server of the work pool."""

        async def pick() -> tuple[HeldEngine, HeldServer]:
            return held, min(await held.servers(), key=lambda server: len(server.calls))

        async def ask(announced: HeldServer) -> Response:
            return await self._ask(await self._connection(held, announced), request, body)

        return await until_answered(pick, ask)

    async def _connection(self, held: HeldEngine, announced: HeldServer) -> _Server:
        """The connections of this backend to an announced server."""

        def is_alive() -> bool:
            # Called when the server cannot be reached.
            held.look()
            return announced.lost is None

        async with self._connecting:
            token, prefix = announced.token, self.config.prefix_token_id
            if token not in self._connections:
                address = Address(announced.base_url, token, is_alive, announced.certificate)
                prefix = announced.prefix if prefix is None else prefix
                self._connections[token] = await self._connected(address, prefix)
            return self._connections[token]

    async def close(self) -> None:
        """Close the connections and release the servers that were started."""
        servers = [*self._servers, *self._connections.values()]
        self._servers, self._connections, self._held = [], {}, None
        for server in servers:
            await server.close()
        engine, self._engine = self._engine, None
        if engine is not None:
            await self.context.engines.release(engine)


def _flags(arguments: dict[str, Any]) -> list[str]:
    """Arguments as vLLM's command line takes them."""
    out: list[str] = []
    for name, value in arguments.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            out.append(flag)
        elif value is False:
            out.append(f"--no-{flag[2:]}")
        elif isinstance(value, list):
            out += [flag, *(item if isinstance(item, str) else canonical_text(item) for item in value)]
        elif value is not None:
            out += [flag, value if isinstance(value, str) else canonical_text(value)]
    return out
