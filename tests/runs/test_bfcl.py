"""BFCL v4 multi_turn_base: a perfect model has 200 of 200, and errors get the verdicts of the published checker."""

import importlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import gage_eval
from gage_eval.base.errors import InputError
from gage_eval.data import bfcl
from gage_eval.data.datasets.bfcl import BfclLoader
from gage_eval.engine.tools.bfcl import BfclTool
from gage_eval.scoring.metrics.builtin.bfcl import bfcl_multi_turn

PACKAGE = Path(".venv-bfcl").resolve()
NEEDS_PACKAGE = pytest.mark.skipif(
    not (PACKAGE / "bfcl_eval").is_dir(), reason="bfcl-eval is not installed: make install-bfcl"
)
AGENT = """
import json
from pathlib import Path
from gage_eval.plugins import BaseBackend, Response

SCRIPTS = json.loads((Path(__file__).parent / "scripts.json").read_text())

class Agent(BaseBackend):
    type = "agent"
    capabilities = frozenset({"chat", "tools"})
    def body(self, request):
        return {"messages": request.messages, "tools": request.tools, "id": request.sample_id}
    async def open(self, log_folder): ...
    async def close(self): ...
    async def call(self, request, body):
        offered = {tool["function"]["name"] for tool in request.tools}
        turns = [i for i, message in enumerate(request.messages) if message["role"] == "user"]
        calls = SCRIPTS[request.sample_id][len(turns) - 1]
        if not calls or turns[-1] + 1 < len(request.messages):
            return Response("ok", answer="Done.")
        assert {call["name"] for call in calls} <= offered, calls
        made = [{"function": {**call, "arguments": json.dumps(call["arguments"])}} for call in calls]
        return Response("ok", answer="", tool_calls=json.dumps(made))
"""
ORACLE = """
import json, sys
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker
for number, (entry, gold, said) in enumerate(json.load(sys.stdin)):
    # A name of its own: the checker keeps the objects of a model.
    verdict = multi_turn_checker(said, gold, entry, "multi_turn_base", f"model{number}")
    print(json.dumps(verdict["valid"]))
"""
Call = dict[str, Any]
Turns = list[list[list[Call]]]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    cached = [bfcl.package_folder, bfcl.functions, bfcl.identity, bfcl._class]
    monkeypatch.syspath_prepend(str(PACKAGE))
    importlib.invalidate_caches()
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


def samples() -> list[dict[str, Any]]:
    return [json.loads(text) for _, text in BfclLoader({}, Path()).records()]


def gold(sample: dict[str, Any]) -> list[list[Call]]:
    """The published calls of each turn, with all arguments by name."""
    turns = []
    for texts in sample["metadata"]["bfcl"]["ground_truth"]:
        turns.append([])
        for name, arguments, keywords in map(bfcl.gold_call, texts):
            names = list(bfcl.functions()[name][1]["parameters"]["properties"])
            turns[-1].append({"name": name, "arguments": {**dict(zip(names, arguments, strict=False)), **keywords}})
    return turns


def model_turns(turns: Turns) -> list[dict[str, Any]]:
    """A conversation as the metric reads it."""
    rows: list[dict[str, Any]] = []
    for number, steps in enumerate(turns):
        rows += [{"actor": "user", "answer": "go on"}] if number else []
        for calls in steps:
            made = [{"function": {**call, "arguments": json.dumps(call["arguments"])}} for call in calls]
            rows.append({"actor": None, "tool_calls": json.dumps(made), "answer": ""})
        rows.append({"actor": None, "answer": "Done."})
    return rows


def published(cases: list[tuple[dict[str, Any], Turns]]) -> list[bool]:
    """The verdicts of the published checker."""
    texts = []
    for sample, turns in cases:
        task = sample["metadata"]["bfcl"]
        entry = {
            "id": sample["id"],
            "initial_config": json.loads(task["initial_config"]),
            "involved_classes": task["classes"],
        }
        said = [[list(map(written, calls)) for calls in steps] for steps in turns]
        texts.append([entry, task["ground_truth"], said])
    done = subprocess.run(
        [sys.executable, "-c", ORACLE],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
    )
    return [line == "true" for line in done.stdout.splitlines()]


def written(call: Call) -> str:
    return f"{call['name']}({', '.join(f'{name}={value!r}' for name, value in call['arguments'].items())})"


def without_a_call(turns: list[list[Call]], chance: random.Random) -> Turns:
    calls = chance.choice([calls for calls in turns if calls])
    calls.pop(chance.randrange(len(calls)))
    return one_by_one(turns, chance)


def with_another_argument(turns: list[list[Call]], chance: random.Random) -> Turns:
    with_arguments = [call for calls in turns for call in calls if call["arguments"]]
    if with_arguments:
        call = chance.choice(with_arguments)
        name = chance.choice(list(call["arguments"]))
        value = call["arguments"][name]
        call["arguments"][name] = value + 1 if isinstance(value, int | float) else f"{value}x"
    return one_by_one(turns, chance)


