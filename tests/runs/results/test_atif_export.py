"""Trajectories in ATIF: valid by Harbor's own models (`make test-inspect`), and read back as they were."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.command import Command, command
from support.endpoint import mock_endpoint
from support.runs import write_config

from gage_eval.imports.atif import read_atif

# Only the models of the package are needed, and they need pydantic alone.
CHECK = """
import sys
from pathlib import Path
from types import ModuleType
package = ModuleType("harbor")
package.__path__ = [sys.argv[1]]
sys.modules["harbor"] = package
from harbor.models.trajectories.trajectory import Trajectory
files = sorted(Path(sys.argv[2]).glob("*/*/agent/trajectory.json"))
for file in files:
    Trajectory.model_validate_json(file.read_bytes())
print(len(files))
"""
TOOLS = """
class Sums:
    def __init__(self, sample):
        self.number = int(sample["label"])
    def add(self, of: str) -> int:
        "The answer to a question."
        return self.number
"""


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return command(tmp_path, capsys, monkeypatch)


def write_rows(folder: Path, *messages: dict[str, Any]) -> None:
    with (folder / "sums.jsonl").open("wb") as out:
        for number in range(3):
            messages_sent = [*messages, {"role": "user", "content": f"What is {number} + 1?"}]
            record = {
                "id": f"t/{number}",
                "messages": messages_sent,
                "references": [str(number + 1)],
                "label": str(number + 1),
            }
            out.write(orjson.dumps(record) + b"\n")


def trials(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("atif/sums/*/agent/trajectory.json"))
    return [json.loads(file.read_bytes()) for file in files]


def test_an_agents_calls_and_what_tools_answered_are_its_steps(tmp_path: Path, gage: Command, repo_root: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    write_rows(tmp_path)
    dut = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "mock", "tools": ["tools.py:Sums"]}
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, role_adapters=[{**dut, "tool_rounds": 2}])
        assert gage("run", "sums.yaml", "--run-id", "one").code == 0
    exported = gage("export", "one", "--format", "atif", "--to", "out")
    assert exported.code == 0, exported.err

    trees = trials(tmp_path / "out")
    assert len(trees) == 3
    for trial in trees:
        question, called, said = trial["steps"]
        assert (question["source"], called["source"], said["source"]) == ("user", "agent", "agent")
        (call,) = called["tool_calls"]
        (result,) = called["observation"]["results"]
        assert call["function_name"] == "add"
        assert result["source_call_id"] == call["tool_call_id"]
        assert said["message"] == f"ANSWER: {result['content']}"
        tokens = sum(step["metrics"]["completion_tokens"] for step in (called, said))
        assert trial["final_metrics"]["total_completion_tokens"] == tokens
    _check_by_harbor(repo_root, tmp_path / "out" / "atif")


def test_what_is_imported_again_has_the_same_samples_answers_and_scores(tmp_path: Path, gage: Command) -> None:
    example = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1 + 1?"}]
    write_rows(tmp_path, *example, {"role": "assistant", "content": "2"})
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url)
        assert gage("run", "sums.yaml", "--run-id", "one").code == 0
    assert gage("export", "one", "--format", "jsonl", "--format", "atif", "--to", "out").code == 0

    rows = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").read_bytes().splitlines()]
    log = read_atif(tmp_path / "out" / "atif" / "sums")
    read = {answer.sample_id: answer for answer in log.answers}
    assert sorted(read) == sorted(row["id"] for row in rows)
    for row in rows:
        answer = read[row["id"]]
        (response,) = row["predict_result"]
        assert answer.answer == response["answer"]
        assert [message["role"] for message in answer.messages] == ["system", "user", "assistant", "user"]
        ((metric, (score,)),) = row["eval_result"].items()
        assert answer.scores == {metric: score["values"]["score"]}


def _check_by_harbor(repo_root: Path, folder: Path) -> None:
    package = repo_root / ".venv-inspect" / "harbor"
    if not package.is_dir():
        return
    done = subprocess.run([sys.executable, "-c", CHECK, package, folder], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stderr
