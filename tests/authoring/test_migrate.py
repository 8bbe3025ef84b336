"""Configs of other tools become ours, with a report of each key; what cannot be mapped is named with its line."""

import json
from pathlib import Path
from typing import Any

import pytest

from gage_eval.authoring.migrate import migrate
from gage_eval.authoring.migration import write_migration
from gage_eval.base.errors import ConfigError, InputError
from gage_eval.config.load import load_config, parse_config
from tests.outsider.pages import commands, write_files
from tests.support.command import Command, command

PROMPTFOO = """\
description: sums of ${HOME}
providers:
  - echo
  - id: openai:chat:my-model
    config: {apiBaseUrl: "http://127.0.0.1:8000/v1", temperature: 0.2, apiKey: sk-a1b2c3d4e5f6g7h8i9j0}
  - anthropic:messages:other
prompts:
  - "What is {{a}} + {{ b }}? Write 3."
  - '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "{{a}}"}]'
  - file://prompt.txt
  - "{% if a %}{{a}}{% endif %}"
defaultTest:
  assert: [{type: latency, threshold: 1000}]
tests:
  - vars: {a: 1, b: 2}
    assert: [{type: icontains, value: "3"}]
  - vars: {a: 2, b: 2}
    assert: [{type: icontains, value: "5", weight: 2}]
  - vars: {a: 3, b: 4}
    assert: [{type: equals, value: x, metric: same}, {type: regex, value: '\\d+'}]
  - vars: {a: [1, 2]}
    assert: [{type: equals, value: x}]
  - vars: {a: 9}
    assert: [{type: llm-rubric, value: polite}]
"""
LLM_EVAL = "model_path: /models/m\njudge_model_path: /models/j\ntask_name: mmmu_val\ndata_path: mmmu.jsonl\ntp: 4\n"
GAGE = """\
datasets:
  - dataset_id: docs
    params: {path: docs.jsonl, preprocess: preprocess_docvqa}
role_adapters:
  - adapter_id: dut
    role_type: dut_model
    class_path: gage_eval.role.adapters.dut_model.DUTModelAdapter
    backend: {type: hf_inference, config: {model_name_or_path: m, max_pixels: 1000}}
metrics:
  - {metric_id: r, implementation: rouge_l}
"""
EVALS = [
    {"input": [{"role": "user", "content": "2 + 2"}], "ideal": "4"},
    {"input": "3 + 3", "ideal": ["6", "six"]},
    {"input": "no ideal"},
]


@pytest.fixture
def gage(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "no-prefect"))
    return command(tmp_path, capsys, monkeypatch)


