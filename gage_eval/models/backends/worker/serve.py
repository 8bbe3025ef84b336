"""One engine behind a socket: a JSON line for each request, a JSON line for each answer, in any order.

A request is ``{"id", "kind", "messages" or "prompt", "params", …}`` (`WorkerRequest`), or ``{"id", "cancel": true}``
if it is no longer needed. An answer is ``{"id", "response": {…}}`` with the fields of a response, or ``{"id",
"fatal": sentence}`` when no other request can succeed either. The first line says that the model is loaded, and by
what: ``{"runs": "vllm 0.32.0"}``; or, in one sentence, why it is not: ``{"not_loaded": sentence}``.
"""

import asyncio
import importlib
import json
import os
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from gage_eval.base.statuses import FINISH_STATUSES

WorkerRequest: TypeAlias = dict[str, Any]
WorkerResponse: TypeAlias = dict[str, Any]
LINE_BYTES = 512 * 2**20


class NotLoaded(Exception):
    """The engine cannot be loaded; the message is one sentence."""


class Fatal(Exception):
    """No request of this kind can succeed; the message is one sentence."""


class Gone(Exception):
    """The engine can no longer answer; the log says why."""


class GivenUp(Exception):
    """A request that gets no answer, though others do; its response says why."""

    def __init__(self, response: WorkerResponse) -> None:
        super().__init__(response["error_kind"])
        self.response = response


class Engine(Protocol):
    """A model that is loaded.

    Attributes:
        library: the module that runs the model, whose version is reported; None without one.
    """

    library: str | None

    async def answer(self, request: WorkerRequest) -> WorkerResponse:
        """The fields of the response.

        Raises:
            GivenUp: this request gets no answer.
            Fatal, Gone: the run must end.
        """


@runtime_checkable
class Closes(Protocol):
    """An engine with something to do before its process ends."""

    async def close(self) -> None:
        """The other end is gone; the process ends next."""


def serve() -> None:
    """Load the engine that standard input describes and answer until the other end is gone."""
    options = json.loads(sys.stdin.readline())
    try:
        asyncio.run(_serve(options))
    except Exception:  # noqa: BLE001 - the log gets all of it, and threads of the engine must not keep it alive
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # Neither threads nor processes of the engine are worth waiting for: nothing is written anywhere.
    os._exit(0)


async def _serve(options: Mapping[str, Any]) -> None:
    theirs = socket.socket(fileno=options["socket"])
    try:
        engine: Engine = await importlib.import_module(options["engine"]).load(options)
    except NotLoaded as error:
        theirs.sendall(json.dumps({"not_loaded": str(error)}).encode() + b"\n")
        return
    reader, writer = await asyncio.open_unix_connection(sock=theirs, limit=LINE_BYTES)
    library = engine.library
    runs = f"{library} {sys.modules[library].__version__}" if library is not None else ""
    writer.write(json.dumps({"runs": runs}).encode() + b"\n")
    under_way: dict[int, asyncio.Task[None]] = {}
    while line := await reader.readline():
        request = json.loads(line)
        number = request["id"]
        if request.get("cancel"):
            if task := under_way.get(number):
                task.cancel()
            continue
        under_way[number] = asyncio.create_task(_one(engine, request, writer))
        under_way[number].add_done_callback(lambda _, number=number: under_way.pop(number))  # type: ignore[misc]
    if isinstance(engine, Closes):
        await engine.close()


async def _one(engine: Engine, request: WorkerRequest, writer: asyncio.StreamWriter) -> None:
    reply: dict[str, Any] = {"id": request["id"]}
    try:
        reply["response"] = await engine.answer(request)
    except GivenUp as given_up:
        reply["response"] = given_up.response
    except Fatal as error:
        reply["fatal"] = str(error)
    except Gone:
        # The other end finds the socket closed, and reads the log.
        sys.stderr.flush()
        os._exit(1)
    except Exception as error:  # noqa: BLE001
        # Whatever a library raises is this row's: what went wrong is in the log, and the engine goes on.
        traceback.print_exc()
        reply["response"] = failed("engine_error", f"{type(error).__name__}: {error}")
    writer.write(json.dumps(reply).encode() + b"\n")
    await writer.drain()


def failed(kind: str, message: str) -> WorkerResponse:
    """The response of a row that cannot be answered."""
    return {"status": "error", "error_kind": kind, "attempts": 1, "errors": [" ".join(message.split())[:300]]}


def fitting(tokens: Sequence[int], longest: int) -> list[int]:
    """The tokens of a prompt, which are some and leave room for an answer.

    Raises:
        GivenUp: there are none, or as many as the model takes (`longest`).
    """
    if not tokens:
        raise GivenUp({"status": "skipped", "error_kind": "empty_prompt"})
    if len(tokens) >= longest:
        raise GivenUp(failed("context_too_long", f"the prompt has {len(tokens)} tokens, the model takes {longest}"))
    return list(tokens)


def answered(text: str, finish: str | None, prompt_tokens: int, completion_tokens: int) -> WorkerResponse:
    """The response with a text; its status follows from the finish reason."""
    return {
        "status": FINISH_STATUSES.get(finish or "", "ok"),
        "answer": text,
        "finish_reason": finish,
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "attempts": 1,
    }
