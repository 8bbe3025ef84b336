"""The processes of one run spend its tokens and cost together: the limit holds for all of them, and is used up."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import BudgetSpent
from gage_eval.engine import shared_budget
from gage_eval.engine.shared_budget import SharedBudget
from gage_eval.models.client.budget import Budget, Price
from gage_eval.models.client.types import Response
from gage_eval.store import Store
from gage_eval.store.objects import Objects

TOKENS = 7
PRICE = Price(output=1_000_000.0 / TOKENS)  # 1 for each answer
IN_FLIGHT = 4


@pytest.fixture(params=["local", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Objects:
    monkeypatch.setattr(shared_budget, "_ASK_REMOTE_EVERY_S", 0.1)
    url = str(tmp_path / "store") if request.param == "local" else str(request.getfixturevalue("s3_url"))
    return Store.open(url).objects


class Process:
    """A process of the run: sends requests until it is told that a limit is reached."""

    def __init__(self, objects: Objects, requests: int = 10**9, **limits: Any) -> None:
        self.budget = Budget(**limits)
        self.busy = False
        self.answered = 0
        self.stopped: str | None = None
        self._requests = requests
        self.shared = SharedBudget(objects, "run", self.budget, lambda: self.busy)
        self.shared.start()
        self.thread = threading.Thread(target=lambda: asyncio.run(self._send()))

    def start(self) -> "Process":
        self.busy = True
        self.thread.start()
        return self

    async def _send(self) -> None:
        await asyncio.gather(*(self._work() for _ in range(IN_FLIGHT)))
        self.busy = False

    async def _work(self) -> None:
        try:
            while self._requests > 0:
                self._requests -= 1
                await self.budget.admit()
                await asyncio.sleep(0.001)
                self.budget.spend(Response("ok", completion_tokens=TOKENS), PRICE)
                self.answered += 1
        except BudgetSpent as error:
            self.stopped = str(error)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end, "what was waited for never came"
        time.sleep(0.01)


@pytest.mark.parametrize("limits", [{"tokens": 2100}, {"cost": 300.0}, {"tokens": 2100, "cost": 300.0}])
def test_all_processes_together_spend_the_limit_and_not_more(objects: Objects, limits: dict[str, Any]) -> None:
    processes = [Process(objects, **limits).start() for _ in range(3)]
    for process in processes:
        process.thread.join()
        process.shared.stop()
    answered = sum(process.answered for process in processes)
    assert 300 <= answered <= 300 + 3 * IN_FLIGHT
    assert all(process.stopped is not None for process in processes)
    assert all(f"limits.{next(iter(limits))}" in str(process.stopped) for process in processes)


def test_what_a_process_does_not_spend_is_for_the_others(objects: Objects) -> None:
    short = Process(objects, requests=20, tokens=2100).start()
    long = Process(objects, tokens=2100).start()
    for process in (short, long):
        process.thread.join()
        process.shared.stop()
    assert short.answered == 20
    assert 280 <= long.answered <= 280 + 2 * IN_FLIGHT
    late = Process(objects, tokens=2100).start()
    late.thread.join()
    late.shared.stop()
    assert late.answered == 0, "what ended processes have spent stays spent"


def test_a_killed_process_has_spent_all_that_it_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_budget, "GONE_S", 0.3)
    objects = Store.open(str(tmp_path)).objects
    killed = Process(objects, tokens=2100)
    killed.busy = True
    until(lambda: killed.budget.part.tokens > 0)
    # As after SIGKILL: what it says in the store stays as it is.
    killed.shared._looking.stop()
    held = killed.budget.part.tokens
    other = Process(objects, tokens=2100).start()
    other.thread.join()
    other.shared.stop()
    assert (2100 - held) / TOKENS <= other.answered <= (2100 - held) / TOKENS + IN_FLIGHT + 1
    assert str(other.stopped).startswith("limits.tokens (2,100) is reached")


def test_the_owner_removes_the_budget(objects: Objects) -> None:
    process = Process(objects, requests=3, tokens=2100).start()
    owner = SharedBudget(objects, "run", Budget(tokens=2100), lambda: False, is_owner=True)
    owner.start()
    process.thread.join()
    process.shared.stop()
    owner.stop()
    assert list(objects.list("limits")) == []
