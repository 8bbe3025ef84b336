"""The block of a model behind an endpoint."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, SecretStr

from blocks.described import DOCUMENTATION, BackendBlock


class ModelEndpoint(BackendBlock):
    """A model behind an OpenAI-compatible server, with the key to it.

    Name it in a config or a form. The key is read when the run opens the endpoint. It is in no config, record or log.

    Example:
        Use it in a config:
        ```yaml
        backends:
          - block: my-endpoint
        ```
    """

    _block_type_name = "Model Endpoint"
    _block_type_slug = "model-endpoint"
    _documentation_url = DOCUMENTATION  # type: ignore[assignment]

    BACKEND = "openai_http"
    REQUIRED = ("base_url",)

    base_url: str = Field("", title="URL", description="URL of the server, up to and with /v1.")
    model: str = Field("", title="Model", description="Name of the model at the server; a run may name another.")
    api_key: SecretStr = Field(SecretStr(""), title="API key", description="Empty for a server that asks for none.")
    max_concurrency: int = Field(0, ge=0, title="Concurrency", description="Requests in flight; 0 for the default.")
    requests_per_minute: float = Field(0, ge=0, title="Requests a minute", description="0 for no limit.")
    tokens_per_minute: float = Field(0, ge=0, title="Tokens a minute", description="0 for no limit.")

    def config(self, name: str) -> Mapping[str, Any]:
        names = ("base_url", "model", "max_concurrency", "requests_per_minute", "tokens_per_minute")
        values = {field: value for field in names if (value := getattr(self, field))}
        key = {"api_key": f"block:{self.get_block_type_slug()}/{name}"} if self.api_key.get_secret_value() else {}
        return {**values, **key}
