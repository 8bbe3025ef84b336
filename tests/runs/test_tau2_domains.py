"""Domains of tau²-bench whose tools and evaluator are code of a checkout: gold actions score 1, deviations 0."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import gage_eval
from gage_eval.base.errors import InputError, NotInstalled
from gage_eval.data import tau2_checkout
from gage_eval.data.datasets.tau2 import Tau2DomainLoader
from gage_eval.scoring.metrics.builtin.tau2 import tau2_reward
from tests.runs.test_tau2_mock import PLUGINS

REAL = os.environ.get(tau2_checkout.VARIABLE)
# A small domain with the interface of tau2-bench.
FILES = {
    "data_model/message.py": """
class Model:
    def __init__(self, **fields):
        self.content = self.tool_calls = None
        self.__dict__.update(fields)
    model_validate = classmethod(lambda cls, fields: cls(**fields))
class ToolCall(Model): ...
class AssistantMessage(Model): ...
class UserMessage(Model): ...
class ToolMessage(Model): ...
""",
    "data_model/tasks.py": """
from tau2.data_model.message import Model
class Part:
    def __init__(self, value): self.value = value
class Task(Model):
    def __init__(self, **fields):
        super().__init__(**fields)
        self.raw, self.initial_state = fields, None
        if self.evaluation_criteria is not None:
            self.evaluation_criteria = Model(**self.evaluation_criteria)
            self.evaluation_criteria.reward_basis = [Part(name) for name in self.evaluation_criteria.reward_basis]
    def model_dump(self, mode): return self.raw
""",
    "domains/airline/environment.py": """
import json, os, time
from tau2.data_model.message import ToolMessage
from tau2.data_model.tasks import Task
DATA = os.path.join(os.path.dirname(__file__), "../../../../data/tau2/domains/airline")
class Tool:
    def __init__(self, name, properties):
        parameters = {"type": "object", "properties": properties}
        self.openai_schema = {"type": "function", "function": {"name": name, "parameters": parameters}}
class Environment:
    user_tools = None
    def __init__(self): self.booked = []
    def get_policy(self): return "Be kind."
    def get_tools(self): return [Tool("book", {"seat": {"type": "string"}}), Tool("secrets", {})]
    def set_state(self, initialization_data, initialization_actions, message_history): ...
    def get_response(self, call):
        if call.name == "secrets":
            return ToolMessage(content=os.environ.get("SECRET", "none"), error=False)
        if call.arguments["seat"] == "never":
            os.kill(os.getpid(), 9)
        if call.arguments["seat"] in self.booked:
            return ToolMessage(content="Error: taken", error=True)
        self.booked.append(call.arguments["seat"])
        return ToolMessage(content=f"{len(self.booked)} booked", error=False)
def get_environment(): return Environment()
def get_tasks(split):
    with open(os.path.join(DATA, "tasks.json")) as file:
        return [Task(**task) for task in json.load(file)]
""",
    "evaluator/evaluator_env.py": """
from tau2.data_model.message import Model, ToolCall
class EnvironmentEvaluator:
    @classmethod
    def calculate_reward(cls, environment_constructor, task, full_trajectory, strict_replay):
        made, gold = environment_constructor(), environment_constructor()
        for message in full_trajectory:
            for call in message.tool_calls or ():
                made.get_response(ToolCall(**call))
        for action in task.evaluation_criteria.actions:
            gold.get_response(ToolCall(**action))
        reward = float(made.booked == gold.booked)
        return Model(reward=reward, reward_breakdown={"DB": reward})
""",
    "evaluator/evaluator_action.py": """
from tau2.data_model.message import Model
class ActionEvaluator:
    calculate_reward = classmethod(lambda cls, task, full_trajectory: Model(reward=0.0))
""",
    "evaluator/evaluator_communicate.py": """
from tau2.data_model.message import AssistantMessage, Model
class CommunicateEvaluator:
    @classmethod
    def calculate_reward(cls, task, full_trajectory):
        said = [message.content or "" for message in full_trajectory if isinstance(message, AssistantMessage)]
        wanted = task.evaluation_criteria.communicate_info
        return Model(reward=float(all(any(info in text for text in said) for info in wanted)))
