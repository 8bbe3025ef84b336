"""Deterministic answers without a model, for tests, demonstrations and dry runs."""

import asyncio
import hashlib
from typing import Literal

from pydantic import model_validator

from gage_eval.base.marks import scheduling, semantic
from gage_eval.extend import registry
from gage_eval.models.backends.asked import is_empty, last_text, skipped
from gage_eval.models.backends.base import BackendConfig, BaseBackend
from gage_eval.models.client.types import Request, Response


class DummyConfig(BackendConfig):
    """What the dummy answers, and which rows it fails."""

    mode: Literal["fixed", "echo", "choice"] = semantic(
        "infer",
        "fixed",
        description="fixed: `answer`; echo: the prompt; choice: one of `choices` by the prompt.",
    )
    answer: str = semantic("infer", "dummy", description="The answer of mode fixed.")
    choices: list[str] = semantic("infer", ["A", "B", "C", "D"], description="The answers of mode choice.")
    seed: int = semantic("infer", 0, description="Another seed, other choices.")
    latency_ms: float = scheduling(0.0, ge=0, description="How long an answer takes.")
    error_rate: float = scheduling(0.0, ge=0, le=1, description="Share of prompts that end in an error row.")
    fail_sample_ids: list[str] = scheduling([], description="Samples that end in an error row.")

    @model_validator(mode="after")
    def _some_choice(self) -> "DummyConfig":
        if self.mode == "choice" and not self.choices:
            raise ValueError("mode choice needs at least one of 'choices'")
        return self


@registry.backends.register("dummy", version=1, config=DummyConfig)
class Dummy(BaseBackend[DummyConfig]):
    """Deterministic answers without a model or a network."""

    type = "dummy"
    capabilities = frozenset({"chat", "completion", "tools", "images", "schema"})

    async def call(self, request: Request, body: bytes) -> Response:
        """The answer the config says; the same request always gets the same."""
        if is_empty(request):
            return skipped()
        if self.config.latency_ms:
            await asyncio.sleep(self.config.latency_ms / 1000.0)
        text = last_text(request)
        if request.sample_id in self.config.fail_sample_ids or _unit("fail", text) < self.config.error_rate:
            return Response("error", error_kind="dummy", attempts=1, errors=["the dummy was told to fail"])
        answer = self._answer(text, request.draw)
        return Response(
            "ok",
            answer=answer,
            finish_reason="stop",
            prompt_tokens=len(text.split()),
            completion_tokens=len(answer.split()),
            latency_ms=self.config.latency_ms,
            attempts=1,
        )

    def _answer(self, text: str, draw: int) -> str:
        if self.config.mode == "echo":
            return text
        if self.config.mode == "fixed":
            return self.config.answer
        share = _unit(f"{self.config.seed}.{draw}", text)
        return self.config.choices[int(share * len(self.config.choices))]


def _unit(salt: str, text: str) -> float:
    """A number in 0..1 (1 excluded) that depends on salt and text only."""
    hashed = hashlib.sha256(f"{salt}\0{text}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(hashed[:6]) / 2**48
