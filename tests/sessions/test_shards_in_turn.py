"""Shards over several runs: their engines start once, and none is left running."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from sessions.shards import STOP_S, seconds_until_gone

from gage_eval.engine.host import EngineHost
from gage_eval.errors import GageError
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.in_turn import run_in_turn
from gage_eval.runs.options import Locations
from gage_eval.runs.reading import RunReader
from gage_eval.store import Store
from tests.support.engines import is_alive
from tests.support.workspace import write_config, write_rows

FAKE = Path(__file__).parents[1] / "support" / "fake_vllm.py"
Config = Callable[..., RunOptions]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Writes configs whose engine is `fake_vllm` in one shard; returns the options that run them."""
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "starts"))
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text('{"max_position_embeddings": 512}')
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    python.chmod(0o755)
    write_rows(tmp_path)

    def write(name: str, shards: int = 1, rows: str = "rows.jsonl", **engine: Any) -> RunOptions:
        adapter = {
            "adapter_id": "dut",
            "role_type": "dut_model",
            "backend_id": "engine",
            "resource_requirement": {"shards": shards, "work_pool": "local"},
        }
        write_config(
            tmp_path,
            f"{name}.yaml",
            metadata={"name": name},
            datasets=[{"dataset_id": "sums", "params": {"path": rows}}],
            backends=[
                {
                    "backend_id": "engine",
                    "type": "vllm",
                    "config": {"model_path": "checkpoint", "python": "./python", **engine},
                }
            ],
            role_adapters=[adapter],
        )
        return RunOptions(config=str(tmp_path / f"{name}.yaml"), store=str(tmp_path / "store"), freshness=name)

    return write


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


def run(options: RunOptions, host: EngineHost) -> RunReader:
    return RunReader.open(Locations.at(options.store), run_inline(options, host=host).run_id)


def starts(folder: Path) -> list[dict[str, str]]:
    log = folder / "starts"
    return [json.loads(line)[0] for line in log.read_text().splitlines()] if log.exists() else []


def engines_of(reader: RunReader | GageError) -> set[int]:
    """The processes that gave the answers of a run."""
    assert isinstance(reader, RunReader), reader
    answers = reader.task("sums").artifact("infer", "responses").table(columns=["answer"])["answer"].to_pylist()
    return {int(answer.split()[0]) for answer in answers}


def left(options: RunOptions) -> list[str]:
    """What is left of sessions and shards in the store."""
    objects = Store.open(str(options.store)).objects
    return [item.path for root in ("sessions", "shards") for item in objects.list(root)]


def test_two_runs_start_the_engine_of_a_shard_once(config: Config, tmp_path: Path) -> None:
    asked = [config("a"), config("b", default_params={"temperature": 1})]
    first, second = (engines_of(one) for one in run_in_turn(asked, run))
    assert first == second
    assert len(starts(tmp_path)) == 1
    assert not any(map(is_alive, first))
    assert left(asked[0]) == []


def test_a_run_with_another_engine_has_its_own_shards(config: Config, tmp_path: Path) -> None:
    asked = [config(name, max_model_len=length) for name, length in (("a", 64), ("b", 32), ("c", 64))]
    first, second, third = (engines_of(one) for one in run_in_turn(asked, run))
    assert first == third != second
    assert [one["max-model-len"] for one in starts(tmp_path)] == ["64", "32"]


def test_a_failed_run_leaves_its_shards_to_the_next_one(config: Config, tmp_path: Path) -> None:
    def crash(options: RunOptions, host: EngineHost) -> RunReader:
        reader = run(options, host)
        if "/a.yaml" in options.config:
            raise GageError("scoring crashed")
        return reader

    first, second = run_in_turn([config("a"), config("b")], crash)
    assert str(first) == "scoring crashed"
    assert isinstance(second, RunReader)
    assert len(starts(tmp_path)) == 1


def test_an_engine_that_died_in_a_shard_is_started_anew_for_the_next_run(config: Config, tmp_path: Path) -> None:
    (tmp_path / "deadly.jsonl").write_text('{"id": "d", "question": "die", "answer": "1"}\n')
    dead, second, third = run_in_turn([config("a", rows="deadly.jsonl"), config("b"), config("c")], run)
    assert "the engine core went away" in str(dead)
    assert engines_of(second) == engines_of(third)
    assert len(starts(tmp_path)) == 2


@pytest.mark.parametrize(("gpus", "expected"), [("0", 4), ("0,1", 2)])
def test_shards_that_wait_keep_their_gpus_until_others_need_them(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: str, expected: int
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    asked = [with_judge(config(name)) for name in "ab"]
    for one in run_in_turn(asked, run):
        assert isinstance(one, RunReader), one
    assert len(starts(tmp_path)) == expected, "model and judge, for each run if they must share a GPU"


def test_shards_of_which_one_was_killed_are_replaced_for_the_next_run(config: Config, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(options: RunOptions, host: EngineHost) -> RunReader:
        reader = run(options, host)
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
