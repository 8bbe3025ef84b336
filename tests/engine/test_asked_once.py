"""Equal requests are sent once, whichever step or process asks first."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from engine.asking import MODEL, Prompts, Scripted, echo, step_of
from support.command import Command
from support.endpoint import mock_endpoint
from support.runs import summary, write_config, write_sums

from gage_eval.base.canonical import digest
from gage_eval.engine.other_runs_logs import OtherRunsLogs
from gage_eval.engine.rows import index_answers
from gage_eval.engine.runtime import Runtime
from gage_eval.engine.wal import LogWriter
from gage_eval.models.client.types import Request, Response
from gage_eval.store import Store


def test_two_steps_of_a_run_that_go_on_together_send_equal_requests_once(tmp_path: Path) -> None:
    store = Store.open(str(tmp_path))
    prompts = [f"prompt {number}" for number in range(200)]

    async def slowly(request: Request) -> Response:
        await asyncio.sleep(0)
        return await echo(request)

    backend = Scripted(slowly, width=4)
    with Runtime() as runtime:

        def work(key: str, prompts_of_step: list[str]) -> None:
            with runtime.answers.step() as answers:
                step = step_of(store, Prompts(prompts_of_step), backend, digest(key), answers=answers)
                runtime.call(step.engine.run())
                responses = step.responses.commit()
                # As a stage does: the other steps find these answers in the store once this step has ended.
                index_answers(store, MODEL, responses)
                answers_of[key] = responses.table()["answer"].to_pylist()

        answers_of: dict[str, list[str]] = {}
        threads = [threading.Thread(target=work, args=(name, prompts[:count])) for name, count in SIZES.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {name: len(answers) for name, answers in answers_of.items()} == SIZES
    assert answers_of["all"] == [f"re: {prompt}" for prompt in prompts]
    assert answers_of["some"] == answers_of["all"][:120]
    assert len(backend.asked) == 200


SIZES = {"all": 200, "some": 120, "few": 50}


def test_tasks_on_overlapping_rows_of_one_config_send_each_request_once(tmp_path: Path, gage: Command) -> None:
    write_sums(tmp_path / "sums.jsonl", 600)
    tasks = [
        {"task_id": name, "dataset_id": "sums", **({"max_samples": count} if count else {})}
        for name, count in {"all": 0, "half": 300, "third": 200}.items()
    ]
    with mock_endpoint(latency_ms=5) as endpoint:
        write_config(tmp_path, endpoint.url, rows=600, tasks=tasks)
        ended = gage("run", "sums.yaml", "--run-id", "three")
        assert ended.code == 0, ended.err
        assert endpoint.stats()["requests"] == 600
    assert [task["sample_count"] for task in summary(tmp_path, "three")["tasks"]] == [600, 300, 200]


def test_a_run_takes_what_another_run_on_this_machine_has_logged(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(latency_ms=20) as endpoint:
        write_config(tmp_path, endpoint.url, rows=400, backend={"max_concurrency": 8})
        other = subprocess.Popen(
            [sys.executable, "-m", "gage_eval", "run", "sums.yaml", "--inline", "--run-id", "other"],
            cwd=tmp_path,
            env=os.environ.copy(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while endpoint.stats()["answered"] < 150 and other.poll() is None:
                time.sleep(0.01)
            other.send_signal(signal.SIGSTOP)
            ended = gage("run", "sums.yaml", "--run-id", "subset", "--max-samples", "100")
            assert ended.code == 0, ended.err
            # Not the number of requests: some of the stopped run's may still arrive.
            assert endpoint.stats()["resent_after_answer"] == 0, "all 100 rows were in the other run's log"
        finally:
            other.send_signal(signal.SIGCONT)
            assert other.wait(timeout=120) == 0
        assert endpoint.stats()["distinct_answered"] == 400


def test_what_is_logged_after_the_first_look_is_found_too(tmp_path: Path) -> None:
    own = tmp_path / "wip" / "a" / "log"
    logs = OtherRunsLogs(own)
    with LogWriter(tmp_path / "wip" / "b" / "log") as log:
        log.append(digest(1), Response("ok", answer="one").to_bytes())
        assert {key: response.answer for key, response in logs.find([digest(1), digest(2)]).items()} == {
            digest(1): "one"
        }
        log.append(digest(2), Response("ok", answer="two").to_bytes())
        logs._next_scan = 0.0
        responses = logs.find([digest(1), digest(2), digest(3)])
    assert {key: response.answer for key, response in responses.items()} == {digest(1): "one", digest(2): "two"}


def test_a_log_that_was_cleared_away_is_not_found(tmp_path: Path) -> None:
    folder = tmp_path / "wip" / "b" / "log"
    logs = OtherRunsLogs(tmp_path / "wip" / "a" / "log")
    with LogWriter(folder) as log:
        log.append(digest(1), Response("ok", answer="one").to_bytes())
    assert logs.find([digest(1)])
    for segment in folder.iterdir():
        segment.unlink()
    assert logs.find([digest(1)]) == {}


def test_actions_that_end_while_logs_are_looked_for_disturb_nothing(tmp_path: Path) -> None:
    logs = OtherRunsLogs(tmp_path / "wip" / "a" / "log")
    looked = threading.Event()

    def begin_and_end() -> None:
        while not looked.is_set():
            for number in range(20):
                (tmp_path / "wip" / f"b{number}" / "log").mkdir(parents=True)
            for number in range(20):
                shutil.rmtree(tmp_path / "wip" / f"b{number}")

    ending = threading.Thread(target=begin_and_end)
    ending.start()
    try:
        for _ in range(1000):
            logs._next_scan = 0.0
            assert logs.find([digest(1)]) == {}
    finally:
        looked.set()
        ending.join()


def test_an_actions_own_log_is_not_a_neighbour(tmp_path: Path) -> None:
    own = tmp_path / "wip" / "a" / "log"
    with LogWriter(own) as log:
        log.append(digest(1), Response("ok", answer="one").to_bytes())
    assert OtherRunsLogs(own).find([digest(1)]) == {}
