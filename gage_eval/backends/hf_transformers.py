"""Hugging Face transformers in a process and interpreter of its own: text models, and models that see."""

import os
import re
from pathlib import Path

from pydantic import field_validator

from gage_eval import registry
from gage_eval.backends.base import BackendConfig, ThinkingConfig
from gage_eval.backends.checkpoint import checkpoint_identity, find_checkpoint, interpreter
from gage_eval.backends.child import log_file, watched
from gage_eval.backends.engine_backend import EngineBackend
from gage_eval.backends.engine_worker import Worker
from gage_eval.backends.worker import on_transformers
from gage_eval.canonical import JsonValue
from gage_eval.marks import identity, scheduling, semantic


class TransformersConfig(ThinkingConfig):
    """A model run by transformers. Undeclared keys become arguments of from_pretrained."""

    model_path: str = identity("infer", min_length=1, description="The model's folder, or its name on the hub.")
    revision: str | None = semantic("infer", None, description="Revision of a model on the hub.")
    dtype: str = semantic(
        "infer", "auto", pattern="auto|bfloat16|float16|float32", description="auto, bfloat16, float16 or float32."
    )
    max_model_len: int | None = semantic("infer", None, ge=8, description="Tokens of prompt and answer together.")
    lora_path: str | None = identity("infer", None, description="Folder of a LoRA adapter; needs peft.")
    trust_remote_code: bool = semantic("infer", default=False, description="Run code that comes with the model.")
    add_bos_token: bool = semantic(
        "infer", default=False, description="Begin likelihood contexts with the tokenizer's special tokens."
    )
    prefix_token_id: int | None = semantic(
        "infer", None, ge=0, description="Token that stands for an empty likelihood context; by default BOS, else EOS."
    )
    batch_size: int = scheduling(16, ge=1, le=4096, description="Requests computed together; halved out of memory.")
    max_concurrency: int = scheduling(
        64, ge=1, le=65536, validation_alias=BackendConfig.model_fields["max_concurrency"].validation_alias,
        description="Requests that wait at the engine, to be batched by length.",
    )  # fmt: skip
    device: str | None = scheduling(None, description="cpu, cuda, cuda:1, …; by default a GPU if there is one.")
    threads: int | None = scheduling(None, ge=1, description="CPU threads; by default what torch takes.")
    python: str | None = scheduling(None, description="Interpreter that has torch; by default this one.")
    start_timeout: float = scheduling(1800.0, gt=0, description="Seconds for loading the model.")

    @field_validator("device")
    @classmethod
    def _is_device(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[a-z]+(:\d+)?", value):
            raise ValueError(f"'{value}' is no device: cpu, cuda or cuda:1")
        return value


@registry.backends.register("transformers", version=1, config=TransformersConfig)
class Transformers(EngineBackend[TransformersConfig]):
    """A text model run by transformers: chat, completions, log-likelihoods."""

    type = "transformers"
    capabilities = frozenset({"chat", "completion", "likelihood", "chat_likelihood"})

    def identity(self) -> dict[str, JsonValue]:
        """The checkpoint's content, the adapter's, and every semantic value.

        Raises:
            InputError: one of them is not there.
        """
        config, context = self.config, self.context
        found = super().identity()
        for name, path, revision in (
            ("model", config.model_path, config.revision),
            ("lora", config.lora_path, None),
        ):
            if path is not None:
                place = f"{self.type}: config.{name}_path"
                found[name] = checkpoint_identity(path, revision, context.base_dir, context.env, place)
        return found

    async def open(self, log_folder: Path | None) -> None:
        """Start the worker and wait until the model is loaded.

        Raises:
            InputError: the interpreter or the model is not there.
            EndpointFailed: the worker ended or did not come up; the message ends with its last words.
        """
        config, base = self.config, self.context.base_dir
        worker = Worker(
            f"{self.type}' worker",
            interpreter(config.python, base),
            {
                "engine": on_transformers.load.__module__,
                "vision": "images" in self.capabilities,
                "model": self._path(config.model_path, "model_path"),
                "lora": None if config.lora_path is None else self._path(config.lora_path, "lora_path"),
                "arguments": config.model_extra or {},
                "prefix": config.prefix_token_id,
                **config.model_dump(
                    include={
                        "revision", "dtype", "max_model_len", "trust_remote_code", "add_bos_token", "batch_size",
                        "device", "threads",
                    }
                ),
            },
            {**self.context.env, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1"},
            log_file(log_folder, self.type),
        )  # fmt: skip
        self._workers.append(worker)
        await watched(worker.child, worker.ready(config.start_timeout))

    def _path(self, path: str, field: str) -> str:
        folder = find_checkpoint(path, self.context.base_dir, f"{self.type}: config.{field}")
        return path if folder is None else os.path.abspath(folder)


@registry.backends.register("vlm_transformers", version=1, config=TransformersConfig)
class VLMTransformers(Transformers):
    """A model that sees, run by transformers: chat with images, completions, log-likelihoods of texts."""

    type = "vlm_transformers"
    capabilities = frozenset({"chat", "completion", "likelihood", "chat_likelihood", "images", "files"})
