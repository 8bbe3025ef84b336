"""tau²-bench's domain `mock`: perfect conversations score 1, planted deviations 0, through whole runs."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import gage_eval
from gage_eval.base.errors import InputError
from gage_eval.data.datasets.tau2 import Tau2Loader

DATA = Path(__file__).parents[3] / "shared" / "data" / "tau2" / "mock"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the tasks of tau2-bench are not here")

PLUGINS = """
import json
from pathlib import Path
from gage_eval.plugins import BaseBackend, Response

SCRIPTS = json.loads((Path(__file__).parent / "scripts.json").read_text())

class Agent(BaseBackend):
    type = "agent"
    capabilities = frozenset({"chat", "tools"})
    def body(self, request):
        return {"messages": request.messages, "id": request.sample_id}
    async def open(self, log_folder): ...
    async def close(self): ...
    async def call(self, request, body):
        script = SCRIPTS[request.sample_id]
        opening = max(i for i, m in enumerate(request.messages) if m["role"] == "user")
        turn = script[sum(m["role"] == "assistant" for m in request.messages[opening:])]
        if isinstance(turn, str):
            return Response("ok", answer=turn)
        return Response("ok", answer="", tool_calls=json.dumps([{"function": call} for call in turn]))
"""
Turn = str | list[dict[str, Any]]


@cache
def tasks() -> dict[str, dict[str, Any]]:
    return {task["id"]: task for task in json.loads((DATA / "tasks.json").read_text())}


def call(name: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": arguments}]


def gold(task_id: str) -> list[Turn]:
    """The gold actions of a task, and nothing said."""
    actions = tasks()[task_id]["evaluation_criteria"].get("actions") or []
    return [*(call(action["name"], **action["arguments"]) for action in actions), "Done."]


INFO = "The agent acknowledged the previous context. The agent confirmed the task status was updated successfully."
CREATE = call("create_task", user_id="user_1", title="Important Meeting")
FINISH = call("update_task_status", task_id="task_2", status="completed")
REOPEN = call("update_task_status", task_id="task_2", status="pending")
DISMISS = {"content": "Thanks!", "tool_calls": call("dismiss_notification", notification_id="notif_1")}
# What the agent does and what the user says where the gold actions alone are not enough.
TRANSCRIPTS: dict[str, tuple[list[Turn], list[Any]]] = {
    "create_task_1_nl_eval": ([CREATE, "It is created, and you plan well."], ["Create it, please."]),
    "update_task_with_initialization_data": ([FINISH, INFO], ["Mark it as completed."]),
    "update_task_with_history_and_env_assertions": ([FINISH, "Done."], ["Mark it as completed."]),
    "update_task_with_user_tools": (gold("update_task_with_user_tools"), [DISMISS]) if DATA.is_dir() else ([], []),
}


def run(folder: Path, agents: dict[str, list[Turn]], users: dict[str, list[Any]]) -> dict[str, float | None]:
    """The rewards of a run in which agent and users follow a script."""
    folder.mkdir(exist_ok=True)
    (folder / "agent.py").write_text(PLUGINS)
    (folder / "scripts.json").write_text(json.dumps(agents))
    script = [{**task, "script": users.get(name, ["Please do it."])} for name, task in tasks().items()]
    (folder / "tasks.json").write_text(json.dumps(script))
    adapter = {"tools": ["tau2_mock"], "tool_rounds": 5, "backend_id": "agent", "role_type": "dut_model"}
    user = {"tools": ["tau2_mock_user"], "tool_rounds": 5, "role_type": "user"}
    config = {
        "datasets": [
            {
                "dataset_id": "mock",
                "loader": "tau2",
                "params": {
                    "path": "tasks.json",
                    "db_path": str(DATA / "db.json"),
                    "policy_path": str(DATA / "policy.md"),
                    "user_db_path": str(DATA / "user_db.json"),
                },
            }
        ],
        "backends": [{"backend_id": "agent", "type": "agent.py:Agent"}],
        "role_adapters": [
            {"adapter_id": "agent", **adapter},
            {"adapter_id": "user", **user, "simulator": {"script": "metadata.tau2.script"}},
        ],
        "tasks": [{"task_id": "mock", "dataset_id": "mock", "adapter_id": "agent", "user": "user"}],
        "metrics": ["tau2_reward"],
    }
    (folder / "mock.yaml").write_text(yaml.safe_dump(config))
    store = str(folder / "store")
    gage_eval.run(folder / "mock.yaml", store=store)
    rows = gage_eval.sql("SELECT sample_id, value FROM scores", store=store).to_pylist()
    return {row["sample_id"]: row["value"] for row in rows}


def perfect() -> tuple[dict[str, list[Turn]], dict[str, list[Any]]]:
    agents = {name: gold(name) for name in tasks()}
    agents.update({name: agent for name, (agent, _) in TRANSCRIPTS.items()})
    return agents, {name: user for name, (_, user) in TRANSCRIPTS.items()}


def test_perfect_conversations_have_the_whole_reward(tmp_path: Path) -> None:
    assert run(tmp_path, *perfect()) == dict.fromkeys(tasks(), 1.0)


def test_gold_actions_alone_are_enough_for_all_tasks_but_those_with_more_to_say(tmp_path: Path) -> None:
    rewards = run(tmp_path, {name: gold(name) for name in tasks()}, {})
    # Of `create_task_1_nl_eval` the published rules check nothing but its sentences, which a judge reads.
    assert {name for name, reward in rewards.items() if reward == 0.0} == {*TRANSCRIPTS} - {"create_task_1_nl_eval"}
    assert sum(rewards[name] == 1.0 for name in tasks() if name not in TRANSCRIPTS) == 6


def test_planted_deviations_have_no_reward(tmp_path: Path) -> None:
    agents, users = perfect()
    wrong: dict[str, list[Turn]] = {
        "create_task_1": [call("create_task", user_id="user_1", title="Meeting"), "Done."],
        "create_task_1_with_env_assertions": [CREATE, CREATE, "Done."],
        "update_task_1": [call("update_task_status", task_id="task_1", status="pending"), "Done."],
        "update_task_with_message_history": [call("update_task_status", task_id="task_9", status="completed"), "Done."],
        "update_task_with_initialization_data": [FINISH, "Done."],
        "update_task_with_initialization_actions": ["It is completed."],
        "update_task_with_history_and_env_assertions": [FINISH, REOPEN, "Done."],
        "impossible_task_1": ["I have deleted them."],
    }  # fmt: skip
    first = run(tmp_path / "a", {**agents, **wrong}, {**users, "update_task_with_user_tools": ["Done, thanks."]})
    assert {name for name, reward in first.items() if reward == 0.0} == {*wrong, "update_task_with_user_tools"}
    called = {"impossible_task_1": [CREATE, *gold("impossible_task_1")]}
    assert run(tmp_path / "b", {**agents, **called}, users)["impossible_task_1"] == 0.0


def test_other_domains_are_refused_by_a_sentence(tmp_path: Path) -> None:
    params = {"path": "tasks.json", "db_path": "db.json", "policy_path": "policy.md"}
    for name, text in {"tasks.json": "[{}]", "db.json": '{"orders": {}}', "policy.md": "Be kind."}.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=r"needs params\.user_db_path"):
        Tau2Loader(params, tmp_path)
    with pytest.raises(InputError, match="the loader tau2_domain"):
        list(Tau2Loader({**params, "user_db_path": "db.json"}, tmp_path).records())


@pytest.mark.parametrize(
    ("policy", "task", "words"),
    [
        (b"\xff", {}, "'policy.md' is not UTF-8"),
        (b"", {"initial_state": "then"}, "task 1"),
        (b"", {"initial_state": {"message_history": [{"content": "hi"}]}}, "task 1"),
    ],
)
def test_odd_files_are_refused_by_a_sentence(policy: bytes, task: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps([task]))
    (tmp_path / "db.json").write_text('{"tasks": {}, "users": {}}')
    (tmp_path / "policy.md").write_bytes(policy)
    params = {"path": "tasks.json", "db_path": "db.json", "policy_path": "policy.md", "user_db_path": "db.json"}
    with pytest.raises(InputError, match=words):
        list(Tau2Loader(params, tmp_path).records())
