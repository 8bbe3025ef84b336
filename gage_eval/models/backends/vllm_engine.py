"""Code that the backends `vllm` and `vllm_native` share: engine fields, arguments, and retries with less memory."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import field_validator, model_validator

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.base.errors import EndpointFailed
from gage_eval.base.marks import scheduling, semantic
from gage_eval.models.backends.base import BackendConfig, BackendContext
from gage_eval.models.backends.checkpoint import (
    CheckpointConfig,
    adapter,
    files_now,
    find_checkpoint,
    interpreter,
    located,
)
from gage_eval.models.backends.child import Child, watched
from gage_eval.models.backends.engines import EnginePart
from gage_eval.models.backends.gpus import devices
from gage_eval.models.backends.replicas import each_replica, start_together
from gage_eval.models.client.sampling import THINKING_BUDGET

PartT = TypeVar("PartT", bound=EnginePart)

LADDER = (0.7, 0.5)
MODEL_NAME = "model"
_CHUNK = 2048
# What a model of unknown context length surely takes.
_SMALLEST_CONTEXT = 1024
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemory|MemoryError|less than desired|bad_alloc|Cannot allocate memory", re.IGNORECASE
)
# What holds on Hopper too, where FlashAttention 3 does not (vLLM #47069), nor the sampler of FlashInfer (#51187).
_BATCH_INVARIANT = {"VLLM_BATCH_INVARIANT": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
_INVARIANT_ATTENTION = "TRITON_ATTN"
# Arguments that a field of the config or the backend sets.
_OURS = frozenset({
    "model", "tokenizer_revision", "host", "port", "uds", "api_key", "served_model_name", "ssl_keyfile", "ssl_certfile",
    "lora_modules", "enable_lora", "long_prefill_token_threshold", "hf_token", "disable_uvicorn_access_log",
})  # fmt: skip

_log = logging.getLogger(__name__)


class VLLMEngineConfig(CheckpointConfig):
    """A vLLM engine that is started for the run. Undeclared keys become arguments of the engine."""

    dtype: str = semantic("infer", "auto", description="auto, bfloat16, float16 or float32.")
    quantization: str | None = semantic("infer", None, description="How the weights are quantised, as vLLM names it.")
    reasoning_effort: str | None = semantic(
        "infer", None, min_length=1, description="How much the model thinks; a variable of its chat template."
    )
    thinking_budget: int | None = semantic(
        "infer", None, ge=0, description="Tokens the model may think; vLLM needs its reasoning_parser for that."
    )
    gpu_memory_utilization: float = scheduling(
        0.9, gt=0, le=1, description="Share of the GPU's memory; when it does not suffice, 0.7 and 0.5 are tried."
    )
    tensor_parallel_size: int = scheduling(1, ge=1, description="GPUs that one model is spread over.")
    data_parallel_size: int = scheduling(1, ge=1, description="Copies of the model within one engine.")
    enforce_eager: bool = scheduling(default=False, description="Start sooner, without compiled graphs.")
    prefill_chunk: int | None = scheduling(
        None,
        ge=16,
        description="Tokens of one prompt worked at once: bounds the memory of prompt log probabilities.",
    )
    env: dict[str, str] = scheduling({}, description="Environment variables of the engine.")
    max_concurrency: int = scheduling(
        1024, ge=1, le=65536, validation_alias=BackendConfig.model_fields["max_concurrency"].validation_alias,
        description="Requests in flight at once; by default as many as vLLM batches at most on a large GPU.",
    )  # fmt: skip

    @property
    def gpus_each(self) -> int:
        """How many GPUs one engine needs."""
        return self.tensor_parallel_size * self.data_parallel_size

    @property
    def defaults(self) -> dict[str, Any]:
        """Parameters of requests that do not set them, by vLLM's names."""
        own = {"reasoning_effort": self.reasoning_effort, THINKING_BUDGET: self.thinking_budget}
        return {**{name: value for name, value in own.items() if value is not None}, **self.default_params}

    @model_validator(mode="after")
    def _arguments_are_free(self) -> "VLLMEngineConfig":
        for name in self.model_extra or {}:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise ValueError(f"'{name}' is not an argument of vLLM: they are written like max_num_seqs")
            if name in _OURS:
                raise ValueError(f"'{name}' is set by gage-eval itself: remove it")
        return self

    @property
    def engine_env(self) -> dict[str, str]:
        """Environment variables of the engine."""
        return {**(_BATCH_INVARIANT if self.deterministic else {}), **self.env}

    @model_validator(mode="after")
    def _asks_for_one_mode(self) -> "VLLMEngineConfig":
        for name, value in _BATCH_INVARIANT.items():
            if self.deterministic and self.env.get(name, value) != value:
                raise ValueError(f"deterministic: true needs {name}={value}: remove it from env")
        return self

    @field_validator("env")
    @classmethod
    def _no_literal_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if re.search(r"KEY|TOKEN|SECRET|PASSWORD", name, re.IGNORECASE):
                raise ValueError(f"{name} may be a secret: set it in the environment, which the engine inherits")
        return value


@dataclass(frozen=True)
class Replica:
    """The settings that one engine of a config is started with.

    Attributes:
        python: its interpreter.
        arguments: its arguments by vLLM's names, with its share of memory and without adapters.
        lora: folder of the adapter.
        env: its environment.
        log: the file of its log.
    """

    python: str
    arguments: dict[str, Any]
    lora: str | None
    env: dict[str, str]
    log: Path | None


