"""Check whether a server answers at a URL."""

import asyncio
from base64 import b64encode


def answers(url: str, *, timeout: float = 2.0) -> bool:
    """Whether a GET of the URL is answered with a 2xx within ``timeout`` seconds."""
    status = status_of(url, timeout=timeout)
    return status is not None and status < 300


def status_of(url: str, *, login: str | None = None, timeout: float = 2.0) -> int | None:
    """The status of the answer to a GET of the URL; None if there is none within ``timeout`` seconds.

    Args:
        url: what is asked for.
        login: ``user:password``, sent as basic authentication.
        timeout: in seconds.
    """
    headers = {} if login is None else {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
    return asyncio.run(_status(url, headers, timeout))


async def _status(url: str, headers: dict[str, str], limit_s: float) -> int | None:
    from gage_eval.models.client.http1 import HTTPClient
    from gage_eval.models.client.route import route_to

    try:
        # Without the environment's proxies: what is asked for is a server on this machine.
        route = route_to(url, {})
    except ValueError:
        return None
    client = HTTPClient(route, headers=headers, env={}, timeout_s=limit_s, connect_timeout_s=limit_s)
    try:
        return await client.status("")
    finally:
        await client.close()
