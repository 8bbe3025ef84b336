"""Simulated users of a config: keys, steps and scores of a run, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import gage_eval
from gage_eval.base.errors import GageError, RunFailed
from gage_eval.report.run_view import task_facts
from gage_eval.report.shares import remarks
from tests.support.workspace import write_config, write_rows

PLUGINS = """
import json
from gage_eval.plugins import BaseBackend, Response

class Talker(BaseBackend):
    type = "talker"
    capabilities = frozenset({"chat", "tools"})
    def body(self, request):
        return {"messages": request.messages}
    async def open(self, log_folder): ...
    async def close(self): ...
    async def call(self, request, body):
        return Response("ok", answer=self.answer(request.messages), prompt_tokens=10, completion_tokens=0)

class Agent(Talker):
    def answer(self, messages):
        return f"heard {messages[-1]['content']}"

class Customer(Talker):
    def answer(self, messages):
        if "silent" in messages[0]["content"]:
            return ""
        return "###STOP###" if len(messages) > 3 else f"more, {messages[0]['role']}"
"""
ADAPTERS: list[dict[str, Any]] = [
    {"adapter_id": "agent", "role_type": "dut_model", "backend_id": "agent"},
    {"adapter_id": "customer", "role_type": "user", "backend_id": "customer", "prompt_id": "wish"},
    {"adapter_id": "script", "role_type": "user", "simulator": {"script": "metadata.user_turns"}},
]


def write(folder: Path, wish: str = "You want {{ sample.id }}.", **task: Any) -> Path:
    write_rows(folder)
    (folder / "plug.py").write_text(PLUGINS)
    prices = {"agent": 10.0, "customer": 100.0}
    return write_config(
        folder,
        backends=[
            {"backend_id": name, "type": f"plug.py:{name.title()}", "config": {"input_price": price}}
            for name, price in prices.items()
        ],
        prompts=[{"prompt_id": "wish", "template": wish}],
        role_adapters=task.pop("adapters", ADAPTERS),
        tasks=[{"task_id": "talks", "dataset_id": "sums", "adapter_id": "agent", "user": "customer", **task}],
    )


def steps(store: str) -> list[tuple[Any, ...]]:
    text = "SELECT actor, role, content, cost, source FROM steps WHERE row_index = 0 ORDER BY step"
    return [tuple(row.values()) for row in gage_eval.sql(text, store=store).to_pylist()]


def test_both_sides_are_steps_with_costs_of_their_own(tmp_path: Path) -> None:
    config, store = write(tmp_path), str(tmp_path / "store")
    gage_eval.run(config, run_id="talks", store=store)
    assert [step[:2] + step[3:] for step in steps(store)] == [
        ("model", "assistant", 0.0001, "sent"),
        ("user", "user", 0.001, "sent"),
        ("model", "assistant", 0.0001, "sent"),
        ("user", "user", 0.001, "sent"),
    ]
    assert [step[2] for step in steps(store)][1:] == ["more, system", "heard more, system", "###STOP###"]


def test_the_share_of_faulty_simulations_stops_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"simulator_empty .*said nothing"):
        gage_eval.run(write(tmp_path, "Be silent."), store=str(tmp_path / "store"))


def test_faults_and_limits_are_counted_by_kind_beside_the_score(tmp_path: Path) -> None:
    few = [ADAPTERS[0], {**ADAPTERS[1], "simulator": {"max_turns": 1}}]
    wish = "Be {% if sample.id == 's0' %}silent{% else %}quick{% endif %}."
    outcome = gage_eval.run(write(tmp_path, wish, adapters=few, max_error_share=0.9), store=str(tmp_path / "store"))
    (task,) = outcome.summary.tasks
    rest = task.responses["limit"]
    assert task.responses["error"] == 1
    assert rest > 1
    assert task.error_kinds == {"error": {"simulator_empty": 1}, "limit": {"turns": rest}}
    said = "\n".join(remarks(outcome.summary))
    assert f"ended at a limit: {rest} turns." in said
    assert "have no answer: 1 simulator_empty." in said
    assert f"1 error (1 simulator_empty) · {rest} limit ({rest} turns)" in task_facts(task, [])


CUSTOMER = {"adapter_id": "customer", "role_type": "user", "backend_id": "customer"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"user": "agent"}, "no simulated user 'agent'"),
        ({"mode": "completion"}, "mode: completion"),
        ({"user": "script"}, "sample 's0': 'metadata.user_turns' holds no turns of a user"),
        ({"wish": ""}, "prompt .wish. is empty"),
        ({"adapters": [ADAPTERS[0], CUSTOMER]}, "either 'prompt_id'"),
        ({"adapters": [ADAPTERS[0], {**ADAPTERS[1], "limits": {"tokens": 3}, "tool_rounds": 1}]}, "takes no 'limits'"),
        ({"adapters": [ADAPTERS[0], {**ADAPTERS[1], "tools": ["bash"], "tool_rounds": 1}]}, "'bash' is for the model"),
        ({"adapters": [{**ADAPTERS[0], "simulator": {}}, ADAPTERS[1]]}, "for role_type: user"),
    ],
)
def test_a_user_that_cannot_talk_is_refused_by_a_sentence(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(GageError, match=said):
        gage_eval.run(write(tmp_path, **changes), store=str(tmp_path / "store"))


FIND = """
from gage_eval.plugins import tool

@tool("find")
def find(text: str) -> str:
    return text
"""


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"tool_names": ["find", "fnd"]}, "metadata.tool_names names 'fnd', which is none of its tools: own, find"),
        ({"tool_names": [{"name": "find"}]}, "metadata.tool_names names .*which is none of its tools"),
        (
            {"tool_names": ["own"], "user_turns": [{"content": "hi", "tool_names": ["buy"]}]},
            "turn 1 of its user .*'buy'",
        ),
        ({"tool_names": ["own"], "user_turns": [{"content": "hi", "tool_names": ["find"]}]}, None),
    ],
)
def test_a_name_of_a_tool_that_a_sample_does_not_have_is_an_error(
    tmp_path: Path, metadata: dict[str, Any], said: str | None
) -> None:
    config = write(
        tmp_path, user="script", adapters=[{**ADAPTERS[0], "tools": ["find.py:find"], "tool_rounds": 1}, ADAPTERS[2]]
    )
    (tmp_path / "find.py").write_text(FIND)
    own = {"type": "function", "function": {"name": "own", "parameters": {"type": "object"}}}
    row = {
        "id": "s0",
        "question": "1 + 1?",
        "answer": "2",
        "tools": [own],
        "metadata": {"user_turns": ["hi"], **metadata},
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    if said is None:
        gage_eval.run(config, store=str(tmp_path / "store"))
    else:
        with pytest.raises(GageError, match=said):
            gage_eval.run(config, store=str(tmp_path / "store"))
