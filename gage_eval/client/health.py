"""Check whether a server answers at a URL."""

import asyncio


def answers(url: str, *, timeout: float = 2.0) -> bool:
    """Whether a GET of the URL is answered with a 2xx within ``timeout`` seconds."""
    return asyncio.run(_answers(url, timeout))


async def _answers(url: str, timeout: float) -> bool:  # noqa: ASYNC109  # the caller's words
    import aiohttp

    limit = aiohttp.ClientTimeout(total=timeout)
    try:
        async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as reply:
            return reply.ok
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False
