"""Whole runs on real engines: what is killed, ends; what was answered, stays; what is resumed, completes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from real_engines import PYTHON, config_of
from support.engines import children, ends
from support.runs import gage, stage_outputs, write_sums

from gage_eval.store import Store

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1200)]

ROWS = 32


def write_config(folder: Path, type_: str) -> None:
    """A run of some short answers, four at a time: slow enough to be killed in the middle."""
    write_sums(folder / "sums.jsonl", ROWS)
    config = {
        "datasets": [{"dataset_id": "sums", "params": {"path": "sums.jsonl"}}],
        "backends": [{"backend_id": "model", "type": type_, "config": config_of(type_, max_concurrency=4)}],
        "metrics": ["exact_match"],
        "tasks": [
            {"task_id": "t", "dataset_id": "sums", "sampling_params": {"temperature": 0, "max_new_tokens": 24}},
        ],
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def begin(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "gage_eval", *arguments, "--inline"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def descendants(pid: int) -> dict[int, str]:
    """Process ids below a process, parents first, with their command lines; those that end meanwhile may be missing."""
    processes: dict[int, str] = {}
    for child in children(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            processes[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        processes |= descendants(child)
    return processes


def logged(folder: Path) -> int:
    """Bytes of the answers that the write-ahead logs hold."""
    return sum(file.stat().st_size for file in (folder / ".gage").glob("wip/*/log/*"))


def wait_until(true: Callable[[], bool], run: "subprocess.Popen[str]", within_s: float = 500) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert run.poll() is None, run.stderr.read() if run.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    "type_", ["transformers", *(pytest.param(type_, marks=pytest.mark.slow) for type_ in ("vllm", "vllm_native"))]
)
def test_a_killed_run_leaves_no_engine_and_a_killed_engine_a_run_that_can_go_on(type_: str, tmp_path: Path) -> None:
    write_config(tmp_path, type_)
    run = begin(tmp_path, "run", "run.yaml", "--run-id", "r")
    wait_until(lambda: logged(tmp_path) > 0, run)
    engines = descendants(run.pid)
    assert len(engines) >= 2
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    assert all(ends(pid) for pid in engines)

    answered = logged(tmp_path)
    run = begin(tmp_path, "resume", "r")
    wait_until(lambda: logged(tmp_path) > answered, run)
    engines = descendants(run.pid)
    core = [pid for pid, command in engines.items() if "EngineCore" in command]
    os.kill(core[0] if core else list(engines)[-1], signal.SIGKILL)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 1
    sentence = said.strip().splitlines()[-1]
    assert "infer stopped" in sentence
    assert "gage resume r" in sentence
    assert "Traceback" not in said
    assert all(ends(pid) for pid in engines)

    gage(tmp_path, "resume", "r", "--inline")
    outputs = stage_outputs(tmp_path, "r")
    responses = Store.open(str(tmp_path / ".gage")).artifact(outputs["t/infer"]["responses"]).table()
    assert responses.num_rows == ROWS
    assert set(responses["status"].to_pylist()) <= {"ok", "truncated"}
    logs = list((tmp_path / ".gage" / "runs" / "r" / "engines").glob("*.log"))
    assert [log.name for log in logs] == [f"{type_}.log"]


def test_the_same_package_runs_in_the_engines_environment(tmp_path: Path) -> None:
    """There transformers needs no interpreter to be named, and Prefect is the version that vLLM allows."""
    write_config(tmp_path, "transformers")
    config = yaml.safe_load((tmp_path / "run.yaml").read_text())
    del config["backends"][0]["config"]["python"]
    config["tasks"][0]["max_samples"] = 3
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    done = subprocess.run(
        [str(PYTHON), "-m", "gage_eval", "run", "run.yaml", "--inline", "--run-id", "r", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / ".gage" / "runs" / "r" / "summary.json").read_text())


def test_likelihoods_of_a_run_are_scored(tmp_path: Path) -> None:
    """From questions with options to an accuracy by log-likelihood."""
    questions = [("The capital of France is", ["Paris", "Berlin"], "A"), ("2 + 2 is", ["seven", "four"], "B")]
    with (tmp_path / "rows.jsonl").open("w") as file:
        for n, (question, options, answer) in enumerate(questions):
            row = {"id": str(n), "messages": [{"role": "user", "content": question}], "options": options}
            file.write(json.dumps({**row, "references": [answer], "unconditioned_input": ""}) + "\n")
    config = {
        "datasets": [{"dataset_id": "rows", "params": {"path": "rows.jsonl"}}],
        "backends": [{"backend_id": "model", "type": "transformers", "config": config_of("transformers")}],
        "metrics": ["acc", "acc_norm", "acc_mutual_info"],
        "tasks": [{"task_id": "t", "dataset_id": "rows", "mode": "likelihood"}],
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    gage(tmp_path, "run", "run.yaml", "--inline", "--run-id", "r")
    summary = json.loads((tmp_path / ".gage" / "runs" / "r" / "summary.json").read_text())
    values = {metric["metric_id"]: metric["raw_values"] for metric in summary["tasks"][0]["metrics"]}
    assert values["acc"] == {"acc": 1.0}
    assert set(values) == {"acc", "acc_norm", "acc_mutual_info"}
