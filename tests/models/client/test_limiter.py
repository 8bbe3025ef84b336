import asyncio
import itertools

import pytest
from engine.simulated import Endpoint

from gage_eval.models.client.limiter import CombinedLimiter, Limiter


async def hold(limiter: Limiter, release: asyncio.Event, entered: list[int], number: int) -> None:
    async with limiter:
        entered.append(number)
        await release.wait()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_no_more_than_the_limit_get_in_and_in_their_order() -> None:
    limiter, release, entered = Limiter(2), asyncio.Event(), list[int]()
    tasks = [asyncio.create_task(hold(limiter, release, entered, n)) for n in range(5)]
    await settle()
    assert entered == [0, 1]
    release.set()
    await asyncio.gather(*tasks)
    assert entered == [0, 1, 2, 3, 4]
    assert limiter.active == 0


async def test_a_raised_limit_lets_the_waiting_in_and_a_lowered_one_waits_for_exits() -> None:
    limiter, release, entered = Limiter(1), asyncio.Event(), list[int]()
    tasks = [asyncio.create_task(hold(limiter, release, entered, n)) for n in range(4)]
    await settle()
    limiter.resize(3)
    await settle()
    assert entered == [0, 1, 2]
    limiter.resize(1)
    release.set()
    await asyncio.gather(*tasks)
    assert limiter.active == 0


async def test_a_cancelled_waiter_takes_no_permit_along() -> None:
    limiter, release, entered = Limiter(1), asyncio.Event(), list[int]()
    tasks = [asyncio.create_task(hold(limiter, release, entered, n)) for n in range(3)]
    await settle()
    tasks[1].cancel()
    release.set()
    await settle()
    assert entered == [0, 2]
    assert limiter.active == 0


async def test_a_waiter_cancelled_in_the_turn_it_was_let_in_gives_the_permit_back() -> None:
    limiter = Limiter(1)
    await limiter.__aenter__()
    waiter = asyncio.create_task(hold(limiter, asyncio.Event(), [], 0))
    await settle()
    await limiter.__aexit__(None, None, None)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    assert limiter.active == 0


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError):
        Limiter(0)
    with pytest.raises(ValueError):
        Limiter(1).resize(0)


async def fill(limiter: Limiter) -> None:
    while limiter.active < limiter.limit:
        await limiter.__aenter__()


async def test_a_burst_that_is_refused_leaves_about_as_many_permits_as_the_endpoint_took() -> None:
    limiter = Limiter(256, adaptive=True)
    await fill(limiter)
    for _ in range(240):
        limiter.overloaded()
        await limiter.__aexit__()
    assert 8 <= limiter.limit <= 32


@pytest.mark.parametrize("retry_after_s", [None, 0.0, 1.0])
@pytest.mark.parametrize(("rows", "capacity"), [(1000, 2), (2000, 16), (10_000, 100)])
def test_a_run_that_starts_far_too_wide_ends_like_the_best_fixed_one(
    rows: int, capacity: int, retry_after_s: float | None
) -> None:
    best = Endpoint(capacity=capacity).serve(rows, Limiter(capacity))
    endpoint = Endpoint(capacity=capacity, retry_after_s=retry_after_s)
    took = endpoint.serve(rows, limiter := Limiter(256, adaptive=True))
    assert took < 1.1 * best
    # The first burst, and a few of those that try for more.
    assert endpoint.refused < 256 + 0.1 * rows
    assert 0.75 * capacity <= limiter.limit <= 1.25 * capacity + 1


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.08])
@pytest.mark.parametrize("width", [16, 64])
def test_refusals_now_and_then_do_not_slow_a_run_down(width: int, noise: float) -> None:
    took = {
        adaptive: Endpoint(noise=noise, retry_after_s=0.0).serve(5000, Limiter(width, adaptive=adaptive))
        for adaptive in (False, True)
    }
    assert took[True] < 1.2 * took[False]


def test_the_limit_follows_an_endpoint_that_takes_less_and_then_more() -> None:
    limits: list[int] = []

    class Watched(Limiter):
        def answered(self) -> None:
            super().answered()
            limits.append(self.limit)

    endpoint = Endpoint(capacities={0.0: 64, 5.0: 8, 20.0: 64}, retry_after_s=0.0)
    endpoint.serve(30_000, Watched(64, adaptive=True))
    assert limits[0] == limits[-1000] == 64
    assert 6 <= min(limits) <= 8


async def test_a_few_refusals_leave_the_limit_as_it_is() -> None:
    limiter = Limiter(64, adaptive=True)
    await fill(limiter)
    for _ in range(50):
        for _ in range(3):
            limiter.overloaded()
        for _ in range(61):
            limiter.answered()
    assert limiter.limit == 64


async def test_a_fixed_limit_never_changes() -> None:
    limiter = Limiter(8)
    await fill(limiter)
    for _ in range(100):
        limiter.overloaded()
    assert limiter.limit == 8


async def test_each_change_of_an_adaptive_limit_is_told_once() -> None:
    limiter, told = Limiter(64, adaptive=True), list[tuple[int, int]]()
    limiter.on_change = lambda before, after: told.append((before, after))
    await fill(limiter)
    limits = [limiter.limit]
    for _ in range(200):
        limiter.overloaded()
        if limiter.limit != limits[-1]:
            limits.append(limiter.limit)
    assert len(limits) > 1
    assert told == list(itertools.pairwise(limits))


async def test_a_call_that_waits_lends_its_permit_and_comes_back_in_turn() -> None:
    limiter, order = Limiter(1), list[str]()

    async def waits() -> None:
        async with limiter:
            order.append("first")
            await limiter.pause(0.01)
            order.append("again")

    async def comes() -> None:
        async with limiter:
            order.append("other")

    await asyncio.gather(waits(), comes())
    assert order == ["first", "other", "again"]
    assert limiter.active == 0


@pytest.mark.parametrize("moment", ["asleep", "in the queue"])
async def test_a_call_cancelled_while_it_lends_its_permit_leaves_none_behind(moment: str) -> None:
    limiter = Limiter(1)

    async def waits() -> None:
        async with limiter:
            await limiter.pause(60 if moment == "asleep" else 0)

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    await limiter.__aenter__()
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await limiter.__aexit__()
    assert limiter.active == 0
    async with limiter:
        assert limiter.active == 1


@pytest.mark.parametrize("waits", ["wait", "pause"])
async def test_a_stop_ends_every_wait_now_and_later_and_leaves_no_permit_behind(waits: str) -> None:
    limiter = Limiter(2)

    async def waiting() -> None:
        async with limiter:
            await getattr(limiter, waits)(3600)

    tasks = [asyncio.create_task(waiting()) for _ in range(3)]
    await settle()
    limiter.stop("limits.tokens (1) is reached")
    tasks.append(asyncio.create_task(waiting()))
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert {str(error) for error in ended} == {"limits.tokens (1) is reached"}
    assert limiter.active == 0


async def test_a_permit_of_two_limits_counts_in_both_and_holds_neither_while_it_waits() -> None:
    pool, endpoint = Limiter(2), Limiter(1)
    both = CombinedLimiter(pool, endpoint)
    assert both.take()
    assert (pool.active, endpoint.active) == (1, 1)
    assert not both.take()
    assert (pool.active, endpoint.active) == (1, 1)
    task = asyncio.create_task(both.turn())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (pool.active, endpoint.active) == (1, 1)
    task = asyncio.create_task(both.turn())
    await settle()
    both.release()
    await task
    assert (pool.active, endpoint.active) == (1, 1)
    both.release()
    assert (pool.active, endpoint.active) == (0, 0)
