"""Shards over several runs: their engines start once, and none is left running."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml
from sessions.shards import STOP_S, seconds_until_gone

from gage_eval.engine.host import EngineHost
from gage_eval.runs import RunOptions
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.sequence import run_in_turn
from gage_eval.store import Store
from tests.support.engines import engines_of, is_alive, options_on_engine, run_on, starts, write_fake_vllm
from tests.support.workspace import write_rows

Config = Callable[..., RunOptions]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Writes configs whose engine is `fake_vllm` in one shard; returns the options that run them."""
    write_fake_vllm(tmp_path)
    write_rows(tmp_path)
    return partial(options_on_engine, tmp_path, shards=1)


def with_judge(options: RunOptions) -> RunOptions:
    """The same run, judged by another engine in shards of its own."""
    file = Path(options.config)
    given = yaml.safe_load(file.read_text())
    (engine,) = given["backends"]
    given["backends"].append({**engine, "backend_id": "other", "config": {**engine["config"], "max_model_len": 32}})
    (dut,) = given["role_adapters"]
    judge = {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "other", "prompt_id": "verdict"}
    given["role_adapters"].append({**dut, **judge})
    given["prompts"] = [{"prompt_id": "verdict", "template": "Is {{ model_answer }} right? SCORE: 1"}]
    file.write_text(yaml.safe_dump(given))
    return options


def left(options: RunOptions) -> list[str]:
    """What is left of sessions and shards in the store."""
    objects = Store.open(str(options.store)).objects
    return [item.path for root in ("sessions", "shards") for item in objects.list(root)]


def test_two_runs_start_the_engine_of_a_shard_once(config: Config, tmp_path: Path) -> None:
    asked = [config("a"), config("b", default_params={"temperature": 1})]
    first, second = (engines_of(one) for one in run_in_turn(asked, run_on))
    assert first == second
    assert len(starts(tmp_path)) == 1
    assert not any(map(is_alive, first))
    assert left(asked[0]) == []


def test_a_run_with_another_engine_has_its_own_shards(config: Config, tmp_path: Path) -> None:
    asked = [config(name, max_model_len=length) for name, length in (("a", 64), ("b", 32), ("c", 64))]
    first, second, third = (engines_of(one) for one in run_in_turn(asked, run_on))
    assert first == third != second
    assert [one.flags["max-model-len"] for one in starts(tmp_path)] == ["64", "32"]


@pytest.mark.parametrize(("gpus", "expected"), [("0", 4), ("0,1", 2)])
def test_shards_that_wait_keep_their_gpus_until_others_need_them(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: str, expected: int
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    asked = [with_judge(config(name)) for name in "ab"]
    for one in run_in_turn(asked, run_on):
        assert isinstance(one, RunReader), one
    assert len(starts(tmp_path)) == expected, "model and judge, for each run if they must share a GPU"


def test_shards_of_which_one_was_killed_are_replaced_for_the_next_run(config: Config, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(options: RunOptions, host: EngineHost) -> RunReader:
        reader = run_on(options, host)
        if not killed:
            (engine,) = engines_of(reader)
            killed.extend((engine, _shard_of(engine)))
            os.kill(killed[1], signal.SIGKILL)
            seconds_until_gone(killed)
        return reader

    first, second = (engines_of(one) for one in run_in_turn([config("a"), config("b")], kill))
    assert first != second
    assert len(starts(tmp_path)) == 2


def test_shards_that_wait_end_when_their_holder_is_killed(config: Config, tmp_path: Path) -> None:
    options = config("a").model_copy(update={"run_id": "first"})
    holder = tmp_path / "holder.py"
    holder.write_text(
        textwrap.dedent(
            f"""
            import time
            from gage_eval.engine.host import EngineHost
            from gage_eval.runs import RunOptions, run_inline

            with EngineHost() as host:
                run_inline(RunOptions.model_validate_json({options.model_dump_json()!r}), host=host)
                print("waits", flush=True)
                time.sleep(600)
            """
        )
    )
    process = subprocess.Popen([sys.executable, str(holder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert "waits" in process.stdout.readline()
        (engine,) = engines_of(RunReader.open(Locations.at(options.store), "first"))
        pids = [engine, _shard_of(engine)]
        assert all(map(is_alive, pids)), "they wait for the next run"
    finally:
        process.kill()
        process.wait()
    assert seconds_until_gone(pids) <= STOP_S


def _shard_of(engine: int) -> int:
    """The process of the shard that started an engine: an ancestor of it."""
    pid = engine
    while b"gage_eval.runs.shard" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        assert pid > 1, "no shard started it"
    return pid
