"""Calls against the mock endpoint: what an endpoint may do to us, and what a run makes of it."""

import base64
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.calls import ask, chat, connect
from support.endpoint import mock_endpoint

from gage_eval.base.canonical import encode
from gage_eval.base.errors import EndpointFailed, InputError
from gage_eval.engine.runtime import Runtime
from gage_eval.models.client.echoes import EchoedKey
from gage_eval.models.client.http import Ask, HTTPEndpoint
from gage_eval.models.client.payload import Malformed
from gage_eval.models.client.retry import RetryPolicy
from gage_eval.models.client.types import Response
from gage_eval.models.client.watch import Retry, watch_retries


def test_every_row_is_answered_right_through_refusals_errors_resets_hangs_and_garbage() -> None:
    faults = {"429": 0.05, "500": 0.02, "reset": 0.02, "malformed": 0.02, "hang": 0.01}
    with mock_endpoint(fault=faults, retry_after=1, hang_s=0.5) as endpoint, Runtime() as runtime:
        backend = connect(runtime, endpoint.url, max_concurrency=64)
        responses = ask(runtime, backend, [chat(n) for n in range(500)])
        stats = endpoint.stats()
    assert [(r.status, r.answer) for r in responses] == [("ok", f"ANSWER: {n + 1}") for n in range(500)]
    assert set(stats["faults"]) == set(faults)
    assert stats["resent_after_answer"] == 0
    assert stats["requests"] == sum(r.attempts for r in responses)
    assert all(len(r.errors) == r.attempts - 1 for r in responses)
    assert stats["max_in_flight"] <= 64


def test_a_row_that_never_succeeds_is_an_error_row_with_what_each_attempt_came_to() -> None:
    with mock_endpoint(fault={"malformed": 1.0}) as endpoint, Runtime() as runtime:
        backend = connect(runtime, endpoint.url, max_attempts=2)
        (response,) = ask(runtime, backend, [chat(1)])
    assert (response.status, response.error_kind, response.attempts) == ("error", "malformed", 2)
    assert len(response.errors) == 2
    assert "not JSON" in response.errors[0]


def unreadable(reply: Any) -> Response:
    raise Malformed("not JSON")


async def test_a_retry_is_told_to_the_caller_before_the_next_attempt() -> None:
    with mock_endpoint(fault={"malformed": 1.0}) as endpoint:
        http = HTTPEndpoint(endpoint.url, api_key=None, policy=RetryPolicy(max_attempts=3), env={})
        await http.open()
        told: list[tuple[Retry, int]] = []
        watch_retries(lambda retry: told.append((retry, endpoint.stats()["requests"])))
        response = await http.call(
            Ask("chat/completions", encode({"model": "mock", "messages": chat(1).messages}), unreadable)
        )
        await http.close()
    assert response.attempts == 3
    assert [(retry.attempt, retry.kind, sent) for retry, sent in told] == [(1, "malformed", 1), (2, "malformed", 2)]
    assert [retry.message for retry, _ in told] == response.errors[:2]
    assert all(retry.wait_s > 0 for retry, _ in told)


def test_a_request_that_takes_too_long_is_given_up() -> None:
    with mock_endpoint(latency_ms=60_000) as endpoint, Runtime() as runtime:
        backend = connect(runtime, endpoint.url, timeout=0.05, max_attempts=1)
        (response,) = ask(runtime, backend, [chat(1)])
    assert (response.status, response.error_kind) == ("error", "timeout")
    assert response.errors == ["no answer within 0.05 s"]


def test_a_prompt_beyond_the_context_costs_its_row_one_request() -> None:
    with mock_endpoint(fault={"context": 1.0}) as endpoint, Runtime() as runtime:
        (response,) = ask(runtime, connect(runtime, endpoint.url), [chat(1)])
        assert endpoint.stats()["requests"] == 1
    assert (response.status, response.error_kind) == ("error", "context_too_long")


def test_a_refused_key_ends_the_run_and_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    env = {"SOME_KEY": "sk-planted-canary"}
    with mock_endpoint(api_key="sk-right") as endpoint, Runtime() as runtime, caplog.at_level(logging.DEBUG):
        backend = connect(runtime, endpoint.url, env, api_key="env:SOME_KEY")
        with pytest.raises(EndpointFailed) as caught:
            ask(runtime, backend, [chat(1)])
        assert str(caught.value) == (
            f"{endpoint.url} answers 401 (invalid API key ***). Set the key that 'api_key' refers to."
        )
        shown = repr(backend) + repr(vars(backend)) + repr(backend.identity()) + caplog.text
    assert "sk-planted-canary" not in shown


