"""A run that is killed at any step of its agents: no answer is asked for twice, and the trajectories are the same."""

import json
import random
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from crash.processes import Gage, descendants, lives, outputs, until
from support import mcp_tools
from support.boxes import NEEDS_BOX
from support.waiting import PATIENCE_S, wait_for

ROWS, STEPS, KILLS, IN_FLIGHT, TALK = 12, 6, 6, 3, 2
AGENT = f"""
import asyncio, hashlib, json
from pathlib import Path
from gage_eval.plugins import BaseBackend, Response

class Talker(BaseBackend):
    type = "talker"
    capabilities = frozenset({{"chat", "tools"}})
    def body(self, request):
        return {{"messages": request.messages}}
    async def open(self, log_folder): ...
    async def close(self): ...
    async def call(self, request, body):
        with open("asked.txt", "a") as file:
            file.write(hashlib.sha256(body).hexdigest() + "\\n")
        mark, asked = Path("mark.txt"), Path("asked.txt")
        while mark.exists() and len(asked.read_text().split()) >= int(mark.read_text()):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.03)
        return self.answer(request)

class Customer(Talker):
    def answer(self, request):
        said = sum(message["role"] == "assistant" for message in request.messages)
        text = request.messages[0]["content"] + f", part {{said}}"
        return Response("ok", answer="###STOP###" if said == {TALK} else text)

class Agent(Talker):
    def answer(self, request):
        turn = max(at for at, message in enumerate(request.messages) if message["role"] == "user")
        outputs = [message["content"] for message in request.messages[turn:] if message["role"] == "tool"]
        if len(outputs) == {STEPS}:
            return Response("ok", answer=" ".join(outputs))
        is_served = "count" in json.dumps(request.tools)
        name = ("count" if is_served else "double", "add", "bash")[len(outputs) % 3]
        arguments = {{"double": {{"number": len(outputs)}}, "add": {{"number": 2}}, "count": {{}},
                      "bash": {{"command": "echo x >> lines; wc -l < lines"}}}}[name]
        calls = [{{"function": {{"name": name, "arguments": json.dumps(arguments)}}}}]
        return Response("ok", answer=request.messages[0]["content"], tool_calls=json.dumps(calls))

def double(number: int) -> int:
    return 2 * number

class Sum:
    def __init__(self, sample):
        self.total = int(sample["label"])
    def add(self, number: int) -> int:
        self.total += number
        return self.total
"""

# Does in its box what the tools do.
PROGRAM = """
import json, os, subprocess, sys, urllib.request

def ask(messages):
    names = [{"type": "function", "function": {"name": name}} for name in ("double", "add", "bash")]
    body = json.dumps({"model": "any", "messages": messages, "tools": names}).encode()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body)) as reply:
        return json.load(reply)["choices"][0]["message"]

messages, total = [{"role": "user", "content": open(sys.argv[1]).read()}], 0
while (message := ask(messages)).get("tool_calls"):
    messages.append(message)
    for call in message["tool_calls"]:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        if name == "bash":
            output = subprocess.run(arguments["command"], shell=True, capture_output=True, text=True).stdout
        else:
            total += arguments["number"]
            output = str(2 * arguments["number"] if name == "double" else total)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
print(message["content"])
"""
# Its tool counts its calls, in the box in which bash writes.
SERVER = {"command": ["python3", "served.py"], "files": {"served.py": "served.py"}, "names": ["count"]}
TOOLS = {"tools": ["agent.py:Sum", "bash"], "mcp_servers": [SERVER], "tool_rounds": 99}
RELAYED = {"agent": {"command": ["python3", "program.py", "{prompt_file}"], "files": {"program.py": "program.py"}}}
CUSTOMER = {"adapter_id": "customer", "role_type": "user", "backend_id": "customer", "prompt_id": "wish"}
CHECKED = {"mode": "final_state", "tests": "metadata.tests"}


def project(folder: Path, agent: dict[str, Any], task: dict[str, Any]) -> Gage:
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    (folder / "agent.py").write_text(AGENT)
    shutil.copy(mcp_tools.__file__, folder / "served.py")
    tests = "assert open('lines').read() == 'x\\n' * 2"
    rows = [
        {"question": f"Task {number}", "answer": str(number), "metadata": {"tests": tests}} for number in range(ROWS)
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    adapter = {"adapter_id": "agent", "role_type": "dut_model", "backend_id": "agent", **agent}
    config = {
        "datasets": [{"dataset_id": "tasks", "params": {"path": "tasks.jsonl"}}],
        "backends": [
            {"backend_id": name, "type": f"agent.py:{name.title()}", "config": {"max_concurrency": IN_FLIGHT}}
            for name in ("agent", "customer")
        ],
        "prompts": [{"prompt_id": "wish", "template": "{{ sample.label }}"}],
        "role_adapters": [{**adapter, "box": {"slots": IN_FLIGHT, "artifacts": ["lines"]}}, CUSTOMER],
        "tasks": [{"task_id": "work", "dataset_id": "tasks", "adapter_id": "agent", **task}],
        "metrics": ["execution_passed" if "execution" in task else "contains"],
    }
    (folder / "work.yaml").write_text(yaml.safe_dump(config))
    return Gage(folder)


def asked(gage: Gage) -> Counter[str]:
    file = gage.folder / "asked.txt"
    return Counter(file.read_text().split()) if file.exists() else Counter()


@NEEDS_BOX
@pytest.mark.parametrize(
    ("agent", "task", "turns"),
    [
        pytest.param(TOOLS, {}, 1, id="tools", marks=pytest.mark.slow),
        pytest.param(RELAYED, {}, 1, id="a program"),
        pytest.param(TOOLS, {"user": "customer"}, TALK, id="a simulated user"),
        pytest.param(TOOLS, {"execution": CHECKED}, 1, id="a final state", marks=pytest.mark.slow),
    ],
)
def test_agents_go_on_at_the_step_where_they_were_killed(
    agent: dict[str, Any], task: dict[str, Any], turns: int, tmp_path: Path
) -> None:
    chance = random.Random(32)
    gage = project(tmp_path / "killed", agent, task)
    # A simulated user is asked after each answer.
    calls = ROWS * turns * (STEPS + 1) + (ROWS * turns if "user" in task else 0)
    for number in range(KILLS):
        mark = min(asked(gage).total() + chance.randrange(1, 2 * calls // KILLS), calls - IN_FLIGHT)
        # The model waits there, so that no busy machine is late with the kill.
        (gage.folder / "mark.txt").write_text(str(mark))
        process = gage.start(*(("resume", "killed") if number else ("run", "work.yaml", "--run-id", "killed")))
        assert until(lambda mark=mark: asked(gage).total() >= mark, process), gage.said()
        boxes = descendants(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        wait_for(lambda boxes=boxes: not any(lives(*box) for box in boxes), "the end of all boxes")
    (gage.folder / "mark.txt").unlink()
    gage.finish("resume", "killed")
    whole = project(tmp_path / "whole", agent, task)
    whole.finish("run", "work.yaml")
    assert outputs(gage.folder) == outputs(whole.folder)
    assert asked(gage).keys() == asked(whole).keys()
    assert asked(whole).total() == calls
    in_flight = 2 * IN_FLIGHT if "user" in task else IN_FLIGHT
    assert asked(gage).total() - calls <= KILLS * in_flight, "only what was in flight was asked for again"
