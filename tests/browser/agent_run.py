"""A run of an agent: one sample of ten thousand steps, and a repetition of it that soon calls another tool and ends."""

from pathlib import Path
from typing import Any

ROUNDS, CALLS = 100, 99
STEPS = ROUNDS * (CALLS + 1) + 1
DIFFERENT_ROUND = 3
DIFFERENT_STEP = DIFFERENT_ROUND * (CALLS + 1) + 1
HOSTILE = "<script>window.hit=1</script>"

_AGENT = f'''
import json
from gage_eval.plugins import BaseBackend, Response


class Agent(BaseBackend):
    type = "agent"
    capabilities = frozenset({{"chat", "tools"}})

    def body(self, request):
        return {{"messages": request.messages}}

    async def open(self, log_folder): ...

    async def close(self): ...

    async def call(self, request, body):
        round = sum(message["role"] == "assistant" for message in request.messages)
        tokens = {{"prompt_tokens": len(request.messages), "completion_tokens": 5}}
        if round == {ROUNDS} or round > {DIFFERENT_ROUND} and request.draw:
            return Response("ok", answer="done", **tokens)
        first = "odd" if round == {DIFFERENT_ROUND} and request.draw else f"{HOSTILE} {{round}}"
        texts = [first, *(f"call {{number}} of round {{round}}" for number in range(1, {CALLS}))]
        calls = [{{"function": {{"name": "echo", "arguments": json.dumps({{"text": text}})}}}} for text in texts]
        return Response("ok", answer=f"Round {{round}}.", tool_calls=json.dumps(calls), **tokens)


class Echo:
    def __init__(self, sample):
        self.calls = 0

    async def echo(self, text: str) -> str:
        self.calls += 1
        return f"{{self.calls}}: {{text}}"
'''

AGENT: dict[str, Any] = {
    "backends": [{"backend_id": "agent", "type": "agent.py:Agent", "config": {"input_price": 2, "max_concurrency": 2}}],
    "role_adapters": [
        {
            "adapter_id": "agent",
            "role_type": "dut_model",
            "backend_id": "agent",
            "tools": ["agent.py:Echo"],
            "tool_rounds": ROUNDS,
        }
    ],
    "tasks": [{"task_id": "agent", "dataset_id": "agent", "replicates": 2}],
    "metrics": ["contains"],
}
"""Of its config: everything but the dataset."""


def agent_row(folder: Path) -> dict[str, Any]:
    """The sample; its model and its tool are written to the folder."""
    (folder / "agent.py").write_text(_AGENT, encoding="utf-8")
    return {"id": "long", "question": "Call the tool many times.", "answer": "done"}
