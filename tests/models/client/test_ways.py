"""The ways to an endpoint: TLS, proxies, IPv6, Unix sockets, names with several addresses."""

import asyncio
import base64
import socket
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest
import trustme
from support.http_server import OK, Exchange, Script, client_of, on_both_loops, served
from support.waiting import Stopwatch

from gage_eval.base.errors import InputError
from gage_eval.models.backends.certificates import new_certificate
from gage_eval.models.client import connect
from gage_eval.models.client.connect import Connector, Unreachable
from gage_eval.models.client.route import route_to


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(path)
    return str(path)


def tls_of(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


# TLS


@on_both_loops
async def test_tls_with_a_private_authority(authority: trustme.CA, ca_file: str) -> None:
    tls = tls_of(authority, "localhost", "127.0.0.1")
    async with served(tls=tls) as seen:
        url = seen.url.replace("127.0.0.1", "localhost")
        async with client_of(url, env={"SSL_CERT_FILE": ca_file}) as client:
            body = b"a" * 3_000_000
            for _ in range(3):
                assert (await client.post("x", body)).body == b"{}"
        async with client_of(seen.url, env={"SSL_CERT_FILE": ca_file}) as client:
            assert (await client.post("x", b"{}")).body == b"{}"
    assert seen.names == ["localhost", None]
    assert [len(request) > len(body) for request in seen.requests] == [True, True, True, False]
    assert seen.connections == 2


@on_both_loops
async def test_a_certificate_of_an_unknown_authority_is_refused(authority: trustme.CA) -> None:
    async with served(tls=tls_of(authority, "127.0.0.1")) as seen, client_of(seen.url) as client:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await client.post("x", b"{}")
    assert seen.requests == []


@on_both_loops
async def test_a_certificate_of_another_host_is_refused(authority: trustme.CA, ca_file: str) -> None:
    tls = tls_of(authority, "model.test")
    async with served(tls=tls) as seen, client_of(seen.url, env={"SSL_CERT_FILE": ca_file}) as client:
        with pytest.raises(Unreachable, match=r"certificate is not valid for '127.0.0.1'"):
            await client.post("x", b"{}")
    assert seen.requests == []


@on_both_loops
async def test_a_body_to_the_end_over_tls(authority: trustme.CA, ca_file: str) -> None:
    async def to_close(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(b"HTTP/1.1 200 OK\r\n\r\n", b"half", b" and half")

    tls = tls_of(authority, "127.0.0.1")
    async with served(to_close, tls=tls) as seen, client_of(seen.url, env={"SSL_CERT_FILE": ca_file}) as client:
        for _ in range(2):
            assert (await client.post("x", b"{}")).body == b"half and half"


@on_both_loops
async def test_a_tls_connection_that_was_closed_while_it_rested_is_not_used(
    authority: trustme.CA, ca_file: str
) -> None:
    async def once(exchange: Exchange) -> None:
        await exchange.request()
        await exchange.send(OK)

    tls = tls_of(authority, "127.0.0.1")
    async with served(once, tls=tls) as seen, client_of(seen.url, env={"SSL_CERT_FILE": ca_file}) as client:
        for _ in range(3):
            assert (await client.post("x", b"{}")).status == 200
            await asyncio.sleep(0.2)
    assert (len(seen.requests), seen.connections) == (3, 3)


@on_both_loops
async def test_a_server_that_does_not_speak_tls_is_unreachable() -> None:
    async with served() as seen, client_of(seen.url.replace("http:", "https:"), connect_timeout_s=0.5) as client:
        with pytest.raises(Unreachable):
            await client.post("x", b"{}")


@on_both_loops
async def test_a_handshake_that_hangs_ends_with_the_time_to_connect() -> None:
    async def silent(exchange: Exchange) -> None:
        await asyncio.sleep(60)

    async with served(silent) as seen, client_of(f"https://127.0.0.1:{seen.port}", connect_timeout_s=0.2) as client:
        with pytest.raises(Unreachable, match=r"no connection within 0\.2 s"):
            await client.post("x", b"{}")


def test_a_certificate_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    env = {"SSL_CERT_FILE": str(tmp_path / "none.pem")}
    with pytest.raises(InputError, match=r"SSL_CERT_FILE names .*none\.pem, which holds no certificates: no such file"):
        Connector(route_to("https://host", {}), env)
    (tmp_path / "none.pem").write_text("not a certificate")
    with pytest.raises(InputError, match=r"SSL_CERT_FILE names .*none\.pem, which holds no certificates"):
        Connector(route_to("https://host", {}), env)


# TLS with one certificate


def own_tls(folder: Path) -> tuple[ssl.SSLContext, str]:
    """A server's side with a certificate of its own, and that certificate."""
    folder.mkdir()
    made = new_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.file, made.key_file)
    return context, made.pem


@on_both_loops
async def test_a_server_that_shows_the_one_certificate_is_asked_whatever_its_name(tmp_path: Path) -> None:
    tls, certificate = own_tls(tmp_path / "a")
    assert stat.S_IMODE((tmp_path / "a" / "key.pem").stat().st_mode) == 0o600
    async with served(tls=tls) as seen, served(proxy_to(seen.port)) as proxy:
        env = {"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}"}
        async with client_of(seen.url, certificate=certificate) as client:
            assert (await client.post("x", b"{}")).body == b"{}"
        async with client_of("https://model.test/v1", env=env, certificate=certificate) as client:
            assert (await client.post("x", b"{}")).body == b"{}"
    assert len(seen.requests) == 2


@on_both_loops
async def test_another_certificate_than_the_one_is_refused_even_if_an_authority_vouches_for_it(
    authority: trustme.CA, ca_file: str, tmp_path: Path
) -> None:
    _, certificate = own_tls(tmp_path / "a")
    for tls in (tls_of(authority, "127.0.0.1"), own_tls(tmp_path / "b")[0]):
        async with (
            served(tls=tls) as seen,
            client_of(seen.url, env={"SSL_CERT_FILE": ca_file}, certificate=certificate) as client,
        ):
            with pytest.raises(Unreachable, match="certificate verify failed"):
                await client.post("x", b"{}")
        assert seen.requests == []


@on_both_loops
async def test_a_proxy_that_speaks_tls_is_verified_as_usual(tmp_path: Path) -> None:
    """The one certificate is that of the endpoint."""
    tls, certificate = own_tls(tmp_path / "a")
    async with served(tls=tls) as model, served(proxy_to(model.port), tls=tls) as proxy:
        env = {"ALL_PROXY": f"https://127.0.0.1:{proxy.port}"}
        async with client_of("https://model.test/v1", env=env, certificate=certificate) as client:
            with pytest.raises(Unreachable, match="certificate verify failed"):
                await client.post("x", b"{}")
    assert model.requests == []


@pytest.mark.parametrize(
    "text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_what_is_no_certificate_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="certificate"):
        Connector(route_to("https://host", {}, text), {})


# Proxies


def proxy_to(port: int | None, status: bytes = b"200 Connection established") -> Script:
    """A proxy that tunnels everything to a port of this machine, and answers other requests itself."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def script(exchange: Exchange) -> None:
        while not (await exchange.request()).startswith(b"CONNECT"):
            await exchange.send(OK)
        await exchange.send(b"HTTP/1.1 %b\r\n\r\n" % status)
        if status.startswith(b"200"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(pass_on(exchange.reader, writer), pass_on(reader, exchange.writer))

    return script


@on_both_loops
async def test_tls_goes_through_the_tunnel_of_a_proxy(authority: trustme.CA, ca_file: str) -> None:
    async with (
        served(tls=tls_of(authority, "model.test")) as model,
        served(proxy_to(model.port)) as proxy,
    ):
        env = {"HTTPS_PROXY": f"http://me:p%40ss@127.0.0.1:{proxy.port}", "SSL_CERT_FILE": ca_file}
        async with client_of("https://model.test/v1", env=env) as client:
            for _ in range(3):
                assert (await client.post("x", b"{}")).body == b"{}"
    (request,) = proxy.requests
    assert request.split(b"\r\n")[:2] == [b"CONNECT model.test:443 HTTP/1.1", b"Host: model.test:443"]
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:p@ss") in request
    assert len(model.requests) == 3
    assert all(b"Proxy-Authorization" not in request for request in model.requests)
    assert (model.names, model.connections) == (["model.test"], 1)


@on_both_loops
async def test_a_proxy_may_speak_tls_itself(authority: trustme.CA, ca_file: str) -> None:
    async with (
        served(tls=tls_of(authority, "model.test")) as model,
        served(proxy_to(model.port), tls=tls_of(authority, "localhost")) as proxy,
    ):
        env = {"ALL_PROXY": f"https://localhost:{proxy.port}", "SSL_CERT_FILE": ca_file}
        async with client_of("https://model.test/v1", env=env) as client:
            assert (await client.post("x", b"a" * 2_000_000)).body == b"{}"
            assert (await client.post("x", b"{}")).body == b"{}"
    assert (model.names, proxy.names) == (["model.test"], ["localhost"])


@on_both_loops
async def test_plain_http_asks_the_proxy_for_the_whole_url() -> None:
    async with served(proxy_to(None)) as proxy:
        env = {"http_proxy": f"http://me:you@127.0.0.1:{proxy.port}"}
        async with client_of("http://model.test:8000/v1?a=b", env=env) as client:
            assert (await client.post("chat/completions", b"{}")).body == b"{}"
    lines = proxy.requests[0].split(b"\r\n")
    assert lines[0] == b"POST http://model.test:8000/v1/chat/completions?a=b HTTP/1.1"
    assert b"Host: model.test:8000" in lines
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:you") in lines


@pytest.mark.parametrize("status", [b"407 Proxy Authentication Required", b"502 Bad Gateway"])
@on_both_loops
async def test_a_proxy_that_refuses_is_told_with_its_answer(status: bytes) -> None:
    async with served(proxy_to(None, status)) as proxy:
        env = {"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}"}
        async with client_of("https://model.test/v1", env=env) as client:
            with pytest.raises(Unreachable, match=f"the proxy 127.0.0.1:{proxy.port} answers {status[:3].decode()}"):
                await client.post("x", b"{}")


@on_both_loops
async def test_a_proxy_that_hangs_or_goes_away_costs_no_more_than_the_time_to_connect() -> None:
    async def silent(exchange: Exchange) -> None:
        await exchange.request()
        await asyncio.sleep(60)

    async def gone(exchange: Exchange) -> None:
        await exchange.request()

    closed = "closed the connection without an answer"
    for script, limit_s, reason in ((silent, 0.2, "no connection within 0.2 s"), (gone, 60.0, closed)):
        async with served(script) as proxy:
            env = {"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}"}
            async with client_of("https://model.test/v1", env=env, connect_timeout_s=limit_s) as client:
                with pytest.raises(Unreachable, match=reason):
                    await client.post("x", b"{}")


@pytest.mark.parametrize(
    ("url", "env", "proxied"),
    [
        ("https://model.test/v1", {"HTTPS_PROXY": "http://proxy:8080"}, True),
        ("https://model.test/v1", {"all_proxy": "http://proxy:8080"}, True),
        ("https://model.test/v1", {"HTTP_PROXY": "http://proxy:8080"}, False),
        ("https://model.test/v1", {"HTTPS_PROXY": ""}, False),
        ("https://model.test/v1", {"HTTPS_PROXY": "http://proxy:8080", "NO_PROXY": "model.test"}, False),
        ("https://model.test/v1", {"HTTPS_PROXY": "http://proxy:8080", "no_proxy": "other, .test"}, False),
        ("https://model.test:8443/v1", {"HTTPS_PROXY": "http://proxy:8080", "NO_PROXY": "model.test:8443"}, False),
        ("https://model.test/v1", {"HTTPS_PROXY": "http://proxy:8080", "NO_PROXY": "*"}, False),
        ("https://model.test/v1", {"HTTPS_PROXY": "http://proxy:8080", "NO_PROXY": "odel.test"}, True),
        ("http://localhost:8000", {"HTTP_PROXY": "http://proxy:8080"}, False),
        ("http://127.0.0.2:8000", {"HTTP_PROXY": "http://proxy:8080"}, False),
        ("http://10.1.2.3:8000", {"HTTP_PROXY": "http://proxy:8080"}, True),
        ("http://10.1.2.3:8000", {"HTTP_PROXY": "http://proxy:8080", "NO_PROXY": "x, 10.0.0.0/8"}, False),
        ("http://11.1.2.3:8000", {"HTTP_PROXY": "http://proxy:8080", "NO_PROXY": "10.0.0.0/8"}, True),
        ("http://[fd00::1]:80", {"HTTP_PROXY": "http://proxy:8080", "NO_PROXY": "fd00::/8"}, False),
        ("http://[::1]:8000", {"HTTP_PROXY": "http://proxy:8080"}, False),
        ("http+unix://%2Frun%2Fm.sock", {"HTTP_PROXY": "http://proxy:8080", "ALL_PROXY": "http://proxy:1"}, False),
    ],
)
def test_which_proxy_is_used(url: str, env: Mapping[str, str], proxied: bool) -> None:
    assert (route_to(url, env).proxy is not None) == proxied


@pytest.mark.parametrize(
    ("proxy", "reason"),
    [
        ("socks5://proxy:1080", "is not an http:// or https:// URL: change https_proxy"),
        ("proxy:8080", "is not an http:// or https:// URL: change https_proxy"),
        ("http://", "it names no host"),
        ("http://me:secret@proxy:99999", r"\(its host or port is wrong\): change https_proxy"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(proxy: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        route_to("https://model.test", {"HTTPS_PROXY": proxy})
    assert "secret" not in str(caught.value)


# Hosts and sockets


@on_both_loops
async def test_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 on this machine")
    async with served(host="::1") as seen, client_of(seen.url) as client:
        assert (await client.post("x", b"{}")).body == b"{}"
    assert f"Host: [::1]:{seen.port}\r\n".encode() in seen.requests[0]


@on_both_loops
async def test_a_unix_socket(tmp_path: Path) -> None:
    async with served(socket_path=str(tmp_path / "model.sock")) as seen, client_of(seen.url) as client:
        for _ in range(2):
            assert (await client.post("x", b"{}")).body == b"{}"
    assert seen.requests[0].startswith(b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\n")
    assert seen.connections == 1
    async with client_of(seen.url) as client:
        with pytest.raises(Unreachable, match=r"no such file or directory|connection refused"):
            await client.post("x", b"{}")


@on_both_loops
async def test_a_name_without_an_address_is_told() -> None:
    async with client_of("http://no-such-host.invalid/v1") as client:
        with pytest.raises(Unreachable, match=r"(name|address|name resolution|nodename)"):
            await client.post("x", b"{}")


@on_both_loops
async def test_an_address_that_hangs_does_not_hold_up_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as seen:
        hanging = ("192.0.2.1", seen.port)
        real, cancelled = connect._connect_to, list[object]()

        async def connect_to(address: connect.Address) -> socket.socket:
            if address[1] == hanging:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    cancelled.append(address)
                    raise
            return await real(address)

        async def look_up(host: str, port: int) -> list[connect.Address]:
            return [(socket.AF_INET, hanging), (socket.AF_INET, ("127.0.0.1", port))]

        monkeypatch.setattr(connect, "_connect_to", connect_to)
        monkeypatch.setattr(connect, "_look_up", look_up)
        with Stopwatch() as watch:
            async with client_of(seen.url) as client:
                assert (await client.post("x", b"{}")).body == b"{}"
        assert watch.seconds < 20
        assert len(cancelled) == 1


@on_both_loops
async def test_a_refused_address_gives_way_at_once_and_a_name_is_looked_up_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served() as gone:
        pass
    async with served() as seen:
        looked = []

        async def look_up(host: str, port: int) -> list[connect.Address]:
            looked.append(host)
            return [(socket.AF_INET, ("127.0.0.1", gone.port)), (socket.AF_INET, ("127.0.0.1", port))]

        monkeypatch.setattr(connect, "_look_up", look_up)
        async with client_of(seen.url) as client:
            await asyncio.gather(*(client.post("x", b"{}") for _ in range(50)))
    assert len(seen.requests) == 50
    assert looked == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("url", "target", "host"),
    [
        ("http://host/v1", "/v1/chat/completions", "host"),
        ("http://host:80/v1/", "/v1/chat/completions", "host"),
        ("https://host:443", "/chat/completions", "host"),
        ("https://host:80", "/chat/completions", "host:80"),
        ("http://HOST.:8000/a b/é?x=1&y=ü", "/a%20b/%C3%A9/chat/completions?x=1&y=%C3%BC", "host:8000"),
        ("http://host/a%2Fb", "/a%2Fb/chat/completions", "host"),
        ("http://[2001:DB8::1]:8000/v1", "/v1/chat/completions", "[2001:db8::1]:8000"),
        ("http://müller.test/v1", "/v1/chat/completions", "xn--mller-kva.test"),
        ("http+unix://%2Frun%2Fm.sock/v1", "/v1/chat/completions", "localhost"),
    ],
)
def test_what_a_url_comes_to(url: str, target: str, host: str) -> None:
    route = route_to(url, {})
    assert (route.target("chat/completions"), route.authority) == (target, host)


@pytest.mark.parametrize(
    "url",
    ["http://", "http:///v1", "ftp://host", "host", "http://ho st/v1", "http://host:x", "http://host:99999",
     "http://host:0", "http://me:secret@host/v1",
     "http://[::g]/v1", "http://a..b/", "http+unix://run/v1", "http://host\\evil/v1"],
)  # fmt: skip
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        route_to(url, {})
