"""Runs of one store share the limits of an endpoint: each gets its part, and the part of a run that is gone."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gage_eval.engine.runtime import Runtime
from gage_eval.engine.shared_limits import SharedLimits
from gage_eval.models.backends.base import BackendContext
from gage_eval.models.client.limiter import Limiter
from gage_eval.models.client.pace import Rates
from gage_eval.store import Store
from gage_eval.store.objects import Objects

RENEW_S = 0.1
# Nobody changes its part while the parts are added up.
PARTS = threading.Lock()


@pytest.fixture(params=["local", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    url = str(tmp_path / "store") if request.param == "local" else str(request.getfixturevalue("s3_url"))
    return Store.open(url).objects


class Run:
    """A run that uses the endpoint."""

    def __init__(
        self,
        objects: Objects,
        permits: int,
        *,
        busy: bool = True,
        in_flight: int = 0,
        endpoint: str = "http://e/v1",
        when_applied: Callable[[], None] = lambda: None,
    ) -> None:
        self.part = (permits, 1.0)
        self.busy = busy
        self.in_flight = in_flight

        def apply(share: int, rates: float) -> None:
            with PARTS:
                self.part = (share, rates)
                when_applied()

        self.limits = SharedLimits(
            objects, [endpoint, "m"], permits, lambda: self.busy, lambda: self.in_flight, apply, renew_s=RENEW_S
        )
        self.limits.start()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end, "what was waited for never came"
        time.sleep(0.01)


def test_runs_share_the_permits_and_the_rates_and_get_those_of_a_run_that_left(objects: Objects) -> None:
    runs = [Run(objects, 8) for _ in range(3)]
    until(lambda: sorted(run.part[0] for run in runs) == [2, 3, 3])
    assert [run.part[1] for run in runs] == [pytest.approx(1 / 3)] * 3
    runs.pop().limits.stop()
    until(lambda: [run.part for run in runs] == [(4, 0.5)] * 2)
    for run in runs:
        run.limits.stop()
    assert list(objects.list("limits")) == []


def test_the_sum_of_the_parts_never_exceeds_the_limit_while_runs_come_and_go(objects: Objects) -> None:
    runs: list[Run] = []
    sums: list[tuple[int, float]] = []

    def add_up() -> None:
        # A run that holds no permit uses none of the rates.
        sums.append((sum(run.part[0] for run in runs), sum(run.part[1] for run in runs if run.part[0])))

    runs.append(Run(objects, 8, when_applied=add_up))
    second = Run(objects, 8, when_applied=add_up)
    assert second.part[0] == 0, "the first run still holds all permits"
    runs.append(second)
    until(lambda: [run.part for run in runs] == [(4, 0.5)] * 2)
    runs[0].busy = False
    until(lambda: second.part == (8, 1.0))
    runs[0].busy = True
    until(lambda: [run.part for run in runs] == [(4, 0.5)] * 2)
    for run in runs:
        run.limits.stop()
    assert max(permits for permits, _ in sums) == 8
    assert max(part for _, part in sums) == 1.0


def test_a_new_run_waits_for_the_requests_that_are_in_flight(objects: Objects) -> None:
    old = Run(objects, 8, in_flight=8)
    new = Run(objects, 8)
    until(lambda: old.part == (4, 0.5))
    for in_flight, left in ((7, 1), (5, 3), (4, 4), (2, 4)):
        old.in_flight = in_flight
        until(lambda left=left: new.part[0] == left)  # type: ignore[misc]
    for run in (old, new):
        run.limits.stop()


def test_a_run_that_sends_nothing_takes_nothing(objects: Objects) -> None:
    idle, other = Run(objects, 8, busy=False), Run(objects, 8)
    assert other.part == (8, 1.0)
    idle.busy = True
    until(lambda: other.part == (4, 0.5))
    for run in (idle, other):
        run.limits.stop()


def test_another_endpoint_has_limits_of_its_own(objects: Objects) -> None:
    runs = [Run(objects, 8, endpoint="http://one/v1"), Run(objects, 8, endpoint="http://two/v1")]
    assert [run.part for run in runs] == [(8, 1.0)] * 2
    for run in runs:
        run.limits.stop()


def test_the_part_of_a_killed_run_returns_to_the_others(tmp_path: Path) -> None:
    objects = Store.open(str(tmp_path)).objects
    killed, other = Run(objects, 8), Run(objects, 8)
    until(lambda: other.part == (4, 0.5))
    # As after SIGKILL: its sign of life stays as it is.
    killed.limits._looking.stop()
    until(lambda: other.part == (8, 1.0))
    other.limits.stop()
    assert list(objects.list("limits")) == []


def test_a_share_bounds_a_limit_without_changing_its_cap() -> None:
    limiter = Limiter(8)
    limiter.share(3)
    assert (limiter.limit, limiter.cap) == (3, 8)
    limiter.share(0)
    assert limiter.limit == 0
    limiter.share(20)
    assert limiter.limit == 8


def test_a_part_of_a_rate_makes_requests_wait_longer() -> None:
    rates = Rates(60, None)
    rates.share(0.25)
    waits = [rates.turn(b"")[0] for _ in range(3)]
    assert waits[2] - waits[1] == pytest.approx(4.0, abs=0.1)


def test_a_backend_that_is_shared_leaves_its_part_to_another_run(tmp_path: Path) -> None:
    objects = Store.open(str(tmp_path)).objects
    config = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "max_concurrency": 8, "shared": True}
    with Runtime(objects=objects) as own, Runtime(objects=objects) as two:
        first, second = (runtime.backend("openai_http", config, BackendContext()) for runtime in (own, two))
        own.call(first.limiter.__aenter__())
        two.call(second.limiter.__aenter__())
        until(lambda: (first.limiter.limit, second.limiter.limit) == (4, 4))
    assert list(objects.list("limits")) == []
