"""The base of backends: the protocol, the fields of their configs, and what they share."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, ConfigDict, field_validator, model_validator

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, closest
from gage_eval.base.marks import identity, scheduling, semantic, semantic_values
from gage_eval.base.stages import Stage
from gage_eval.extend import registry
from gage_eval.models.backends.asked import likelihood_body, request_content
from gage_eval.models.backends.engines import Engines
from gage_eval.models.backends.placement import Placement
from gage_eval.models.client.limiter import Limiter
from gage_eval.models.client.retry import RetryPolicy
from gage_eval.models.client.route import UNIX
from gage_eval.models.client.sampling import REPETITION_DETECTION, THINKING_BUDGET
from gage_eval.models.client.types import KINDS, Request, Response
from gage_eval.store.wip import JobIds

_REFERENCE = re.compile(r"(env|block):[A-Za-z0-9_.\-/]+")
_SECRET_NAME = re.compile(
    r"(^|_)(api_?key|(access|auth|bearer|hf)_?token|secret(_key)?|password|authorization)$|^token$",
    re.IGNORECASE,
)


class Blocks(Protocol):
    """Blocks that a Prefect API stores for configs, by name."""

    def secret(self, name: str) -> str:
        """The value of ``block:NAME``.

        Raises:
            InputError: there is no such block.
        """
        ...

    def backend(self, name: str) -> Mapping[str, Any]:
        """The backend that a block describes: its ``type`` and its ``config``, with references in place of secrets.

        Raises:
            InputError: there is no such block, or it is not complete.
        """
        ...


def is_key_reference(text: str) -> bool:
    """Whether a text is ``env:NAME`` or ``block:name``."""
    return _REFERENCE.fullmatch(text) is not None


@dataclass(frozen=True)
class BackendContext:
    """What a backend may use from its run.

    Attributes:
        base_dir: folder that relative paths of the config are relative to.
        media: bytes of a ``media://`` URL; None where the run holds no media.
        media_file: the file that holds them, None where there is none on this machine.
        media_link: a URL of the store's server for one of them and its type; None where the run holds no media.
        keep: stores bytes that a model made, and returns their ``media://`` URL; None where there is no store.
        job_ids: the ids of an endpoint's jobs that earlier processes began; None where there is no store.
        env: environment variables, for ``env:NAME`` references and proxies.
        blocks: the blocks of the Prefect API; None without one.
        built: the built backends by type and config, so that each is built once; None to build a new one each time.
        engines: starts the engines of its backends; those that several runs share come from here.
        placement: the work pool that its engine is served on; None where the run starts it.
    """

    base_dir: Path = field(default_factory=Path)
    media: Callable[[str], bytes] | None = None
    env: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    blocks: Blocks | None = field(default=None, repr=False)
    media_file: Callable[[str], Path | None] = lambda url: None
    media_link: Callable[[str, str | None], str] | None = None
    keep: Callable[[bytes], str] | None = None
    job_ids: Callable[[str], JobIds] | None = None
    built: "dict[str, Backend] | None" = field(default=None, compare=False, repr=False)
    engines: Engines = field(default_factory=Engines, compare=False, repr=False)
    placement: Placement | None = None

    def secret(self, reference: str, what: str = "api_key") -> str:
        """The value behind ``env:NAME`` or ``block:name``.

        Args:
            reference: the reference.
            what: names the field that holds it.

        Raises:
            InputError: it is not set; the message names the reference, never a value.
        """
        kind, _, name = reference.partition(":")
        if kind == "env":
            value = self.env.get(name, "")
            if not value:
                raise InputError(f"{what} refers to {reference}, but {name} is not set. Set it in the environment.")
        elif self.blocks is None:
            raise InputError(f"{what} refers to {reference}, but blocks need a Prefect API: set PREFECT_API_URL.")
        else:
            value = self.blocks.secret(name)
        if not value.isascii() or not value.isprintable() or " " in value:
            raise InputError(f"the value of {reference} holds blanks or control characters and is not an API key.")
        return value


class BackendConfig(BaseModel):
    """Fields every backend takes. Undeclared keys are allowed, passed through, and count as semantic.

    Attributes:
        SENDS_UNDECLARED: whether undeclared keys go into every request, where many servers take a slip without a word.
    """

    model_config = ConfigDict(
        extra="allow", frozen=True, populate_by_name=True, protected_namespaces=(), defer_build=True
    )
    PASS_THROUGH: ClassVar[Stage] = "infer"  # noqa: S105 - a stage
    SENDS_UNDECLARED: ClassVar[bool] = False

    default_params: dict[str, Any] = semantic(
        "infer", {}, description="Sampling parameters for requests that do not set them."
    )
    freshness: str | None = semantic(
        "infer", None, description="Answers of another freshness are not reused; nightly runs set the date."
    )
    deterministic: bool = identity(
        "infer",
        default=False,
        description="Ask the engine for its mode in which no answer depends on the others. The probe says if it does.",
    )
    max_concurrency: int = scheduling(
        32,
        ge=1,
        le=4096,
        validation_alias=AliasChoices("max_concurrency", "async_max_concurrency"),
        description="Requests in flight at once.",
    )
    timeout: float = scheduling(600.0, gt=0, description="Seconds for one request.")
    connect_timeout: float = scheduling(10.0, gt=0, description="Seconds to connect.")
    max_attempts: int = scheduling(10, ge=1, description="Requests sent for one row at most.")
    max_elapsed_s: float = scheduling(1800.0, gt=0, description="No attempt starts later than this, in seconds.")
    input_price: float = scheduling(0.0, ge=0, description="Price of a million prompt tokens, for limits.cost.")
    output_price: float = scheduling(0.0, ge=0, description="Price of a million answered tokens, for limits.cost.")

    @model_validator(mode="after")
    def _no_secrets_in_undeclared_keys(self) -> "BackendConfig":
        for name in self.model_extra or {}:
            if _SECRET_NAME.search(name):
                raise ValueError(f"'{name}' is not a field and may hold a secret; use api_key: env:NAME")
        return self

    @property
    def retry_policy(self) -> RetryPolicy:
        """The retry policy of these limits."""
        return RetryPolicy(max_attempts=self.max_attempts, max_elapsed_s=self.max_elapsed_s)


class ThinkingConfig(BackendConfig):
    """Fields of a backend that takes the thinking out of answers."""

    think_start: str = semantic("infer", "<think>", min_length=1, description="What opens the thinking in an answer.")
    think_end: str = semantic("infer", "</think>", min_length=1, description="What ends the thinking in an answer.")
    stop_after_thinking: bool = semantic(
        "infer",
        default=False,
        description="Stop strings are not sent; the answer is cut at them after its thinking was taken off.",
    )


class KeyedConfig(BackendConfig):
    """Fields of a backend behind an HTTP endpoint, which may ask for a key."""

    api_key: str | None = scheduling(None, description="Reference to the key: env:NAME or block:name.", repr=False)
    adaptive: bool = scheduling(
        default=True,
        description="Fewer requests in flight while the endpoint is overloaded.",
    )
    requests_per_minute: float | None = scheduling(None, gt=0, description="Requests a minute at most.")
    tokens_per_minute: float | None = scheduling(None, gt=0, description="Tokens a minute, prompts and answers.")
    idle_timeout: float | None = scheduling(
        None, gt=0, description="Seconds without a byte of the answer; with stream: true it finds streams that stall."
    )
    give_up_after: float = scheduling(
        30.0, gt=0, description="Seconds without any answer, while every attempt fails, that end the run."
    )

    @field_validator("api_key")
    @classmethod
    def _is_reference(cls, value: str | None) -> str | None:
        if value is not None and not is_key_reference(value):
            raise ValueError("a key is never written into a config: use env:NAME or block:name")
        return value

    @field_validator("base_url", check_fields=False)
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        scheme, separator, rest = value.partition("://")
        if scheme not in {"http", "https", UNIX} or not separator or not rest.strip("/"):
            raise ValueError("base_url starts with http:// or https:// and names a host")
        if "@" in rest.split("/", 1)[0]:
            raise ValueError("base_url holds no user or password: use api_key: env:NAME")
        if scheme != UNIX:
            if any(char.isspace() for char in value):
                raise ValueError("base_url has no blanks")
            try:
                _ = urlsplit(value).port
            except ValueError as error:
                raise ValueError(f"base_url is not a URL: {error}") from None
        return value.rstrip("/")


class Backend(Protocol):
    """A model that answers requests.

    `identity` and `body` work before `open`; `call` runs on the runtime's loop, inside ``async with
    limiter``.
    """

    type: str
    capabilities: frozenset[str]
    limiter: Limiter
    lookup_field: str | None

    def identity(self) -> dict[str, JsonValue]:
        """Everything but the body that determines the model's answers; part of keys."""
        ...

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The effective request body, ``media://`` unresolved."""
        ...

    async def open(self, log_folder: Path | None) -> None:
        """Start what is needed; engines keep their logs in the folder, if there is one.

        Raises:
            EndpointFailed, InputError: it cannot be opened; `close` is called all the same.
        """
        ...

    async def call(self, request: Request, body: bytes) -> Response:
        """One answer, retries inside. Raises EndpointFailed when the run must end."""
        ...

    def remember(self, request: Request, body: bytes) -> None:
        """Take note of a request that this model answered in an earlier run.

        A backend may ask it again to learn whether the model fails, or only some rows.
        """
        ...

    async def close(self) -> None:
        """Stop what `open` started."""
        ...


