"""BFCL v4: requests are those of the published harness, and verdicts those of its checker.

All rows of `multi_turn_base` and of the categories of one turn are compared, and a sample of the others.
"""

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
from gage_eval.data.datasets.bfcl import CONVERSATIONS, LIVE_QUESTIONS, QUESTIONS, UNANSWERED, BfclLoader
from gage_eval.engine.tools.bfcl import BfclTool
from gage_eval.scoring.metrics.builtin.bfcl import bfcl_multi_turn
from gage_eval.scoring.metrics.builtin.bfcl_ast import bfcl_ast

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
        with (Path(__file__).parent / "requests.jsonl").open("a") as file:
            file.write(json.dumps([request.sample_id, request.messages, request.tools]) + "\\n")
        users = [i for i, message in enumerate(request.messages) if message["role"] == "user"]
        steps = SCRIPTS[request.sample_id][len(users) - 1]
        step = sum(message["role"] == "assistant" for message in request.messages[users[-1]:])
        if step >= len(steps):
            return Response("ok", answer="Done.")
        made = [{"function": {**call, "arguments": json.dumps(call["arguments"])}} for call in steps[step]]
        return Response("ok", answer="", tool_calls=json.dumps(made))
"""
# The published harness, with a scripted endpoint instead of one on the network.
HARNESS = """
import contextlib, json, os, sys, types
from unittest.mock import MagicMock
for name in ("tree_sitter", "tree_sitter_java", "tree_sitter_javascript"):
    sys.modules[name] = MagicMock()
sys.modules["overrides"] = types.SimpleNamespace(final=lambda f: f, override=lambda f: f, EnforceOverrides=object)
from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler
from bfcl_eval.utils import populate_test_cases_with_predefined_functions
from bfcl_eval.constants.enums import ModelStyle

class Scripted(OpenAICompletionsHandler):
    def __init__(self, steps):
        self.steps, self.asked = steps, []
        self.model_name = self.registry_name = self.model_name_underline_replaced = "scripted"
        self.is_fc_model, self.temperature, self.model_style = True, 0, ModelStyle.OPENAI_COMPLETIONS
    def generate_with_backoff(self, messages, tools, **_):
        self.asked.append([[m if isinstance(m, dict) else {"role": "assistant"} for m in messages], tools])
        roles = [m["role"] for m in self.asked[-1][0]]
        turn, last = roles.count("user") - 1, len(roles) - roles[::-1].index("user")
        step = roles[last:].count("assistant")
        made = None if step >= len(self.steps[turn]) else [
            types.SimpleNamespace(id=str(n), function=types.SimpleNamespace(
                name=call["name"], arguments=json.dumps(call["arguments"])))
            for n, call in enumerate(self.steps[turn][step])
        ]
        message = types.SimpleNamespace(content="Done.", tool_calls=made)
        usage = types.SimpleNamespace(prompt_tokens=1, completion_tokens=1)
        return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)], usage=usage), 0.0

for category, scripts in json.load(sys.stdin).items():
    with open(f"{os.environ['DATA']}/BFCL_v4_{category}.json") as file:
        entries = [entry for entry in map(json.loads, file) if entry["id"] in scripts]
    for entry in populate_test_cases_with_predefined_functions(entries):
        model = Scripted(scripts[entry["id"]])
        with contextlib.redirect_stdout(None):
            model.inference_multi_turn_FC(entry, include_input_log=False, exclude_state_log=True)
        for messages, tools in model.asked:
            print(json.dumps([entry["id"], messages, tools]))
"""
ORACLE = """
import json, sys
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker
for number, (entry, gold, said) in enumerate(json.load(sys.stdin)):
    # A name of its own: the checker keeps the objects of a model.
    verdict = multi_turn_checker(said, gold, entry, entry["id"].rsplit("_", 1)[0], f"model{number}")
    print(json.dumps(verdict["valid"]))
"""
# The published tools of each question, and its verdict on calls of it; None where the calls cannot be read.
QUESTIONS_ORACLE = """
import json, os, sys
from unittest.mock import MagicMock
for name in ("tree_sitter", "tree_sitter_java", "tree_sitter_javascript", "bfcl_eval.constants.model_config"):
    sys.modules[name] = MagicMock()
