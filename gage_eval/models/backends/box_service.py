"""A box as a service for runs on other machines. A server on a work pool starts this module as a process.

POST /v1/executions   a program with its tests, limits and surroundings → an execution
GET  /v1/models       an empty list: the sign of life that all servers on work pools give

Every request needs the bearer token. Requests and answers are JSON of a limited size.
"""

import asyncio
import base64
import json
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import asdict, replace
from typing import Any, TypeAlias

from gage_eval.box.executors import ExecutorSettings, open_executor
from gage_eval.box.types import BoxError, BoxSpec, Execution, Executor, Limits, Program
from gage_eval.models.backends.boxed import execution_text

LARGEST_REQUEST = 64 * 2**20
"""Bytes of the largest program with its surroundings."""
LARGEST_ANSWER = 128 * 2**20
"""Bytes of the largest execution: a program that prints more has failed, and costs no other row its result."""
READY = "listening at port "
"""What the process prints before its port."""

# White space that is sent while a program runs: the client knows a server that is gone from one that takes long.
_SIGN_EVERY_S = 5.0

_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]


def request_body(program: Program, limits: Limits, spec: BoxSpec) -> bytes:
    """The body of a request."""
    files = {path: base64.b64encode(content).decode() for path, content in spec.files.items()}
    surroundings = asdict(replace(spec, files={})) | {"files": files}
    return json.dumps({"program": asdict(program), "limits": asdict(limits), "spec": surroundings}).encode()


def read_request(body: bytes) -> tuple[Program, Limits, BoxSpec]:
    """What a body asks for.

    Raises:
        ValueError: it does not have the form of `request_body`.
    """
    try:
        request = json.loads(body)
        spec = BoxSpec(**request["spec"])
        files = {path: base64.b64decode(content, validate=True) for path, content in spec.files.items()}
        return (
            Program(**request["program"]),
            Limits(**request["limits"]),
            replace(spec, files=files, listens=False, starts=()),
        )
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


class BoxService:
    """The service, an ASGI application.

    Args:
        executor: runs the programs.
        token: what callers must show.
    """

    def __init__(self, executor: Executor, token: str) -> None:
        self._executor = executor
        self._token = f"Bearer {token}".encode()

    async def __call__(self, scope: Mapping[str, Any], receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        shown = dict(scope["headers"]).get(b"authorization", b"")
        if not secrets.compare_digest(shown, self._token):
            await _answer(send, 401, "the token is wrong")
        elif (scope["method"], scope["path"]) == ("GET", "/v1/models"):
            await _answer(send, 200, [])
        elif (scope["method"], scope["path"]) != ("POST", "/v1/executions"):
            await _answer(send, 404, "there is no such path")
        elif (body := await _body(receive)) is None:
            await _answer(send, 413, f"the request has more than {LARGEST_REQUEST} bytes")
        else:
            try:
                request = read_request(body)
            except ValueError as error:
                await _answer(send, 400, f"the request cannot be read: {error}")
            else:
                await self._execute(request, receive, send)

    async def _execute(self, request: tuple[Program, Limits, BoxSpec], receive: _Receive, send: _Send) -> None:
        """Run a program. It is ended with the connection."""
        running = asyncio.ensure_future(self._execution(*request))
        gone = asyncio.ensure_future(_gone(receive))
        await _start(send, 200)
        try:
            while not running.done() and not gone.done():
                await asyncio.wait({running, gone}, timeout=_SIGN_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
                await send({"type": "http.response.body", "body": b" ", "more_body": True})
            if running.done():
                await send({"type": "http.response.body", "body": _sendable(running.result())})
        finally:
            running.cancel()
            gone.cancel()
            await asyncio.gather(running, gone, return_exceptions=True)

    async def _execution(self, program: Program, limits: Limits, spec: BoxSpec) -> Execution:
        try:
            return await self._executor.execute(program, limits, spec)
        except BoxError as error:
            return Execution("box_error", "box", str(error))


def _sendable(execution: Execution) -> bytes:
    body = execution_text(execution).encode()
    if len(body) <= LARGEST_ANSWER:
        return body
    said = f"it printed more than the {LARGEST_ANSWER} bytes that a work pool returns"
    return execution_text(Execution("failed", "output", said, cpu_s=execution.cpu_s, wall_s=execution.wall_s)).encode()


async def _body(receive: _Receive) -> bytes | None:
    """The body of a request; None if it is too large."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST_REQUEST:
            return None
    return bytes(body)


async def _gone(receive: _Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _start(send: _Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})


async def _answer(send: _Send, status: int, content: Any) -> None:
    await _start(send, status)
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


def main() -> None:
    """Serve until the process is ended. Its stdin has its settings as JSON."""
    import uvicorn

    settings = json.load(sys.stdin)
    executor = open_executor(ExecutorSettings(settings["executor"], settings["slots"]))
    host = settings["host"]
    certificate, key = settings["certificate"] or (None, None)
    listening = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    sys.stdout.write(f"{READY}{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        BoxService(executor, settings["token"]),
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
