"""The base of backends whose engine runs in a worker process: requests, media, thinking, and the engine's end."""

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.data.sample.rules import RESERVED_PARAMS
from gage_eval.models.backends.asked import is_empty, skipped
from gage_eval.models.backends.base import BackendContext, BaseBackend
from gage_eval.models.backends.checkpoint import CheckpointConfig, check_engine, installed_version, model_identity
from gage_eval.models.backends.engine_worker import Worker
from gage_eval.models.backends.engines import Engine
from gage_eval.models.backends.gpus import NeededGPUs
from gage_eval.models.backends.media import holds_parts, part_types, with_media
from gage_eval.models.backends.replicas import needed_gpus
from gage_eval.models.backends.thinking import take_thinking
from gage_eval.models.client.limiter import Limiter
from gage_eval.models.client.token_steps import store_tokens
from gage_eval.models.client.types import Request, Response

ConfigT = TypeVar("ConfigT", bound=CheckpointConfig)


class EngineBackend(BaseBackend[ConfigT], Generic[ConfigT]):
    """An engine in a worker, or several that share the requests.

    Attributes:
        LIBRARY: the package of the engine.
    """

    LIBRARY: ClassVar[str]

    def __init__(self, config: ConfigT, context: BackendContext) -> None:
        super().__init__(config, context)
        self.limiter = Limiter(config.max_concurrency * config.replicas)
        self._engine: Engine[Worker] | None = None

    def identity(self) -> dict[str, JsonValue]:
        """The content of the checkpoint and of the adapter, and every semantic value.

        Raises:
            InputError: one of them is not there.
        """
        return {**super().identity(), **model_identity(self.config, self.context, self.type)}

    def engine_version(self) -> str | None:
        """The version of the engine's library."""
        return installed_version(self.LIBRARY, self.config.python, self.context.base_dir)

    def check_installed(self) -> None:
        """Check that the engine's library is where it will run."""
        check_engine(self.LIBRARY, self.type, self.config.python, self.context.base_dir)

    @abstractmethod
    def engine_key(self) -> str:
        """A digest of everything that the workers are started with."""

    def _needed(self) -> NeededGPUs:
        """The GPUs of this machine that the workers need."""
        return needed_gpus(self.config, self.context)

    @property
    def gpus(self) -> int:
        """How many GPUs of this machine its engines hold."""
        return self._needed().count

    @abstractmethod
    async def _start(self, log_folder: Path | None, gpus: Sequence[str]) -> Sequence[Worker]:
        """Start workers on these GPUs and wait until their models are loaded. If that fails, none is left running."""

    async def open(self, log_folder: Path | None) -> None:
        """Use the engine, which is started unless it runs already.

        Raises:
            InputError: the interpreter or the model is not there, or there are too few GPUs.
            EndpointFailed: a worker ended or did not come up; the message ends with its last words.
        """
        self._engine = await self.context.engines.use(
            self.engine_key(), partial(self._start, log_folder), self._needed()
        )

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The request in plain form, as the worker gets it.

        Raises:
            InputError: a parameter would change what is asked.
        """
        for name in RESERVED_PARAMS:
            if name in request.params or name in self.config.default_params:
                raise InputError(f"parameter '{name}' is set by gage-eval itself: remove it.")
        return super().body(request)

    async def call(self, request: Request, body: bytes) -> Response:
        """One answer of the worker with the least to do; raises EndpointFailed when the engine ended."""
        engine = self._engine
        assert engine is not None, "the backend is not open"
        if is_empty(request):
            return skipped()
        payload = await asyncio.to_thread(self._asked, request) if _is_large(request) else self._asked(request)
        worker = min(engine.parts, key=lambda part: part.active)
        try:
            response = await worker.ask(payload, self.config.timeout)
        except EndpointFailed:
            engine.failed = True
            raise
        if response.answer:
            take_thinking(response, self.config, self.params(request).get("stop"))
        if response.logprobs is not None and request.kind != "likelihood":
            store_tokens(response, self.params(request))
        return response

    async def close(self) -> None:
        """Release the engine."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await self.context.engines.release(engine)

    def _asked(self, request: Request) -> Mapping[str, Any]:
        payload: dict[str, Any] = {"kind": request.kind}
        if request.kind == "likelihood":
            return {**payload, **self.body(request)}
        params = self.params(request)
        payload["params"] = {
            name: value for name, value in params.items() if name != "stop" or not self.config.stop_after_thinking
        }
        if request.kind != "chat":
            return {**payload, "prompt": request.prompt}
        messages = with_media(request, self.context, files="files" in self.capabilities)
        return {
            **payload,
            "messages": messages,
            "images": bool(part_types(messages) - {"text"}),
            "tools": request.tools,
        }


def _is_large(request: Request) -> bool:
    return request.kind == "chat" and holds_parts(request.messages or [])