def without_freshness(identity: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A model's identity for what does not change from one night to the next."""
    settings = identity.get("config")
    if not isinstance(settings, dict):
        return dict(identity)
    return {**identity, "config": {name: value for name, value in settings.items() if name != "freshness"}}


ConfigT = TypeVar("ConfigT", bound=BackendConfig)


class BaseBackend(ABC, Generic[ConfigT]):
    """Base of the built-in backends. Plug-ins do not have to use it.

    Class attributes:
        type: the name it is registered by.
        capabilities: the kinds of requests that it serves (`gage_eval.models.client.types.KINDS`), and of
            chat_likelihood, tools, images; files: it reads media from files; logprobs, schema: its answers may have
            log probabilities, or follow a JSON schema.
        ENDS_LOOPS: ``repetition_detection`` and ``thinking_token_budget`` are passed on; False for an engine that lacks
            them.
    """

    ENDS_LOOPS: ClassVar[bool] = True
    type: ClassVar[str]
    capabilities: frozenset[str]

    def __init__(self, config: ConfigT, context: BackendContext) -> None:
        self.config = config
        self.context = context
        self.limiter = Limiter(config.max_concurrency)
        # Name of the sample field whose value `Request.lookup` carries.
        self.lookup_field: str | None = None

    @property
    def gpus(self) -> int:
        """How many GPUs of this machine its engines hold while it is open."""
        return 0

    def engine_key(self) -> str | None:
        """A digest of everything that the engine behind it is started with; None if `open` starts no engine.

        Raises:
            InputError: the model is not there.
        """
        return None

    def engine_version(self) -> str | None:
        """The version of the engine that `open` starts; None if it starts none, or the version is not known."""
        return None

    def identity(self) -> dict[str, JsonValue]:
        """Name and version of the backend and every semantic value of its config."""
        known = registry.backends.of(type(self)) or registry.backends.loaded(self.type)
        # A class that only a config names is not in the registry. Keys contain its plug-in in addition.
        backend = known.identity() if known is not None else self.type
        # Named only where it is set, so that the keys of all other answers are those of before.
        mode: dict[str, JsonValue] = {"deterministic": True} if self.config.deterministic else {}
        return {"backend": backend, "config": semantic_values(self.config, "infer"), **mode}

    def check_installed(self) -> None:
        """Check that what `open` starts is on this machine, for `gage validate`; nothing is started.

        Raises:
            InputError: something is missing; the message names what installs it.
        """

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Parameters of requests that do not set them."""
        return self.config.default_params

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The request in plain form: messages or prompt, parameters over the defaults, tools."""
        if request.kind == "likelihood":
            return likelihood_body(request, self.defaults)
        return {**self.params(request), **request_content(request)}

    def params(self, request: Request) -> dict[str, Any]:
        """The parameters of an answer: the request's override the config's.

        Raises:
            InputError: the engine lacks one.
        """
        return self.known({**self.defaults, **request.params})

    def known(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters without ``repetition_detection`` where the engine lacks it: loops are found in its answers.

        Raises:
            InputError: the engine cannot end its thinking.
        """
        if self.ENDS_LOOPS:
            return params
        if params.get(THINKING_BUDGET) is not None:
            raise InputError(f"{self.type} cannot limit thinking: remove parameter '{THINKING_BUDGET}', or use vllm.")
        return {name: value for name, value in params.items() if name not in (REPETITION_DETECTION, THINKING_BUDGET)}

    async def open(self, log_folder: Path | None) -> None:
        """Nothing to start."""

    @abstractmethod
    async def call(self, request: Request, body: bytes) -> Response:
        """One answer, retries inside. Raises EndpointFailed when the run must end."""

    def remember(self, request: Request, body: bytes) -> None:
        """Nothing to note."""

    async def close(self) -> None:
        """Nothing to stop."""


def check_served(backend: Backend, kinds: Iterable[str]) -> None:
    """Refuse requests of a kind that a backend does not serve, before any is sent.

    Raises:
        InputError: it does not serve one of them.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"there are no '{kind}' requests. There are: {', '.join(KINDS)}.{closest(kind, KINDS)}")
        if kind not in backend.capabilities:
            can = ", ".join(sorted(backend.capabilities))
            raise InputError(
                f"backend '{backend.type}' cannot answer {kind} requests. It can: {can}. Use a backend with the "
                f"capability '{kind}'."
            )
