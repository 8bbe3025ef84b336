"""The HTTP/1.1 client: keeps connections to one endpoint and sends requests on them.

It follows no redirect, asks for no compression and keeps no cookie.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from gage_eval.models.client.connect import Connector, Unreachable, proxy_headers
from gage_eval.models.client.connection import Answer, Broken, Connection, Sink, Unusable
from gage_eval.models.client.route import Route

JSON = "application/json"

# Servers close connections that rest; many after a minute, some after a few seconds.
KEEP_S = 30.0
_CLOSING_S = 1.0


class NoAnswer(Exception):
    """The time for the answer is over. The message says which."""


# All ways in which a request can fail.
FAILURES = (Unreachable, Broken, Unusable, NoAnswer)


class HTTPClient:
    """Sends requests to one endpoint. Use it from one event loop only.

    An idle connection is reused only if neither data nor its end has arrived on it; else the request goes out on a new
    one. So no request meets the answer to another, and none is sent twice: one that
    was written to a connection that then broke is the caller's to repeat.

    Args:
        route: the way to the endpoint.
        headers: sent with every request.
        env: where certificates to trust are named.
        timeout_s: longest time for a request, from the call to the last byte of its answer.
        connect_timeout_s: longest time to connect, with DNS, the proxy and TLS.
        idle_timeout_s: longest time between two pieces of an answer, and before the first one; None for no limit.

    Raises:
        InputError: the certificates that the environment names cannot be read.
    """

    def __init__(
        self,
        route: Route,
        *,
        headers: Mapping[str, str],
        env: Mapping[str, str],
        timeout_s: float,
        connect_timeout_s: float,
        idle_timeout_s: float | None = None,
    ) -> None:
        self._route = route
        self._connector = Connector(route, env)
        lines = {"Host": route.authority, "Accept-Encoding": "identity", "User-Agent": "gage-eval", **headers}
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + proxy_headers(route)
        self._heads: dict[tuple[str, str], bytes] = {}
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self.watches_idleness = idle_timeout_s is not None
        self._open: set[Connection] = set()
        self._resting: list[Connection] = []
        self._timer: asyncio.TimerHandle | None = None
        self._gone: asyncio.Future[None] | None = None
        self.now: Callable[[], float] = asyncio.get_running_loop().time

    def post(
        self,
        path: str,
        body: bytes,
        sink_of: Callable[[Answer], Sink | None] | None = None,
        content_type: str = JSON,
    ) -> Coroutine[Any, Any, Answer]:
        """Send a body to a path below the base URL.

        Args:
            path: as ``chat/completions``.
            body: any bytes.
            content_type: what they are.
            sink_of: called with an answer whose body has not come yet; the sink it returns gets the body's pieces.

        Raises:
            Unreachable: no connection could be made.
            Broken: the connection ended before the answer did, or the answer is not HTTP.
            Unusable: the answer is too large, or compressed.
            NoAnswer: the answer did not come in time.
            Exception: what the sink raised.
        """
        head = self._heads.get((path, content_type))
        if head is None:
            line = f"POST {self._route.target(path)} HTTP/1.1\r\n{self._headers}"
            text = f"{line}Content-Type: {content_type}\r\nContent-Length: "
            head = self._heads[path, content_type] = text.encode("latin-1")
        return self._send(b"%b%d\r\n\r\n" % (head, len(body)), body, sink_of)

    def get(self, path: str) -> Coroutine[Any, Any, Answer]:
        """The answer to a GET of a path below the base URL; raises what `post` raises."""
        return self._send(
            f"GET {self._route.target(path)} HTTP/1.1\r\n{self._headers}\r\n".encode("latin-1"), b"", None
        )

    async def status(self, path: str) -> int | None:
        """The status of the answer to a GET; None where there is no answer."""
        try:
            return (await self.get(path)).status
        except FAILURES:
            return None

    async def close(self) -> None:
        """Close all connections. A request in flight fails."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._resting.clear()
        for connection in tuple(self._open):
            connection.drop()
        if self._open:
            self._gone = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._gone,), timeout=_CLOSING_S)

    async def _send(self, head: bytes, body: bytes, sink_of: Callable[[Answer], Sink | None] | None) -> Answer:
        now = self.now()
        connection = self._rested(now)
        if connection is None:
            connection = await self._connect()
        connection.deadline = now + self._timeout_s
        if self.watches_idleness:
            connection.heard_at = self.now()
        if self._timer is None:
            self._watch()
        answer = await connection.ask(head, body, sink_of)
        connection.deadline = math.inf
        if connection.is_reusable:
            connection.idle_since = self.now()
            self._resting.append(connection)
        return answer

    def _rested(self, now: float) -> Connection | None:
        """An idle connection that can be reused, the last one first: it is the least likely to be closed."""
        while self._resting:
            connection = self._resting.pop()
            if now - connection.idle_since < KEEP_S and connection.is_clean:
                return connection
            connection.drop()
        return None

    async def _connect(self) -> Connection:
        limit = min(self._connect_timeout_s, self._timeout_s)
        try:
            async with asyncio.timeout(limit):
                return await self._connector.connect(lambda: Connection(self))
        except TimeoutError:
            if self._timeout_s < self._connect_timeout_s:
                raise self._too_late() from None
            raise Unreachable(f"no connection within {limit:g} s") from None

    def _too_late(self) -> NoAnswer:
        return NoAnswer(f"no answer within {self._timeout_s:g} s")

    # One timer for all: it looks when the first of them could be over.

    def _watch(self) -> None:
        """Give up requests whose time is over, close connections that rested long, and look again when it is time."""
        now, due = self.now(), [math.inf]
        for connection in tuple(self._open):
            if connection.deadline == math.inf:
                continue
            if connection.deadline <= now:
                connection.give_up(self._too_late())
                continue
            due.append(connection.deadline)
            if self._idle_timeout_s is not None:
                silent_at = connection.heard_at + self._idle_timeout_s
                if silent_at <= now:
                    connection.give_up(NoAnswer(f"not a byte of the answer for {self._idle_timeout_s:g} s"))
                due.append(silent_at)
        while self._resting and self._resting[0].idle_since + KEEP_S <= now:
            self._resting.pop(0).drop()
        if self._resting:
            due.append(self._resting[0].idle_since + KEEP_S)
        loop = asyncio.get_running_loop()
        next_at = min(max(min(due), now + 0.001), now + KEEP_S)
        self._timer = loop.call_at(next_at, self._watch) if len(due) > 1 else None

    # What connections report.

    def opened(self, connection: Connection) -> None:
        """A connection was made."""
        self._open.add(connection)

    def lost(self, connection: Connection) -> None:
        """A connection was closed."""
        self._open.discard(connection)
        if connection in self._resting:
            self._resting.remove(connection)
        if self._gone is not None and not self._open and not self._gone.done():
            self._gone.set_result(None)
