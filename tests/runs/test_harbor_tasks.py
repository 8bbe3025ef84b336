"""Task folders of Harbor: an agent works in the task's image, and its tests see in a new box what it declared."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.command import Command, command
from support.podman import import_image, missing, service
from support.waiting import PATIENCE_S, wait_for

import gage_eval
from gage_eval.box import engine_api, slot

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")

# Runs the commands of its sample, one after another.
AGENT = """
import json
from pathlib import Path
from gage_eval.plugins import BaseBackend, Response
COMMANDS = json.loads(Path("commands.json").read_text())
class Agent(BaseBackend):
    type = "agent"
    capabilities = frozenset({"chat", "tools"})
    def body(self, request):
        return {"messages": request.messages, "id": request.sample_id}
    async def open(self, log_folder): ...
    async def close(self): ...
    async def call(self, request, body):
        done = sum(message["role"] == "tool" for message in request.messages)
        commands = COMMANDS[request.sample_id]
        if done == len(commands):
            return Response("ok", answer=request.messages[-1]["content"])
        call = {"function": {"name": "bash", "arguments": json.dumps({"command": commands[done]})}}
        latency_ms = 6e5 if request.sample_id == "late" else 1.0
        return Response("ok", answer="", tool_calls=json.dumps([call]), latency_ms=latency_ms)
"""
HELLO = """#!/bin/sh
[ ! -e /app/scratch ] || exit
reward=0
[ "$(cat /app/hello.txt)" != "$WORD $(cat /tests/data/name)" ] || reward=1
echo $reward > /logs/verifier/reward.txt
"""
SHARE = """#!/bin/sh
printf '{\\n "reward": %s,\\n "speed": 3\\n}' "$(cat /logs/artifacts/share)" > /logs/verifier/reward.json
"""


def task(folder: Path, tests: str, solution: str, artifacts: list[str], extra: str = "") -> None:
    for name, text in {
        "task.toml": f'artifacts = {json.dumps(artifacts)}\n[environment]\ndocker_image = "debian:12"\n{extra}',
        "instruction.md": f"Do {folder.name}.",
        "tests/test.sh": tests,
        "tests/data/name": "world",
        "solution/solve.sh": f"#!/bin/sh\n{solution}",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    programs = ["sh", "bash", "cat", "sleep", "mkdir", "base64", "chmod", "rm", "find", "printf", "ln"]
    with service() as (folder, engine):
        import_image(folder, "debian:12", programs, workdir="app")
        monkeypatch.setattr(engine_api, "_PROBE_S", PATIENCE_S)
        monkeypatch.setattr(slot, "_GRACE_S", PATIENCE_S)
        monkeypatch.setenv("CONTAINER_HOST", f"unix://{engine.address}")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/no.sock")
        yield command(tmp_path, capsys, monkeypatch)
        wait_for(lambda: engine.call("GET", "/containers/json?all=true") == [], "the containers are removed")


def test_agents_are_rewarded_by_the_tests_of_their_tasks_and_solutions_and_idleness_are_tried(
    tmp_path: Path, gage: Command
) -> None:
    tasks = tmp_path / "tasks"
    word = '[verifier.env]\nWORD = "hello"\n'
    write = "echo hello world > hello.txt; : > scratch"
    for name in ("greet", "greet-wrong", "greet-linked"):
        task(tasks / name, HELLO, write, ["/app/hello.txt"], word)
    for name in ("share", "share-nothing"):
        task(tasks / name, SHARE, "echo 1.0 > /logs/artifacts/share", ["/app"])
    # Its time is over after the first answer, and its tests see what is there.
    task(tasks / "late", HELLO, write, ["/app/hello.txt"], f"cpus = 2\n{word}[agent]\ntimeout_sec = 600\n")
    commands = {
        "late": [write],
        "greet": ["pwd; cat /tests/* /solution/*", write],
        "greet-wrong": ["echo hello > hello.txt"],
        "greet-linked": ["ln -s /tests/data/name hello.txt"],
        "share": ["echo 0.25 > /logs/artifacts/share"],
        "share-nothing": ["true"],
    }
    (tmp_path / "commands.json").write_text(json.dumps(commands))
    (tmp_path / "agent.py").write_text(AGENT)
    adapter = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "agent", "tools": ["bash"]}
    check = {"mode": "final_state", "tests": "metadata.tests", "command": ["sh", "/check.sh"], "file": "check.sh"}
    limits = {"cpu_s": 60, "memory_mb": 256}
    config: dict[str, Any] = {
        "datasets": [{"dataset_id": "tasks", "loader": "harbor", "params": {"path": "tasks"}}],
        "backends": [{"backend_id": "agent", "type": "agent.py:Agent"}],
        "role_adapters": [
            {**adapter, "tool_rounds": 5, "box": {"executor": "podman", "slots": 2, "artifacts": ["logs/artifacts"]}}
        ],
        "tasks": [
            {
                "task_id": "work",
                "dataset_id": "tasks",
                "execution": {**check, "executor": "podman", "slots": 2, "limits": limits},
                "max_unscored_share": 1.0,
            }
        ],
        "metrics": ["harbor_reward", "execution_passed"],
    }
    (tmp_path / "work.yaml").write_text(yaml.safe_dump(config))
    ended = gage("run", "work.yaml", "--run-id", "first")
    assert ended.code == 0, ended.err
    assert "1 of 6 tasks set cpus, and a box always has one processor: late." in " ".join(ended.out.split())
    assert "1 of 6 (16.7 %) answers ended at a limit: 1 time." in " ".join(ended.out.split())
    rows = gage_eval.sql(
        "SELECT sample_id, status, value FROM scores WHERE metric_id = 'harbor_reward'", store=str(tmp_path / ".gage")
    ).to_pylist()
    assert {row["sample_id"]: (row["status"], row["value"]) for row in rows} == {
        "greet": ("scored", 1.0),
        "greet-wrong": ("scored", 0.0),
        "greet-linked": ("scored", 0.0),
        "late": ("scored", 0.0),
        "share": ("scored", 0.25),
        "share-nothing": ("unscored", None),
    }
    passed = "SELECT sample_id FROM scores WHERE metric_id = 'execution_passed' AND value = 1"
    assert gage_eval.sql(passed, store=str(tmp_path / ".gage")).to_pylist() == [{"sample_id": "greet"}]
    steps = "SELECT content FROM steps WHERE actor = 'box' ORDER BY row_index, step LIMIT 1"
    (first,) = gage_eval.sql(steps, store=str(tmp_path / ".gage")).to_pylist()
    assert first["content"].startswith("/app\n"), first
    assert "hello" not in first["content"]

    tested = gage("suite", "work.yaml", "--self-test")
    assert tested.code == 0, tested.err + tested.out
    assert "its own solutions: 6 of 6 pass" in tested.out
    assert "doing nothing: 0 of 6 problems pass" in tested.out
    lenient = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"
    task(tmp_path / "bad/lenient", lenient, "true", ["/app"])
    task(tmp_path / "bad/broken", f"{lenient}rm /logs/verifier/reward.txt\n", "true", ["/app"])
    (tmp_path / "work.yaml").write_text(yaml.safe_dump(config).replace("path: tasks", "path: bad"))
    tested = gage("suite", "work.yaml", "--self-test")
    assert tested.code == 1
    assert "doing nothing: 1 of 2 problems pass" in tested.out
    assert "the solution of broken does not pass" in tested.out
