"""Roles: classes that have a hand in requests and answers, support answers in later prompts, pools, recorded tools."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from support.boxes import NEEDS_BOX
from support.command import Command, command
from support.endpoint import MockEndpoint, mock_endpoint
from support.runs import stage_outputs, write_config

from gage_eval.engine import feeding
from gage_eval.engine.job import EPISODES_IN_CHUNK, chunks_of
from gage_eval.store import Store

ADAPTER = """
from dataclasses import replace
class Upper:
    def prepare(self, request, context):
        text = request.messages[-1]["content"]
        return replace(request, messages=[{"role": "user", "content": f"{context['sample']['id']}: {text}"}])
    def parse(self, response):
        return replace(response, answer=response.answer.removeprefix("ANSWER: "))
class Failing:
    def parse(self, response):
        raise ValueError("no number")
class Half:
    def parse(self, response):
        if response.answer.endswith("7"):
            raise ValueError("a seven")
        return response
"""


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    (tmp_path / "adapters.py").write_text(ADAPTER)
    return command(tmp_path, capsys, monkeypatch)


def dut(**fields: Any) -> list[dict[str, Any]]:
    return [{"adapter_id": "dut", "role_type": "dut_model", "backend_id": "mock", **fields}]


def rows(folder: Path, run_id: str, stage: str = "infer", name: str = "responses") -> list[dict[str, Any]]:
    outputs = stage_outputs(folder, run_id)[f"sums/{stage}"]
    table: list[dict[str, Any]] = Store.open(str(folder / ".gage")).artifact(outputs[name]).table().to_pylist()
    return table


def test_an_adapters_class_prepares_requests_and_parses_answers(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(keep_bodies=True) as endpoint:
        write_config(tmp_path, endpoint.url, rows=5, role_adapters=dut(class_path="adapters.py:Upper"))
        assert gage("run", "sums.yaml", "--run-id", "first").code == 0
        sent = {body["messages"][0]["content"] for body in endpoint.stats()["bodies"]}
        assert sent == {f"sum-{i}: What is {i} + {2 * i + 1}?" for i in range(5)}
        assert [row["answer"] for row in rows(tmp_path, "first")] == [str(3 * i + 1) for i in range(5)]
        received = rows(tmp_path, "first", name="received_responses")
        assert [row["answer"] for row in received] == [f"ANSWER: {3 * i + 1}" for i in range(5)]

        # Another parse reads the answers that are there.
        (tmp_path / "adapters.py").write_text(ADAPTER.replace('removeprefix("ANSWER: ")', "lower()"))
        endpoint.phase("again")
        assert gage("run", "sums.yaml", "--run-id", "second").code == 0
        assert "again" not in endpoint.stats()["phases"]
    assert rows(tmp_path, "second")[0]["answer"] == "answer: 1"


def test_the_telemetry_of_answers_that_cannot_be_parsed_is_written_once(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, rows=5, role_adapters=dut(class_path="adapters.py:Half"))
        assert gage("run", "sums.yaml", "--run-id", "half", "--set", "tasks.sums.max_error_share=1.0").code == 0
    store = Store.open(str(tmp_path / ".gage"))
    (telemetry,) = (store.artifact(artifact.id) for artifact in store.ls() if artifact.table == "response_telemetry")
    sentence = "adapters.py:Half.parse(), for sample 'sum-2', raised ValueError: a seven (adapters.py, line 15)."
    assert telemetry.table()["errors"].to_pylist() == [[], [], [sentence], [], []]


@pytest.mark.parametrize(
    ("class_path", "said"),
    [
        (
            "adapters.py:Failing",
            "adapters.py:Failing.parse(), for sample 'sum-0', raised ValueError: no number",
        ),
        ("adapters.py:Nobody", "has no 'Nobody'"),
    ],
)
def test_what_an_adapters_class_does_wrong_is_said_in_one_sentence(
    class_path: str, said: str, tmp_path: Path, gage: Command
) -> None:
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, rows=2, role_adapters=dut(class_path=class_path))
        ended = gage("run", "sums.yaml")
    assert ended.code == 2
    assert said in ended.sentence


def helped(folder: Path, endpoint: MockEndpoint, *, own_prompt: bool) -> None:
    """A support step, and a judge that is shown its answer; the model under test may have no prompt."""
    fixed = {"type": "dummy", "config": {"answer": "a hint"}}
    shown = "Hint: {{ payload.support_output.answer }}. "
    adapters = [
        {"adapter_id": "helper", "role_type": "helper", "backend": fixed},
        dut(**({"prompt_id": "ask"} if own_prompt else {}))[0],
        {"adapter_id": "grader", "role_type": "judge_model", "backend_id": "mock", "prompt_id": "grade"},
    ]
    prompts = [
        {"prompt_id": "ask", "template": shown + "{{ sample.messages[0].content[0].text }}"},
        {"prompt_id": "grade", "template": shown + "Is {{ model_answer }} right?"},
    ]
    write_config(folder, endpoint.url, rows=3, role_adapters=adapters, prompts=prompts)


@pytest.mark.parametrize("own_prompt", [True, False])
def test_a_support_answer_is_usable_in_every_later_prompt(own_prompt: bool, tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(keep_bodies=True) as endpoint:
        helped(tmp_path, endpoint, own_prompt=own_prompt)
        ended = gage("run", "sums.yaml", "--run-id", "helped")
        assert ended.code == 0, ended.err
        prompts = [body["messages"][0]["content"] for body in endpoint.stats()["bodies"]]
        assert gage("plan", "sums.yaml").code == 0
    assert len(prompts) == 6
    assert sum(prompt.startswith("Hint: a hint.") for prompt in prompts) == (6 if own_prompt else 3)


def test_a_support_model_has_parameters_of_its_own(tmp_path: Path, gage: Command) -> None:
    """A task's limit of tokens is for the model under test, and would cut a hint short."""
    with mock_endpoint(keep_bodies=True) as endpoint:
        helper = {
            "adapter_id": "helper",
            "role_type": "helper",
            "backend_id": "mock",
            "prompt_id": "hint",
            "sampling_params": {"top_p": 0.5},
        }
        write_config(
            tmp_path,
            endpoint.url,
            rows=1,
            role_adapters=[*dut(), helper],
            prompts=[{"prompt_id": "hint", "template": "A hint, please."}],
            tasks=[{"task_id": "t", "dataset_id": "sums", "sampling_params": {"max_new_tokens": 3}}],
        )
        assert gage("run", "sums.yaml").code == 0
        support, tested = endpoint.stats()["bodies"]
    assert (support.get("top_p"), support.get("max_tokens")) == (0.5, None)
    assert (tested.get("top_p"), tested.get("max_tokens")) == (None, 3)