def written(folder: Path, text: str, name: str = "theirs.yaml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def found(file: Path) -> dict[tuple[int, str], str]:
    return {(finding.line, finding.key): finding.state for finding in migrate(file).report}


def test_a_config_of_promptfoo_runs_here_with_its_prompts_variables_and_assertions(
    gage: Command, tmp_path: Path
) -> None:
    written(tmp_path, PROMPTFOO)
    refused = gage("validate", "theirs.yaml")
    assert refused.code == 2
    assert "gage migrate theirs.yaml" in refused.err
    made = gage("migrate", "theirs.yaml", "--to", "made")
    assert made.code == 0, made.err
    assert gage("validate", "made/config.yaml").code == 0
    ended = gage("run", "made/config.yaml", "--run-id", "first", "--task", "tests-1-model-1-prompt-1", "--json")
    assert ended.code == 0, ended.err
    (task,) = json.loads(ended.out)["tasks"]
    assert task["sample_count"] == 2
    assert task["metrics"][0]["raw_values"] == {"score": 0.5}, "the echo of a prompt holds 3 and not 5"
    text = (tmp_path / "made" / "config.yaml").read_text(encoding="utf-8")
    assert "sk-a1b2" not in text
    assert "$${HOME}" in text
    assert (tmp_path / "made" / "migration.md").is_file()
    again = gage("migrate", "theirs.yaml", "--to", "made")
    assert again.code == 2


def test_every_key_of_promptfoo_is_in_the_report_with_its_line(tmp_path: Path) -> None:
    states = found(written(tmp_path, PROMPTFOO))
    assert states[2 + 1, "echo"] == "mapped"
    assert states[5, "temperature"] == "mapped"
    assert states[5, "apiKey"] == "left"
    assert states[6, "anthropic:messages:other"] == "left"
    assert [states[line, "prompts"] for line in (8, 9, 10, 11)] == ["mapped", "mapped", "left", "left"]
    assert states[13, "latency"] == "left"
    assert states[16, "icontains"] == "changed"
    assert states[18, "weight"] == "left"
    assert (states[20, "equals"], states[20, "regex"]) == ("mapped", "mapped")
    assert states[21, "vars.a"] == "left"
    assert states[24, "llm-rubric"] == "left"


def test_a_config_of_llm_eval_has_its_model_judge_task_and_data(tmp_path: Path) -> None:
    file = written(tmp_path, LLM_EVAL)
    made = migrate(file)
    assert [backend["config"]["model_path"] for backend in made.config["backends"]] == ["/models/m", "/models/j"]
    assert made.config["metrics"] == ["mmmu_accuracy"]
    assert made.config["datasets"] == [{"dataset_id": "mmmu_val", "params": {"path": "mmmu.jsonl"}}]
    assert found(file)[5, "tp"] == "left"


def test_a_config_of_the_first_architecture_gets_the_names_of_today(tmp_path: Path) -> None:
    made = migrate(written(tmp_path, GAGE))
    adapter, dataset = made.config["role_adapters"][0], made.config["datasets"][0]
    assert "class_path" not in adapter
    assert adapter["backend"] == {"type": "transformers", "config": {"model_path": "m"}}
    assert dataset["params"] == {"path": "docs.jsonl", "preprocess": "docvqa", "image_max_pixels": 1000}
    assert made.config["metrics"][0]["implementation"] == "rouge"
    assert (7, "class_path") in {(finding.line, finding.key) for finding in made.report}


def test_code_that_a_foreign_config_names_is_not_run(tmp_path: Path) -> None:
    code = tmp_path / "evil.py"
    code.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n", encoding="utf-8")
    file = written(tmp_path, GAGE.replace("rouge_l", f"{code}:Metric"))
    write_migration(migrate(file), file, tmp_path / "made")
    assert (tmp_path / "made" / "config.yaml").is_file()
    assert not (tmp_path / "ran").exists()


def test_all_and_any_of_several_texts_are_references(tmp_path: Path) -> None:
    tests = "".join(
        f"  - vars: {{a: x}}\n    assert: [{{type: {kind}, value: {value}}}]\n"
        for kind, value in (("contains-all", '"red, blue"'), ("icontains-any", "[RED, green]"))
    )
    made = migrate(written(tmp_path, f"providers: [echo]\nprompts: ['{{{{a}}}}']\ntests:\n{tests}"))
    every, either = (task["metrics"][0] for task in made.config["tasks"])
    assert (every["implementation"], every["references"]) == ("contains", "all")
    assert "references" not in either
    expected = [rows[0]["metadata"]["expected"] for rows in made.files.values()]
    assert expected == [{"contains_all": ["red", "blue"]}, {"icontains_any": ["RED", "green"]}]


def test_values_that_promptfoo_replaces_and_lists_that_must_be_equal_are_left(tmp_path: Path) -> None:
    asserts = [
        '{type: equals, value: "{{a}}"}',
        "{type: contains, value: file://gold.txt}",
        "{type: equals, value: [x, y]}",
        "{type: icontains-any, value: [true, 2]}",
    ]
    tests = "".join(f"  - {{vars: {{a: true}}, assert: [{check}]}}\n" for check in asserts)
    tests += "  - {vars: {a: file://a.txt}, assert: [{type: equals, value: x}]}\n"
    head = "providers: [echo, 'http://u:s3cr3tword@host/v1']\nprompts: ['{{a}}']\ntests:\n"
    made = migrate(written(tmp_path, head + tests))
    (rows,) = made.files.values()
    assert [row["metadata"] for row in rows] == [
        {"vars": {"a": "true"}, "expected": {"icontains_any": ["true", "2"]}},
    ]
    left = {(entry.line, entry.key) for entry in made.report if entry.state == "left"}
    assert {(4, "equals"), (5, "contains"), (6, "equals"), (8, "vars.a")} <= left
    assert "s3cr3tword" not in repr(made)


def test_samples_of_openai_evals_are_rows_that_match_scores(tmp_path: Path) -> None:
    odd = {"input": "a\u2028b", "ideal": "c"}
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [*EVALS, odd])
    file = written(tmp_path, f"\ufeff{text}", "samples.jsonl")
    made = migrate(file)
    write_migration(made, file, tmp_path / "made")
    rows = [json.loads(line) for line in (tmp_path / "made" / "samples.jsonl").open(encoding="utf-8")]
    assert [(row["messages"][-1]["content"], row["references"]) for row in rows] == [
        ("2 + 2", ["4"]),
        ("3 + 3", ["6", "six"]),
        ("a\u2028b", ["c"]),
    ]
    assert {(3, "sample", "left")} <= {(entry.line, entry.key, entry.state) for entry in made.report}
    assert load_config(tmp_path / "made" / "config.yaml").tasks


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("theirs.yaml", "a: 1\n", "of no tool"),
        ("theirs.yaml", "doc_to_text: q\n", "of no tool"),
        ("theirs.yaml", "providers: [anthropic:x]\nprompts: [a]\ntests: []\n", "none of its providers"),
        ("theirs.yaml", "providers: [echo]\nprompts: [file://a.txt]\ntests: []\n", "line 2: prompts"),
        ("theirs.yaml", "providers: [echo]\nprompts: [a]\ntests: tests.csv\n", "none of its tests"),
        ("theirs.yaml", "providers: 7\nprompts: {a: 1}\ntests: [[1], 2]\n", "none of its"),
        ("theirs.yaml", "judge_model_path: j\n", "'model_path'"),
        ("theirs.yaml", "a: [\n", "not valid|never closed|YAML"),
        ("rows.jsonl", "{\n", "line 1"),
        ("rows.jsonl", '{"a": 1}\n', "no sample"),
        ("rows.jsonl", "[1]\n", "no sample"),
        ("none.yaml", None, "no file"),
    ],
)
def test_what_cannot_be_migrated_is_said_in_one_sentence_and_nothing_is_written(
    name: str, text: str | None, words: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises((InputError, ConfigError), match=words):
        migrate(file)


def _twisted(value: Any, place: int) -> Any:
    odd: list[Any] = [None, 7, "x", [], {}, [[1]], {"a": {}}]
    if isinstance(value, dict):
        return {
            key: odd[place % 7] if (place + n) % 5 == 0 else _twisted(x, place + n)
            for n, (key, x) in enumerate(value.items())
        }
    if isinstance(value, list):
        return [odd[place % 7] if (place + n) % 4 == 0 else _twisted(x, place + n) for n, x in enumerate(value)]
    return value


@pytest.mark.parametrize("text", [PROMPTFOO, LLM_EVAL, GAGE], ids=["promptfoo", "llm-eval", "gage"])
def test_twisted_configs_are_migrated_or_refused(text: str, tmp_path: Path) -> None:
    import yaml

    tree = yaml.safe_load(text)
    for place in range(40):
        file = written(tmp_path, yaml.safe_dump(_twisted(tree, place)))
        try:
            write_migration(migrate(file), file, tmp_path / f"made-{place}")
        except (InputError, ConfigError):
            continue
        assert (tmp_path / f"made-{place}" / "migration.md").is_file()


def test_a_foreign_config_is_recognised_by_its_tool() -> None:
    for text, words in ((PROMPTFOO, "gage migrate"), (LLM_EVAL, "gage migrate"), ("doc_to_text: q\n", "lm-eval")):
        with pytest.raises(ConfigError, match=words):
            parse_config(text)


@pytest.mark.parametrize("page", ["lm-eval", "inspect", "evalscope", "promptfoo", "llm-eval"])
def test_the_page_of_each_tool_works_as_pasted(page: str, gage: Command, tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs" / "migrate"
    write_files(f"{page}.md", tmp_path, docs)
    for arguments in commands(f"{page}.md", docs):
        ended = gage(*arguments)
        assert ended.code == 0, f"{arguments}: {ended.err}"
        if "--scores" in arguments:
            assert "disagree on 1 of 2 answers" in ended.out
