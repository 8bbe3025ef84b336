"""Engines on work pools are served: any number of runs share one, and a server or a run may be lost at any moment."""

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from gage_eval.base.errors import GageError, InputError, RunCancelled
from gage_eval.runs import RunOptions, RunSession, run_inline
from gage_eval.runs.inline import carry_out
from gage_eval.runs.sequence import run_all
from gage_eval.store import Store
from gage_eval.store import serving as signs
from tests.support.engines import (
    asked,
    ends,
    engines_of,
    is_alive,
    options_on_engine,
    starts,
    write_fake_vllm,
)
from tests.support.serving import LocalPool, run_on_pool
from tests.support.waiting import PATIENCE_S, Stopwatch, wait_for
from tests.support.workspace import write_rows

ROWS = 60
CONCURRENCY = 8
_ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join([str(_ROOT), str(_ROOT / "tests")])
Config = Callable[..., RunOptions]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Writes configs whose engine is `fake_vllm` on the pool ``h100``; returns the options that run them."""
    write_fake_vllm(tmp_path)
    write_rows(tmp_path, ROWS)
    return partial(options_on_engine, tmp_path, work_pool="h100", max_concurrency=CONCURRENCY)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[LocalPool]:
    pool = LocalPool(tmp_path)
    yield pool
    pool.close()


def test_an_engine_starts_once_for_all_tasks_and_a_hit_starts_none(
    config: Config, pool: LocalPool, tmp_path: Path
) -> None:
    first, _ = run_on_pool(config("a", tasks=3), pool)
    assert len(starts(tmp_path)) == len(pool.servers) == 1
    assert len(asked(tmp_path)) == 3 * ROWS
    assert len(engines_of(first)) == 1
    run_on_pool(config("a", tasks=3), pool)
    assert len(pool.servers) == 1


def test_a_run_on_a_pool_has_the_results_of_a_run_on_this_machine(
    config: Config, pool: LocalPool, tmp_path: Path
) -> None:
    plain = {"env": {"FAKE_PLAIN": "1"}}
    response_ids = set()
    for store, replicas in (("one", 1), ("two", 2)):
        options = config("a", replicas=replicas, **plain).model_copy(update={"store": str(tmp_path / store)})
        response_ids.add(run_on_pool(options, pool)[0].task("sums").artifact("responses").id)
    here = run_inline(options.model_copy(update={"work_pool": None, "store": str(tmp_path / "here")}))
    assert response_ids == {here.results["sums", "infer"].outputs["responses"]}
    assert [spec.gpus for spec in pool.specs] == [1, 2]


def test_two_replicas_share_the_requests(config: Config, pool: LocalPool, tmp_path: Path) -> None:
    run_on_pool(config("a", replicas=2, env={"FAKE_SECONDS": "0.02"}), pool)
    by_process = [pid for pid, _ in asked(tmp_path)]
    counts = {pid: by_process.count(pid) for pid in set(by_process)}
    assert len(counts) == 2
    assert min(counts.values()) >= CONCURRENCY // 2, "a slow one has half of what is in flight"
    assert pool.specs[0].gpus == 2


def test_runs_in_turn_share_an_engine_and_let_it_go_together(config: Config, pool: LocalPool, tmp_path: Path) -> None:
    options = [config("a"), config("b", default_params={"temperature": 1}), config("c", max_concurrency=2)]
    outcomes = run_all(options, lambda run_options, host: run_on_pool(run_options, pool, host)[0])
    first, *others = map(engines_of, outcomes)
    assert others == [first, first]
    assert len(starts(tmp_path)) == 1
    assert [
        item.path for item in Store.open(str(options[0].store)).objects.list("serving") if "wants" in item.path
    ] == []


def test_a_later_run_takes_a_server_that_still_waits(config: Config, pool: LocalPool, tmp_path: Path) -> None:
    first, _ = run_on_pool(config("a"), pool)
    second, _ = run_on_pool(config("b"), pool)
    assert engines_of(first) == engines_of(second)
    assert len(pool.servers) == 1


def test_a_server_without_a_run_ends(config: Config, pool: LocalPool, tmp_path: Path) -> None:
    pool.lease_s = signs.LEASE_S
    run_on_pool(config("a"), pool)
    store = Store.open(str(tmp_path / "store"))
    (engine,) = {pid for pid, _ in asked(tmp_path)}
    assert pool.servers[0].wait(PATIENCE_S) == 0
    assert "no run needs it any more" in pool.log(0)
    assert ends(engine)
    assert list(store.objects.list("serving")) == []


def test_the_token_is_for_its_owner_and_in_no_argument_and_log(config: Config, pool: LocalPool, tmp_path: Path) -> None:
    run_on_pool(config("a"), pool)
    folder = tmp_path / "store" / "serving" / pool.specs[0].key
    (sign,) = (folder / "servers").iterdir()
    assert stat.S_IMODE(sign.stat().st_mode) == 0o600
    ((engine,),) = [signs.Signs(Store.open(str(tmp_path / "store")).objects, "serving").look()[sign.stem]["servers"]]
    assert not any(engine["token"] in argument for argument in starts(tmp_path)[0].argv)
    logs = [*tmp_path.rglob("*.log"), *tmp_path.rglob("*.jsonl")]
    assert not any(engine["token"] in file.read_text() for file in logs)


def test_servers_speak_tls_where_the_pool_asks_for_it(config: Config, tmp_path: Path) -> None:
    """Two replicas show one certificate, which the runs have from the store; nothing answers in the clear."""
    pool = LocalPool(tmp_path, env={"GAGE_EVAL_SERVE_TLS": "true", "TMPDIR": str(tmp_path)})
    try:
        run, _ = run_on_pool(config("a", replicas=2), pool)
        assert run.task("sums").artifact("responses").rows == len(asked(tmp_path)) == ROWS
        flags = starts(tmp_path)[0].flags
        key, certificate = Path(flags["ssl-keyfile"]), Path(flags["ssl-certfile"])
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        (sign,) = (
            signs.ServingFolder(Store.open(str(tmp_path / "store")).objects, pool.specs[0].key)
            .servers()
            .look()
            .values()
        )
        assert {server["certificate"] for server in sign["servers"]} == {certificate.read_text()}
        for server in sign["servers"]:
            assert server["url"].startswith("https://")
            with pytest.raises(OSError, match=r"."):
                urllib.request.urlopen(server["url"].replace("https:", "http:") + "/models", timeout=5)
        assert "PRIVATE" not in "".join(
            path.read_text(errors="replace") for path in (tmp_path / "store").rglob("*") if path.is_file()
        )
        pool.servers[0].terminate()
        pool.servers[0].wait(PATIENCE_S)
    finally:
        pool.close()


def test_the_engines_own_error_reaches_the_user(config: Config, pool: LocalPool) -> None:
    with pytest.raises(GageError, match="no kernel image"):
        run_on_pool(config("a", env={"FAKE_DIES": "no kernel image"}), pool)
    with pytest.raises(GageError, match="no kernel image"):
        run_on_pool(config("a", env={"FAKE_DIES": "no kernel image"}), pool)


def test_a_pool_that_cannot_start_a_server_says_so(config: Config, pool: LocalPool) -> None:
    class Refusing(LocalPool):
        def launch(self, *_: object) -> "object":  # type: ignore[override]
            raise InputError("no deployment on work pool 'h100'.")

    with pytest.raises(InputError, match="no deployment on work pool 'h100'"):
        run_on_pool(config("a"), Refusing(pool.folder))


def test_without_a_prefect_api_a_work_pool_is_refused_before_any_work(config: Config, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="work pool 'h100' needs a Prefect API"):
        run_inline(config("a"))
    assert not (tmp_path / "store" / "runs").exists()


def go_on_without(engine: int, folder: Path) -> None:
    """Answers are held (``FAKE_HOLDS``) until the engine has ended."""
    assert ends(engine)
    (folder / "go").touch()


@pytest.mark.parametrize("what", ["engine", "server"])
def test_a_lost_server_is_replaced_and_only_what_was_in_flight_is_sent_again(
    config: Config, pool: LocalPool, tmp_path: Path, what: str
) -> None:
    def kill() -> None:
        wait_for(lambda: len(asked(tmp_path)) > ROWS // 2, "some answers", every_s=0.01)
        engine = asked(tmp_path)[0][0]
        os.kill(pool.servers[0].pid if what == "server" else engine, signal.SIGKILL)
        go_on_without(engine, tmp_path)

    killer = threading.Thread(target=kill)
    killer.start()
    run, warnings = run_on_pool(config("a", env={"FAKE_HOLDS": str(ROWS // 2)}), pool)
    killer.join()
    assert run.task("sums").artifact("responses").rows == ROWS
    assert len(asked(tmp_path)) <= ROWS + CONCURRENCY
    assert len(pool.servers) == 2
    (lost,) = [text for text in warnings if "are sent again" in text]
    assert "work pool 'h100'" in lost


def test_a_lost_replica_leaves_its_requests_to_the_other(config: Config, pool: LocalPool, tmp_path: Path) -> None:
    def kill() -> None:
        wait_for(lambda: len(asked(tmp_path)) > ROWS // 3, "some answers", every_s=0.01)
        engine = asked(tmp_path)[0][0]
        os.kill(engine, signal.SIGKILL)
        go_on_without(engine, tmp_path)

    killer = threading.Thread(target=kill)
    killer.start()
    run_on_pool(config("a", replicas=2, env={"FAKE_HOLDS": str(ROWS // 3)}), pool)
    killer.join()
    assert len(pool.servers) == 1
    assert len(asked(tmp_path)) <= ROWS + 2 * CONCURRENCY


def test_a_request_that_ends_every_server_ends_the_run(config: Config, pool: LocalPool, tmp_path: Path) -> None:
    (tmp_path / "deadly.jsonl").write_text('{"id": "d", "question": "die", "answer": "1"}\n')
    with pytest.raises(GageError, match="the engine core went away"):
        run_on_pool(config("a", rows="deadly.jsonl"), pool)
    assert len(pool.servers) == 3


def test_rows_that_always_fail_end_every_run_on_a_pool_the_same_way(
    config: Config, pool: LocalPool, tmp_path: Path
) -> None:
    """In the second run only they are left to ask: the server is told from them by what it answered before."""
    texts = ["well", "well too", *(f"sick {number}" for number in range(4))]
    rows = [{"id": str(number), "question": text, "answer": "1"} for number, text in enumerate(texts)]
    (tmp_path / "sick.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = config("a", rows="sick.jsonl", max_attempts=3, give_up_after=0.2)
    file = Path(options.config)
    whole = yaml.safe_load(file.read_text())
    whole["tasks"][0]["max_error_share"] = 1.0
    file.write_text(yaml.safe_dump(whole))
    for _ in range(2):
        run, _ = run_on_pool(options, pool)
        statuses = run.task("sums").artifact("responses").table(columns=["status"])["status"].to_pylist()
        assert sorted(statuses) == ["error"] * 4 + ["ok"] * 2


def test_a_cancelled_run_lets_its_engine_go(config: Config, pool: LocalPool, tmp_path: Path) -> None:
    options = config("a", env={"FAKE_HOLDS": "0"})

    def cancel(session: RunSession) -> None:
        wait_for(lambda: asked(tmp_path), "a request", every_s=0.01)
        session.cancel()

    def run() -> None:
        with RunSession(options, launcher=pool) as session:
            threading.Thread(target=cancel, args=[session]).start()
            carry_out(session)

    with pytest.raises(RunCancelled):
        run()
    paths = [item.path for item in Store.open(str(options.store)).objects.list("serving")]
    assert not any("/wants/" in path for path in paths)


def test_engines_take_turns_on_the_gpu_of_a_pool(config: Config, tmp_path: Path) -> None:
    """The first one is still warm when the second one waits for its GPU."""
    pool = LocalPool(tmp_path, env={"CUDA_VISIBLE_DEVICES": "0", "TMPDIR": str(tmp_path)})
    try:
        run_on_pool(config("a"), pool)
        run_on_pool(config("b", max_model_len=32), pool)
        assert pool.servers[0].wait(PATIENCE_S) == 0
        assert "another engine waits for its GPUs" in pool.log(0)
        assert [start.gpus for start in starts(tmp_path)] == ["0", "0"]
    finally:
        pool.close()


def test_a_model_and_its_judge_share_one_gpu_in_turn(config: Config, tmp_path: Path) -> None:
    pool = LocalPool(tmp_path, env={"CUDA_VISIBLE_DEVICES": "0", "TMPDIR": str(tmp_path)})
    options = config("a", tasks=2)
    file = Path(options.config)
    whole = yaml.safe_load(file.read_text())
    whole["backends"].append(
        {"backend_id": "judge", "type": "vllm", "config": {**whole["backends"][0]["config"], "max_model_len": 32}}
    )
    whole["prompts"] = [{"prompt_id": "verdict", "template": "Is {{ model_answer }} right? SCORE: 1"}]
    whole["role_adapters"].append(
        {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "judge", "prompt_id": "verdict"}
    )
    file.write_text(yaml.safe_dump(whole))
    try:
        run_on_pool(options, pool)
    finally:
        pool.close()
    assert [start.flags.get("max-model-len") for start in starts(tmp_path)] == [None, "32"]
    assert [start.gpus for start in starts(tmp_path)] == ["0", "0"]
    assert len(asked(tmp_path)) == 3 * ROWS, "both tasks have the same questions for the judge"


def test_the_server_of_a_killed_run_ends_within_a_minute(config: Config, tmp_path: Path) -> None:
    """The run is killed while its requests are in flight; nothing but its sign tells the server."""
    options = config("a", env={"FAKE_HOLDS": "0"})
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(
            f"""
            from pathlib import Path
            from gage_eval.runs import RunOptions
            from tests.support.serving import LocalPool, run_on_pool

            options = RunOptions.model_validate_json({options.model_dump_json()!r})
            run_on_pool(options, LocalPool(Path({str(tmp_path)!r}), lease_s={signs.LEASE_S}))
            """
        )
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": PATHS}, start_new_session=True
    )
    engine = wait_for(lambda: asked(tmp_path), "a request", every_s=0.05)[0][0]
    process.kill()
    process.wait()
    assert is_alive(engine)
    with Stopwatch() as watch:
        assert ends(engine)
    assert watch.seconds < 60
    store = Store.open(str(options.store))
    wait_for(lambda: not list(store.objects.list("serving")), "the server leaves nothing")
