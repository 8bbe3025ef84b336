"""A relay that listens, before a model of the test's own making."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from gage_eval.box.types import BoxSpec, Limits
from gage_eval.engine.agents.relay import Relay
from gage_eval.engine.episodes import _calls_of
from gage_eval.models.client.agents import Agent
from gage_eval.models.client.episode_limits import EpisodeLimits
from gage_eval.models.client.http_server import HTTPServer
from gage_eval.models.client.types import Request, Response

Answer = Callable[[Request], Awaitable[Response]]
TOOL = {"type": "object", "properties": {"a": {"type": "integer"}}}


def agent(**changes: Any) -> Agent:
    """An agent whose program the test plays itself."""
    values: dict[str, Any] = {
        "command": ["true"],
        "answer_file": None,
        "max_turns": 100,
        "limits": Limits(),
        "spec": BoxSpec,
        "takes_tools": True,
        "identity": "agent",
    }
    return Agent(**{**values, **changes})


class Listening:
    """A relay and where it listens.

    Attributes:
        asked: what the model was asked.
    """

    def __init__(self, answer: Answer, episode: EpisodeLimits | None = None, **changes: Any) -> None:
        self.asked: list[Request] = []
        self._answer = answer
        request = Request("agent", draw=1, params={"seed": 7}, agent=agent(**changes), limits=episode)
        self.relay = Relay(self._generate, request, _calls_of)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.environment = self.relay.environment(self.port)
        self.openai = self.environment["OPENAI_BASE_URL"]
        self.anthropic = self.environment["ANTHROPIC_BASE_URL"]

    async def _generate(self, request: Request) -> Response:
        self.asked.append(request)
        return await self._answer(request)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Listening"]:
        server = HTTPServer(self.relay.answer)
        listening = await asyncio.start_server(server.converse, sock=self._socket)
        try:
            yield self
        finally:
            self.relay.close()
            listening.close()
            server.close()

    async def send(self, path: str, body: Any, method: str = "POST", **headers: str) -> tuple[int, Any]:
        """Status and JSON of a reply."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"{method} {self.anthropic.partition(str(self.port))[2]}{path} HTTP/1.1", "Host: relay"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(data)}", "Connection: close"]
        writer.write("\r\n".join([*lines, "", ""]).encode() + data)
        reply = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        head, _, content = reply.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(content)


async def says(request: Request) -> Response:
    """The draw and the last message."""
    assert request.messages
    return Response("ok", f"{request.draw}: {request.messages[-1]['content']}", prompt_tokens=3, completion_tokens=4)