""",
}


def book(seat: str) -> dict[str, Any]:
    return {"name": "book", "arguments": {"seat": seat}}


def a_task(name: str, basis: list[str], sentences: list[str] | None = None) -> dict[str, Any]:
    criteria = {"actions": [book("1A"), book("1B")], "communicate_info": ["1B"], "nl_assertions": sentences}
    return {"id": name, "evaluation_criteria": {**criteria, "reward_basis": basis}, "script": ["Please book."]}


TASKS = [
    *(a_task(name, ["DB", "COMMUNICATE"]) for name in ("gold", "silent", "one", "twice", "killed", "curious")),
    a_task("judged", ["DB", "NL_ASSERTION"], ["The agent is kind."]),
    a_task("no sentence", ["DB", "NL_ASSERTION"]),
]
DONE = "1A and 1B are yours."
SCRIPTS = {
    "gold": [[book("1A")], [book("1B")], DONE],
    "silent": [[book("1A"), book("1B")], "Done."],
    "one": [[book("1A")], DONE],
    # A call with an error is in the trajectory, and changes nothing.
    "twice": [[book("1A")], [book("1A")], [book("1B")], DONE],
    "killed": [[book("never")], DONE],
    "curious": [[{"name": "secrets", "arguments": {}}], DONE],
    "judged": [[book("1A"), book("1B")], DONE],
    "no sentence": [[book("1A"), book("1B")], DONE],
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "checkout"
    for name, text in FILES.items():
        (file := folder / "src" / "tau2" / name).parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (data := folder / "data" / "tau2" / "domains" / "airline").mkdir(parents=True)
    (data / "tasks.json").write_text(json.dumps(TASKS))
    monkeypatch.setenv(tau2_checkout.VARIABLE, str(folder))
    monkeypatch.setenv("SECRET", "of the user")
    yield folder
    for cached in (tau2_checkout.described, tau2_checkout._identity):
        cached.cache_clear()
    tau2_checkout._scorers.clear()


def test_the_checkouts_tools_run_and_its_evaluator_decides(tmp_path: Path, checkout: Path) -> None:
    (tmp_path / "agent.py").write_text(PLUGINS)
    (tmp_path / "scripts.json").write_text(json.dumps(SCRIPTS))
    adapter = {"tools": ["tau2_airline"], "tool_rounds": 5, "backend_id": "agent", "role_type": "dut_model"}
    config = {
        "datasets": [{"dataset_id": "airline", "loader": "tau2_domain", "params": {"domain": "airline"}}],
        "backends": [{"backend_id": "agent", "type": "agent.py:Agent"}],
        "role_adapters": [
            {"adapter_id": "agent", **adapter},
            {"adapter_id": "user", "role_type": "user", "simulator": {"script": "metadata.tau2.script"}},
        ],
        "tasks": [
            {
                "task_id": "airline",
                "dataset_id": "airline",
                "adapter_id": "agent",
                "user": "user",
                "max_error_share": 0.2,
                "max_unscored_share": 0.2,
            }
        ],
        "metrics": ["tau2_reward"],
    }
    (tmp_path / "airline.yaml").write_text(yaml.safe_dump(config))
    store = str(tmp_path / "store")
    gage_eval.run(tmp_path / "airline.yaml", store=store)
    scores = gage_eval.sql("SELECT sample_id, value, extracted, reason FROM scores", store=store).to_pylist()
    verdicts = {row["sample_id"]: row["extracted"] or row["value"] for row in scores if row["reason"] is None}
    whole = dict.fromkeys(("gold", "twice", "no sentence"), 1.0)
    assert verdicts == {**whole, "silent": "COMMUNICATE", "one": "DB", "curious": "DB"}
    assert [row["sample_id"] for row in scores if row["reason"] == "no_verdict"] == ["judged"]
    steps = gage_eval.sql("SELECT sample_id, content FROM steps WHERE actor = 'tool'", store=store).to_pylist()
    assert [step["content"] for step in steps if step["sample_id"] == "curious"] == ["none"]
    assert [step["content"] for step in steps if step["sample_id"] == "twice"] == [
        "1 booked",
        '{"error":"Error: taken"}',
        "2 booked",
    ]
    failed = gage_eval.sql("SELECT sample_id FROM responses WHERE error_kind = 'tool_error'", store=store).to_pylist()
    assert failed == [{"sample_id": "killed"}]


def test_sentences_are_for_a_judge_whose_score_counts_only_with_all_other_parts(checkout: Path) -> None:
    task = {**TASKS[-2], "checkout": {"domain": "airline", "code": tau2_checkout.identity("airline")}}
    calls = json.dumps([{"function": book("1A")}, {"function": book("1B")}])
    turn = {"answer": None, "tool_calls": calls, "tool_statuses": ["ok", "ok"], "tool_outputs": ["1 booked", "2"]}
    assert tau2_reward(task, [turn], judge=1).value == 1.0
    assert tau2_reward(task, [turn], judge=0).extracted == "NL_ASSERTION"
    assert tau2_reward(task, [], judge=1).extracted == "DB"
    (checkout / "src" / "tau2" / "data_model" / "tasks.py").write_text("Task = None")
    tau2_checkout._identity.cache_clear()
    assert "has changed" in str(tau2_reward(task, [turn], judge=1).explanation)


def test_a_checkout_that_is_missing_or_another_one_or_does_not_run_is_named(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="airline, retail or telecom"):
        Tau2DomainLoader({"domain": "mock"}, Path())
    with pytest.raises(InputError, match="have the sha256"):
        Tau2DomainLoader({"domain": "airline", "sha256": "0"}, Path())
    (checkout / "src" / "tau2" / "evaluator" / "evaluator_env.py").write_text("import no_such_package")
    with pytest.raises(InputError, match=r"No module named 'no_such_package'.*Install"):
        list(Tau2DomainLoader({"domain": "airline"}, Path()).records())
    monkeypatch.setenv(tau2_checkout.VARIABLE, str(checkout / "src"))
    with pytest.raises(NotInstalled, match="clone"):
        Tau2DomainLoader({"domain": "airline"}, Path())


@pytest.mark.skipif(not REAL, reason=f"{tau2_checkout.VARIABLE} names no checkout of tau2-bench")
@pytest.mark.parametrize(("domain", "split"), [("retail", "test"), ("telecom", "small")])
def test_gold_actions_of_published_tasks_score_1_and_nothing_done_0(
    domain: str, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tau2_checkout.VARIABLE, str(REAL))
    for task in tau2_checkout.described(domain, split)["tasks"][:10]:
        session = tau2_checkout.Session(domain)
        session.ask("begin", task=task)
        messages: list[dict[str, Any]] = []
        for action in task["evaluation_criteria"]["actions"] or ():
            call = {"name": action["name"], "arguments": action["arguments"]}
            said, is_error = session.ask("call", actor=action["requestor"], **call)
            who = {"requestor": action["requestor"]}
            messages.append({"role": who["requestor"], "content": None, "tool_calls": [{"id": "0", **call, **who}]})
            messages.append({"role": "tool", "id": "0", "content": said, "error": is_error, **who})
        session.close()
        assert set(tau2_checkout.rewards(domain, task, messages).values()) == {1.0}
        if domain == "telecom":
            assert 0.0 in tau2_checkout.rewards(domain, task, []).values()