def test_a_sample_may_name_a_prompt_that_shows_the_support_answer(tmp_path: Path, gage: Command) -> None:
    with mock_endpoint(keep_bodies=True) as endpoint:
        helped(tmp_path, endpoint, own_prompt=False)
        row = {"messages": [{"role": "user", "content": "1 + 1"}], "label": "2"}
        own = {"eval_config": {"judge": {"prompt_id": "grade"}}}
        (tmp_path / "sums.jsonl").write_bytes(orjson.dumps({"id": "s", **row, **own}))
        config = yaml.safe_load((tmp_path / "sums.yaml").read_text())
        config["prompts"].append({"prompt_id": "plain", "template": "Right?"})
        config["role_adapters"][-1]["prompt_id"] = "plain"
        (tmp_path / "sums.yaml").write_text(yaml.safe_dump(config))
        assert gage("run", "sums.yaml").code == 0
        prompts = [body["messages"][0]["content"] for body in endpoint.stats()["bodies"]]
    assert [prompt for prompt in prompts if prompt.startswith("Hint: a hint.")] == [prompts[-1]]


def test_a_pool_bounds_what_an_adapter_has_in_flight_over_all_tasks(tmp_path: Path, gage: Command) -> None:
    tasks = [{"task_id": f"t{k}", "dataset_id": "sums", "sampling_params": {"seed": k}} for k in range(3)]
    with mock_endpoint(latency_ms=10) as endpoint:
        adapters = dut(resource_requirement={"pool_size": 3})
        write_config(tmp_path, endpoint.url, rows=30, tasks=tasks, role_adapters=adapters)
        assert gage("run", "sums.yaml").code == 0
        stats = endpoint.stats()
    assert (stats["answered"], stats["max_in_flight"]) == (90, 3)


