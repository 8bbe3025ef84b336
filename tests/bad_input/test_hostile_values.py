"""A value that nothing can hold costs its own row, or is one sentence; the other rows go on."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from bad_input.hostile_server import hostile_server
from support.command import Command
from support.runs import stage_outputs

from gage_eval.store import Store

HELPERS = """
import asyncio
from gage_eval.plugins import Score, Verdict


class Mute(Exception):
    def __str__(self):
        raise SystemExit(0)


class Map(dict):
    def __iter__(self):
        raise SystemExit(0)


class Own(float):
    def __float__(self):
        raise SystemExit(0)


def throw(error):
    raise error


def nested(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found
"""

# What code may raise, or give where nothing like it can be used.
RAISED = {
    "system exit": "throw(SystemExit(0))",
    "generator exit": "throw(GeneratorExit())",
    "cancelled": "throw(asyncio.CancelledError())",
    "of its own": "throw(type('Stop', (BaseException,), {})())",
    "stop iteration": "throw(StopIteration())",
    "recursion": "throw(RecursionError())",
    "surrogate in its text": "throw(ValueError('\\ud800'))",
    "exits when it is shown": "throw(Mute())",
    "an object": "object()",
    "nested": "nested(1000)",
}
SCORES = {
    **RAISED,
    "nothing": "None",
    "not a number": "float('nan')",
    "too large": "10**400",
    "too small": "-(10**5000)",
    "too large in a score": "Score(10**400)",
    "too large in a mapping": "{'score': 10**400}",
    "a float of its own": "Own(1.0)",
    "surrogate in an explanation": "Score(1.0, explanation='\\ud800')",
    "surrogate in what was read": "Score(1.0, extracted='\\ud800')",
    "surrogate in a key": "{'\\ud800': 1.0}",
    "nested components": "Score(1.0, components=nested(1000))",
}
ANSWERS = {
    **RAISED,
    "a number": "10**400",
    "bytes": "b'text'",
    "nothing": "None",
    "no fields": "{}",
    "an unknown field": "{'answer': 'a', '\\ud800': 1}",
    "a key that is not text": "{'answer': 'a', 3: 1}",
    "a status that is not text": "{'answer': 'a', 'status': []}",
    "an unknown status": "{'answer': 'a', 'status': '\\ud800'}",
    "an answer that is not text": "{'answer': 10**400}",
    "nested tool calls": "{'answer': '', 'tool_calls': nested(1000)}",
    "tool calls that are not numbers": "{'answer': '', 'tool_calls': [float('nan'), 10**30]}",
    "nested log probabilities": "{'answer': '', 'logprobs': nested(1000)}",
    "log probabilities of objects": "{'answer': '', 'logprobs': [object()]}",
    "log probabilities that are not numbers": "{'answer': '', 'logprobs': [float('-inf'), 10**30]}",
    "a count beyond all counts": "{'answer': '', 'prompt_tokens': 10**30}",
    "a count that is not number": "{'answer': '', 'completion_tokens': float('nan')}",
    "an error kind that is not text": "{'answer': '', 'error_kind': 4}",
    "a mapping of its own": "Map(answer='a')",
}
TEXTS = {**RAISED, "a number": "10**400", "a surrogate": "'\\ud800'"}
VERDICTS = {
    **RAISED,
    "too large": "Verdict(score=10**400)",
    "a surrogate": "Verdict(answer='\\ud800')",
    "nested fields": "Verdict(score=1.0, fields={'a': nested(1000)})",
    "a surrogate in a field": "Verdict(score=1.0, fields={'\\ud800': 1})",
}


BACKEND = """
from gage_eval.plugins import BackendConfig, BaseBackend, Response


class Own(BaseBackend[BackendConfig]):
    type = "own"
    capabilities = frozenset({"chat"})

    def body(self, request):
        text = request.messages[-1]["content"]
        return CASES["bad"]() if text == "<body>" else {"text": text}

    async def call(self, request, body):
        text = request.messages[-1]["content"]
        return CASES["bad"]() if text == "<call>" else Response("ok", answer=text.strip("<>"))
"""


def write(folder: Path, names: list[str], code: str = "", **changes: Any) -> None:
    """A config of one question for each name, and one more whose name is ``good``."""
    rows = [{"id": name, "question": f"<{name}>", "answer": name} for name in [*names, "good"]]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "own.py").write_text(HELPERS + code)
    config = {
        "datasets": [{"dataset_id": "rows", "params": {"path": "rows.jsonl"}}],
        "backends": [{"backend_id": "model", "type": "dummy", "config": {"mode": "echo"}}],
        "metrics": ["exact_match"],
        "tasks": [{"task_id": "all", "dataset_id": "rows", "max_unscored_share": 0.999, "max_error_share": 0.999}],
        **changes,
    }
    (folder / "all.yaml").write_text(yaml.safe_dump(config))


def cases(values: dict[str, str]) -> str:
    """Code that gives each value by its name."""
    return "CASES = {\n" + "".join(f"    {name!r}: lambda: {value},\n" for name, value in values.items()) + "}\n"


def table(folder: Path, stage: str, name: str) -> list[dict[str, Any]]:
    """Rows of an output of the run ``first``."""
    outputs = stage_outputs(folder, "first")[f"all/{stage}"]
    rows: list[dict[str, Any]] = Store.open(str(folder / ".gage")).artifact(outputs[name]).table().to_pylist()
    return rows


def scores(folder: Path) -> dict[str, dict[str, Any]]:
    """Score rows of the only metric by sample."""
    (metrics,) = {row["scores"] for row in table(folder, "auto_eval", "metrics")}
    rows = Store.open(str(folder / ".gage")).artifact(metrics).table().to_pylist()
    return {row["sample_id"]: row for row in rows}


def run(gage: Command) -> None:
    ended = gage("run", "all.yaml", "--run-id", "first")
    assert ended.code == 0, ended.err
    ended.err.encode()
    assert "Traceback" not in ended.err


def test_what_a_metric_gives_or_raises_costs_its_row(tmp_path: Path, gage: Command) -> None:
    code = cases(SCORES) + "def own(prediction: str, reference: str):\n    return CASES.get(reference, lambda: 1.0)()\n"
    write(tmp_path, list(SCORES), code, metrics=["own.py:own"])
    run(gage)
    values = scores(tmp_path)
    assert values.pop("good")["status"] == "scored"
    assert {name: row["reason"] for name, row in values.items()} == dict.fromkeys(SCORES, "metric_failed")


def test_what_a_filter_gives_or_raises_costs_its_row(tmp_path: Path, gage: Command) -> None:
    code = cases(TEXTS) + "def own(text: str):\n    return CASES.get(text.strip('<>'), lambda: text)()\n"
    write(tmp_path, list(TEXTS), code, metrics=[{"implementation": "exact_match", "filters": ["own.py:own"]}])
    run(gage)
    values = scores(tmp_path)
    assert values.pop("good")["status"] == "scored"
    assert {name: row["reason"] for name, row in values.items()} == dict.fromkeys(TEXTS, "metric_failed")


def test_what_a_verdict_parser_gives_or_raises_costs_its_row(tmp_path: Path, gage: Command) -> None:
    code = cases(VERDICTS) + (
        "def own(text: str):\n    return CASES.get(text.strip('<>'), lambda: Verdict(score=1.0))()\n"
    )
    roles = [
        {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"},
        {
            "adapter_id": "judge",
            "role_type": "judge_model",
            "backend_id": "model",
            "prompt_id": "as_it_is",
            "verdict_parser": "own.py:own",
        },
    ]
    prompts = [{"prompt_id": "as_it_is", "template": "{{ model_answer }}"}]
    write(tmp_path, list(VERDICTS), code, metrics=["judge_threshold"], role_adapters=roles, prompts=prompts)
    run(gage)
    rows = {row["sample_id"]: row for row in table(tmp_path, "judge", "judgments")}
    assert rows.pop("good")["status"] == "ok"
    assert {name: row["reason"] for name, row in rows.items()} == dict.fromkeys(VERDICTS, "parser_failed")


def test_what_a_preprocessor_gives_or_raises_costs_its_record(tmp_path: Path, gage: Command) -> None:
    code = cases(TEXTS) + ("def own(record):\n    return CASES.get(record['id'], lambda: {**record, 'label': '1'})()\n")
    params = {"path": "rows.jsonl", "preprocess": "own.py:own", "on_reject": "skip"}
    write(tmp_path, list(TEXTS), code, datasets=[{"dataset_id": "rows", "params": params}])
    ran = gage("run", "all.yaml", "--run-id", "first")
    assert "Traceback" not in ran.err
    rejects = {row["record"]: row["reason"] for row in table(tmp_path, "standardize", "rejects")}
    assert {json.loads(record)["id"] for record in rejects} >= set(TEXTS)


@pytest.mark.parametrize("value", RAISED)
@pytest.mark.parametrize("method", ["prepare", "parse"])
def test_what_a_hook_does_wrong_on_every_row_is_one_sentence(
    tmp_path: Path, gage: Command, method: str, value: str
) -> None:
    code = f"class Own:\n    def {method}(self, *_):\n        return {RAISED[value]}\n"
    role = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model", "class_path": "own.py:Own"}
    write(tmp_path, [], code, role_adapters=[role])
    ended = gage("run", "all.yaml")
    assert ended.code == 2
    assert ended.sentence.startswith(f"own.py:Own.{method}()")
    assert len(ended.sentence.splitlines()) == 1


@pytest.mark.parametrize("method", ["prepare", "parse"])
def test_what_a_hook_gives_or_raises_on_one_row_costs_its_row(tmp_path: Path, gage: Command, method: str) -> None:
    text = "given.messages[-1]['content']" if method == "prepare" else "given.answer"
    code = cases(RAISED) + (
        f"class Own:\n    def {method}(self, given, *_):\n"
        f"        return CASES.get({text}.strip('<>'), lambda: given)()\n"
    )
    role = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model", "class_path": "own.py:Own"}
    write(tmp_path, list(RAISED), code, role_adapters=[role])
    run(gage)
    rows = {row["sample_id"]: (row["status"], row["error_kind"]) for row in table(tmp_path, "infer", "responses")}
    assert rows.pop("good") == ("ok", None)
    assert rows == dict.fromkeys(RAISED, ("error", "hook_failed"))
    assert {row["reason"] for name, row in scores(tmp_path).items() if name != "good"} == {"unanswered"}
    # They are tried again, and nothing else is.
    again = gage("resume", "first", "--only-errors")
    assert again.code == 0, again.err
    shown = gage("show", "first", "--error").out
    sentence = f"own.py:Own.{method}(), for sample 'system exit', raised SystemExit: 0 (own.py, line"
    assert f"hook_failed: {sentence}" in shown
    assert gage("show", "first", "--sample", "system exit").out.count(sentence) == 1
    if method == "parse":
        assert "infer: own.py:Own.parse(), for sample 'system exit', raised SystemExit: 0 (own.py, line" in again.out
        assert f"{len(RAISED)} rows like this are in error." in again.out


def test_a_prompt_that_fails_on_one_row_costs_its_row(tmp_path: Path, gage: Command) -> None:
    prompt = {"prompt_id": "own", "template": "{{ 6 // (sample.label | int) }}"}
    role = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model", "prompt_id": "own"}
    write(tmp_path, [], role_adapters=[role], prompts=[prompt])
    rows = [{"id": f"s{answer}", "question": "?", "answer": str(answer)} for answer in (0, 1, 2)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(gage)
    answers = {row["sample_id"]: (row["answer"], row["error_kind"]) for row in table(tmp_path, "infer", "responses")}
    assert answers == {"s0": (None, "prompt_failed"), "s1": ("6", None), "s2": ("3", None)}
    sentence = "prompt 'own', sample 's0': the template fails on this data"
    assert f"prompt_failed: {sentence}" in gage("show", "first", "--error").out
    (tmp_path / "rows.jsonl").write_text(json.dumps(rows[0]) + "\n")
    ended = gage("run", "all.yaml")
    assert ended.code == 2
    assert ended.sentence.startswith(sentence)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_a_custom_script_gives_or_raises_costs_its_row(tmp_path: Path, gage: Command, asynchronous: bool) -> None:
    code = cases(ANSWERS) + (
        "class Own:\n    def generate(self, request):\n        name = request['messages'][-1]['content'].strip('<>')\n"
        "        return CASES.get(name, lambda: name)()\n"
    )
    if asynchronous:
        code = code.replace("def generate", "async def ainvoke")
    config = {"file_path": "own.py", "class_name": "Own", "timeout": 20}
    write(tmp_path, list(ANSWERS), code, backends=[{"backend_id": "m", "type": "custom_script", "config": config}])
    run(gage)
    rows = {row["sample_id"]: (row["error_kind"], row["status"]) for row in table(tmp_path, "infer", "responses")}
    assert rows.pop("good") == (None, "ok")
    assert rows == dict.fromkeys(ANSWERS, ("script", "error"))


@pytest.mark.parametrize("value", RAISED)
def test_what_a_backend_does_wrong_costs_its_row(tmp_path: Path, gage: Command, value: str) -> None:
    """Both where it makes the request's body and where it answers."""
    code = cases({"bad": RAISED[value]}) + BACKEND
    write(tmp_path, ["body", "call"], code, backends=[{"backend_id": "model", "type": "own.py:Own", "config": {}}])
    run(gage)
    rows = {row["sample_id"]: (row["answer"], row["error_kind"]) for row in table(tmp_path, "infer", "responses")}
    assert rows == {"body": (None, "plugin"), "call": (None, "plugin"), "good": ("good", None)}


@pytest.mark.parametrize(
    "returned",
    [
        "Response('ok', answer='\\ud800')",
        "Response('ok', answer=object())",
        "Response('ok', answer='', tool_calls=nested(1000))",
        "Response([], answer='')",
        "Request('chat', messages=[{'role': 'user', 'content': '\\ud800'}])",
        "Request('chat', messages=[{'role': 'user', 'content': nested(1000)}])",
        "Request('chat', messages=object())",
        "Request('chat', messages=[object()])",
        "Request('chat', messages=[], params=object())",
        "Request(3, messages=[])",
    ],
)
def test_a_request_or_response_of_a_hook_that_nothing_can_hold_is_one_sentence(
    tmp_path: Path, gage: Command, returned: str
) -> None:
    method = "parse" if returned.startswith("Response") else "prepare"
    code = f"from gage_eval.plugins import Request, Response\nclass Own:\n    def {method}(self, *_):\n"
    role = {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model", "class_path": "own.py:Own"}
    write(tmp_path, [], f"{code}        return {returned}\n", role_adapters=[role])
    ended = gage("run", "all.yaml")
    assert ended.code == 2
    assert ended.sentence.startswith(f"own.py:Own.{method}()")


@pytest.mark.parametrize(
    "returned", ["Aggregate(10**400)", "Aggregate(1.0, samples=1.5)", "{'\\ud800': Aggregate(1.0)}", *RAISED.values()]
)
def test_what_an_aggregation_gives_or_raises_is_one_sentence(tmp_path: Path, gage: Command, returned: str) -> None:
    code = f"from gage_eval.plugins import Aggregate\ndef own(rows):\n    return {returned}\n"
    write(tmp_path, [], code, metrics=[{"implementation": "exact_match", "aggregation": "own.py:own"}])
    ended = gage("run", "all.yaml")
    assert ended.code == 2
    assert ended.sentence.startswith("own.py:own() ")


def test_a_reply_that_nothing_can_hold_is_the_error_of_its_row(tmp_path: Path, gage: Command) -> None:
    nested = b"[" * 1000 + b"]" * 1000
    large = b"123456789012345678901234567890"

    def reply(message: bytes = b'"content":""', more: bytes = b"") -> bytes:
        return b'{"choices":[{"message":{%s},"finish_reason":"stop"%s}]}' % (message, more)

    errors = {
        "tool calls nested": reply(b'"content":null,"tool_calls":' + nested),
        "tool calls with large and no numbers": reply(b'"content":null,"tool_calls":[NaN,%s]' % large),
        "log probabilities nested": reply(more=b',"logprobs":' + nested),
        "log probabilities with large and no numbers": reply(more=b',"logprobs":[NaN,%s]' % large),
    }
    held = {
        "surrogate": reply(b'"content":"\\ud800"'),
        "surrogate in a key": reply(b'"content":"","tool_calls":[{"\\ud800":1,"function":{"name":"f"}}]'),
        "large number": reply(more=b',"logprobs":[%s]' % large),
    }
    with hostile_server({**errors, **held}) as url:
        config = {"base_url": url, "model": "m", "max_attempts": 2}
        write(tmp_path, [*errors, *held], backends=[{"backend_id": "m", "type": "openai_http", "config": config}])
        run(gage)
    rows = {row["sample_id"]: row for row in table(tmp_path, "infer", "responses")}
    assert rows.pop("good")["answer"] == "good"
    assert rows.pop("surrogate")["answer"] == "\ufffd"
    expected = {**dict.fromkeys(errors, "malformed"), "surrogate in a key": None, "large number": None}
    assert {name: row["error_kind"] for name, row in rows.items()} == expected


@pytest.mark.parametrize("plugin", [":own", "own:", ":", "own.py:"])
def test_a_plug_in_without_a_module_or_a_name_is_one_sentence(tmp_path: Path, gage: Command, plugin: str) -> None:
    write(tmp_path, [], metrics=[{"implementation": "exact_match", "filters": [plugin]}])
    ended = gage("run", "all.yaml")
    assert ended.code == 2
    assert f"'{plugin}' is not a plug-in: write pkg.mod:NAME or file.py:NAME." in ended.sentence


def test_an_escape_beyond_unicode_is_one_sentence(tmp_path: Path, gage: Command) -> None:
    write(tmp_path, [])
    with (tmp_path / "all.yaml").open("a") as config:
        config.write('metadata: {name: "\\UFFFFFFFF"}\n')
    ended = gage("run", "all.yaml")
    assert ended.code == 2
    assert "an escape beyond Unicode" in ended.sentence
    ended = gage("score", "first", "--metric", '{exact_match: {default: "\\UFFFFFFFF"}}')
    assert ended.code == 2
    assert "Traceback" not in ended.err


def test_a_sample_without_messages_is_skipped_and_the_others_are_asked(tmp_path: Path, gage: Command) -> None:
    write(tmp_path, ["empty"])
    empty = {"id": "empty", "messages": [], "label": "2"}
    good = {"id": "good", "messages": [{"role": "user", "content": "2"}], "label": "2"}
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(empty)}\n{json.dumps(good)}\n")
    run(gage)
    rows = {row["sample_id"]: row["status"] for row in table(tmp_path, "infer", "responses")}
    assert rows == {"empty": "skipped", "good": "ok"}
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(empty)}\n")
    ended = gage("run", "all.yaml")
    assert ended.code == 2
    assert ended.sentence.startswith("infer: the only request of task 'all' is empty. Name a prompt with prompt_id")
