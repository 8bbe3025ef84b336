"""Media on servers: fetched within limits, and never from inside a network that the config does not list."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gage_eval.data.prepare import remote
from gage_eval.data.prepare.remote import FetchFailed, PrivateHosts, fetched
from gage_eval.data.sample.record import RecordRejected
from tests.support.file_server import FileServer, file_server

LOOPBACK = PrivateHosts(["127.0.0.0/8"])
Names = Callable[..., None]


@pytest.fixture
def server() -> Iterator[FileServer]:
    files: dict[str, Any] = {
        "/a": b"abc",
        "/empty": b"",
        "/a.gz": b"abc",
        "/moved": "/a",
        "/round": "/round",
        "/away": "http://media.test:1/x",
        "/file": "file:///etc/passwd",
        "/nowhere": "",
        "/forbidden": 403,
        "/busy": 503,
        "/cut": (100, b"ab"),
        "/slow": (-100, b"ab"),
        "/é b": b"accent",
        "/%C3%A9%20b": b"accent",
    }
    with file_server(files) as running:
        yield running


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Sets the addresses of ``media.test``."""
    look_up = socket.getaddrinfo

    def set_names(*addresses: str) -> None:
        def resolve(host: str, port: int, *rest: Any, **options: Any) -> list[Any]:
            if host != "media.test":
                return look_up(host, port, *rest, **options)
            if not addresses:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return [(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
                    for address in addresses]  # fmt: skip

        monkeypatch.setattr(socket, "getaddrinfo", resolve)

    return set_names


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_PAUSES_S", (0.0, 0.0))


@pytest.mark.parametrize(
    ("path", "data"),
    [("/a", b"abc"), ("/empty", b""), ("/moved", b"abc"), ("/a?x=1#part", b"abc"), ("/é b", b"accent")],
)
def test_a_listed_server_is_asked(path: str, data: bytes, server: FileServer) -> None:
    assert fetched(server.url + path, LOOPBACK) == data
    assert set(server.hosts) == {f"127.0.0.1:{server.port}"}


@pytest.mark.parametrize("listed", [["media.test"], ["MEDIA.test."], ["127.0.0.1"], ["10.0.0.0/8", "127.0.0.0/8"]])
def test_hosts_and_networks_can_be_listed(listed: list[str], server: FileServer, names: Names) -> None:
    names("127.0.0.1")
    assert fetched(f"http://media.test:{server.port}/a", PrivateHosts(listed)) == b"abc"
    assert server.hosts == [f"media.test:{server.port}"]


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
        *("2001:0:4136:e378:8000:63bf:80ff:fffe", "fec0::1", "::7f00:1", "64:ff9b:1::7f00:1", "2001:db8::1"),
    ],
)
def test_no_address_inside_a_network_is_connected_to(
    address: str, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected: list[Any] = []
    monkeypatch.setattr(socket, "create_connection", lambda *to, **_: connected.append(to))
    for addresses in ((address,), ("93.184.216.34", address)):
        names(*addresses)
        with pytest.raises(RecordRejected, match="private_media_hosts"):
            fetched("http://media.test/a", PrivateHosts(["other.test", "10.9.0.0/16"]))
    assert connected == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "127.1", "0"])
def test_other_spellings_of_this_machine_are_refused(host: str, server: FileServer) -> None:
    with pytest.raises(RecordRejected):
        fetched(f"http://{host}:{server.port}/a", PrivateHosts())
    assert server.requests == []


def test_a_redirect_into_the_network_is_refused(server: FileServer, names: Names) -> None:
    names("10.0.0.7")
    with pytest.raises(RecordRejected, match="inside a network"):
        fetched(f"{server.url}/away", LOOPBACK)
    assert server.requests == ["/away"]


def test_the_address_that_was_checked_is_the_one_that_is_asked(
    server: FileServer, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads elsewhere at the second look-up (DNS rebinding) leads nowhere else."""
    names("93.184.216.34")
    requests: list[Any] = []

    def connect(to: tuple[str, int], *_: Any) -> socket.socket:
        names("127.0.0.1")
        requests.append(to)
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(RecordRejected, match="inside a network"):
        fetched(f"http://media.test:{server.port}/a", PrivateHosts())
    assert requests == [("93.184.216.34", server.port)]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("{}/missing", "HTTP 404"),
        ("{}/forbidden", "HTTP 403"),
        ("{}/round", "redirects more than 5 times"),
        ("{}/file", "not the address of a server"),
        ("{}/nowhere", "redirects more than 5 times"),
        ("{}/a.gz", "packed"),
        ("http://user:secret@127.0.0.1/a", "password"),
        ("http://127.0.0.1:99999/a", "not the address of a server"),
        ("http://:80/a", "not the address of a server"),
        ("http://[::1/a", "not the address of a server"),
        ("http://" + "a" * 70 + ".test/a", "not the name of a host"),
        ("http://media.test/a", "no such host"),
    ],
)
def test_what_is_not_there_is_rejected_in_words(url: str, words: str, server: FileServer, names: Names) -> None:
    names()
    with pytest.raises(RecordRejected, match=words) as rejected:
        fetched(url.format(server.url), LOOPBACK)
    assert "secret" not in str(rejected.value)
    assert len(server.requests) <= 6


def test_a_request_cannot_be_forged_by_an_address(server: FileServer) -> None:
    with pytest.raises(RecordRejected, match="HTTP 404"):
        fetched(f"{server.url}/x HTTP/1.1\r\nHost: other\r\n\r\nGET /a", LOOPBACK)
    assert len(server.requests) == 1
    assert "/a" not in server.requests


@pytest.mark.parametrize("path", ["/busy", "/cut"])
def test_what_may_come_another_time_is_tried_three_times(path: str, server: FileServer) -> None:
    with pytest.raises(FetchFailed, match="cannot be fetched"):
        fetched(server.url + path, LOOPBACK)
    assert server.requests == [path] * 3
    with pytest.raises(RecordRejected) as never:
        fetched(server.url + "/nowhere", LOOPBACK)
    assert not isinstance(never.value, FetchFailed)


def test_size_and_time_have_limits(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MOST_BYTES", 2)
    with pytest.raises(RecordRejected, match="more than 2 bytes"):
        fetched(f"{server.url}/a", LOOPBACK)
    monkeypatch.setattr(remote, "MOST_SECONDS", 0.2)
    with pytest.raises(RecordRejected, match="not fetched in"):
        fetched(f"{server.url}/slow", LOOPBACK)


@pytest.mark.parametrize("name", ["http://host", "a/b", "", "user@host", "10.0.0.0/99"])
def test_what_is_no_host_cannot_be_listed(name: str) -> None:
    with pytest.raises(ValueError, match="neither a host nor a network"):
        PrivateHosts([name])
