"""Conversations and tool calls on a real engine: asked turn by turn, and not from the start after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from real_engines import config_of
from support.logs import read_logs
from support.runs import gage, stage_outputs, summary

from gage_eval.store import Store

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

QUESTIONS = [
    ("Name a river.", "Where is it?"),
    ("Say hello.", "Now say it in French."),
    ("Count to 3.", "And on to 5."),
]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
            "required": ["city"],
        },
    },
}
CALLS = 2 * len(QUESTIONS) + 2


def write_run(folder: Path) -> None:
    """Three conversations of two turns, and a question that a tool is called for; one request at a time."""
    with (folder / "turns.jsonl").open("w") as file:
        for number, turns in enumerate(QUESTIONS):
            file.write(json.dumps({"question_id": number, "category": "chat", "turns": turns}) + "\n")
    tools = {
        "id": "weather",
        "messages": [{"role": "user", "content": "What is the weather in Rome?"}],
        "references": ["sunny"],
        "tools": [WEATHER],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "metadata": {"tool_outputs": {"get_weather": "sunny"}},
    }
    (folder / "tools.jsonl").write_text(json.dumps(tools) + "\n")
    engine = config_of("vllm", max_concurrency=1, enable_auto_tool_choice=True, tool_call_parser="hermes")
    config = {
        "datasets": [
            {"dataset_id": "turns", "params": {"path": "turns.jsonl", "preprocess": "mt_bench"}},
            {"dataset_id": "tools", "params": {"path": "tools.jsonl"}},
        ],
        "backends": [{"backend_id": "model", "type": "vllm", "config": engine}],
        "role_adapters": [
            {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model", "tool_rounds": 1},
        ],
        "metrics": ["text_length"],
        "tasks": [
            {"task_id": name, "dataset_id": name, "sampling_params": {"temperature": 0, "max_new_tokens": 96}}
            for name in ("turns", "tools")
        ],
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def logged(folder: Path) -> list[bytes]:
    """The answers of the model in the write-ahead logs, without the outputs of tools."""
    payloads = [payload for log in (folder / ".gage").glob("wip/*/log") for _, payload in read_logs(log)]
    return [payload for payload in payloads if isinstance(json.loads(payload), list)]


def begin_and_kill(folder: Path) -> int:
    """Begin the run ``r`` and kill it. Returns how many answers of the model are kept."""
    command = [sys.executable, "-m", "gage_eval", "run", "run.yaml", "--run-id", "r", "--inline"]
    run = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not logged(folder):
        assert run.poll() is None, run.stderr.read() if run.stderr else ""
        time.sleep(0.02)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    kept = len(logged(folder))
    assert 1 <= kept < CALLS
    return kept


@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_turns_and_tool_calls_are_asked_one_by_one_and_survive_a_kill_between_them(
    killed: bool, tmp_path: Path
) -> None:
    write_run(tmp_path)
    kept = begin_and_kill(tmp_path) if killed else 0
    gage(tmp_path, *(("resume", "r") if killed else ("run", "run.yaml", "--run-id", "r")), "--inline")
    outputs = stage_outputs(tmp_path, "r")
    store = Store.open(str(tmp_path / ".gage"))
    turns = store.artifact(outputs["turns/infer"]["responses"]).table().to_pylist()
    assert [len(row["turns"]) for row in turns] == [2] * len(QUESTIONS)
    assert all(turn["answer"] for row in turns for turn in row["turns"])
    # What arguments so small a model gives is chance; that it calls is asked of the engine.
    (called,) = store.artifact(outputs["tools/infer"]["responses"]).table().to_pylist()
    first = json.loads(called["turns"][0]["tool_calls"])[0]["function"]
    assert first["name"] == "get_weather"
    assert called["turns"][1]["answer"]
    counts = summary(tmp_path, "r")["run"]
    assert (counts["sent"], counts["reused"]) == (CALLS - kept, kept)
