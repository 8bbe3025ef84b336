"""Promises of several runs: an engine starts once for all runs that need it, and none is left running."""

import json
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import ANY

import pytest

from gage_eval.base.errors import GageError
from gage_eval.engine.host import SharedEngines
from gage_eval.runs import RunOptions, RunSession
from gage_eval.runs.inline import carry_out
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.sequence import engine_keys, run_all
from tests.support.engines import engines_of, is_alive, options_on_engine, run_on, starts, write_fake_vllm
from tests.support.waiting import PATIENCE_S
from tests.support.workspace import write_rows

Config = Callable[..., RunOptions]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Writes configs whose engine is `fake_vllm`; returns the options that run them."""
    write_fake_vllm(tmp_path)
    write_rows(tmp_path)
    return partial(options_on_engine, tmp_path)


def test_an_engine_starts_once_whatever_its_runs_say_of_requests(config: Config, tmp_path: Path) -> None:
    runs = [config("a"), config("b", default_params={"temperature": 1}), config("c", max_concurrency=2)]
    first, *others = [engines_of(result) for result in run_all(runs, run_on)]
    assert others == [first, first]
    assert len(starts(tmp_path)) == 1
    assert not any(map(is_alive, first))


def test_runs_of_one_engine_follow_each_other_and_no_two_engines_are_alive(config: Config, tmp_path: Path) -> None:
    runs = [config(name, max_model_len=length) for name, length in (("a", 64), ("b", 32), ("c", 64))]
    order: list[int] = []
    alive: list[set[int]] = []

    def ended(number: int, result: RunReader | GageError) -> None:
        order.append(number)
        alive.append({pid for pid in set().union(engines_of(result), *alive) if is_alive(pid)})

    results = run_all(runs, run_on, ended=ended)
    assert [start.flags["max-model-len"] for start in starts(tmp_path)] == ["64", "32"]
    assert order == [0, 2, 1]
    assert [len(pids) for pids in alive] == [1, 1, 1]
    assert [result.stored.record.name for result in results if isinstance(result, RunReader)] == ["a", "b", "c"]


def test_a_run_whose_answers_are_there_starts_no_engine(config: Config, tmp_path: Path) -> None:
    runs = [config("a"), config("b")]
    run_all(runs, run_on)
    assert len(starts(tmp_path)) == 1
    results = run_all(runs, run_on)
    assert all(isinstance(result, RunReader) for result in results)
    assert len(starts(tmp_path)) == 1


def test_the_starts_of_engines_and_their_steps_of_memory_are_events(config: Config, tmp_path: Path) -> None:
    (run,) = run_all([config("a", env={"FAKE_FITS": "0.7"})], run_on)
    assert isinstance(run, RunReader)
    lines = (run.stored.folder.read("events.jsonl") or b"").splitlines()
    events = {event["type"]: event["payload"] for event in map(json.loads, lines)}
    assert events["engine_out_of_memory"] == {"engine": ANY, "share": 0.9, "next_share": 0.7}
    assert events["engine_started"]["backend"] == "vllm"
    assert events["engine_started"]["seconds"] > 0
    assert (events["usage"]["run_id"], events["usage"]["config_name"]) == (run.run_id, "a")
    assert events["run_started"]["queued_s"] is None


def test_a_run_that_crashes_leaves_the_engine_to_the_others(config: Config, tmp_path: Path) -> None:
    def crash(options: RunOptions, host: SharedEngines) -> RunReader:
        reader = run_on(options, host)
        if "/a.yaml" in options.config:
            raise GageError("scoring crashed")
        return reader

    first, second = run_all([config(name) for name in "ab"], crash)
    assert str(first) == "scoring crashed"
    assert isinstance(second, RunReader)
    assert len(starts(tmp_path)) == 1


def test_an_engine_that_died_is_started_anew_for_the_next_run(config: Config, tmp_path: Path) -> None:
    (tmp_path / "deadly.jsonl").write_text('{"id": "d", "question": "die", "answer": "1"}\n')
    runs = [config("a", rows="deadly.jsonl"), *(config(name) for name in "bc")]
    dead, second, third = run_all(runs, run_on)
    assert "the engine core went away" in str(dead)
    assert engines_of(second) == engines_of(third)
    assert len(starts(tmp_path)) == 2


def test_a_cancelled_run_leaves_the_engine_to_the_next_one(config: Config, tmp_path: Path) -> None:
    def cancelled(options: RunOptions, host: SharedEngines) -> RunReader:
        if "/b.yaml" not in options.config:
            return run_on(options, host)
        with RunSession(options, host=host) as session:
            threading.Timer(0, session.cancel).start()
            session.env.cancelled.wait()
            carry_out(session)
        raise AssertionError("it was not cancelled")

    first, second, third = run_all([config("a"), config("b"), config("c")], cancelled)
    assert str(second) == "the run was cancelled."
    assert engines_of(first) == engines_of(third)
    assert len(starts(tmp_path)) == 1


def test_ctrl_c_stops_the_engines(config: Config) -> None:
    pids: set[int] = set()

    def interrupted(options: RunOptions, host: SharedEngines) -> RunReader:
        pids.update(engines_of(run_on(options, host)))
        assert all(map(is_alive, pids))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all([config("a"), config("b")], interrupted)
    assert pids
    assert not any(map(is_alive, pids))


def test_runs_of_one_engine_go_side_by_side_and_share_it(config: Config, tmp_path: Path) -> None:
    together = threading.Barrier(2, timeout=PATIENCE_S)

    def run(options: RunOptions, host: SharedEngines) -> RunReader:
        together.wait()
        return run_on(options, host)

    results = run_all([config(name) for name in "abcd"], run, at_once=2)
    assert len({frozenset(engines_of(result)) for result in results}) == 1
    assert len(starts(tmp_path)) == 1
    assert not any(map(is_alive, engines_of(results[0])))


def test_runs_of_two_engines_never_go_side_by_side(config: Config, tmp_path: Path) -> None:
    running: set[str] = set()
    beside: set[frozenset[str]] = set()

    def run(options: RunOptions, host: SharedEngines) -> RunReader:
        name = Path(options.config).stem
        running.add(name)
        beside.add(frozenset(running))
        try:
            return run_on(options, host)
        finally:
            running.remove(name)

    runs = [config(name, max_model_len=length) for name, length in (("a", 64), ("b", 32), ("c", 64))]
    results = run_all(runs, run, at_once=3)
    assert all(isinstance(result, RunReader) for result in results)
    assert not any("b" in names and len(names) > 1 for names in beside)
    assert [start.flags["max-model-len"] for start in starts(tmp_path)] == ["64", "32"]


def test_an_interruption_cancels_the_runs_that_go_on(config: Config) -> None:
    begun, ends = threading.Event(), []

    def run(options: RunOptions, host: SharedEngines) -> RunReader:
        if "/a.yaml" in options.config:
            begun.wait(PATIENCE_S)
            raise KeyboardInterrupt
        with RunSession(options, host=host) as session:
            begun.set()
            ends.append(session.env.cancelled.wait(PATIENCE_S))
            carry_out(session)
        raise AssertionError("it was not cancelled")

    with pytest.raises(KeyboardInterrupt):
        run_all([config("a"), config("b")], run, at_once=2)
    assert ends == [True]


def test_a_model_that_changed_on_disk_is_another_engine(config: Config, tmp_path: Path) -> None:
    options = config("a")
    before = engine_keys(options)
    assert len(before) == 1
    os.utime(tmp_path / "checkpoint" / "config.json", (1, 1))
    assert engine_keys(options) != before
    assert engine_keys(RunOptions(config=str(tmp_path / "not there.yaml"))) == frozenset()
