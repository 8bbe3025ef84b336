"""A user's class behind the worker's socket: its mistakes are errors of single rows, never of the run.

Runs in this package's own interpreter. The class may exit, hang or break its process: the run goes on.
"""

import asyncio
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from gage_eval.models.backends.worker.serve import NotLoaded, WorkerRequest, WorkerResponse, failed

_TEXTS = ("answer", "reasoning", "finish_reason", "error_kind")
_COUNTS = ("prompt_tokens", "completion_tokens")
_JSON = ("tool_calls", "logprobs")
_GIVEN = ("status", *_TEXTS, *_COUNTS, *_JSON)


async def load(options: Mapping[str, Any]) -> "ScriptEngine":
    """Load the class and build it.

    Args:
        options: ``class`` (``pkg.mod:Class`` or ``dir/file.py:Class``), ``arguments`` of the class, and ``path``, the
            folders modules are looked for in.

    Raises:
        NotLoaded: the class raised.
    """
    sys.path[:] = options["path"]
    # The class may use all of this package, not the stand-in that a worker of another interpreter makes do with.
    del sys.modules["gage_eval"]
    importlib.import_module("gage_eval")
    registry = importlib.import_module("gage_eval.extend.registry")
    try:
        kind, _ = registry.load_object(options["class"])
        return ScriptEngine(kind(**options["arguments"]))
    except BaseException as error:
        raise NotLoaded(described(error)) from error


class ScriptEngine:
    """Answers with the class's ``generate`` or ``ainvoke``; ends with its ``close``."""

    library = None

    def __init__(self, model: Any) -> None:
        self._model = model

    async def answer(self, request: WorkerRequest) -> WorkerResponse:
        """The response to ``request["request"]``."""
        try:
            if hasattr(self._model, "ainvoke"):
                result = await self._model.ainvoke(request["request"])
            else:
                result = await _in_thread(self._model.generate, request["request"])
            return _response(result)
        except BaseException as error:
            # The class may raise its own CancelledError.
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            kind = "timeout" if isinstance(error, TimeoutError) else "script"
            return failed(kind, described(error))

    async def close(self) -> None:
        """Let the class close what it opened."""
        close = getattr(self._model, "close", None)
        if callable(close):
            done = await _in_thread(close)
            if inspect.isawaitable(done):
                await done


async def _in_thread(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call in a separate thread. A thread that never ends is abandoned and blocks no other."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        try:
            result, error = call(*arguments), None
        except BaseException as raised:  # noqa: BLE001 - passed to the waiting caller
            # A future takes no StopIteration, and what is not an Exception would end its task or the loop.
            is_ordinary = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            result, error = None, raised if is_ordinary else RuntimeError(described(raised))
        loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="custom-script", daemon=True).start()
    return await future


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _response(result: Any) -> WorkerResponse:
    """The fields of a response in what the class returned.

    Raises:
        ValueError: it is not an answer.
    """
    from gage_eval.base.canonical import canonical_text
    from gage_eval.base.errors import closest
    from gage_eval.base.statuses import FINISH_STATUSES, RESPONSE_STATUSES, UNANSWERED
    from gage_eval.models.client.types import token_count, without_surrogates

    if isinstance(result, str):
        return {"status": "ok", "answer": result, "attempts": 1}
    if not isinstance(result, Mapping):
        raise ValueError(f"it returned {type(result).__name__}, not text or a mapping")
    for name in result:
        if name not in _GIVEN:
            raise ValueError(f"it returned '{name}', which is not a field of an answer.{closest(str(name), _GIVEN)}")
    for name in _TEXTS:
        if result.get(name) is not None and not isinstance(result[name], str):
            raise ValueError(f"its {name} is {type(result[name]).__name__}, not str")
    for name in _COUNTS:
        if result.get(name) is not None and token_count(result[name]) is None:
            raise ValueError(f"its {name} is {result[name]!r}, which is not a count")
    status = result.get("status")
    if status is None:
        status = FINISH_STATUSES.get(result.get("finish_reason") or "", "ok")
    if status not in RESPONSE_STATUSES:
        raise ValueError(f"its status is {status!r}, not one of {', '.join(RESPONSE_STATUSES)}")
    if status == "ok" and "answer" not in result and not result.get("tool_calls"):
        raise ValueError("it returned neither 'answer' nor 'tool_calls'")
    response = {"status": status, "attempts": 1, **{name: result.get(name) for name in (*_TEXTS, *_COUNTS)}}
    if status in UNANSWERED:
        response["answer"] = None
    for name in _JSON:
        if result.get(name) is not None:
            response[name] = canonical_text(without_surrogates(result[name]))
    return response


def described(error: BaseException) -> str:
    """An exception on one line, its kind first."""
    try:
        text = " ".join(str(error)[:300].split())
    except BaseException as second:  # noqa: BLE001 - an exception of foreign code may fail to say what it is
        text = f"its text cannot be read ({type(second).__name__})"
    return f"{type(error).__name__}: {text}"