def test_a_parameter_is_the_samples_then_the_tasks_then_the_adapters_then_the_backends(
    tmp_path: Path, gage: Command
) -> None:
    own = [{"sampling_params": {"temperature": 0.1}}, {"generation_params": {"top_p": 0.2}}, {}]
    with (tmp_path / "sums.jsonl").open("wb") as out:
        for i, params in enumerate(own):
            content = {"messages": [{"role": "user", "content": f"{i} + 1"}], "references": ["1"], "label": "1"}
            out.write(orjson.dumps({"id": f"s{i}", **content, **params}) + b"\n")
    with mock_endpoint(keep_bodies=True) as endpoint:
        write_config(
            tmp_path,
            endpoint.url,
            backend={
                "default_params": dict.fromkeys(("temperature", "top_k", "seed", "max_new_tokens"), 9) | {"top_p": 0.9}
            },
            role_adapters=dut(sampling_params=dict.fromkeys(("temperature", "top_k", "seed"), 5) | {"top_p": 0.5}),
            tasks=[
                {
                    "task_id": "sums",
                    "dataset_id": "sums",
                    "sampling_params": {"temperature": 0.3, "top_p": 0.3, "top_k": 3},
                    "replicates": 2,
                }
            ],
        )
        ended = gage("run", "sums.yaml")
        assert ended.code == 0, ended.err
        bodies = endpoint.stats()["bodies"]
    sent = {
        (body["messages"][0]["content"][0], body["seed"]): tuple(
            body[name] for name in ("temperature", "top_p", "top_k", "max_tokens")
        )
        for body in bodies
    }
    # Each repetition has a seed of its own.
    expected = {"0": (0.1, 0.3, 3, 9), "1": (0.3, 0.2, 3, 9), "2": (0.3, 0.3, 3, 9)}
    assert sent == {(row, seed): params for row, params in expected.items() for seed in (5, 6)}


def tool_rows(folder: Path, outputs: Any) -> None:
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    with (folder / "sums.jsonl").open("wb") as out:
        for i in range(20):
            record = {
                "id": f"t{i}",
                "messages": [{"role": "user", "content": f"What is {i} + 1?"}],
                "tools": [tool],
                "references": [str(i + 1)],
                "label": str(i + 1),
                **outputs(i),
            }
            out.write(orjson.dumps(record) + b"\n")


def recorded(i: int) -> dict[str, Any]:
    return {"metadata": {"tool_outputs": {"add": str(i + 1)}}}


def golden(i: int) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"of": "x"}'}}
    trajectory = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": str(i + 1)},
    ]
    return {"golden_trajectories": [trajectory]}


@pytest.mark.parametrize("outputs", [recorded, golden])
def test_tool_calls_are_answered_with_what_the_sample_records(outputs: Any, tmp_path: Path, gage: Command) -> None:
    tool_rows(tmp_path, outputs)
    with mock_endpoint() as endpoint:
        write_config(tmp_path, endpoint.url, role_adapters=dut(tool_rounds=2))
        ended = gage("run", "sums.yaml", "--run-id", "tools")
        assert ended.code == 0, ended.err
        assert endpoint.stats()["requests"] == 40
        # The same questions with other recorded outputs are other episodes.
        tool_rows(tmp_path, lambda i: {"metadata": {"tool_outputs": {"add": "7"}}})
        assert gage("run", "sums.yaml", "--run-id", "other").code == 0
    answers = rows(tmp_path, "tools")
    assert [row["answer"] for row in answers] == [f"ANSWER: {i + 1}" for i in range(20)]
    assert all(len(row["turns"]) == 2 and "add" in row["turns"][0]["tool_calls"] for row in answers)
    assert {row["answer"] for row in rows(tmp_path, "other")} == {"ANSWER: 7"}


TOOLS = """
class Sums:
    def __init__(self, sample):
        self.number = int(sample["label"]) - 1
        self.calls = 0
    def add(self, of: str) -> int:
        "One more than the number in a question."
        self.calls += 1
        return self.number + self.calls
"""


def test_no_more_episodes_of_agents_than_a_small_chunk_are_in_memory(
    tmp_path: Path, gage: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int | None] = []

    def recorded_chunks(parts: Any, most: int | None = None) -> Any:
        limits.append(most)
        return chunks_of(parts, most)

    monkeypatch.setattr(feeding, "chunks_of", recorded_chunks)
    with mock_endpoint() as endpoint:
        for adapter in (dut(), dut(tool_rounds=2)):
            write_config(tmp_path, endpoint.url, role_adapters=adapter)
            assert gage("run", "sums.yaml").code == 0
    assert limits == [None, EPISODES_IN_CHUNK]


def test_a_class_of_tools_is_run_for_each_episode(tmp_path: Path, gage: Command) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    tool_rows(tmp_path, lambda i: {"tools": None})
    with mock_endpoint(keep_bodies=True) as endpoint:
        write_config(tmp_path, endpoint.url, role_adapters=dut(tools=["tools.py:Sums"], tool_rounds=2))
        ended = gage("run", "sums.yaml", "--run-id", "tools")
        assert ended.code == 0, ended.err
        (defined,) = endpoint.stats()["bodies"][0]["tools"]
        assert defined["function"]["description"] == "One more than the number in a question."
        # Other code is another tool.
        (tmp_path / "tools.py").write_text(TOOLS.replace("+ self.calls", "+ 7"))
        assert gage("run", "sums.yaml", "--run-id", "other").code == 0
        (tmp_path / "tools.py").write_text(TOOLS.replace("return self", "raise KeyError('x')\n        return self"))
        failed = gage("run", "sums.yaml", "--run-id", "failed")
    assert [row["answer"] for row in rows(tmp_path, "tools")] == [f"ANSWER: {i + 1}" for i in range(20)]
    assert [row["turns"][0]["tool_outputs"] for row in rows(tmp_path, "tools")] == [[str(i + 1)] for i in range(20)]
    assert rows(tmp_path, "other")[0]["answer"] == "ANSWER: 7"
    assert "[tool]" in gage("show", "tools", "--sample", "t3").out
    assert failed.code == 1
    assert "tool 'add' failed: KeyError" in failed.sentence


