"""A model behind a class of the user's: a module or a file, and the class in it."""

import asyncio
import inspect
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pydantic import model_validator

from gage_eval import registry
from gage_eval.backends.base import BackendConfig, BackendContext, BaseBackend, is_empty, skipped
from gage_eval.backends.media import holds_parts, with_media
from gage_eval.canonical import JsonValue, canonical_text, decode
from gage_eval.client.types import Request, Response, token_count, without_surrogates
from gage_eval.errors import GageError, InputError, closest
from gage_eval.files import local_path
from gage_eval.hashing import file_digest
from gage_eval.marks import identity, semantic

_STATUSES = ("ok", "truncated", "refused", "error", "skipped")
_TEXTS = ("answer", "reasoning", "finish_reason", "error_kind")
_COUNTS = ("prompt_tokens", "completion_tokens")
_JSON = ("tool_calls", "logprobs")
_GIVEN = ("status", *_TEXTS, *_COUNTS, *_JSON)


class CustomScriptConfig(BackendConfig):
    """Where the class is. Every other key is an argument of the class."""

    module_path: str | None = identity("infer", None, description="The class's module, as pkg.mod.")
    file_path: str | None = identity("infer", None, description="The class's file; relative to the config.")
    class_name: str = semantic("infer", min_length=1, description="The class.")

    @model_validator(mode="after")
    def _one_place(self) -> "CustomScriptConfig":
        if (self.module_path is None) == (self.file_path is None):
            raise ValueError("set either module_path (pkg.mod) or file_path (a .py file)")
        if self.file_path is not None and not self.file_path.endswith(".py"):
            raise ValueError("file_path names a .py file")
        return self


@registry.backends.register("custom_script", version=1, config=CustomScriptConfig)
class CustomScript(BaseBackend[CustomScriptConfig]):
    """A class with a method ``generate(request)``, or the coroutine ``ainvoke(request)``.

    ``request`` is the request body (messages or prompt, parameters, tools) with ``replicate``. It returns the answer as
    text, or a mapping with ``answer`` and any of status, reasoning, tool_calls, finish_reason, logprobs,
    prompt_tokens, completion_tokens and error_kind. What it raises is the error of that row. ``close`` is called at
    the end, where there is one.
    """

    type = "custom_script"
    capabilities = frozenset({"chat", "completion", "tools", "images", "files"})

    def __init__(self, config: CustomScriptConfig, context: BackendContext) -> None:
        super().__init__(config, context)
        self._model: Any = None
        self._threads: ThreadPoolExecutor | None = None

    def identity(self) -> dict[str, JsonValue]:
        """The code of the class beside its arguments.

        Raises:
            InputError: there is no such class.
        """
        kind, origin = self._class()
        if self.config.file_path is not None:
            origin = file_digest(local_path(self.config.file_path, self.context.base_dir))
        return {**super().identity(), "code": origin, "version": int(getattr(kind, "version", 1))}

    async def open(self, log_folder: Path | None) -> None:
        """Build the class with the config's other keys.

        Raises:
            InputError: there is no such class, it lacks its methods, or cannot be built.
        """
        kind, _ = self._class()
        if not any(callable(getattr(kind, name, None)) for name in ("generate", "ainvoke")):
            raise InputError(f"custom_script: {self._where()} has neither 'generate' nor 'ainvoke'.")
        self._threads = ThreadPoolExecutor(self.max_concurrency, thread_name_prefix="custom-script")
        try:
            self._model = await asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: kind(**(self.config.model_extra or {}))
            )
        except GageError:
            raise
        except Exception as error:
            raise InputError(f"custom_script: {self._where()} cannot be built: {_said(error)}") from error

    async def call(self, request: Request, body: bytes) -> Response:
        """One answer; what the class raises or gives that is none is an error row."""
        if is_empty(request):
            return skipped()
        given = {**decode(body), "replicate": request.replicate}
        if request.kind == "chat" and holds_parts(request.messages or []):
            given["messages"] = await asyncio.to_thread(with_media, request, self.context, files=True)
        began = time.perf_counter()
        try:
            if hasattr(self._model, "ainvoke"):
                found = await asyncio.wait_for(self._model.ainvoke(given), self.config.timeout)
            else:
                found = await asyncio.get_running_loop().run_in_executor(self._threads, self._model.generate, given)
            response = _response(without_surrogates(dict(found) if isinstance(found, Mapping) else found))
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything; the row says what
            kind = "timeout" if isinstance(error, TimeoutError) else "script"
            response = Response("error", error_kind=kind, errors=[_said(error)])
        response.latency_ms = (time.perf_counter() - began) * 1000.0
        response.attempts = 1
        return response

    async def close(self) -> None:
        """Let the class close what it opened."""
        close = getattr(self._model, "close", None)
        if callable(close):
            done = await asyncio.get_running_loop().run_in_executor(self._threads, close)
            if inspect.isawaitable(done):
                await done
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _class(self) -> tuple[Any, str]:
        config = self.config
        module = config.module_path
        if config.file_path is not None:
            module = str(local_path(config.file_path, self.context.base_dir))
        try:
            kind, origin = registry.load_object(f"{module}:{config.class_name}")
        except GageError:
            raise
        except Exception as error:
            raise InputError(f"custom_script: {self._where()} cannot be loaded: {_said(error)}") from error
        if not isinstance(kind, type):
            raise InputError(f"custom_script: {self._where()} is no class.")
        return kind, origin

    def _where(self) -> str:
        return f"{self.config.module_path or self.config.file_path}:{self.config.class_name}"


def _response(found: Any) -> Response:
    """The response in what the class returned.

    Raises:
        ValueError: it is none.
    """
    if isinstance(found, str):
        return Response("ok", answer=found)
    if not isinstance(found, Mapping):
        raise ValueError(f"it returned {type(found).__name__}, not text or a mapping")
    for name in found:
        if name not in _GIVEN:
            raise ValueError(f"it returned '{name}', which is no field of an answer.{closest(str(name), _GIVEN)}")
    status = found.get("status") or "ok"
    if status not in _STATUSES:
        raise ValueError(f"its status is {status!r}, not one of {', '.join(_STATUSES)}")
    for name in _TEXTS:
        if found.get(name) is not None and not isinstance(found[name], str):
            raise ValueError(f"its {name} is {type(found[name]).__name__}, not str")
    for name in _COUNTS:
        if found.get(name) is not None and token_count(found[name]) is None:
            raise ValueError(f"its {name} is {found[name]!r}, which is no count")
    if status == "ok" and "answer" not in found and not found.get("tool_calls"):
        raise ValueError("it returned neither 'answer' nor 'tool_calls'")
    response = Response(status)
    for name in (*_TEXTS, *_COUNTS):
        setattr(response, name, found.get(name))
    for name in _JSON:
        if found.get(name) is not None:
            setattr(response, name, canonical_text(found[name]))
    return response


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error)[:300].split())}"