from bfcl_eval.constants.enums import Language, ModelStyle
from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker
from bfcl_eval.model_handler.utils import convert_to_tool
from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry
for category, cases in json.load(sys.stdin).items():
    hinted = load_dataset_entry(category)
    tools = {e["id"]: convert_to_tool(e["function"], GORILLA_TO_OPENAPI, ModelStyle.OPENAI_COMPLETIONS) for e in hinted}
    entries = {e["id"]: e for e in load_dataset_entry(category, include_language_specific_hint=False)}
    gold = {e["id"]: e["ground_truth"] for e in load_ground_truth_entry(category)} if cases else {}
    for key, calls in cases:
        said = [{call["name"]: call["arguments"]} for call in calls]
        verdict = ast_checker(entries[key]["function"], said, gold[key], Language.PYTHON, category, "model")
        print(json.dumps(["verdict", key, verdict["valid"]]))
    for key, entry in entries.items():
        print(json.dumps(["tools", key, entry["question"][0], tools[key]]))
"""
# Of each category but the first.
SAMPLED = 25
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


def samples(category: str = "multi_turn_base") -> list[dict[str, Any]]:
    return [json.loads(text) for _, text in BfclLoader({"category": category}, Path()).records()]


def compared(seed: str) -> list[dict[str, Any]]:
    """All samples of the first category, and some of the others."""
    chance = random.Random(seed)
    first, *others = map(samples, CONVERSATIONS)
    return [*first, *(sample for rows in others for sample in chance.sample(rows, SAMPLED))]


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
    return [line == "true" for line in package_says(ORACLE, texts)]


def package_says(program: str, values: Any, root: Path = Path(os.devnull)) -> list[str]:
    """The lines that a program prints which runs the package's own code."""
    paths = {"PYTHONPATH": str(PACKAGE), "DATA": str(PACKAGE / "bfcl_eval/data"), "BFCL_PROJECT_ROOT": str(root)}
    command, text = [sys.executable, "-c", program], json.dumps(values)
    done = subprocess.run(command, input=text, capture_output=True, text=True, env={**os.environ, **paths}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def run_suite(folder: Path, scripts: dict[str, Turns], suite: str = "bfcl_multi_turn") -> dict[str, dict[str, Any]]:
    """The scores by sample of a run of a suite on the samples that have a script."""
    (folder / "agent.py").write_text(AGENT)
    (folder / "scripts.json").write_text(json.dumps(scripts))
    template = yaml.safe_load(Path(f"configs/builtin_templates/{suite}/v1.yaml").read_text())
    config = {**template["definition"], "backends": [{"backend_id": "agent", "type": "agent.py:Agent"}]}
    config["role_adapters"][0]["backend_id"] = "agent"
    (folder / "bfcl.yaml").write_text(yaml.safe_dump(config))
    categories = [task["task_id"] for task in config["tasks"]]
    tasks = [name for name in categories if any(name in key for key in scripts)]
    gage_eval.run(folder / "bfcl.yaml", store=str(folder / "store"), sample_ids=list(scripts), task_ids=tasks)
    rows = gage_eval.sql("SELECT sample_id, value, extracted FROM scores", store=str(folder / "store")).to_pylist()
    assert sorted(row["sample_id"] for row in rows) == sorted(scripts)
    return {row["sample_id"]: row for row in rows}


def assert_asks_as_the_harness(folder: Path, scripts: dict[str, Turns]) -> None:
    by_category = {name: {key: turns for key, turns in scripts.items() if name in key} for name in CONVERSATIONS}
    ours = sorted(map(comparable, (folder / "requests.jsonl").read_text().splitlines()))
    theirs = sorted(map(comparable, package_says(HARNESS, by_category, folder)))
    assert len(ours) == len(theirs)
    assert next(((own, other) for own, other in zip(ours, theirs, strict=True) if own != other), None) is None


def comparable(line: str) -> str:
    """Of a request as text: its sample, what the user said and what functions answered, and the functions offered."""
    sample_id, messages, tools = json.loads(line)
    for tool in tools:
        # What it returns is in no request of ours.
        tool["function"].pop("response", None)
    said = [[m["role"], "" if m["role"] == "assistant" else m["content"]] for m in messages]
    return json.dumps([sample_id, said, tools], sort_keys=True)


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
    return one_step(turns, chance)


def one_turn_late(turns: list[list[Call]], chance: random.Random) -> Turns:
    if len(turns) > 1:
        number = chance.randrange(len(turns) - 1)
        turns[number + 1] = turns[number] + turns[number + 1]
        turns[number] = []
    return one_by_one(turns, chance)


def one_step(turns: list[list[Call]], chance: random.Random) -> Turns:
    return [[calls] if calls else [] for calls in turns]


def one_by_one(turns: list[list[Call]], chance: random.Random) -> Turns:
    """A call in each step, or two where the steps would be too many."""
    sizes = [1 + len(calls) // 20 for calls in turns]
    return [
        [calls[at : at + size] for at in range(0, len(calls), size)] for calls, size in zip(turns, sizes, strict=True)
    ]


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
def test_a_perfect_model_is_right_everywhere_and_is_asked_as_by_the_published_harness(tmp_path: Path) -> None:
    scripts = {sample["id"]: one_step(gold(sample), random.Random(0)) for sample in compared("perfect")}
    rows = run_suite(tmp_path, scripts)
    assert {key: row["extracted"] for key, row in rows.items() if row["value"] != 1.0} == {}
    assert_asks_as_the_harness(tmp_path, scripts)


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(("turn", "reason"), [(0, "force_terminated"), (-1, None)])
def test_a_conversation_ends_where_the_published_harness_ends_it(tmp_path: Path, turn: int, reason: str | None) -> None:
    look = [{"name": "pwd", "arguments": {}}]
    sample = samples()[0]
    turns = one_by_one(gold(sample), random.Random(0))
    turns[turn] += 30 * [look]
    rows = run_suite(tmp_path, {sample["id"]: turns})
    assert rows[sample["id"]]["extracted"] == reason
    assert_asks_as_the_harness(tmp_path, {sample["id"]: turns})


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    "planted", [one_by_one, without_a_call, with_another_argument, with_more_calls, in_another_order, one_turn_late]
)
def test_planted_errors_get_the_verdicts_of_the_published_checker(
    planted: Callable[[list[list[Call]], random.Random], Turns],
) -> None:
    chance = random.Random(32)
    cases = [(sample, planted(gold(sample), chance)) for sample in compared(planted.__name__)]
    ours = [
        bfcl_multi_turn(sample["metadata"]["bfcl"], model_turns(turns)).value == 1.0  # type: ignore[arg-type]
        for sample, turns in cases
    ]
    theirs = published(cases)
    assert {case[0]["id"]: pair for case, *pair in zip(cases, ours, theirs, strict=True) if pair[0] != pair[1]} == {}
    assert (planted is one_by_one) == all(theirs), f"{sum(theirs)} of {len(theirs)} are right"


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
def test_steps_after_the_21st_of_a_turn_count_for_nothing() -> None:
    sample = samples()[0]
    task, turns = sample["metadata"]["bfcl"], one_by_one(gold(sample), random.Random(0))
    look = [{"name": "pwd", "arguments": {}}]
    late = [*turns[:-1], [*(21 - len(turns[-1])) * [look], *turns[-1]]]
    assert bfcl_multi_turn(task, model_turns(late)).value == 1.0  # type: ignore[arg-type]
    late[-1].insert(0, look)
    assert bfcl_multi_turn(task, model_turns(late)).extracted == f"turn {len(turns)}: output"  # type: ignore[arg-type]
    assert bfcl_multi_turn(task, model_turns(turns[:-1])).extracted == "force_terminated"  # type: ignore[arg-type]
    assert bfcl_multi_turn(None).status == "unscored"


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
def test_conversations_of_a_long_context_share_no_state() -> None:
    tasks = [sample["metadata"]["bfcl"] for sample in samples("multi_turn_long_context")]
    task = next(task for task in tasks if "TravelAPI" in task["classes"])
    first, second = bfcl.Simulation(task), bfcl.Simulation(task)
    for card in first._objects["TravelAPI"].credit_card_list.values():
        card["balance"] = -1
    assert not second.equals(first)


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
    with pytest.raises(InputError, match="no category 'multi_turn_composite'"):
        BfclLoader({"category": "multi_turn_composite"}, Path())


def accepted_calls(sample: dict[str, Any], chance: random.Random) -> list[Call]:
    """Calls that a question accepts."""
    calls = []
    for published in json.loads(sample["metadata"]["bfcl"])["ground_truth"]:
        ((name, accepted),) = published.items()
        arguments = {}
        for key, options in accepted.items():
            values = [option for option in options if option != ""]
            if values and ("" not in options or chance.random() < 0.5):
                arguments[key] = chosen(chance.choice(values), chance)
        calls.append({"name": name.replace(".", "_"), "arguments": arguments})
    return calls


def chosen(option: Any, chance: random.Random) -> Any:
    """An accepted value, with a choice for each key of objects."""
    if isinstance(option, dict):
        values = {key: chance.choice(options) for key, options in option.items()}
        return {key: value for key, value in values.items() if value != "" or "" not in option[key]}
    return [chosen(item, chance) for item in option] if isinstance(option, list) else option


def spoiled(calls: list[Call], chance: random.Random) -> list[Call]:
    """The calls with one change, which may or may not be an error."""
    calls = json.loads(json.dumps(calls))
    kind = chance.choice(["none", "twice", "name", "order", "argument", "argument", "argument", "argument"])
    if kind == "none" or not calls:
        return []
    call = chance.choice(calls)
    if kind == "twice":
        return [*calls, call]
    if kind == "order":
        return calls[::-1]
    if kind == "name":
        call["name"] += "_2"
    elif not call["arguments"] or chance.random() < 0.1:
        call["arguments"]["unknown"] = 1
    elif chance.random() < 0.2:
        del call["arguments"][chance.choice(list(call["arguments"]))]
    else:
        key = chance.choice(list(call["arguments"]))
        call["arguments"][key] = changed(call["arguments"][key], chance)
    return calls


def changed(value: Any, chance: random.Random) -> Any:
    """Another value; some of them are accepted in place of the first."""
    others: list[Any] = [str(value), [value], {"key": value}, None, True, 0, 0.5, "", [], {}]
    match value:
        case bool():
            others += [not value, int(value)]
        case int():
            others += 3 * [value + 1, float(value)]
        case float():
            others += 3 * [value + 0.5, int(value)]
        case str():
            others += 3 * [value.upper(), value.replace(" ", ""), f"{value}.", f"{value}x", value.replace("'", '"')]
        case list():
            others += 2 * [value[::-1], value[:-1], [*value, *value[:1]]]
            others += [[changed(value[0], chance), *value[1:]]] * 4 if value else []
        case dict():
            others += [{**value, "other": 1}]
            others += [{**value, key: changed(inner, chance)} for key, inner in value.items()]
            others += [{name: inner for name, inner in value.items() if name != key} for key in value]
    return chance.choice(others)


def verdict_on(sample: dict[str, Any], calls: list[Call]) -> bool:
    made = [{"function": {**call, "arguments": json.dumps(call["arguments"])}} for call in calls]
    return bfcl_ast(sample["metadata"]["bfcl"], made).value == 1.0  # type: ignore[arg-type]


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
def test_calls_of_one_turn_are_offered_and_judged_as_by_the_published_checker(tmp_path: Path) -> None:
    chance, cases = random.Random(32), dict[str, list[tuple[dict[str, Any], list[Call]]]]()
    for category in (*QUESTIONS, *LIVE_QUESTIONS):
        right = [(row, accepted_calls(row, chance)) for row in samples(category)]
        cases[category] = right + [(row, spoiled(calls, chance)) for row, calls in 3 * right]
    asked_of = {category: [[row["id"], calls] for row, calls in pairs] for category, pairs in cases.items()}
    asked_of |= {category: [] for category in UNANSWERED}
    lines = [json.loads(line) for line in package_says(QUESTIONS_ORACLE, asked_of, tmp_path)]
    theirs = [(key, valid) for kind, key, valid, *_ in lines if kind == "verdict"]
    ours = [(row["id"], verdict_on(row, calls)) for pairs in cases.values() for row, calls in pairs]
    assert len(theirs) > 8_000
    differing = [(own, other) for own, other in zip(ours, theirs, strict=True) if own != other]
    assert differing == []
    assert 0.2 < sum(valid for _, valid in theirs) / len(theirs) < 0.8
    offered = {key: rest for kind, key, *rest in lines if kind == "tools"}
    rows = [row for category in asked_of for row in samples(category)]
    assert len(rows) == 3_491
    assert [row["id"] for row in rows if [row["messages"], row["tools"]] != offered[row["id"]]] == []


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
def test_a_perfect_model_is_right_in_every_category_of_one_turn(tmp_path: Path) -> None:
    chance, scripts = random.Random(0), dict[str, Turns]()
    for category in (*QUESTIONS, *LIVE_QUESTIONS, *UNANSWERED):
        for row in samples(category)[:4]:
            is_answered = category not in UNANSWERED
            some = [{"name": "f", "arguments": {}}] if category == "live_relevance" else []
            users = sum(message["role"] == "user" for message in row["messages"])
            scripts[row["id"]] = users * [[accepted_calls(row, chance) if is_answered else some]]
    rows = run_suite(tmp_path, scripts, "bfcl_ast")
    assert {key: row["extracted"] for key, row in rows.items() if row["value"] != 1.0} == {}


@NEEDS_PACKAGE
@pytest.mark.usefixtures("package")
def test_a_question_without_a_fitting_function_wants_no_call_and_the_others_some() -> None:
    call = [{"name": "f", "arguments": {}}]
    for category, is_wanted in {"irrelevance": False, "live_irrelevance": False, "live_relevance": True}.items():
        row = samples(category)[0]
        assert (verdict_on(row, []), verdict_on(row, call)) == (not is_wanted, is_wanted)
        broken: Any = [{"function": {"name": "f", "arguments": "{"}}]
        assert bfcl_ast(row["metadata"]["bfcl"], broken).value == (not is_wanted), "calls that are not JSON are none"
    assert bfcl_ast(None).status == "unscored"