def with_more_calls(turns: list[list[Call]], chance: random.Random) -> Turns:
    chance.choice(turns).insert(0, {"name": "no_such_function", "arguments": {}})
    calls = chance.choice([calls for calls in turns if calls])
    calls.append(dict(chance.choice(calls)))
    return one_by_one(turns, chance)


def in_another_order(turns: list[list[Call]], chance: random.Random) -> Turns:
    for calls in turns:
        chance.shuffle(calls)
    return [[calls] if calls else [] for calls in turns]


def one_turn_late(turns: list[list[Call]], chance: random.Random) -> Turns:
    if len(turns) > 1:
        number = chance.randrange(len(turns) - 1)
        turns[number + 1] = turns[number] + turns[number + 1]
        turns[number] = []
    return one_by_one(turns, chance)


def one_by_one(turns: list[list[Call]], chance: random.Random) -> Turns:
    return [[[call] for call in calls] for calls in turns]


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
def test_a_perfect_model_has_200_of_200_in_a_whole_run_of_the_suite(tmp_path: Path, repo_root: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    scripts = {sample["id"]: gold(sample) for sample in samples()}
    (tmp_path / "scripts.json").write_text(json.dumps(scripts))
    template = yaml.safe_load((repo_root / "configs/builtin_templates/bfcl_multi_turn/v1.yaml").read_text())
    config = {**template["definition"], "backends": [{"backend_id": "agent", "type": "agent.py:Agent"}]}
    config["role_adapters"][0]["backend_id"] = "agent"
    (tmp_path / "bfcl.yaml").write_text(yaml.safe_dump(config))
    gage_eval.run(tmp_path / "bfcl.yaml", store=str(tmp_path / "store"))
    rows = gage_eval.sql("SELECT sample_id, value, extracted FROM scores", store=str(tmp_path / "store")).to_pylist()
    assert len(rows) == len(scripts) == 200
    assert {row["sample_id"]: row["extracted"] for row in rows if row["value"] != 1.0} == {}


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    "planted", [one_by_one, without_a_call, with_another_argument, with_more_calls, in_another_order, one_turn_late]
)
def test_planted_errors_get_the_verdicts_of_the_published_checker(
    planted: Callable[[list[list[Call]], random.Random], Turns],
) -> None:
    chance = random.Random(32)
    cases = [(sample, planted(gold(sample), chance)) for sample in samples()]
    ours = [
        bfcl_multi_turn(sample["metadata"]["bfcl"], model_turns(turns)).value == 1.0  # type: ignore[arg-type]
        for sample, turns in cases
    ]
    theirs = published(cases)
    assert {case[0]["id"]: pair for case, *pair in zip(cases, ours, theirs, strict=True) if pair[0] != pair[1]} == {}
    assert (planted is one_by_one) == all(theirs), f"{sum(theirs)} of {len(theirs)} are right"


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
def test_a_turn_of_too_many_steps_and_a_conversation_at_a_limit_are_wrong() -> None:
    sample = samples()[0]
    task, turns = sample["metadata"]["bfcl"], one_by_one(gold(sample), random.Random(0))
    look = [{"name": "pwd", "arguments": {}}]
    long = [[*turns[0], *[look] * (20 - len(turns[0]))], *turns[1:]]
    assert bfcl_multi_turn(task, model_turns(long)).value == 1.0  # type: ignore[arg-type]
    long[0].append(look)
    assert bfcl_multi_turn(task, model_turns(long)).extracted == "force_terminated"  # type: ignore[arg-type]
    assert bfcl_multi_turn(task, model_turns(turns), "limit").value == 0.0  # type: ignore[arg-type]
    assert bfcl_multi_turn(None).status == "unscored"


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("__class__", {}),
        ("_load_scenario", {"scenario": {}}),
        ("post_tweet", {}),
        ("cd", {"folder": "nowhere"}),
        ("cd", {"files": 1}),
        ("cd", {"folder": None}),
        ("power", {"base": 10, "exponent": 10**9}),
        ("logarithm", {"value": 2, "base": 3, "precision": 10**9}),
    ],
)
def test_what_is_no_listed_function_or_would_never_end_is_an_error_for_the_model(
    name: str, arguments: dict[str, Any]
) -> None:
    task = {"classes": ["GorillaFileSystem", "MathAPI"], "initial_config": "{}"}
    text, _ = bfcl.Simulation(task).call(name, (), arguments)
    assert "error" in text.lower()


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
def test_all_functions_are_described_with_types_of_json_schema() -> None:
    tools = BfclTool.all()
    kinds = {"object", "number", "array", "boolean", "string", "integer"}
    for tool in tools:
        properties = tool.definition["function"]["parameters"]["properties"]
        assert {schema["type"] for schema in properties.values()} <= kinds
    assert len(tools) == 128


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
def test_an_unknown_class_is_refused() -> None:
    with pytest.raises(InputError, match="no simulated class 'os'"):
        bfcl.Simulation({"classes": ["os"], "initial_config": "{}"})


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bfcl.package_folder.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="install --no-deps bfcl-eval mpmath"):
        BfclLoader({}, Path())
    with pytest.raises(InputError, match="no parameter 'path'"):
        BfclLoader({"path": "."}, Path())
