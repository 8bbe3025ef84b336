"""A model behind a user's class, which runs in its own process."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from pydantic import model_validator

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.base.files import local_path
from gage_eval.base.hashing import file_digest
from gage_eval.base.marks import identity, scheduling, semantic
from gage_eval.extend import registry
from gage_eval.extend.loading import PluginError, load_object, version_of
from gage_eval.models.backends.asked import is_empty, skipped
from gage_eval.models.backends.base import BackendConfig, BackendContext, BaseBackend
from gage_eval.models.backends.child import log_file
from gage_eval.models.backends.engine_worker import Worker
from gage_eval.models.backends.media import holds_parts, with_media
from gage_eval.models.backends.worker import on_script
from gage_eval.models.client.token_steps import store_tokens
from gage_eval.models.client.types import Request, Response

# The longest time that the class's `close` may take.
_CLOSE_S = 10.0


class CustomScriptConfig(BackendConfig):
    """Where the class is. Every other key is an argument of the class."""

    module_path: str | None = identity("infer", None, description="The class's module, as pkg.mod.")
    file_path: str | None = identity("infer", None, description="The class's file; relative to the config.")
    class_name: str = semantic("infer", min_length=1, description="The class.")
    start_timeout: float = scheduling(1800.0, gt=0, description="Seconds the class may take to be built.")

    @model_validator(mode="after")
    def _one_place(self) -> "CustomScriptConfig":
        if (self.module_path is None) == (self.file_path is None):
            raise ValueError("set either module_path (pkg.mod) or file_path (a .py file)")
        if self.file_path is not None and not self.file_path.endswith(".py"):
            raise ValueError("file_path names a .py file")
        return self


@registry.backends.register("custom_script", version=3, config=CustomScriptConfig)
class CustomScript(BaseBackend[CustomScriptConfig]):
    """A class with a method ``generate(request)``, or the coroutine ``ainvoke(request)``.

    ``request`` is the request body (messages or prompt, parameters, tools) with ``draw``. It returns the answer as
    text, or a mapping with ``answer`` and any of status, reasoning, tool_calls, finish_reason, logprobs,
    prompt_tokens, completion_tokens and error_kind. What it raises is the error of that row. ``close`` is called at
    the end, where there is one.

    The class runs in a separate process. When that process dies, the requests it had are asked once more, one at a
    time in a second process, so that only the request that kills it becomes an error.
    """

    type = "custom_script"
    capabilities = frozenset({"chat", "completion", "tools", "images", "files", "logprobs", "schema"})

    def __init__(self, config: CustomScriptConfig, context: BackendContext) -> None:
        super().__init__(config, context)
        self._log_folder: Path | None = None
        self._worker: Worker | None = None
        self._starting = asyncio.Lock()
        # For requests that are asked again, one at a time.
        self._second: Worker | None = None
        self._alone = asyncio.Lock()

    def identity(self) -> dict[str, JsonValue]:
        """The code of the class, in addition to its arguments.

        Raises:
            InputError: the class does not exist.
        """
        kind, origin = self._class()
        if self.config.file_path is not None:
            origin = file_digest(local_path(self.config.file_path, self.context.base_dir))
        return {**super().identity(), "code": origin, "version": version_of(kind, self._where())}

    async def open(self, log_folder: Path | None) -> None:
        """Start the process and build the class with the config's other keys.

        Raises:
            InputError: the class does not exist, lacks methods, or cannot be built.
        """
        self._class()
        self._log_folder = log_folder
        try:
            self._worker = await self._start()
        except EndpointFailed as error:
            raise InputError(f"custom_script: {self._where()} cannot be built: {str(error).rstrip('.')}.") from error

    async def call(self, request: Request, body: bytes) -> Response:
        """One answer. What the class raises, or returns that is not an answer, is an error row."""
        if is_empty(request):
            return skipped()
        fields = {**decode(body), "draw": request.draw}
        if request.kind == "chat" and holds_parts(request.messages or []):
            fields["messages"] = await asyncio.to_thread(with_media, request, self.context, files=True)
        payload = {"request": fields}
        worker = await self._running()
        try:
            response = await worker.ask(payload, self.config.timeout)
        except EndpointFailed:
            # A request has ended the process: this one or another one in flight.
            response = await self._again(payload)
        store_tokens(response, {**self.defaults, **request.params})
        return response

    async def close(self) -> None:
        """Let the class close what it opened, and end its process."""
        for worker in (self._worker, self._second):
            if worker is not None:
                await worker.close(_CLOSE_S)
        self._worker = self._second = None

    async def _running(self) -> Worker:
        """The process, started again where it died."""
        async with self._starting:
            if self._worker is None or not self._worker.child.is_alive():
                if self._worker is not None:
                    await self._worker.close()
                    self._worker = None
                self._worker = await self._start()
            return self._worker

    async def _again(self, payload: dict[str, Any]) -> Response:
        """Ask once more, as the only request."""
        async with self._alone:
            if self._second is None or not self._second.child.is_alive():
                self._second = await self._start()
            try:
                return await self._second.ask(payload, self.config.timeout)
            except EndpointFailed as error:
                second, self._second = self._second, None
                await second.close()
                return Response("error", error_kind="script_ended", attempts=2, errors=[str(error)])

    async def _start(self) -> Worker:
        """A process in which the class is built.

        Raises:
            EndpointFailed: it cannot be built; the message ends with why.
        """
        worker = Worker(
            f"the process of {self._where()}",
            None,
            {
                "engine": on_script.load.__module__,
                "class": self._path(),
                "arguments": self.config.model_extra or {},
                "path": _import_path(),
            },
            self.context.env,
            log_file(self._log_folder, self.type),
        )
        return await worker.ready(self.config.start_timeout)

    def _class(self) -> tuple[Any, str]:
        kind, origin = load_object(self._path())
        if not isinstance(kind, type):
            raise PluginError(f"custom_script: {self._where()} is a {type(kind).__name__}, not a class.")
        if not any(callable(getattr(kind, name, None)) for name in ("generate", "ainvoke")):
            raise PluginError(f"custom_script: {self._where()} has neither 'generate' nor 'ainvoke'.")
        return kind, origin

    def _path(self) -> str:
        """The class as `foreign.load_object` reads it."""
        module = self.config.module_path
        if self.config.file_path is not None:
            module = str(local_path(self.config.file_path, self.context.base_dir).absolute())
        return f"{module}:{self.config.class_name}"

    def _where(self) -> str:
        return f"{self.config.module_path or self.config.file_path}:{self.config.class_name}"


def _import_path() -> list[str]:
    """This process's module search path, as absolute paths."""
    return [str(Path(folder).absolute()) for folder in sys.path]
