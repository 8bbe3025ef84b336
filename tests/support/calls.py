"""Single calls of a backend, outside any run."""

import asyncio
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import encode
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import Backend, BackendContext
from gage_eval.models.client.types import Request, Response


def chat(number: int, **params: Any) -> Request:
    """A request for a sum, which the mock endpoint knows the truth of."""
    messages = [{"role": "user", "content": f"What is {number} + 1?"}]
    return Request("chat", messages=messages, params=params, sample_id=str(number), row_index=number)


def ask(runtime: Runtime, backend: Backend, requests: list[Request]) -> list[Response]:
    """The responses to some requests, asked at once as far as the backend takes them."""

    async def one(request: Request) -> Response:
        async with backend.limiter:
            return await backend.call(request, encode(backend.body(request)))

    async def everything() -> list[Response]:
        return await asyncio.gather(*(one(request) for request in requests))

    return runtime.call(everything())


def connect(runtime: Runtime, url: str, env: dict[str, str] | None = None, **config: Any) -> Backend:
    """An open backend at an endpoint."""
    context = BackendContext(Path(), env=env or {})
    return runtime.backend("openai_http", {"base_url": url, "model": "mock", **config}, context)
