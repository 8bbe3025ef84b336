"""The block of a vLLM engine."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from blocks.described import DOCUMENTATION, BackendBlock


class VLLMEngine(BackendBlock):
    """A model that a run serves itself with vLLM, on the GPUs of its worker or of a work pool.

    Name it in a config or a form. An empty field leaves the decision to vLLM.

    Example:
        Use it in a config:
        ```yaml
        backends:
          - block: my-engine
            config: {max_model_len: 8192}
        ```
    """

    _block_type_name = "vLLM Engine"
    _block_type_slug = "vllm-engine"
    _documentation_url = DOCUMENTATION  # type: ignore[assignment]

    BACKEND = "vllm"
    REQUIRED = ("model_path",)

    model_path: str = Field("", title="Model", description="A folder that the worker sees, or a name on the hub.")
    revision: str = Field("", title="Revision", description="Commit of the model on the hub.")
    dtype: str = Field("", title="Type of numbers", description="auto, bfloat16, float16 or float32.")
    quantization: str = Field("", title="Quantization", description="How the weights are quantised, as vLLM names it.")
    max_model_len: int = Field(0, ge=0, title="Context", description="Tokens of prompt and answer together.")
    tensor_parallel_size: int = Field(0, ge=0, title="Tensor parallel", description="GPUs of one model.")
    replicas: int = Field(0, ge=0, title="Replicas", description="Engines, each with its own GPUs.")
    gpu_memory_utilization: float = Field(0, ge=0, le=1, title="GPU memory", description="Share of it that is used.")
    enforce_eager: bool = Field(default=False, title="Eager", description="Start sooner, without compiled graphs.")

    def config(self, name: str) -> Mapping[str, Any]:
        own = set(VLLMEngine.model_fields) - set(BackendBlock.model_fields)
        return {field: value for field in sorted(own) if (value := getattr(self, field))}
