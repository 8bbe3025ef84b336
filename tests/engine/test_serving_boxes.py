"""Programs on a work pool: the results of a run here, whatever happens to the boxes on the way."""

import asyncio
import json
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from gage_eval.base.errors import GageError, InputError
from gage_eval.box.executors import ExecutorSettings
from gage_eval.box.types import BoxError, BoxSpec, Execution, Limits, Program
from gage_eval.models.backends import box_service, pooled_boxes
from gage_eval.models.backends.box_service import BoxService, read_request, request_body
from gage_eval.models.backends.pooled_boxes import PoolExecutor
from gage_eval.pipeline import boxes
from gage_eval.runs import RunOptions, run_inline
from tests.support.boxes import NEEDS_BOX, FakeExecutor
from tests.support.engines import children
from tests.support.serving import LocalPool, run_on_pool
from tests.support.waiting import wait_for

CONFIG = r"""
datasets: [{dataset_id: mine, params: {path: data.jsonl}}]
backends: [{backend_id: recorded, type: replay, config: {path: answers.jsonl, answer_field: output}}]
metrics: [execution_passed]
tasks:
  - task_id: code
    dataset_id: mine
    execution: {mode: calls, entry: metadata.entry, tests: metadata.tests, limits: {cpu_s: 10.0}, EXTRA}
"""
TOKEN = "right"
Config = Callable[..., RunOptions]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[LocalPool]:
    pool = LocalPool(tmp_path)
    yield pool
    pool.close()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Writes a config of this many programs, each with a file that its sample brings. Every third one is wrong."""

    def written(extra: str = "work_pool: boxes", rows: int = 12, code: str = "", store: str = "store") -> RunOptions:
        tests = ["assert f(1) == int(open('one.txt').read()) + 1"]
        metadata = {"tests": tests, "entry": "f", "execution": {"files": {"one.txt": "one.txt"}}}
        data = [{"id": f"s{row}", "question": "Write f.", "metadata": metadata} for row in range(rows)]
        said = [
            {"id": f"s{row}", "output": f"{code}\ndef f(a):\n    return a + {1 if row % 3 else 2} + 0 * {row}\n"}
            for row in range(rows)
        ]
        (tmp_path / "one.txt").write_text("1")
        for name, records in (("data", data), ("answers", said)):
            (tmp_path / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
        (tmp_path / "code.yaml").write_text(CONFIG.replace("EXTRA", extra))
        return RunOptions(config=str(tmp_path / "code.yaml"), store=str(tmp_path / store))

    return written


def boxes_of(server: int) -> list[int]:
    """The processes of the service that a server has started; their parents are its guards."""
    outputs = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes().split(b"\0")
            parent = Path("/proc", (process / "stat").read_text().rpartition(")")[2].split()[1], "stat")
            if command[3:4] == [box_service.__name__.encode()] and int(parent.read_text().split()[3]) == server:
                outputs.append(int(process.name))
    return outputs


def executions_of(run: Any) -> str:
    return str(run.task("code").artifact("executions").id)


@NEEDS_BOX
def test_a_run_on_a_pool_has_the_results_of_a_run_here_and_a_hit_starts_no_box(
    config: Config, tmp_path: Path, pool: LocalPool
) -> None:
    there, _ = run_on_pool(config("work_pool: boxes, replicas: 2"), pool)
    assert len(pool.servers) == 2
    here = run_inline(config("slots: 2", store="here"))
    assert executions_of(there) == here.results["code", "auto_eval"].outputs["executions"]
    run_on_pool(config("work_pool: boxes, slots: 3"), pool)
    assert len(pool.servers) == 2


@NEEDS_BOX
def test_lost_boxes_are_replaced_and_what_they_ran_is_run_again(config: Config, pool: LocalPool) -> None:
    pool.env = {"A_SECRET": "hidden"}
    code = "import time; time.sleep(0.8)"
    environments = []

    def kill(number: int, *, whole: bool) -> None:
        server = wait_for(lambda: pool.servers[number : number + 1], "a server", every_s=0.05)[0].pid
        (box,) = wait_for(lambda: boxes_of(server), "a box", every_s=0.05)
        environments.append(Path(f"/proc/{box}/environ").read_bytes())
        wait_for(lambda: len(children(box)) > 1, "programs that run at once", every_s=0.05)
        os.kill(server if whole else box, signal.SIGKILL)

    killers = [threading.Thread(target=kill, args=(number,), kwargs={"whole": bool(number)}) for number in range(2)]
    for killer in killers:
        killer.start()
    run, told = run_on_pool(config("work_pool: boxes, replicas: 2, slots: 3", rows=48, code=code), pool)
    for killer in killers:
        killer.join()
    assert len(pool.servers) in (3, 4), "a box that is lost near the end may not be needed any more"
    assert any("in flight are sent again" in text for text in told)
    assert not any(b"hidden" in environment for environment in environments)
    here = run_inline(config("slots: 8", rows=48, code=code, store="here"))
    assert executions_of(run) == here.results["code", "auto_eval"].outputs["executions"]


@NEEDS_BOX
def test_a_box_with_another_interpreter_is_refused(
    config: Config, pool: LocalPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooled_boxes, "executor_identity", lambda containment: {"python": "3.99.0"})
    monkeypatch.setattr(boxes, "_backends", {})
    with pytest.raises(GageError, match="verdicts might differ"):
        run_on_pool(config(), pool)


def test_without_a_prefect_api_programs_stay_here(config: Config) -> None:
    with pytest.raises(InputError, match="work pool 'boxes' needs a Prefect API"):
        run_inline(config())


@pytest.mark.parametrize("extra", ["allow_unsafe: true", "roots: {debian: roots}"])
def test_a_pool_takes_nothing_that_only_the_runs_machine_may_allow(config: Config, extra: str) -> None:
    with pytest.raises(InputError, match="own machine"):
        run_inline(config(f"work_pool: boxes, {extra}"))


async def test_what_no_box_of_a_pool_can_have_is_a_box_error_with_a_sentence() -> None:
    executor = PoolExecutor(ExecutorSettings(work_pool="boxes"), None)
    for spec, said in (
        (BoxSpec(image="debian:12"), "by its digest"),
        (BoxSpec(files={"large": bytes(box_service.LARGEST_REQUEST)}), "a work pool takes"),
    ):
        execution = await executor.execute(PROGRAM, LIMITS, spec)
        assert (execution.status, said in execution.text) == ("box_error", True)
    with pytest.raises(BoxError):
        await executor.open(BoxSpec(), LIMITS)


PROGRAM = Program("calls", "def f(): pass  # \udc80", entry="f", tests="f()", stdin=["a"])
LIMITS = Limits(cpu_s=2.5, memory_mb=64)
BARE = BoxSpec()


def test_a_request_arrives_as_it_was_sent() -> None:
    spec = BoxSpec("debian@sha256:" + "0" * 64, {"a/b": b"\0\xff"}, "true", {"A": "b"})
    assert read_request(request_body(PROGRAM, LIMITS, spec)) == (replace(PROGRAM, command=[]), LIMITS, spec)


async def asked(
    body: bytes,
    *,
    token: str = TOKEN,
    path: str = "/v1/executions",
    executor: FakeExecutor | None = None,
    leaves: asyncio.Event | None = None,
    shown: asyncio.Event | None = None,
) -> tuple[int, bytes]:
    """The status and the body of the service's answer; ``shown`` is set after two signs, ``leaves`` by who goes."""
    messages = [
        {"type": "http.request", "body": body[:10], "more_body": True},
        {"type": "http.request", "body": body[10:]},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        if not messages:
            await (leaves or asyncio.Event()).wait()
            return {"type": "http.disconnect"}
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)
        if shown is not None and len(sent) >= 3:
            shown.set()

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [(b"authorization", f"Bearer {token}".encode())],
    }
    await BoxService(executor or FakeExecutor(), TOKEN)(scope, receive, send)
    return sent[0]["status"], b"".join(message["body"] for message in sent[1:])


