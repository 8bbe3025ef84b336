"""The worker's protocol, with an engine that is a few lines long."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from support.engines import ends, engine_of

from gage_eval.base.errors import EndpointFailed
from gage_eval.engine.runtime import Runtime
from gage_eval.models.backends.child import Child
from gage_eval.models.backends.engine_worker import Worker

T = TypeVar("T")

ENGINE = """
import asyncio, sys
from gage_eval.models.backends.worker.serve import Fatal, GivenUp, Gone, answered, failed

__version__ = "1.2"

async def load(options):
    if options.get("fails"):
        raise RuntimeError("no such weights")
    # Another package of that name beside the stand-in would be a mistake: only this folder is needed.
    assert not hasattr(sys.modules["gage_eval"], "__version__")
    return Engine()

class Engine:
    library = "tiny_engine"
    under_way = 0

    async def answer(self, asked):
        text = asked["prompt"]
        if text == "fatal":
            raise Fatal("the parameter 'x' is none")
        if text == "gone":
            print("RuntimeError: the shapes differ", file=sys.stderr, flush=True)
            raise Gone
        if text == "given up":
            raise GivenUp(failed("bad_request", "no such row"))
        if text == "bug":
            raise KeyError("oops")
        if text == "under way":
            return answered(str(self.under_way), "stop", 1, 1)
        self.under_way += 1
        try:
            await asyncio.sleep(asked.get("wait", 0))
        finally:
            self.under_way -= 1
        print("to the log, never into the answers", flush=True)
        return answered(text[::-1] + "\\ud800", "stop", 1, 1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny_engine.py").write_text(ENGINE)
    return tmp_path


def use(folder: Path, body: Callable[[Worker], Awaitable[T]], **options: Any) -> T:
    """What the body makes of a worker that is ready."""

    async def run() -> T:
        env = {**os.environ, "PYTHONPATH": str(folder)}
        worker = Worker("the engine", sys.executable, {"engine": "tiny_engine", **options}, env, folder / "log")
        try:
            return await body(await worker.ready(60))
        finally:
            await worker.close()

    with Runtime() as runtime:
        return runtime.call(run())


def test_answers_come_back_to_who_asked_in_whatever_order_they_are_ready(folder: Path) -> None:
    async def body(worker: Worker) -> list[str | None]:
        requests = [{"prompt": f"row {n}", "wait": 0.02 * (5 - n)} for n in range(5)]
        responses = await asyncio.gather(*(worker.ask(request, 60) for request in requests))
        assert {response.model_fingerprint for response in responses} == {"tiny_engine 1.2"}
        return [response.answer for response in responses]

    assert use(folder, body) == [f"{n} wor\ufffd" for n in range(5)]
    assert "to the log" in (folder / "log").read_text()


def test_a_defect_of_the_engine_is_the_rows_and_what_no_request_survives_ends_the_run(folder: Path) -> None:
    async def body(worker: Worker) -> None:
        broken = await worker.ask({"prompt": "bug"}, 60)
        assert (broken.status, broken.error_kind, broken.errors) == ("error", "engine_error", ["KeyError: 'oops'"])
        refused = await worker.ask({"prompt": "given up"}, 60)
        assert (refused.status, refused.error_kind, refused.errors) == ("error", "bad_request", ["no such row"])
        with pytest.raises(EndpointFailed, match=r"^the engine: the parameter 'x' is none\.$"):
            await worker.ask({"prompt": "fatal"}, 60)
        assert (await worker.ask({"prompt": "ab"}, 60)).status == "ok"

    use(folder, body)


def test_a_request_nobody_waits_for_any_more_is_taken_back(folder: Path) -> None:
    async def body(worker: Worker) -> None:
        late = await worker.ask({"prompt": "slow", "wait": 600}, 0.2)
        assert (late.status, late.error_kind) == ("error", "timeout")
        assert (await worker.ask({"prompt": "under way"}, 60)).answer == "0"

    use(folder, body)


def test_a_request_that_was_given_up_at_this_end_is_taken_back(folder: Path) -> None:
    async def body(worker: Worker) -> None:
        given_up = asyncio.create_task(worker.ask({"prompt": "slow", "wait": 600}, 600))
        while (await worker.ask({"prompt": "under way"}, 60)).answer != "1":
            assert not given_up.done()
        given_up.cancel()
        await asyncio.wait([given_up])
        assert worker.active == 0
        assert (await worker.ask({"prompt": "under way"}, 60)).answer == "0"

    use(folder, body)


def test_an_engine_that_dies_fails_everything_under_way_with_one_sentence(folder: Path) -> None:
    async def body(worker: Worker) -> None:
        waiting = [asyncio.create_task(worker.ask({"prompt": "slow", "wait": 600}, 600)) for _ in range(3)]
        await worker.ask({"prompt": "ab"}, 60)
        os.kill(engine_of(worker.child.pid), signal.SIGKILL)
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(outcome, EndpointFailed)
        with pytest.raises(EndpointFailed, match=r"^the engine ended\."):
            await worker.ask({"prompt": "ab"}, 60)
        assert ends(worker.child.pid)

    use(folder, body)


def test_an_engine_that_lost_its_own_processes_ends_with_the_cause_in_its_log(folder: Path) -> None:
    async def body(worker: Worker) -> None:
        with pytest.raises(EndpointFailed, match=r"^the engine ended\. Its last words: .*the shapes differ$"):
            await worker.ask({"prompt": "gone"}, 60)

    use(folder, body)


def test_whoever_stops_an_engine_hears_its_last_words(tmp_path: Path) -> None:
    program = """
import signal
signal.signal(signal.SIGTERM, lambda *_: exit("ValueError: told to end"))
print("ready", flush=True)
signal.pause()
"""
    child = Child("the engine", [sys.executable, "-c", program], env=os.environ, stdout=True)

    def stopped(_: int) -> str:
        child.stop()
        return child.last_words()

    asyncio.run(child.first_line("ready", 60))
    with ThreadPoolExecutor(20) as threads:
        assert set(threads.map(stopped, range(20))) == {"Its last words: ValueError: told to end"}


def test_an_engine_that_cannot_load_says_why(folder: Path) -> None:
    async def body(worker: Worker) -> None:
        raise AssertionError("it was ready")

    with pytest.raises(EndpointFailed, match=r"status 1\. Its last words: RuntimeError: no such weights$"):
        use(folder, body, fails=True)
