"""Media at http(s) addresses, fetched within limits. Data name the addresses, so they are hostile."""

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from gage_eval.data.sample.record import RecordRejected

REMOTE = ("http://", "https://")
MOST_BYTES = 256 * 2**20
MOST_SECONDS = 300.0
_QUIET_S = 30.0
_REDIRECTS = 5
_PAUSES_S = (1.0, 3.0)
_PIECE = 256 * 1024
_PORTS = {"http": 80, "https": 443}
_MOVED = frozenset({301, 302, 303, 307, 308})
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
# What a URL may hold besides letters and digits (RFC 3986).
_LEGAL = "%:/?#[]@!$&'()*+,;=-._~"
# Addresses of IPv6 through which a network reaches IPv4 (RFC 6052).
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# All that IANA has given out for hosts of the internet; `is_global` also holds for addresses of sites and of no one.
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class FetchFailed(RecordRejected):
    """A server did not answer as it may another time. Its row is rejected, and tried again by the next run."""


class PrivateHosts:
    """Hosts and networks inside one's own that may be asked.

    Raises:
        ValueError: an entry is neither a host nor a network.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._hosts: set[str] = set()
        self._networks: list[Network] = []
        for name in names:
            try:
                self._networks.append(ipaddress.ip_network(name, strict=False))
            except ValueError:
                if not name.strip(".") or set(name) & set("/:@ ?#"):
                    raise ValueError(f"'{name}' is neither a host nor a network, such as 10.0.0.0/8") from None
                self._hosts.add(name.lower().rstrip("."))

    def allows(self, host: str, address: Address) -> bool:
        """Whether the address of a host is listed."""
        return host.lower().rstrip(".") in self._hosts or any(address in network for network in self._networks)


def fetched(url: str, private: PrivateHosts) -> bytes:
    """The bytes at an address; each address on the way is looked up, checked and then connected to, without a proxy.

    Args:
        url: starts with ``http://`` or ``https://``.
        private: what may be asked although it is not public.

    Raises:
        RecordRejected: it, or an address that it redirects to, is not public, does not exist, or is too large or slow.
        FetchFailed: no answer came in three attempts that may come another time.
    """
    for pause in (*_PAUSES_S, None):
        try:
            return _fetched(url, private)
        except (OSError, http.client.HTTPException, _Later) as error:
            if pause is None:
                why = " ".join(str(error).split())[:120] or type(error).__name__
                raise FetchFailed(f"it cannot be fetched ({why}); the next run tries again.") from None
            time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


class _Later(Exception):
    """A status after which another attempt may succeed."""


def _fetched(url: str, private: PrivateHosts) -> bytes:
    end = time.monotonic() + MOST_SECONDS
    for _ in range(_REDIRECTS + 1):
        connection = _Connection(_parts(url), private)
        # A server that sends a byte now and then never lets a read time out.
        stop = threading.Timer(max(0.0, end - time.monotonic()), connection.cut)
        stop.daemon = True
        stop.start()
        try:
            location, data = _answer(connection)
        except (OSError, http.client.HTTPException):
            if connection.is_cut:
                raise RecordRejected(f"it was not fetched in {MOST_SECONDS:,.0f} s.") from None
            raise
        finally:
            stop.cancel()
            connection.close()
        if location is None:
            return data
        url = urljoin(url, location)
    raise RecordRejected(f"it redirects more than {_REDIRECTS} times.")


def _answer(connection: "_Connection") -> tuple[str | None, bytes]:
    """Where the server says the file is, or the file."""
    connection.request("GET", connection.target, headers={"Accept-Encoding": "identity", "User-Agent": "gage-eval"})
    answer = connection.getresponse()
    if answer.status in _MOVED:
        return answer.headers.get("Location", ""), b""
    if answer.status in _LATER:
        raise _Later(f"HTTP {answer.status}")
    if answer.status != http.HTTPStatus.OK:
        raise RecordRejected(f"the server answers HTTP {answer.status}.")
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise RecordRejected("the server sends it packed.")
    data = bytearray()
    while piece := answer.read1(_PIECE):
        data += piece
        if len(data) > MOST_BYTES:
            raise RecordRejected(f"it has more than {MOST_BYTES:,} bytes.")
    if answer.length or connection.is_cut:
        raise http.client.IncompleteRead(b"", answer.length)
    return None, bytes(data)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(quote(url, safe=_LEGAL))
        if parts.scheme in _PORTS and parts.hostname and parts.port != 0:
            if parts.username is not None or parts.password is not None:
                raise RecordRejected("addresses with a password are not fetched.")
            return parts
    except ValueError:
        pass
    raise RecordRejected("it is not the address of a server, or redirects to one that is not.")


class _Connection(http.client.HTTPConnection):
    """A connection to an address of a host that was checked before: another look-up could give another address."""

    def __init__(self, parts: SplitResult, private: PrivateHosts) -> None:
        assert parts.hostname is not None
        super().__init__(parts.hostname, parts.port or _PORTS[parts.scheme], timeout=_QUIET_S)
        self.default_port = _PORTS[parts.scheme]
        self.target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self.is_cut = False
        self._opened: socket.socket | None = None
        self._secure = parts.scheme == "https"
        self._private = private

    def connect(self) -> None:
        for number, address in enumerate(addresses := _addresses(self.host, self.port, self._private), 1):
            try:
                self.sock = self._opened = socket.create_connection((address, self.port), self.timeout)
                break
            except OSError:
                if number == len(addresses):
                    raise
        if self._secure:
            try:
                context = ssl.create_default_context()
                self.sock = self._opened = context.wrap_socket(self.sock, server_hostname=self.host)
            except ssl.SSLCertVerificationError as error:
                raise RecordRejected(f"the certificate of the server is not valid ({error.verify_message}).") from None

    def cut(self) -> None:
        """End it from another thread. While an answer is read, `sock` may be None."""
        self.is_cut = True
        if self._opened is not None:
            with suppress(OSError):
                self._opened.shutdown(socket.SHUT_RDWR)


def _addresses(host: str, port: int, private: PrivateHosts) -> list[str]:
    """The addresses of a host.

    Raises:
        RecordRejected: there is no such host, or one of them is neither public nor listed.
    """
    try:
        looked_up = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise RecordRejected("it is not the name of a host.") from None
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise
        raise RecordRejected("there is no such host.") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in looked_up))
    for address in addresses:
        reached = _reached(ipaddress.ip_address(address.partition("%")[0]))
        if not _is_public(reached) and not private.allows(host, reached):
            raise RecordRejected(
                "it leads to an address inside a network; list the host in private_media_hosts to allow it."
            )
    return addresses


def _is_public(address: Address) -> bool:
    given_out = isinstance(address, ipaddress.IPv4Address) or address in _GLOBAL_IPV6
    return given_out and address.is_global and not address.is_multicast


def _reached(address: Address) -> Address:
    """The address of IPv4 that one of IPv6 stands for, or itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)
