"""Final states: the files that an agent left, checked in a box that has them and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.boxes import NEEDS_BOX
from support.command import Command, command
from support.runs import stage_outputs, write_config

from gage_eval.box.types import Execution
from gage_eval.config.execution import ExecutionConfig
from gage_eval.pipeline.boxes import CannotRun
from gage_eval.pipeline.execution_spec import ExecutionSpec
from gage_eval.store import Store

# Runs the command that is its question, and answers.
WORKER = """
import json
from pathlib import Path
from gage_eval.plugins import BaseBackend, Response
class Worker(BaseBackend):
    type = "worker"
    capabilities = frozenset({"chat", "tools"})
    def body(self, request):
        return {"messages": request.messages, "tools": request.tools}
    async def open(self, log_folder): ...
    async def close(self): ...
    async def call(self, request, body):
        with Path("asked").open("a") as file:
            file.write("x")
        if len(request.messages) > 1:
            return Response("ok", answer="done")
        arguments = json.dumps({"command": request.messages[0]["content"]})
        call = {"function": {"name": "bash", "arguments": arguments}}
        return Response("ok", answer="", tool_calls=json.dumps([call]))
"""
CHECK = """
import glob
assert not glob.glob("scratch*"), "only artifacts are here"
def total():
    return int(open("out/total").read())
"""
COMMANDS = [
    "mkdir out; echo 4 > out/total; touch scratch",
    "mkdir out; echo 5 > out/total",
    "ln -s /etc out",
    "true",
    "mkdir out; echo 4 > out/total; for i in $(seq 1100); do : > out/$i; done",
    "mkdir -p out; echo 'raise SystemExit' > out/json.py; ln -s total out/again",
]


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return command(tmp_path, capsys, monkeypatch)


def executed(folder: Path, run_id: str) -> list[tuple[str, str]]:
    outputs = stage_outputs(folder, run_id)["sums/auto_eval"]
    rows = Store.open(str(folder / ".gage")).artifact(outputs["executions"]).table().to_pylist()
    return [(row["status"], row["reason"]) for row in rows]


@NEEDS_BOX
def test_a_check_sees_the_declared_files_only_and_another_check_runs_no_agent(tmp_path: Path, gage: Command) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    (tmp_path / "check.py").write_text(CHECK)
    records = [{"question": text, "metadata": {"tests": ["assert total() == 4"]}} for text in COMMANDS]
    adapter = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "mock", "tools": ["bash"], "tool_rounds": 3}
    changes: dict[str, Any] = {
        "datasets": [{"dataset_id": "sums", "loader": "inline", "params": {"records": records}}],
        "backends": [{"backend_id": "mock", "type": "worker.py:Worker", "config": {}}],
        "role_adapters": [{**adapter, "box": {"artifacts": ["out"]}}],
        "tasks": [
            {
                "task_id": "sums",
                "dataset_id": "sums",
                "execution": {"mode": "final_state", "check": "check.py", "tests": "metadata.tests"},
            }
        ],
        "metrics": ["execution_passed"],
    }
    write_config(tmp_path, "", **changes)
    ended = gage("run", "sums.yaml", "--run-id", "first")
    assert ended.code == 0, ended.err
    assert executed(tmp_path, "first") == [
        ("passed", ""),
        ("failed", "exit 1"),
        ("tampered", "link"),
        ("failed", "exit 1"),
        ("failed", "too_many"),
        ("tampered", "link"),
    ]
    log = (tmp_path / "asked").read_text()
    (tmp_path / "check.py").write_text(CHECK.replace("return", "return -1 +"))
    assert gage("run", "sums.yaml", "--run-id", "second").code == 0
    assert [status for status, _ in executed(tmp_path, "second")[:2]] == ["failed", "passed"]
    assert (tmp_path / "asked").read_text() == log
    assert gage("cache", "gc").code == 0
    assert gage("score", "second", "--metric", "tests_passed").code == 0

    write_config(tmp_path, "", **{**changes, "role_adapters": [adapter]})
    assert "box.artifacts" in gage("validate", "sums.yaml").sentence


def state(**changes: Any) -> dict[str, Any]:
    return {"artifacts": json.dumps({"files": {}, "problem": None, "text": "", **changes})}


def test_files_at_the_path_of_the_check_are_tampering() -> None:
    spec = ExecutionSpec(ExecutionConfig(mode="final_state", check="check.py"))
    for path in ("program", "program/inner"):
        verdict = spec.final_state(state(files={path: {"url": "media://x", "bytes": 1}}))
        assert isinstance(verdict, Execution)
        assert (verdict.status, verdict.reason) == ("tampered", "grader_path")
    assert not isinstance(spec.final_state(state(files={"programs": {"url": "media://x"}})), Execution)
    with pytest.raises(CannotRun):
        spec.final_state({"artifacts": None})
