"""Check whether a server answers at a URL."""

import asyncio


def answers(url: str, *, timeout: float = 2.0) -> bool:
    """Whether a GET of the URL is answered with a 2xx within ``timeout`` seconds."""
    return asyncio.run(_answers(url, timeout))


async def _answers(url: str, limit_s: float) -> bool:
    from gage_eval.client.http1 import FAILURES, HTTPClient
    from gage_eval.client.route import route_to

    try:
        # Without the environment's proxies: what is asked for is a server on this machine.
        route = route_to(url, {})
    except ValueError:
        return False
    client = HTTPClient(route, headers={}, env={}, timeout_s=limit_s, connect_timeout_s=limit_s)
    try:
        return (await client.get("")).status < 300
    except FAILURES:
        return False
    finally:
        await client.close()
