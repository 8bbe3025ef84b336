"""Media by URL: an endpoint on this machine fetches what a run sends, and nobody fetches anything else."""

import asyncio
import base64
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest
from support.calls import ask
from support.chat_server import ChatServer, chat_server

from gage_eval.base.canonical import encode, sha256_hex
from gage_eval.base.errors import EndpointFailed, InputError, StoreError
from gage_eval.config.models import BackendEntry
from gage_eval.config.resources import placement_on
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.backends.build import parse_config
from gage_eval.models.backends.media_server import MediaServer
from gage_eval.models.client.types import Request, Response
from gage_eval.store.media import media_url

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
WAV = b"RIFF\0\0\0\0WAVE" + b"\1" * 3_000_000
STORED = {media_url(sha256_hex(data)): data for data in (PNG, WAV, b"not sent")}
PICTURE, SOUND, OTHER = STORED
fetch = build_opener(ProxyHandler({})).open


def read(url: str) -> bytes:
    try:
        return STORED[url]
    except KeyError:
        raise StoreError(f"{url} is gone from the store.") from None


CONTEXT = BackendContext(Path(), env={}, media=read)


def request(*parts: tuple[str, str], **more: Any) -> Request:
    content = [{"type": kind, kind: {"url": url, **more.pop("holder", {})}} for kind, url in parts]
    return Request("chat", messages=[{"role": "user", "content": content}], **more)


def asked(endpoint: ChatServer, *requests: Request, **config: Any) -> list[Response]:
    """The responses of an endpoint that gets media by URL."""
    with Runtime() as runtime:
        config = {"base_url": endpoint.url, "model": "m", "media_source": "url", **config}
        return ask(runtime, runtime.backend("openai_http", config, CONTEXT), list(requests))


def urls(body: dict[str, Any]) -> list[str]:
    parts = [part for message in body["messages"] for part in message["content"]]
    return [part[part["type"]].get("url", "") for part in parts]


def digests(body: dict[str, Any]) -> str:
    """The hashes of what the URLs of a request lead to, with their types."""
    said = []
    for url in urls(body):
        with fetch(url, timeout=30) as reply:
            said.append(f"{reply.headers['Content-Type']} {sha256_hex(reply.read())}")
    return ", ".join(said)


@pytest.fixture
def endpoint() -> Iterator[ChatServer]:
    with chat_server(digests) as running:
        yield running


def test_an_endpoint_fetches_the_bytes_that_base64_would_hold_and_nothing_after_the_run(endpoint: ChatServer) -> None:
    both = request(("image_url", PICTURE), ("audio_url", SOUND))
    typed = request(("audio_url", SOUND), holder={"media_type": "audio/x-wav"})
    first, second = asked(endpoint, both, typed)
    assert first.answer == f"image/png {sha256_hex(PNG)}, audio/wav {sha256_hex(WAV)}"
    assert second.answer == f"audio/x-wav {sha256_hex(WAV)}"
    sent = [url for body in endpoint.asked for url in urls(body)]
    assert {urlsplit(url).hostname for url in sent} == {"127.0.0.1"}
    for url in sent:
        with pytest.raises(OSError, match=r"[Rr]efused"):
            fetch(url, timeout=30)


def test_media_by_url_and_as_base64_have_one_key(endpoint: ChatServer) -> None:
    picture = request(("image_url", PICTURE))
    with Runtime() as runtime:
        config = {"base_url": endpoint.url, "model": "m"}
        plain, by_url = (
            runtime.backend("openai_http", {**config, "media_source": source}, CONTEXT) for source in ("base64", "url")
        )
        assert encode(plain.body(picture)) == encode(by_url.body(picture))
        assert plain.identity() == by_url.identity()


def test_what_has_no_url_stays_base64(endpoint: ChatServer) -> None:
    endpoint.reply = lambda body: "seen"
    (heard,) = asked(endpoint, request(("audio_url", SOUND)), audio_part="input_audio")
    (read_,) = asked(endpoint, request(("file_url", PICTURE)))
    (embedded,) = asked(endpoint, request(("image_url", PICTURE), embed=True))
    assert [response.answer for response in (heard, read_, embedded)] == ["seen"] * 3
    parts = [body["messages"][0]["content"][0] for body in endpoint.asked]
    assert base64.b64decode(parts[0]["input_audio"]["data"]) == WAV
    assert [part[part["type"]]["url"][:14] for part in parts[1:]] == ["data:image/png"] * 2


