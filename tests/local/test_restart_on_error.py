"""A kept command starts again after an error, and ends when it is told to or when it cannot start at all."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from gage_eval.base.processes import born
from gage_eval.local import restart_on_error
from gage_eval.local.background import Process
from tests.support.waiting import PATIENCE_S


def _keep(script: str, folder: Path, at_least_s: float = 0.0) -> "subprocess.Popen[bytes]":
    keeping = [sys.executable, "-P", "-m", restart_on_error.__name__, str(at_least_s), "worker.json"]
    command = [*keeping, "/bin/sh", "-c", script]
    kept = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, start_new_session=True)
    record = Process(pid=kept.pid, group=kept.pid, born=born(kept.pid))
    (folder / "worker.json").write_text(record.model_dump_json())
    return kept


def test_a_command_starts_again_until_it_ends_without_an_error(tmp_path: Path) -> None:
    kept = _keep("echo x >> starts; [ $(wc -l < starts) -ge 3 ]", tmp_path)
    assert kept.wait(PATIENCE_S) == 0
    assert (tmp_path / "starts").read_text() == "x\n" * 3


def test_the_record_names_the_running_command_after_each_start(tmp_path: Path) -> None:
    named = 'until grep -q ".pid.: $$," worker.json; do sleep 0.05; done; echo x >> starts'
    kept = _keep(f"{named}; [ $(wc -l < starts) -ge 2 ]", tmp_path)
    assert kept.wait(PATIENCE_S) == 0
    assert (tmp_path / "starts").read_text() == "x\n" * 2


def test_a_command_that_ends_at_its_start_is_not_started_again(tmp_path: Path) -> None:
    kept = _keep("echo x >> starts; exit 3", tmp_path, at_least_s=600.0)
    assert kept.wait(PATIENCE_S) == 3
    assert (tmp_path / "starts").read_text() == "x\n"


def test_a_group_that_is_told_to_stop_ends_after_its_command(tmp_path: Path) -> None:
    script = "trap 'echo ended > end; exit 1' TERM; echo x >> starts; echo ready; while :; do sleep 0.05; done"
    kept = _keep(script, tmp_path)
    assert kept.stdout is not None
    assert kept.stdout.readline() == b"ready\n"
    os.killpg(kept.pid, signal.SIGTERM)
    assert kept.wait(PATIENCE_S) == 1
    assert (tmp_path / "end").read_text() == "ended\n"
    assert (tmp_path / "starts").read_text() == "x\n", "it was not started again"
