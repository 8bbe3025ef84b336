"""vLLM's offline engine in its own process and interpreter, fed continuously."""

from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import model_validator

from gage_eval.base.canonical import digest
from gage_eval.extend import registry
from gage_eval.models.backends.child import Child
from gage_eval.models.backends.engine_backend import EngineBackend
from gage_eval.models.backends.engine_worker import Worker
from gage_eval.models.backends.vllm_engine import Replica, VLLMEngineConfig, start_replicas, started_with
from gage_eval.models.backends.worker import on_vllm


class VLLMNativeConfig(VLLMEngineConfig):
    """vLLM's offline engine. Undeclared keys become arguments of the engine."""

    @model_validator(mode="after")
    def _a_model(self) -> "VLLMNativeConfig":
        if self.model_path is None:
            raise ValueError("set model_path: the model's folder, or its name on the hub")
        return self


@registry.backends.register("vllm_native", version=2, config=VLLMNativeConfig)
class VLLMNative(EngineBackend[VLLMNativeConfig]):
    """vLLM's offline engine: chat, completions, log-likelihoods, images."""

    LIBRARY = "vllm"
    type = "vllm_native"
    capabilities = frozenset({"chat", "completion", "likelihood", "chat_likelihood", "images", "files", "logprobs"})

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The config's parameters, and what it says of thinking."""
        return self.config.defaults

    def engine_key(self) -> str:
        """A digest of the model's files and of the engines' arguments."""
        config = self.config
        return digest([started_with(config, self.context, self.type), config.prefix_token_id, config.add_bos_token])

    async def _start(self, log_folder: Path | None, gpus: Sequence[str]) -> list[Worker]:
        return await start_replicas(self.config, self.context, self.type, log_folder, gpus, self._start_one)

    def _start_one(self, replica: Replica) -> tuple[Child, Awaitable[Worker]]:
        config = self.config
        worker = Worker(
            "vLLM's engine",
            replica.python,
            {
                "engine": on_vllm.load.__module__,
                "arguments": replica.arguments,
                "lora": replica.lora,
                "prefix": config.prefix_token_id,
                "add_bos_token": config.add_bos_token,
            },
            replica.env,
            replica.log,
        )
        return worker.child, worker.ready(config.start_timeout)
