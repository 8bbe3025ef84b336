"""Connecting: addresses, sockets, TLS, and the tunnel of a proxy."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from gage_eval.base.errors import InputError
from gage_eval.models.client.connection import Broken, Connection, Unusable
from gage_eval.models.client.route import Proxy, Route

# RFC 8305: how long one address may take before the next one is tried in parallel.
_NEXT_ADDRESS_S = 0.25
_ADDRESSES_LAST_S = 10.0
# A peer that vanished without a word is noticed after about two minutes, however long an answer may take.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3))

Address = tuple[int, tuple[str, int]]
T = TypeVar("T")


class Unreachable(Exception):
    """No connection could be made. The message is the reason."""


class Connector:
    """Makes the connections of one route. Use it from one event loop only.

    Args:
        route: the way to the endpoint.
        env: where ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name certificates to trust in addition to the system's.

    Raises:
        InputError: the certificates that the environment names, or the route's, cannot be read.
    """

    def __init__(self, route: Route, env: Mapping[str, str]) -> None:
        self._route = route
        proxy = route.proxy
        usual = trusting(env) if route.tls or (proxy is not None and proxy.tls) else None
        self._proxy_tls = usual
        self._tls = usual if route.certificate is None else trusting_only(route.certificate)
        self._found: list[Address] = []
        self._found_at = float("-inf")
        self._looking: asyncio.Task[list[Address]] | None = None

    async def connect(self, make: Callable[[], Connection]) -> Connection:
        """A new connection, ready for a request.

        Raises:
            Unreachable: it could not be made.
        """
        connection: Connection | None = None
        try:
            connection = await self._first_hop(make)
            if self._route.tunnelled:
                await self._tunnel(connection)
        except (OSError, Broken, Unusable) as error:
            if connection is not None:
                connection.drop()
            raise Unreachable(reason_of(error)) from error
        except BaseException:
            if connection is not None:
                connection.drop()
            raise
        return connection

    async def _first_hop(self, make: Callable[[], Connection]) -> Connection:
        loop, route = asyncio.get_running_loop(), self._route
        if route.socket_path is not None:
            return (await loop.create_unix_connection(make, route.socket_path))[1]
        hop = route.proxy or route
        opened = await first_to_connect(await self._addresses(hop.host, hop.port))
        try:
            if hop.tls:
                tls = self._tls if route.proxy is None else self._proxy_tls
                return (await loop.create_connection(make, sock=opened, ssl=tls, server_hostname=hop.host))[1]
            return (await loop.create_connection(make, sock=opened))[1]
        except BaseException:
            opened.close()
            raise

    async def _tunnel(self, connection: Connection) -> None:
        route, proxy = self._route, self._route.proxy
        assert proxy is not None
        assert self._tls is not None
        target = route.authority if route.port != 443 else f"{route.authority}:443"
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{_authorization(proxy)}\r\n"
        answer = await connection.ask(head.encode("latin-1"), is_tunnel=True)
        if not 200 <= answer.status < 300:
            raise Broken(f"the proxy {proxy.host}:{proxy.port} answers {answer.status}")
        transport = await asyncio.get_running_loop().start_tls(
            connection.transport, connection, self._tls, server_hostname=route.host
        )
        if transport is None:
            raise Broken("the connection was closed during the TLS handshake")
        connection.transport = transport
        connection.restart()

    async def _addresses(self, host: str, port: int) -> list[Address]:
        """The host's addresses, asked for once by all connections that are made at the same time."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._found_at < _ADDRESSES_LAST_S:
            return self._found
        if self._looking is None:
            self._looking = loop.create_task(_look_up(host, port))
            # If the time of every caller is over, its failure is not looked at.
            self._looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        looking = self._looking
        try:
            # One caller's time may be over before another's.
            addresses = await asyncio.shield(looking)
        finally:
            if looking.done() and self._looking is looking:
                self._looking = None
        self._found, self._found_at = addresses, loop.time()
        return addresses


def proxy_headers(route: Route) -> str:
    """Headers for the proxy in a request that it reads itself."""
    return _authorization(route.proxy) if route.proxy is not None and not route.tunnelled else ""


def _authorization(proxy: Proxy) -> str:
    return "" if proxy.authorization is None else f"Proxy-Authorization: {proxy.authorization}\r\n"


def trusting(env: Mapping[str, str]) -> ssl.SSLContext:
    """TLS that trusts the system's certificates and those that the environment names."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    for name, keyword in (("SSL_CERT_FILE", "cafile"), ("SSL_CERT_DIR", "capath")):
        path = env.get(name)
        if not path:
            continue
        try:
            # OpenSSL itself says nothing about a file that is not there.
            os.stat(path)
            context.load_verify_locations(**{keyword: path})
        except OSError as error:
            raise InputError(f"{name} names {Path(path)}, which holds no certificates: {reason_of(error)}.") from None
    return context


def trusting_only(certificate: str) -> ssl.SSLContext:
    """TLS that takes one certificate (PEM) and no other, whatever name or address the server has.

    Raises:
        InputError: it cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    context.check_hostname = False
    # Else OpenSSL asks for the certificate's own authority, too.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=certificate)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"the certificate that the server announces cannot be read: {reason_of(error)}.") from None
    return context


async def first_to_connect(addresses: list[Address]) -> socket.socket:
    """A socket to the first address that takes it; each is tried a moment after the one before (RFC 8305).

    Raises:
        OSError: no address takes it; the reason of the first one.
    """
    left, trying, errors = list(reversed(addresses)), set[asyncio.Task[socket.socket]](), list[OSError]()
    try:
        while left or trying:
            if left:
                trying.add(asyncio.create_task(_connect_to(left.pop())))
            done, trying = await asyncio.wait(
                trying, timeout=_NEXT_ADDRESS_S if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    trying |= done - {task}
                    return task.result()
                if not isinstance(error, OSError):
                    raise error
                errors.append(error)
        raise errors[0]
    finally:
        for task in trying:
            task.cancel()
            task.add_done_callback(_close_result)


async def _connect_to(address: Address) -> socket.socket:
    family, where = address
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.settimeout(0)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        await asyncio.get_running_loop().sock_connect(opened, where)
    except BaseException:
        opened.close()
        raise
    return opened


def _close_result(task: "asyncio.Task[socket.socket]") -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _look_up(host: str, port: int) -> list[Address]:
    """The addresses of a host, its families in turns, so that a broken one costs little."""
    look = partial(asyncio.get_running_loop().getaddrinfo, host, port, type=socket.SOCK_STREAM)
    addresses = [(family, where) for family, _, _, _, where in await look()]
    first = [address for address in addresses if address[0] == addresses[0][0]]
    other = [address for address in addresses if address[0] != addresses[0][0]]
    turns = [address for pair in zip(first, other, strict=False) for address in pair]
    return [*turns, *first[len(other) :], *other[len(first) :]]  # type: ignore[list-item]


def reason_of(error: BaseException) -> str:
    """Why no connection was made, in a few words."""
    text = str(error).strip()
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno:
        text = (os.strerror(error.errno) if error.errno > 0 else str(error.strerror)).lower()
    return " ".join(text[:200].split()) or type(error).__name__