def test_an_answer_without_the_media_is_an_error_that_names_the_setting(endpoint: ChatServer) -> None:
    sentence = "set media_source: base64"
    endpoint.reply = lambda body: "a guess"
    (guessed,) = asked(endpoint, request(("image_url", PICTURE)))
    assert (guessed.status, guessed.error_kind, guessed.answer) == ("error", "media_not_fetched", None)
    endpoint.reply = lambda body: 400
    (refused,) = asked(endpoint, request(("image_url", PICTURE)))
    assert (refused.error_kind, len(refused.errors)) == ("http_400", 2)
    assert sentence in guessed.errors[-1]
    assert sentence in refused.errors[-1]
    endpoint.reply = lambda body: 500
    with pytest.raises(EndpointFailed, match=sentence):
        asked(endpoint, *[request(("image_url", PICTURE))] * 3, give_up_after=0.001)


def test_an_error_of_an_endpoint_that_fetched_is_its_own(endpoint: ChatServer) -> None:
    endpoint.reply = lambda body: 400 if digests(body) else 200
    (response,) = asked(endpoint, request(("image_url", PICTURE)))
    assert (response.error_kind, len(response.errors)) == ("http_400", 1)


def test_a_medium_that_is_gone_ends_the_run_as_with_base64(endpoint: ChatServer) -> None:
    def cannot(body: dict[str, Any]) -> int:
        with pytest.raises(OSError, match="404"):
            digests(body)
        return 400

    endpoint.reply = cannot
    with pytest.raises(StoreError, match="is gone from the store"):
        asked(endpoint, request(("image_url", media_url("0" * 64))))


def test_an_endpoint_that_repeats_a_url_tells_nobody_the_token(endpoint: ChatServer) -> None:
    def repeats(body: dict[str, Any]) -> str:
        digests(body)
        return f"I see {urls(body)[0]}"

    endpoint.reply = repeats
    (response,) = asked(endpoint, request(("image_url", PICTURE)))
    token = urlsplit(urls(endpoint.asked[0])[0]).path.split("/")[1]
    assert len(token) >= 32
    assert response.answer is not None
    assert token not in response.answer


@pytest.mark.parametrize("url", ["http://models.example.org/v1", "http://10.0.0.7/v1", "https://127.0.0.1.example.org"])
def test_an_endpoint_elsewhere_gets_no_urls(url: str) -> None:
    with pytest.raises(InputError, match="media_source: url serves media on the loopback address"):
        parse_config("openai_http", {"base_url": url, "model": "m", "media_source": "url"})
    with pytest.raises(InputError, match="media_source: url serves media on the loopback address"):
        parse_config("vllm", {"base_url": url, "model": "m", "media_source": "url"})


@pytest.mark.parametrize(
    "url", ["http://127.0.0.2:1/v1", "http://[::1]:1/v1", "http://localhost:1", "http+unix://%2Fs"]
)
def test_an_endpoint_here_gets_urls(url: str) -> None:
    assert parse_config("openai_http", {"base_url": url, "model": "m", "media_source": "url"})


def test_an_engine_on_a_work_pool_gets_no_urls() -> None:
    config = {"model_path": "some/model", "media_source": "url"}
    backend = BackendEntry.model_validate({"backend_id": "b", "type": "vllm", "config": config})
    with pytest.raises(InputError, match=r"media_source: url.*work pool 'gpus' cannot fetch them there"):
        placement_on("gpus", backend)


def attacked(attack: Callable[[str], Awaitable[Any]]) -> Any:
    """What came of an attack on a server that was told to serve one picture at a URL."""

    async def serve() -> Any:
        server = MediaServer(read, frozenset({"image_url"}))
        await server.open()
        try:
            return await attack(server.url("image_url", PICTURE, None) or "")
        finally:
            await server.close()

    return asyncio.run(serve())