@pytest.mark.parametrize("key", [b"sk-planted-canary", b"\\u0073k-planted-canary"])
def test_a_key_that_an_endpoint_repeats_in_its_answer_is_masked(key: bytes) -> None:
    reply = b'{"choices":[{"message":{"content":"your key is %s"},"finish_reason":"stop"}]}' % key
    with Runtime() as runtime:
        url, stop = serve_once(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(reply), reply))
        backend = connect(runtime, url, {"SOME_KEY": "sk-planted-canary"}, api_key="env:SOME_KEY")
        (response,) = ask(runtime, backend, [chat(1)])
        stop()
    assert response.answer == "your key is ***"


@pytest.mark.parametrize("before", ["", "a", "ab", "Bearer "])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_key_that_an_endpoint_repeats_encoded_is_masked(before: str, encode: Callable[[bytes], bytes]) -> None:
    key = "sk-planted?canary>\u00fc>?"
    echoed = encode(f"{before}{key}, and more".encode()).decode()
    masked = EchoedKey(key).masked_in(f"not {echoed} please")
    assert "***" in masked
    # Of the characters at both ends, only those are left that also belong to what stands beside the key.
    left = masked.removeprefix("not ").removesuffix(" please").replace("***", "")
    assert len(left) <= len(echoed) - len(key.encode()) * 8 // 6 + 2


def test_a_key_that_an_error_repeats_encoded_is_masked() -> None:
    key = "sk-planted-canary"
    escaped = "".join(f"\\u{ord(character):04x}" for character in key)
    encoded = base64.b64encode(f"user:{key}".encode()).decode()
    body = f"no such user: {encoded} {escaped}, key sk-planted-ca... or sk-plant".encode()
    with Runtime() as runtime:
        url, stop = serve_once(b"HTTP/1.1 418 No\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        backend = connect(runtime, url, {"SOME_KEY": key}, api_key="env:SOME_KEY")
        (response,) = ask(runtime, backend, [chat(1)])
        stop()
    (error,) = response.errors
    assert error.count("***") == 4
    assert "sk-plant" not in error
    assert "***... or" in error
    assert base64.b64encode(key.encode()).decode()[4:12] not in error


def test_the_right_key_is_sent() -> None:
    with mock_endpoint(api_key="sk-right") as endpoint, Runtime() as runtime:
        backend = connect(runtime, endpoint.url, {"SOME_KEY": "sk-right"}, api_key="env:SOME_KEY")
        assert ask(runtime, backend, [chat(1)])[0].status == "ok"


def test_a_key_that_is_not_set_is_named_before_anything_is_sent() -> None:
    with mock_endpoint() as endpoint, Runtime() as runtime:
        with pytest.raises(InputError, match="api_key refers to env:NO_SUCH, but NO_SUCH is not set"):
            connect(runtime, endpoint.url, api_key="env:NO_SUCH")
        assert endpoint.stats()["requests"] == 0


def test_an_unknown_model_ends_the_run_with_its_name() -> None:
    with mock_endpoint() as endpoint, Runtime() as runtime:
        backend = connect(runtime, endpoint.url, model="no-such-model")
        with pytest.raises(EndpointFailed, match=r"answers 404 \(the model 'no-such-model' does not exist\)"):
            ask(runtime, backend, [chat(1)])


def test_a_web_page_in_place_of_an_answer_ends_the_run_at_once() -> None:
    page = b"<!DOCTYPE html><html><body>It works!</body></html>"
    with Runtime() as runtime:
        url, stop = serve_once(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(page), page))
        backend = connect(runtime, url)
        with pytest.raises(EndpointFailed, match=r"a web page.*Check 'base_url'") as error:
            ask(runtime, backend, [chat(1)])
        stop()
    assert "It works" not in str(error.value)


def test_an_endpoint_nobody_listens_at_ends_the_run_with_its_url() -> None:
    with socket.socket() as bound, Runtime() as runtime:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/v1"
        backend = connect(runtime, url, max_attempts=2)
        with pytest.raises(EndpointFailed, match=f"{url} cannot be reached"):
            ask(runtime, backend, [chat(1)])


def test_a_url_that_is_none_is_refused_before_anything_is_sent() -> None:
    with Runtime() as runtime, pytest.raises(InputError, match="base_url is not a URL: Port out of range 0-65535"):
        connect(runtime, "http://host:99999/v1")