async def start_replicas(
    config: VLLMEngineConfig,
    context: BackendContext,
    type_: str,
    log_folder: Path | None,
    gpus: Sequence[str],
    start: Callable[[Replica], tuple[Child, Awaitable[PartT]]],
) -> list[PartT]:
    """Start the engines of a config at once. One that runs out of memory is started again with a smaller share of it.

    Args:
        config: of the backend.
        context: of the backend.
        type_: the backend's type.
        log_folder: where the engines write their logs.
        gpus: the GPUs that the engines share; none for those that the environment names.
        start: spawns one engine; its awaitable is done when the model is loaded.

    Raises:
        InputError: the interpreter, the model or the adapter is not there.
        EndpointFailed: an engine does not start; the others are ended.
    """
    arguments = _arguments(config, context, type_)
    python = interpreter(config.python, context.base_dir)
    lora = adapter(config, context, type_)
    env = {**context.env, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", **config.engine_env}

    async def start_one(variables: dict[str, str], log: Path | None) -> PartT:
        def with_share(share: float) -> tuple[Child, Awaitable[PartT]]:
            return start(
                Replica(python, {**arguments, "gpu_memory_utilization": share}, lora, {**env, **variables}, log)
            )

        return await _down_the_ladder(config.gpu_memory_utilization, with_share, context.engines.out_of_memory)

    return await start_together(start_one(*own) for own in each_replica(config.replicas, gpus, log_folder, type_))


def _arguments(config: VLLMEngineConfig, context: BackendContext, type_: str) -> dict[str, Any]:
    """Arguments of the engine by vLLM's names, without its share of memory and adapters."""
    assert config.model_path is not None, "a server that runs already takes no arguments"
    setting = f"{type_}: config.model_path"
    folder = find_checkpoint(config.model_path, context.base_dir, setting)
    arguments: dict[str, Any] = {
        "model": located(config.model_path, context, setting),
        "dtype": config.dtype,
        "tensor_parallel_size": config.tensor_parallel_size,
        "data_parallel_size": config.data_parallel_size,
        "long_prefill_token_threshold": config.prefill_chunk or _chunk(config, folder),
    }
    for name in ("revision", "quantization", "max_model_len", "trust_remote_code", "enforce_eager"):
        if value := getattr(config, name):
            arguments[name] = value
    if config.deterministic and devices({**context.env, **config.env}):
        arguments["attention_backend"] = _INVARIANT_ATTENTION
    return {**arguments, **(config.model_extra or {})}


def started_with(config: VLLMEngineConfig, context: BackendContext, type_: str) -> JsonValue:
    """Everything that determines the engines of a config: the model's files, arguments, and environment."""
    return [
        type_,
        files_now(context.base_dir, config.model_path, config.lora_path),
        interpreter(config.python, context.base_dir),
        _arguments(config, context, type_),
        adapter(config, context, type_),
        {
            "gpu_memory_utilization": config.gpu_memory_utilization,
            "replicas": config.replicas,
            "env": config.engine_env,
        },
    ]


def _chunk(config: VLLMEngineConfig, folder: Path | None) -> int:
    """Tokens of a prompt that are worked at once: their log probabilities are as many vectors over the vocabulary."""
    known = config.max_model_len
    if known is None and folder is not None and (folder / "config.json").is_file():
        values = decode((folder / "config.json").read_bytes())
        texts = values.get("text_config", values) if isinstance(values, dict) else {}
        known = texts.get("max_position_embeddings") if isinstance(texts, dict) else None
    return min(_CHUNK, known if isinstance(known, int) else _SMALLEST_CONTEXT)


def is_out_of_memory(text: str) -> bool:
    """Whether an engine's log says that it got less memory than it asked for."""
    return _OUT_OF_MEMORY.search(text) is not None


async def _down_the_ladder(
    share: float,
    start: Callable[[float], tuple[Child, Awaitable[PartT]]],
    out_of_memory: Callable[[str, float, float], None],
) -> PartT:
    """Start an engine with its share of memory, and with less when that is not there.

    Args:
        share: the first share tried.
        start: spawns the engine with a share; its awaitable is done when the model is loaded.
        out_of_memory: called before the next share is tried, with the engine's name and both shares.

    Raises:
        EndpointFailed: it does not start, even with the smallest share, or for another reason.
    """
    shares = [share, *(less for less in LADDER if less < share)]
    for attempt, utilization in enumerate(shares):
        child, loaded = start(utilization)
        try:
            return await watched(child, loaded)
        except EndpointFailed as error:
            await _stopped(child)
            if not is_out_of_memory(child.output()):
                raise
            if attempt + 1 == len(shares):
                tried = ", ".join(f"{value:g}" for value in shares)
                raise EndpointFailed(
                    f"{child.name} ran out of memory with gpu_memory_utilization {tried}. {child.last_words()} "
                    "Take a larger tensor_parallel_size, a smaller max_model_len, or a quantised model."
                ) from error
            message = "%s ran out of memory with gpu_memory_utilization %g; trying %g."
            _log.warning(message, child.name, utilization, shares[attempt + 1])
            out_of_memory(child.name, utilization, shares[attempt + 1])
        except BaseException:
            await _stopped(child)
            raise
    raise AssertionError("the ladder has a step at least")


async def _stopped(child: Child) -> None:
    await asyncio.to_thread(child.stop)
