"""Requests that belong to no stage: a probe, a check of an endpoint, the form of a judge's verdicts."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from gage_eval.base.canonical import encode
from gage_eval.base.errors import InputError
from gage_eval.models.backends.base import Backend
from gage_eval.models.client.types import Request, RequestRefused, Response


async def ask_together(backend: Backend, requests: Sequence[Request]) -> list[Response]:
    """The answers to requests that are all ready before the first one is sent; nothing is logged or reused.

    A request that the endpoint or its backend refuses has a response of status ``error``, whose last error says why.

    Args:
        backend: an open backend.
        requests: what to ask.

    Raises:
        EndpointFailed: the endpoint is gone.
    """
    ready = asyncio.Barrier(len(requests) or 1)

    async def answer(request: Request) -> Response:
        try:
            body = encode(backend.body(request))
        except InputError as error:
            await ready.wait()
            return Response("error", error_kind="unsupported", errors=[str(error)])
        await ready.wait()
        try:
            async with backend.limiter:
                return await backend.call(request, body)
        except RequestRefused as refusal:
            return replace(refusal.response, errors=[str(refusal)])

    return await asyncio.gather(*map(answer, requests))


def reason(response: Response) -> str:
    """Why a request has no answer."""
    return "; ".join(response.errors[-1:]) or response.error_kind or response.status