@pytest.mark.parametrize("fields", [{"tools": ["tools.py:Sums"]}, {"tools": ["tools.py:Sins"], "tool_rounds": 1}])
def test_tools_that_cannot_be_called_are_refused(tmp_path: Path, gage: Command, fields: dict[str, Any]) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    write_config(tmp_path, "http://127.0.0.1:9/v1", role_adapters=dut(**fields))
    assert gage("validate", "sums.yaml").code == 2


def test_a_model_that_still_calls_tools_has_reached_its_limit(tmp_path: Path, gage: Command) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    tool_rows(tmp_path, lambda i: {"tools": None})
    config = [{"backend_id": "mock", "type": "caller.py:Caller", "config": {}}]
    (tmp_path / "caller.py").write_text(CALLER)
    write_config(tmp_path, "", backends=config, role_adapters=dut(tools=["tools.py:Sums"], tool_rounds=2))
    ended = gage("run", "sums.yaml", "--run-id", "limit")
    assert ended.code == 0, ended.err
    assert {(row["status"], len(row["turns"])) for row in rows(tmp_path, "limit")} == {("limit", 3)}
    assert "20 of 20" in ended.out


CALLER = """
import json
from gage_eval.plugins import BaseBackend, Response
class Caller(BaseBackend):
    type = "caller"
    capabilities = frozenset({"chat", "tools"})
    def body(self, request):
        return {"messages": request.messages}
    async def open(self, log_folder): ...
    async def close(self): ...
    async def call(self, request, body):
        calls = [{"function": {"name": "add", "arguments": json.dumps({"of": ""})}}]
        return Response("ok", answer="", tool_calls=json.dumps(calls))
"""


WORKER = """
import json
from gage_eval.plugins import BaseBackend, Response
class Worker(BaseBackend):
    # Counts in a file, one command after another, and answers with the last output.
    type = "worker"
    capabilities = frozenset({"chat", "tools"})
    def body(self, request):
        return {"messages": request.messages, "tools": request.tools}
    async def open(self, log_folder): ...
    async def close(self): ...
    async def call(self, request, body):
        outputs = [message["content"] for message in request.messages if message["role"] == "tool"]
        if len(outputs) == 3:
            return Response("ok", answer=f"ANSWER: {outputs[-1]}")
        calls = [{"function": {"name": "bash", "arguments": json.dumps({"command": "echo >> lines; wc -l < lines"})}}]
        return Response("ok", answer="", tool_calls=json.dumps(calls))
"""


@NEEDS_BOX
def test_commands_run_in_a_box_of_the_episode(tmp_path: Path, gage: Command) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    backend = [{"backend_id": "mock", "type": "worker.py:Worker", "config": {}}]
    adapter = dut(tools=["bash"], tool_rounds=5, box={"cpu_s": 5, "slots": 3})
    write_config(tmp_path, "", rows=6, backends=backend, role_adapters=adapter)
    ended = gage("run", "sums.yaml", "--run-id", "boxed")
    assert ended.code == 0, ended.err
    answers = rows(tmp_path, "boxed")
    assert [row["answer"] for row in answers] == ["ANSWER: 3"] * 6
    assert [turn["tool_outputs"] for turn in answers[0]["turns"]] == [["1"], ["2"], ["3"], None]
    assert "the commands that the model writes" in gage("validate", "sums.yaml", "--no-plugins").out


def test_tools_that_a_backend_lacks_are_refused_before_anything_is_sent(tmp_path: Path, gage: Command) -> None:
    tool_rows(tmp_path, recorded)
    (tmp_path / "model.gguf").write_bytes(b"weights")
    local = [{"backend_id": "mock", "type": "llama_cpp", "config": {"model_path": "model.gguf"}}]
    write_config(tmp_path, "http://127.0.0.1:9/v1", backends=local)
    refused = gage("preview", "sums.yaml")
    assert refused.code == 2
    assert "sends tools (sample 't0'), which backend 'llama_cpp' cannot answer" in refused.sentence
