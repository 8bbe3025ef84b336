"""What all backends of models at an OpenAI-compatible HTTP API share: address, name, key and limits."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import model_validator

from gage_eval.base.errors import InputError
from gage_eval.base.marks import scheduling, semantic
from gage_eval.data.sample.rules import RESERVED_PARAMS
from gage_eval.models.backends.base import BackendContext, BaseBackend, KeyedConfig
from gage_eval.models.client.http import HTTPEndpoint
from gage_eval.models.client.limiter import Limiter
from gage_eval.models.client.pace import Rates
from gage_eval.models.client.types import Request

OPENAI = "https://api.openai.com/v1"
_RESERVED = frozenset(RESERVED_PARAMS)


class HTTPModelConfig(KeyedConfig):
    """A model at an HTTP API. Undeclared keys become fields of every request body."""

    SENDS_UNDECLARED = True

    base_url: str = semantic("infer", OPENAI, description="The part of the URL before /chat/completions.")
    model: str = semantic("infer", min_length=1, description="The model's name at the endpoint.")
    identity: str | None = semantic(
        "infer",
        None,
        description="What the endpoint runs (a revision, a date); a change asks for new answers.",
    )
    shared: bool = scheduling(
        default=False,
        description="All runs of the store share max_concurrency and the rates, instead of each having them.",
    )

    @model_validator(mode="after")
    def _no_reserved_parameters(self) -> "HTTPModelConfig":
        for where, names in (("default_params.", self.default_params), ("", self.model_extra or {})):
            for name in RESERVED_PARAMS:
                if name in names:
                    raise ValueError(f"{where}{name} is set by gage-eval itself: remove it")
        return self


HTTPModelConfigT = TypeVar("HTTPModelConfigT", bound=HTTPModelConfig)


@dataclass(frozen=True)
class Address:
    """Where an HTTP API is.

    Attributes:
        base_url: the part of the URL before the API's own paths.
        key: for its requests, if it wants one.
        is_alive: of a server whose process is known, whether it runs.
        certificate: the only one that it may show (PEM); None for those that this machine trusts.
    """

    base_url: str
    key: str | None = field(repr=False)
    is_alive: Callable[[], bool] | None = None
    certificate: str | None = field(default=None, repr=False)


class HTTPModel(BaseBackend[HTTPModelConfigT], Generic[HTTPModelConfigT]):
    """The base of backends of a model at an HTTP API."""

    def __init__(self, config: HTTPModelConfigT, context: BackendContext) -> None:
        super().__init__(config, context)
        self.limiter = Limiter(config.max_concurrency, adaptive=config.adaptive)
        self._endpoint: HTTPEndpoint | None = None
        self._rates: Rates | None = None
        # Secrets besides the key that the endpoint may repeat.
        self._hidden: tuple[str, ...] = ()

    def endpoint_at(self, address: Address, rates: Rates | None = None) -> HTTPEndpoint:
        """An HTTP API with the limits of this backend; not open yet."""
        return HTTPEndpoint(
            address.base_url,
            api_key=address.key,
            hidden=self._hidden,
            policy=self.config.retry_policy,
            timeout_s=self.config.timeout,
            connect_timeout_s=self.config.connect_timeout,
            idle_timeout_s=self.config.idle_timeout,
            env=self.context.env,
            certificate=address.certificate,
            is_alive=address.is_alive,
            limiter=self.limiter,
            rates=rates,
            give_up_after_s=self.config.give_up_after,
        )

    async def open(self, log_folder: Path | None) -> None:
        """Resolve the key and make the session. The first request shows whether the endpoint exists."""
        config = self.config
        reference = config.api_key
        if reference is None and config.base_url.startswith("https://api.openai.com/"):
            reference = "env:OPENAI_API_KEY"
        # In a thread: reading a block asks Prefect's API, which a running loop must not wait for.
        key = None if reference is None else await asyncio.to_thread(self.context.secret, reference)
        await self.connect(Address(config.base_url, key))

    async def close(self) -> None:
        """Close the session."""
        if self._endpoint is not None:
            await self._endpoint.close()

    def share_limits(self, permits: int, part: float) -> None:
        """Use only some permits and a part of the rates; called on the runtime's loop."""
        self.limiter.share(permits)
        if self._rates is not None:
            self._rates.share(part)

    async def connect(self, address: Address) -> None:
        """Talk to this HTTP API from here on."""
        self._rates = Rates(self.config.requests_per_minute, self.config.tokens_per_minute)
        self._endpoint = self.endpoint_at(address, self._rates)
        await self._endpoint.open()

    @property
    def endpoint(self) -> HTTPEndpoint:
        """The HTTP API."""
        assert self._endpoint is not None, "the backend is not open"
        return self._endpoint


def check_parameters(request: Request, names: Iterable[str]) -> None:
    """Refuse parameters that would change what is asked of whom (model, messages, stream, n, …).

    Raises:
        InputError: one of them is there.
    """
    if not _RESERVED.isdisjoint(names):
        name = next(name for name in RESERVED_PARAMS if name in names)
        raise InputError(f"sample '{request.sample_id}': parameter '{name}' is set by gage-eval itself: remove it.")
