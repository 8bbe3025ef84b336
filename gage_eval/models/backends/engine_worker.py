"""The run's side of a worker: an engine in its own process and interpreter, reached over a socket."""

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import encode
from gage_eval.base.errors import EndpointFailed
from gage_eval.models.backends import worker
from gage_eval.models.backends.child import Child
from gage_eval.models.backends.worker.serve import LINE_BYTES
from gage_eval.models.client.payload import Malformed, parse_json
from gage_eval.models.client.types import Response

_log = logging.getLogger(__name__)
_SCRIPT = Path(worker.__file__).with_name("__main__.py")


class Worker:
    """A worker that is starting or running; spawn it from the loop's thread.

    Args:
        name: what messages call it.
        python: the interpreter that has the engine.
        options: what the worker reads first (`gage_eval.models.backends.worker.serve`).
        env: its environment.
        log: where its log is kept.
    """

    def __init__(
        self, name: str, python: str | None, options: Mapping[str, Any], env: Mapping[str, str], log: Path | None
    ) -> None:
        self.active = 0
        self._asked = 0
        self._runs: str | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._ours, theirs = socket.socketpair()
        with theirs:
            self.child = Child(
                name,
                [python or sys.executable, "-P", str(_SCRIPT)],
                env=env,
                log=log,
                stdin=encode({**options, "socket": theirs.fileno()}) + b"\n",
                pass_fds=(theirs.fileno(),),
            )

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.child.is_alive()

    async def ready(self, timeout_s: float) -> "Worker":
        """Wait until the model is loaded. If that fails, the process is ended.

        Raises:
            EndpointFailed: it ended before that, or took too long.
        """
        try:
            reader, self._writer = await asyncio.open_unix_connection(sock=self._ours, limit=LINE_BYTES)
            line = await asyncio.wait_for(reader.readline(), timeout_s)
            if not line:
                raise await asyncio.to_thread(self.child.ended)
            first = parse_json(line)
            if "not_loaded" in first:
                raise EndpointFailed(str(first["not_loaded"]))
        except TimeoutError:
            late = await asyncio.to_thread(self.child.too_slow, timeout_s)
            await self.close()
            raise late from None
        except BaseException:
            await self.close()
            raise
        self._runs = str(first["runs"]) or None
        self._reading = asyncio.create_task(self._read(reader))
        return self

    async def ask(self, request: Mapping[str, Any], timeout_s: float) -> Response:
        """The response to a request; an error row when it takes too long.

        Raises:
            EndpointFailed: the engine ended, or says that no request can succeed.
        """
        if self._writer is None or self._reading is None or self._reading.done():
            raise await self._gone()
        self._asked += 1
        number, begun = self._asked, time.perf_counter()
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self.active += 1
        try:
            self._writer.write(encode({**request, "id": number}) + b"\n")
            with suppress(ConnectionError):
                await self._writer.drain()
            reply = await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            return Response("error", error_kind="timeout", attempts=1, errors=[f"no answer within {timeout_s:g} s"])
        except ConnectionError:
            raise await self._gone() from None
        finally:
            self.active -= 1
            del self._waiting[number]
            if (future.cancelled() or not future.done()) and not self._writer.is_closing():
                # The result is not needed any more.
                self._writer.write(encode({"id": number, "cancel": True}) + b"\n")
        if "fatal" in reply:
            raise EndpointFailed(f"{self.child.name}: {reply['fatal'].rstrip('.')}.")
        response = Response(**reply["response"], model_fingerprint=self._runs)
        response.latency_ms = (time.perf_counter() - begun) * 1000.0
        return response

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                reply = parse_json(line)
                future = self._waiting.get(reply["id"])
                if future is not None and not future.done():
                    future.set_result(reply)
        except (OSError, ValueError, Malformed) as error:
            _log.warning("%s cannot be read: %s", self.child.name, error)
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("the worker is gone"))

    async def _gone(self) -> EndpointFailed:
        """Why the worker can no longer answer."""
        await asyncio.to_thread(self.child.stop)
        return EndpointFailed(f"{self.child.name} ended. {self.child.last_words()}".strip())

    async def close(self, grace_s: float = 0.0) -> None:
        """Close the socket. End the process if it does not end by itself in time."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._writer is not None:
            self._writer.close()
        else:
            self._ours.close()
        if grace_s:
            await asyncio.to_thread(self.child.wait, grace_s)
        await asyncio.to_thread(self.child.stop)