async def test_the_service_runs_what_has_its_form_and_its_token_and_nothing_else() -> None:
    executor = FakeExecutor()
    good = request_body(PROGRAM, LIMITS, BoxSpec())
    for body, more, status in (
        (good, {"token": "wrong"}, 401),
        (good, {"token": ""}, 401),
        (good, {"path": "/v1/files"}, 404),
        (b" " * (box_service.LARGEST_REQUEST + 1), {}, 413),
        (b"not json", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b"[]", {}, 400),
        (pickle.dumps(PROGRAM), {}, 400),
        (good.replace(b'"mode"', b'"__class__"'), {}, 400),
        (json.dumps({**json.loads(good), "spec": {"files": {"a": "%"}}}).encode(), {}, 400),
    ):
        told = {"token": TOKEN, "path": "/v1/executions", **more}
        assert (await asked(body, executor=executor, token=told["token"], path=told["path"]))[0] == status
    assert executor.ran == []
    status, answer = await asked(good, executor=executor)
    assert (status, json.loads(answer)["status"], len(executor.ran)) == (200, "passed", 1)


async def test_a_program_ends_with_its_caller() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    class Endless(FakeExecutor):
        async def execute(self, *_: object) -> Execution:
            begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()
            raise AssertionError

    await asked(request_body(PROGRAM, LIMITS, BoxSpec()), executor=Endless(), leaves=begun)
    assert ended.is_set()


async def test_a_program_that_takes_long_shows_signs_and_one_that_prints_too_much_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = asyncio.Event()

    class Slow(FakeExecutor):
        async def execute(self, program: Program, limits: Limits, spec: BoxSpec = BARE) -> Execution:
            await shown.wait()
            return Execution("passed", outputs=["x" * 5_000, "\udc80"], cpu_s=0.5)

    monkeypatch.setattr(box_service, "_SIGN_EVERY_S", 0.001)
    body = request_body(PROGRAM, LIMITS, BARE)
    _, answer = await asked(body, executor=Slow(), shown=shown)
    assert answer.startswith(b"  ")
    execution = pooled_boxes._EXECUTION.validate_json(answer, strict=True)
    assert (execution.status, execution.cpu_s, execution.outputs[1]) == ("passed", 0.5, "\ufffd")
    monkeypatch.setattr(box_service, "LARGEST_ANSWER", 5_000)
    _, answer = await asked(body, executor=Slow())
    assert {"status": "failed", "reason": "output", "cpu_s": 0.5}.items() <= json.loads(answer).items()
