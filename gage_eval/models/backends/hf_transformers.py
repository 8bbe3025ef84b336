"""Hugging Face transformers in its own process and interpreter: text models and vision models."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator, model_validator

from gage_eval.base.canonical import digest
from gage_eval.base.marks import identity, scheduling, semantic
from gage_eval.extend import registry
from gage_eval.models.backends.base import BackendConfig
from gage_eval.models.backends.checkpoint import CheckpointConfig, adapter, files_now, interpreter, located
from gage_eval.models.backends.child import watched
from gage_eval.models.backends.engine_backend import EngineBackend
from gage_eval.models.backends.engine_worker import Worker
from gage_eval.models.backends.gpus import NeededGPUs, devices
from gage_eval.models.backends.replicas import each_replica, start_together
from gage_eval.models.backends.worker import on_transformers


class TransformersConfig(CheckpointConfig):
    """A model run by transformers. Undeclared keys become arguments of from_pretrained."""

    model_path: str = identity("infer", min_length=1, description="The model's folder, or its name on the hub.")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = semantic(
        "infer", "auto", description="auto, bfloat16, float16 or float32."
    )
    batch_size: int = scheduling(16, ge=1, le=4096, description="Requests computed together; halved out of memory.")
    max_concurrency: int = scheduling(
        64, ge=1, le=65536, validation_alias=BackendConfig.model_fields["max_concurrency"].validation_alias,
        description="Requests that wait at the engine, to be batched by length.",
    )  # fmt: skip
    device: str | None = scheduling(None, description="cpu, cuda, cuda:1, …; by default a GPU if there is one.")
    threads: int | None = scheduling(None, ge=1, description="CPU threads; by default what torch takes.")

    @model_validator(mode="after")
    def _no_image_sizes(self) -> "TransformersConfig":
        # from_pretrained would refuse them, after the data are loaded.
        for name in ("min_pixels", "max_pixels"):
            if name in (self.model_extra or {}):
                raise ValueError(f"'{name}' is not set here: write image_{name} in the dataset's params")
        return self

    @model_validator(mode="after")
    def _one_at_a_time(self) -> "TransformersConfig":
        if self.deterministic and "batch_size" in self.model_fields_set and self.batch_size > 1:
            raise ValueError("deterministic: true needs batch_size: 1, because a batch is computed together")
        return self

    @field_validator("device")
    @classmethod
    def _is_device(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[a-z]+(:\d+)?", value):
            raise ValueError(f"'{value}' is not a device: cpu, cuda or cuda:1")
        return value


@registry.backends.register("transformers", version=3, config=TransformersConfig)
class Transformers(EngineBackend[TransformersConfig]):
    """A text model run by transformers: chat, completions, log-likelihoods."""

    ENDS_LOOPS = False
    LIBRARY = "transformers"
    type = "transformers"
    capabilities = frozenset({"chat", "completion", "likelihood", "chat_likelihood"})

    def _needed(self) -> NeededGPUs:
        kind, _, number = (self.config.device or "cuda").partition(":")
        gpus = devices(self.context.env)
        if kind != "cuda":
            return NeededGPUs()
        if number:
            # A number that does not exist is the engine's to refuse.
            return NeededGPUs(named := gpus[int(number) : int(number) + 1], len(named))
        if self.config.replicas == 1 and "device_map" in (self.config.model_extra or {}):
            return NeededGPUs(gpus, len(gpus))
        return super()._needed()

    def engine_key(self) -> str:
        """A digest of the model's files, the interpreter, and what the worker reads first."""
        files = files_now(self.context.base_dir, self.config.model_path, self.config.lora_path)
        return digest([self.type, files, self._interpreter(), self._options(), self.config.replicas])

    def _interpreter(self) -> str:
        return interpreter(self.config.python, self.context.base_dir)

    def _options(self) -> dict[str, Any]:
        config, context = self.config, self.context
        return {
            "engine": on_transformers.load.__module__,
            "vision": "images" in self.capabilities,
            "model": located(config.model_path, context, f"{self.type}: config.model_path"),
            "lora": adapter(config, context, self.type),
            "arguments": config.model_extra or {},
            "prefix": config.prefix_token_id,
            **config.model_dump(
                include={
                    "revision", "dtype", "max_model_len", "trust_remote_code", "add_bos_token", "device", "threads",
                }
            ),
            "batch_size": 1 if config.deterministic else config.batch_size,
        }  # fmt: skip

    async def _start(self, log_folder: Path | None, gpus: Sequence[str]) -> list[Worker]:
        # The number of a device counts among all GPUs that the environment names.
        shared = () if ":" in (self.config.device or "") else gpus
        replicas = each_replica(self.config.replicas, shared, log_folder, self.type)
        return await start_together(self._start_one(*replica) for replica in replicas)

    async def _start_one(self, variables: Mapping[str, str], log: Path | None) -> Worker:
        quiet = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1"}
        env = {**self.context.env, **quiet, **variables}
        worker = Worker(f"{self.type}' worker", self._interpreter(), self._options(), env, log)
        return await watched(worker.child, worker.ready(self.config.start_timeout))


@registry.backends.register("vlm_transformers", version=3, config=TransformersConfig)
class VLMTransformers(Transformers):
    """A model that sees, run by transformers: chat with images, completions, log-likelihoods of texts."""

    type = "vlm_transformers"
    capabilities = frozenset({"chat", "completion", "likelihood", "chat_likelihood", "images", "files"})
