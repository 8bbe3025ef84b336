"""A run with tools of an MCP server: its calls, and a resumed run whose server describes them in another way."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from support import mcp_tools

from gage_eval.base.errors import InputError
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.resume import resumed

AGENT = """
import json
from gage_eval.plugins import BaseBackend, Response

class Agent(BaseBackend):
    type = "agent"
    capabilities = frozenset({"chat", "tools"})
    def body(self, request):
        return {"messages": request.messages, "tools": request.tools}
    async def open(self, log_folder): ...
    async def close(self): ...
    async def call(self, request, body):
        last = request.messages[-1]
        if last["role"] == "tool":
            return Response("ok", answer=last["content"])
        calls = [{"function": {"name": "twice", "arguments": json.dumps({"number": int(last["content"])})}}]
        return Response("ok", answer="", tool_calls=json.dumps(calls))
"""


def test_a_resumed_run_refuses_tools_that_have_changed(here: Path) -> None:
    (here / "agent.py").write_text(AGENT)
    (here / "numbers.jsonl").write_text(
        "".join(json.dumps({"question": str(n), "answer": str(2 * n)}) + "\n" for n in range(3))
    )
    server = {"command": [sys.executable, mcp_tools.__file__, "changing"], "names": ["twice"], "allow_unsafe": True}
    adapter = {"adapter_id": "agent", "role_type": "dut_model", "backend_id": "agent"}
    config = {
        "datasets": [{"dataset_id": "numbers", "params": {"path": "numbers.jsonl"}}],
        "backends": [{"backend_id": "agent", "type": "agent.py:Agent"}],
        "role_adapters": [{**adapter, "mcp_servers": [server], "tool_rounds": 2}],
        "tasks": [{"task_id": "work", "dataset_id": "numbers"}],
        "metrics": ["contains"],
    }
    (here / "work.yaml").write_text(yaml.safe_dump(config))
    run_inline(RunOptions(config="work.yaml", run_id="first", store="store"))
    outcome = run_inline(resumed("first", store="store"))
    (score,) = outcome.summary.tasks[0].metrics
    assert (score.value, score.n) == (1.0, 3)
    (here / "changed").touch()
    with pytest.raises(InputError, match="in another way than when run first began"):
        run_inline(resumed("first", store="store"))
