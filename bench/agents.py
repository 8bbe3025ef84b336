"""Episodes of agents: how much longer than its model's answers a run takes, and whether its memory stays flat."""

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from bench.figures import Figure
from bench.process import ProcessUsage, run

_EPISODES, _STEPS, _IN_FLIGHT, _ANSWER_S = 1_280, 10, 64, 0.05
_MANY, _FEW, _FAST_S = 10_000, 1_000, 0.002
_AGENT = f"""
import asyncio, json, os
from gage_eval.plugins import BaseBackend, Response

class Agent(BaseBackend):
    type = "agent"
    capabilities = frozenset({{"chat", "tools"}})
    def body(self, request):
        return {{"messages": request.messages}}
    async def open(self, log_folder): ...
    async def close(self): ...
    async def call(self, request, body):
        await asyncio.sleep(float(os.environ["BENCH_ANSWER_S"]))
        outputs = [message["content"] for message in request.messages if message["role"] == "tool"]
        if len(outputs) == {_STEPS} - 1:
            return Response("ok", answer=outputs[-1], prompt_tokens=10, completion_tokens=5)
        name, arguments = json.loads(os.environ["BENCH_CALL"])
        calls = [{{"function": {{"name": name, "arguments": json.dumps(arguments)}}}}]
        return Response("ok", answer="", tool_calls=json.dumps(calls), prompt_tokens=10, completion_tokens=5)

class Sum:
    def __init__(self, sample):
        self.total = 0
    async def add(self, number: int) -> int:
        self.total += number
        return self.total
"""


# What each answer but the last calls: nine calls make 18.
_ADD = ("add", {"number": 2})
_BASH = ("bash", {"command": "echo 2 >> numbers; echo $((2 * $(wc -l < numbers)))"})


def agents(folder: Path, repeats: int) -> list[Figure]:
    """The wall time of a whole run, against that of its answers alone; and with `bash` in a box for each episode."""
    ideal = _EPISODES * _STEPS / _IN_FLIGHT * _ANSWER_S
    walls = [_run(folder, _EPISODES, _ANSWER_S).wall_s / ideal for _ in range(repeats)]
    boxes = {"tools": ["bash"], "box": {"slots": _IN_FLIGHT}}
    in_boxes = [_run(folder, _EPISODES, _ANSWER_S, _BASH, **boxes).wall_s for _ in range(repeats)]
    commands = _EPISODES * (_STEPS - 1)
    return [
        Figure(f"wall, against the ideal {ideal:g} s", "×", walls, 1.3),
        Figure(f"wall with bash in {_IN_FLIGHT} boxes", "s", in_boxes),
        Figure(f"commands a second in {_IN_FLIGHT} boxes", "1/s", [commands / wall for wall in in_boxes]),
    ]


def agents_10k(folder: Path, repeats: int) -> list[Figure]:
    """The peak memory of a run of many episodes, against that of a run of few."""
    many, few = (_run(folder, rows, _FAST_S).peak_mib for rows in (_MANY, _FEW))
    return [
        Figure(f"peak memory of {_MANY:,} episodes", "MiB", [many]),
        Figure(f"peak memory of {_MANY:,} episodes, against {_FEW:,}", "×", [many / few], 1.2),
    ]


def _run(
    folder: Path, rows: int, answer_s: float, call: tuple[str, dict[str, Any]] = _ADD, **adapter: Any
) -> ProcessUsage:
    """A run in which each episode asks the model ten times and calls a tool nine times."""
    place = folder / f"agents-{rows}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    (place / "agent.py").write_text(_AGENT)
    with (place / "tasks.jsonl").open("w") as tasks:
        tasks.writelines(json.dumps({"question": f"Task {row}", "answer": "18"}) + "\n" for row in range(rows))
    role = {"adapter_id": "agent", "role_type": "dut_model", "backend_id": "agent", "tool_rounds": _STEPS}
    config = {
        "datasets": [{"dataset_id": "tasks", "params": {"path": "tasks.jsonl"}}],
        "backends": [{"backend_id": "agent", "type": "agent.py:Agent", "config": {"max_concurrency": _IN_FLIGHT}}],
        "role_adapters": [{**role, "tools": ["agent.py:Sum"], **adapter}],
        "metrics": ["contains"],
    }
    (place / "agents.yaml").write_text(yaml.safe_dump(config))
    arguments = ["-m", "gage_eval", "run", str(place / "agents.yaml"), "--inline", "--store", str(place / "store")]
    return run(arguments, place, {"BENCH_ANSWER_S": str(answer_s), "BENCH_CALL": json.dumps(call)})
