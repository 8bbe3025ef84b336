"""A refused request ends the run only where nothing else is answered."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gage_eval.engine.refusals import MOST_IN_A_ROW, Refusals
from gage_eval.models.client.types import RequestRefused, Response


def refused(number: int = 0) -> RequestRefused:
    message = f"http://host/v1 answers 403 (blocked {number})."
    return RequestRefused(message, Response("error", error_kind="http_403", errors=[message]))


async def call(refusals: Refusals, answer: Callable[[], Awaitable[Response]]) -> Response:
    refusals.call_begins()
    try:
        response = await answer()
        if response.status == "ok":
            refusals.answered()
        return response
    except RequestRefused as refusal:
        return await refusals.judge(refusal)
    finally:
        refusals.call_ends()


async def refuses() -> Response:
    raise refused()


async def answers() -> Response:
    return Response("ok", answer="4")


async def fails() -> Response:
    return Response("error", error_kind="timeout")


async def test_a_row_that_alone_is_refused_is_an_error_row_once_others_are_answered() -> None:
    refusals = Refusals(answered=False)
    assert (await call(refusals, answers)).status == "ok"
    assert (await call(refusals, refuses)).error_kind == "http_403"


async def test_answers_of_an_earlier_run_count() -> None:
    assert (await call(Refusals(answered=True), refuses)).error_kind == "http_403"


async def test_the_first_request_of_all_being_refused_ends_the_run() -> None:
    with pytest.raises(RequestRefused, match="answers 403"):
        await call(Refusals(answered=False), refuses)


async def test_a_refusal_waits_for_the_calls_under_way_before_it_ends_the_run() -> None:
    refusals = Refusals(answered=False)
    gate = asyncio.Event()

    async def answers_later() -> Response:
        await gate.wait()
        return await answers()

    slow = asyncio.create_task(call(refusals, answers_later))
    await asyncio.sleep(0)
    blocked = asyncio.create_task(call(refusals, refuses))
    await asyncio.sleep(0)
    assert not blocked.done()
    gate.set()
    assert (await slow).status == "ok"
    assert (await blocked).error_kind == "http_403"


@pytest.mark.parametrize("last", [refuses, fails])
async def test_when_no_call_under_way_is_answered_the_run_ends(last: Callable[[], Awaitable[Response]]) -> None:
    refusals = Refusals(answered=False)
    gate = asyncio.Event()

    async def later() -> Response:
        await gate.wait()
        return await last()

    slow = asyncio.create_task(call(refusals, later))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(call(refusals, refuses)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    gate.set()
    ended = await asyncio.gather(slow, *waiting, return_exceptions=True)
    assert all(isinstance(result, RequestRefused) for result in ended[1:])


async def test_many_refusals_in_a_row_end_a_run_that_had_answers() -> None:
    refusals = Refusals(answered=True)
    for _ in range(MOST_IN_A_ROW - 1):
        assert (await call(refusals, refuses)).status == "error"
    with pytest.raises(RequestRefused):
        await call(refusals, refuses)


async def test_an_answer_between_refusals_starts_the_count_again() -> None:
    refusals = Refusals(answered=True)
    for _ in range(3 * MOST_IN_A_ROW):
        for _ in range(MOST_IN_A_ROW - 1):
            assert (await call(refusals, refuses)).error_kind == "http_403"
        assert (await call(refusals, answers)).status == "ok"
