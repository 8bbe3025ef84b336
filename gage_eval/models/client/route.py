"""The way to an endpoint: what its URL and the environment's proxies say, worked out once."""

import base64
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlsplit

from gage_eval.base.errors import InputError

# A URL with this scheme names a socket file in place of a host: http+unix://%2Frun%2Fvllm.sock/v1.
UNIX = "http+unix"
_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9._~-]+")
# What may stand in a path or a query as it is; the rest is percent-encoded.
_PATH_SAFE = "/%:@!$&'()*+,;=~"
_QUERY_SAFE = _PATH_SAFE + "?"


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy.

    Attributes:
        host, port: where it listens.
        tls: whether it is spoken to over TLS.
        authorization: the value of ``Proxy-Authorization``; None without credentials.
    """

    host: str
    port: int
    tls: bool
    authorization: str | None


@dataclass(frozen=True, slots=True)
class Route:
    """The way to one base URL.

    Attributes:
        host, port: where the endpoint listens; the host of TLS's server name.
        tls: whether it is spoken to over TLS.
        authority: the value of ``Host``.
        path: the base URL's path without a slash at its end.
        query: the base URL's query with its question mark, or nothing.
        socket_path: a Unix socket in place of host and port.
        proxy: the proxy on the way.
        certificate: the only certificate (PEM) that the endpoint may show; None to verify it as usual.
    """

    host: str
    port: int
    tls: bool
    authority: str
    path: str
    query: str
    socket_path: str | None = None
    proxy: Proxy | None = None
    certificate: str | None = None

    @property
    def tunnelled(self) -> bool:
        """Whether the proxy only passes bytes on (CONNECT), as TLS needs it."""
        return self.proxy is not None and self.tls

    def target(self, path: str) -> str:
        """The target of a request to a path below the base URL."""
        target = f"{self.path}/{path}" if path else self.path or "/"
        # A proxy that reads the request must learn where it goes.
        origin = f"http://{self.authority}" if self.proxy is not None and not self.tls else ""
        return f"{origin}{target}{self.query}"


def route_to(url: str, env: Mapping[str, str], certificate: str | None = None) -> Route:
    """The way to a base URL.

    Args:
        url: http, https, or http+unix with the percent-encoded path of a socket as its host.
        env: where proxies are configured (``HTTPS_PROXY``, ``ALL_PROXY``, ``NO_PROXY``, …).
        certificate: the only certificate (PEM) that the endpoint may show; None to verify it as usual.

    Raises:
        ValueError: it is not such a URL.
        InputError: the environment's proxy cannot be used.
    """
    parts = urlsplit(url)
    path, query = quote(parts.path.rstrip("/"), safe=_PATH_SAFE), quote(parts.query, safe=_QUERY_SAFE)
    query = f"?{query}" if query else ""
    if parts.scheme == UNIX:
        return Route("localhost", 0, tls=False, authority="localhost", path=path, query=query,
                     socket_path=_socket_path(parts.netloc))  # fmt: skip
    if parts.scheme not in _PORTS:
        raise ValueError(f"it starts with neither http:// nor https:// nor {UNIX}://")
    if parts.username is not None:
        raise ValueError("it holds a user or password")
    host, port = _host(parts.hostname), _port(parts)
    authority = f"[{host}]" if ":" in host else host
    if port != _PORTS[parts.scheme]:
        authority = f"{authority}:{port}"
    proxy = _proxy_for(parts.scheme, host, port, env)
    tls = parts.scheme == "https"
    return Route(host, port, tls, authority, path, query, proxy=proxy, certificate=certificate)


def _socket_path(netloc: str) -> str:
    path = unquote(netloc)
    if not path.startswith("/"):
        raise ValueError(f"after {UNIX}:// comes the absolute path of a socket, with %2F for each slash")
    return path


def _host(host: str | None) -> str:
    """A host as DNS and TLS know it: in ASCII, without a zone or a dot at the end."""
    if not host:
        raise ValueError("it names no host")
    if ":" in host:
        return str(ipaddress.IPv6Address(host))
    try:
        name = host.encode("idna").decode("ascii").rstrip(".")
    except UnicodeError:
        name = ""
    if not _HOST.fullmatch(name):
        raise ValueError(f"'{host}' is not a host name")
    return name


def _port(parts: SplitResult) -> int:
    port = parts.port
    if port == 0:
        raise ValueError("nothing listens on port 0")
    return port or _PORTS[parts.scheme]


def _proxy_for(scheme: str, host: str, port: int, env: Mapping[str, str]) -> Proxy | None:
    proxies = {
        name.lower().removesuffix("_proxy"): value
        for name, value in env.items()
        if name.lower().endswith("_proxy") and value
    }
    url = proxies.get(scheme, proxies.get("all"))
    if url is None or host == "localhost" or _is_exempt(host, port, proxies):
        return None
    wrong = f"change {scheme}_proxy."
    try:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS:
            raise InputError(f"the proxy set for {scheme} URLs is not an http:// or https:// URL: {wrong}")
        proxy_host, proxy_port = _host(parts.hostname), _port(parts)
    except ValueError as error:
        # The URL is not shown: it may hold a password.
        reason = str(error) if "@" not in url else "its host or port is wrong"
        raise InputError(f"the proxy set for {scheme} URLs cannot be used ({reason}): {wrong}") from None
    authorization = None
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(credentials.encode()).decode()}"
    return Proxy(proxy_host, proxy_port, parts.scheme == "https", authorization)


def _is_exempt(host: str, port: int, proxies: Mapping[str, str]) -> bool:
    """Whether the host is this machine, or ``NO_PROXY`` names it or a network that it is in, such as 10.0.0.0/8."""
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    address = _address(host)
    if address is not None:
        networks = map(_network, proxies.get("no", "").split(","))
        if address.is_loopback or any(network is not None and address in network for network in networks):
            return True
    return bool(proxy_bypass_environment(f"{host}:{port}" if ":" not in host else host, dict(proxies)))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return None