def test_a_proxy_of_the_environment_is_not_used_for_loopback() -> None:
    env = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    with mock_endpoint() as endpoint, Runtime() as runtime:
        assert ask(runtime, connect(runtime, endpoint.url, env), [chat(1)])[0].status == "ok"


def serve_once(
    reply: bytes, listening: socket.socket | None = None, *, hold_s: float = 0.0
) -> tuple[str, Callable[[], None]]:
    """A server that gives the same bytes to every request, and closes the connection after a while."""
    server = listening or socket.create_server(("127.0.0.1", 0))
    stopped = threading.Event()

    def run() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                client.recv(65536)
                client.sendall(reply)
                stopped.wait(hold_s)

    threading.Thread(target=run, daemon=True).start()

    def stop() -> None:
        stopped.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()

    port = server.getsockname()[1] if listening is None else 0
    return f"http://127.0.0.1:{port}/v1", stop


def test_a_redirect_is_not_followed_with_the_key() -> None:
    with mock_endpoint() as elsewhere, Runtime() as runtime:
        location = f"{elsewhere.url}/chat/completions".encode()
        url, stop = serve_once(b"HTTP/1.1 307 Moved\r\nlocation: " + location + b"\r\ncontent-length: 0\r\n\r\n")
        backend = connect(runtime, url, {"K": "sk-secret"}, api_key="env:K")
        with pytest.raises(EndpointFailed, match=r"answers 307\. Set 'base_url' to where it points"):
            ask(runtime, backend, [chat(1)])
        stop()
        assert elsewhere.stats()["requests"] == 0


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n" + b'{"choices":[]}',
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n" + b"[" * 20,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"not http at all\r\n\r\n",
        b"",
    ],
)
def test_no_garbage_from_an_endpoint_is_more_than_an_error_row(reply: bytes) -> None:
    with Runtime() as runtime:
        url, stop = serve_once(reply)
        (response,) = ask(runtime, connect(runtime, url, max_attempts=1), [chat(1)])
        stop()
    assert response.status == "error"
    assert response.error_kind in {"malformed", "connection"}


def test_an_answer_that_is_compressed_unasked_is_an_error_row_that_says_so() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n"
    with Runtime() as runtime:
        url, stop = serve_once(head + b"{}")
        (response,) = ask(runtime, connect(runtime, url, max_attempts=1), [chat(1)])
        stop()
    assert (response.status, response.error_kind) == ("error", "malformed")
    assert response.errors == ["a compressed answer (gzip), which was not asked for"]


def test_a_stream_that_stalls_is_given_up_after_the_idle_timeout() -> None:
    first = b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n"
    with Runtime() as runtime:
        url, stop = serve_once(head + first, hold_s=30.0)
        backend = connect(runtime, url, max_attempts=1, stream=True, idle_timeout=0.2)
        (response,) = ask(runtime, backend, [chat(1)])
        stop()
    assert (response.status, response.error_kind) == ("error", "timeout")
    assert response.errors == ["not a byte of the answer for 0.2 s"]


def test_an_endpoint_behind_a_unix_socket_is_asked_by_its_path(tmp_path: Path) -> None:
    reply = b'{"choices":[{"message":{"content":"from the socket"},"finish_reason":"stop"}]}'
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "m.sock"))
    server.listen()
    with Runtime() as runtime:
        _, stop = serve_once(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(reply), reply), server)
        backend = connect(runtime, f"http+unix://{str(tmp_path).replace('/', '%2F')}%2Fm.sock/v1")
        (response,) = ask(runtime, backend, [chat(1)])
        stop()
    assert response.answer == "from the socket"


def test_a_certificate_nobody_trusts_ends_the_run_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, Runtime() as runtime:
        port = listening.getsockname()[1]
        serve_tls_once(listening)
        backend = connect(runtime, f"https://127.0.0.1:{port}/v1", max_attempts=1)
        with pytest.raises(EndpointFailed, match=r"cannot be reached \(.*certificate verify failed.*; 1 attempts\)"):
            ask(runtime, backend, [chat(1)])


def test_certificates_that_cannot_be_read_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    env = {"SSL_CERT_FILE": str(tmp_path / "missing.pem")}
    with Runtime() as runtime, pytest.raises(InputError, match=r"SSL_CERT_FILE names .*missing\.pem, which holds no"):
        connect(runtime, "https://model.test/v1", env)


def serve_tls_once(listening: socket.socket) -> None:
    """Shake hands with one client, with a certificate of an authority that is not trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    def run() -> None:
        client, _ = listening.accept()
        with contextlib.suppress(OSError), context.wrap_socket(client, server_side=True):
            pass

    threading.Thread(target=run, daemon=True).start()
