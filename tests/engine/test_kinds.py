"""Kinds of requests: each says what it needs and returns, and a backend refuses what it does not serve."""

import asyncio
import json
from dataclasses import fields
from pathlib import Path

import pytest
from engine.asking import Prompts, Scripted, echo, step_of
from support.http_server import Exchange, served

from gage_eval.base.errors import InputError
from gage_eval.box.types import Program
from gage_eval.extend import registry
from gage_eval.models.backends.asked import is_empty
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import build_backend
from gage_eval.models.client.types import KINDS, BoxedProgram, Request, Response
from gage_eval.store import Store

VECTOR = [0.25, -1.0, 3e-05]
EMBEDDED = {"data": [{"index": 0, "embedding": VECTOR}], "model": "m-1", "usage": {"prompt_tokens": 3}}
PROGRAM = BoxedProgram(Program("script", "print(1)"))


class Texts(Prompts):
    """Texts to embed, or programs to run."""

    def request(self, part: int, ask: int) -> Request:
        request = super().request(part, ask)
        if self._kind == "run":
            request.program = PROGRAM
        else:
            request.prompt = self._prompts[part][ask]
        request.messages = None
        return request


async def embeddings(exchange: Exchange) -> None:
    """Answers every request with one vector."""
    body = json.dumps(EMBEDDED).encode()
    while True:
        await exchange.request()
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))


def test_each_kind_needs_a_field_of_requests_and_returns_one_of_responses() -> None:
    request_fields, answered = ({field.name for field in fields(kind)} for kind in (Request, Response))
    assert {kind.needs for kind in KINDS.values()} <= request_fields
    assert {kind.returns for kind in KINDS.values()} <= answered


@pytest.mark.parametrize(
    ("request_", "empty"),
    [
        (Request("chat", messages=[{"role": "user", "content": " "}]), True),
        (Request("completion", prompt=" "), True),
        (Request("likelihood", prompt="", choices=[]), True),
        (Request("likelihood", prompt="", choices=["a"]), False),
        (Request("embed", prompt=""), False),
        (Request("embed"), True),
        (Request("run", program=BoxedProgram(None)), False),
        (Request("run"), True),
    ],
)
def test_a_request_is_empty_only_without_what_its_kind_needs(request_: Request, empty: bool) -> None:
    assert is_empty(request_) is empty


def test_texts_are_embedded_through_an_endpoint_and_the_vectors_are_kept(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path))

    async def embed() -> list[bytes]:
        async with served(embeddings) as seen:
            config = {"base_url": seen.url, "model": "m", "default_params": {"temperature": 1}, "dimensions": 3}
            backend = build_backend("openai_http", config, BackendContext(Path(), env={}))
            step = step_of(store, Texts(["one", "", "one"], kind="embed"), backend)
            await backend.open(None)
            try:
                await step.engine.run()
            finally:
                await backend.close()
            rows = step.responses.commit().table().to_pylist()
            assert [json.loads(row["answer"]) for row in rows] == [VECTOR] * 3
            assert {(row["status"], row["prompt_tokens"]) for row in rows} == {("ok", 3)}
            return seen.requests

    requests = asyncio.run(embed())
    assert {request.split(b" ", 2)[1] for request in requests} == {b"/v1/embeddings"}
    bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in requests]
    assert sorted(body.pop("input") for body in bodies) == ["", "one"], "equal texts are sent once"
    assert bodies == [{"model": "m", "dimensions": 3}] * 2


@pytest.mark.parametrize("kind", ["run", "embed", "completion"])
def test_a_backend_refuses_a_kind_that_it_does_not_serve_before_anything_is_sent(tmp_path: Path, kind: str) -> None:
    backend = Scripted(echo)
    step = step_of(Store.open(str(tmp_path)), Texts(["one", "two"], kind=kind), backend)
    with pytest.raises(InputError, match=rf"^backend 'scripted' cannot answer {kind} requests\. It can: chat\. "):
        asyncio.run(step.engine.run())
    assert backend.asked == []


def test_a_kind_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    step = step_of(Store.open(str(tmp_path)), Texts(["one"], kind="embedd"), Scripted(echo))
    with pytest.raises(InputError, match=r"no 'embedd' requests.*Did you mean 'embed'"):
        asyncio.run(step.engine.run())


def test_no_built_in_backend_runs_programs() -> None:
    for name in registry.backends.names():
        assert "run" not in registry.backends.get(name).obj.capabilities