def in_thread(*request: str, **headers: str) -> Awaitable[tuple[int, bytes]]:
    """`answered`, in none of the threads in which the server reads media."""
    return asyncio.get_running_loop().run_in_executor(ThreadPoolExecutor(1), partial(answered, *request, **headers))


def answered(url: str, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    """Status and body of the answer to a request as it is written."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def test_only_the_url_that_was_sent_is_answered() -> None:
    other = sha256_hex(b"not sent")

    async def attack(url: str) -> list[tuple[int, bytes]]:
        path = urlsplit(url).path
        _, token, seal, name, _ = path.split("/")
        wrong = [
            "/", f"/{token}", f"/{token}/", f"/{token}/{seal}", f"/{token}/{seal}/", f"/{name}",
            f"/media/sha256/{name}",
            f"/{token}/{seal}/{other}/", f"/{token}/{seal}/{name}/../{other}", f"/{token}/{seal}/{name}/text/html",
            f"/{token}/{'0' * 64}/{name}/", f"/{'x' * len(token)}/{seal}/{name}/", f"/{token}/{seal}/../../etc/passwd",
            f"/{token}/{seal}/%2e%2e%2f{name}/", f"{path}?x=1", f"{path}/", path.upper(), path[:-1], "*",
            f"http://127.0.0.1{path}", f"/{'a' * 8000}", "/%FF",
        ]  # fmt: skip
        calls = [in_thread(url, body) for body in wrong]
        calls += [in_thread(url, path, method) for method in ("POST", "PUT", "DELETE", "OPTIONS")]
        return await asyncio.gather(*calls)

    for status, body in attacked(attack):
        assert status == 404
        assert b"not sent" not in body
        assert b"PNG" not in body


def test_ranges_and_head_get_the_whole_medium_or_none_of_it() -> None:
    async def attack(url: str) -> list[tuple[int, bytes]]:
        path = urlsplit(url).path
        ranges = ("bytes=0-0", "bytes=0-99999999999999999999", "bytes=" + ",".join(["0-9"] * 1000), "bytes=9-1", "x")
        calls = [in_thread(url, path, Range=value) for value in ranges]
        calls.append(in_thread(url, path, "HEAD"))
        return await asyncio.gather(*calls)

    *ranged, head = attacked(attack)
    assert ranged == [(200, PNG)] * 5
    assert head == (200, b"")


def test_a_look_at_the_headers_is_no_fetch(endpoint: ChatServer) -> None:
    def looks(body: dict[str, Any]) -> str:
        url = urls(body)[0]
        return str(answered(url, urlsplit(url).path, "HEAD")[0])

    endpoint.reply = looks
    (response,) = asked(endpoint, request(("image_url", PICTURE)))
    assert response.error_kind == "media_not_fetched"


def test_what_is_no_request_or_too_large_costs_only_its_connection() -> None:
    async def attack(url: str) -> tuple[list[bytes], bytes]:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        raw = []
        for sent in (
            b"\0" * 100,
            b"GET / HTTP/1.1\r\n" + b"X: " + b"x" * 40_000 + b"\r\n\r\n",
            b"\r\n" * 9 + b"quit\n\n",
        ):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(sent)
            raw.append(await reader.read(1000))
            writer.close()
        return raw, (await in_thread(url, urlsplit(url).path))[1]

    raw, picture = attacked(attack)
    assert all(b" 400 " in answer or b" 413 " in answer or answer == b"" for answer in raw)
    assert picture == PNG


def test_clients_that_never_read_do_not_keep_others_or_the_end_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STORED, PICTURE, WAV)

    async def attack(url: str) -> bytes:
        head = f"GET {urlsplit(url).path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        held = []
        for _ in range(20):
            client = socket.create_connection((urlsplit(url).hostname or "", urlsplit(url).port or 0))
            client.sendall(head)
            held.append(client)
        try:
            return (await in_thread(url, urlsplit(url).path))[1]
        finally:
            asyncio.get_running_loop().call_later(0.5, lambda: [client.close() for client in held])

    assert attacked(attack) == WAV
