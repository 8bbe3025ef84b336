"""Backends on the small model of the second environment."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import encode
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import Backend
from gage_eval.models.client.types import Request, Response

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
MODEL = ROOT / "build" / "smollm2-135m"
# The engine's share of this machine is given in GB; graphs are not worth compiling for a few requests. The engines of
# two processes that run tests would bind their threads to the same CPU.
CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
VLLM = {"enforce_eager": True, "env": CPU}
# Threads that wait for each other are slower than one wherever anything else runs.
TRANSFORMERS = {"threads": 1}


def config_of(type_: str, dtype: str = "float32", **fields: Any) -> dict[str, Any]:
    """A backend's config for the small model."""
    shared = {"model_path": str(MODEL), "python": str(PYTHON), "dtype": dtype, "max_model_len": 1024}
    return {**shared, **(VLLM if type_.startswith("vllm") else TRANSFORMERS), **fields}


@dataclass
class Session:
    """An open backend, and the runtime it runs on."""

    runtime: Runtime
    backend: Backend

    def ask(self, *requests: Request) -> list[Response]:
        """The responses to requests that are under way together."""

        async def all_of() -> list[Response]:
            return await asyncio.gather(*(self._one(request) for request in requests))

        return self.runtime.call(all_of())

    async def _one(self, request: Request) -> Response:
        async with self.backend.limiter:
            return await self.backend.call(request, encode(self.backend.body(request)))


Opener = Callable[..., Session]


PAIRS = [
    ["The capital of France is", " Paris"],
    ["The capital of France is ", " a very large city in the north"],
    ["Question: Is the sky blue?\nAnswer:", " yes"],
    ["", "Once upon a time there was a king."],
    ["2 + 2 =\n", "4"],
]
QUESTION = {"role": "user", "content": "What is the capital of France?"}
IN_CHAT = [
    [[QUESTION], "Paris"],
    [[{"role": "system", "content": "Be brief."}, QUESTION], "It is Paris."],
    [[QUESTION, {"role": "assistant", "content": "The capital is"}], " Paris"],
]
CHATS = ["What is the capital of France?", "Name a colour.", "Is the sky blue? Answer yes or no.", "Count to five."]
