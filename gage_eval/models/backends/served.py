"""OpenAI-compatible servers that backends start, and their client."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gage_eval.models.backends.base import BackendConfig, BackendContext
from gage_eval.models.backends.child import Child
from gage_eval.models.backends.openai_http import OpenAIHTTP, OpenAIHTTPConfig
from gage_eval.models.client.limiter import Limiter

# The fields of a backend's config that its client has as well.
_SHARED = (
    *("default_params", "max_concurrency", "timeout", "connect_timeout", "max_attempts", "max_elapsed_s"),
    *("requests_per_minute", "tokens_per_minute", "idle_timeout", "give_up_after", "media_source"),
)


@dataclass(frozen=True)
class StartedServer:
    """A server that was started.

    Attributes:
        child: its process.
        base_url: where it listens, up to and with /v1.
        key: what it asks of its callers.
        certificate: the certificate (PEM) that it shows; None for one that speaks plain HTTP.
    """

    child: Child
    base_url: str
    key: str = field(repr=False)
    certificate: str | None = field(default=None, repr=False)

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.child.is_alive()

    async def close(self) -> None:
        """End its process."""
        await asyncio.to_thread(self.child.stop)


def in_url(host: str) -> str:
    """An address as a URL has it."""
    return f"[{host}]" if ":" in host else host


class ServedClient(OpenAIHTTP):
    """The HTTP client of a server whose URL and key are known only once it runs.

    Args:
        config: the backend's; its limits and parameters are the client's.
        context: the backend's.
        limiter: the backend's, which its calls hold a permit of.
        model: the name the server knows the model by.
        extra: fields of every request body.
    """

    def __init__(
        self,
        config: BackendConfig,
        context: BackendContext,
        limiter: Limiter,
        *,
        model: str,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        client = OpenAIHTTPConfig(
            base_url="http://127.0.0.1",
            model=model,
            **{name: getattr(config, name) for name in _SHARED if hasattr(config, name)},
            **(extra or {}),
        )
        super().__init__(client, context)
        self.limiter = limiter
