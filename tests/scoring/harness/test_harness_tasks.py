"""Tasks of the lm-eval harness give the harness's own numbers here, for the same answers."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gage_eval
from gage_eval.authoring.lm_eval import harness_suite
from gage_eval.base.errors import InputError

pytest.importorskip("lm_eval")

MODEL = Path(__file__).with_name("hashed_model.py")
# Rows of the form that each task of the harness reads; all splits have the same.
ROWS: dict[str, Callable[[int], dict[str, Any]]] = {
    "piqa": lambda n: {"goal": f"goal {n}", "sol1": f"first {n}", "sol2": f"second way {n}", "label": n % 2},
    "arc_easy": lambda n: {
        "question": f"question {n}",
        "choices": {"text": [f"{letter} of {n}" for letter in "ABCD"], "label": list("ABCD")},
        "answerKey": "ABCD"[n % 4],
    },
    "hellaswag": lambda n: {
        "ctx_a": f"A man [step] walks {n}.",
        "ctx_b": "he then",
        "activity_label": "Walking",
        "endings": [f"stops {letter * n}  there." for letter in "ABCD"],
        "label": str(n % 4),
    },
    "gsm8k": lambda n: {"question": f"How many is {n}?", "answer": f"It is {n}. #### {n % 5}"},
    "mmlu_global_facts": lambda n: {
        "question": f" fact {n} ", "choices": [f"{letter}{n}" for letter in "ABCD"], "answer": n % 4
    },
    "truthfulqa_mc2": lambda n: {
        "question": f"What is {n}?",
        "mc1_targets": {"choices": ["yes", "no"], "labels": [1, 0]},
        "mc2_targets": {"choices": [f"yes {n}", "no", "maybe"], "labels": [1, 0, 1]},
    },
    "wikitext": lambda n: {"page": f" = Title {n} = \n \n The text , of page {n} @-@ one , with words . " * (n + 1)},
    "winogrande": lambda n: {
        "sentence": f"The cup {n} did not fit the box because the _ was too large.",
        "option1": "cup",
        "option2": "box",
        "answer": str(n % 2 + 1),
    },
    "lambada_openai": lambda n: {"text": f"She looked at page {n} of the book"},
    "ceval-valid_law": lambda n: {
        "question": f"问题{n}", **{letter: f"{letter}选项{n}" for letter in "ABCD"}, "answer": "ABCD"[n % 4]
    },
    "own_letters": lambda n: {"q": f"letter {n}", "gold": "ABCDE"[n % 5]},
    "own_mutual": lambda n: {"q": f"which of {n}", "choices": [f"this {n}", f"that one {n}"], "label": n % 2},
}  # fmt: skip
OWN = {
    "own_letters": {
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "gold",
        "process_results": "!function own.process_results",
        "generation_kwargs": {"until": ["\n"]},
        "filter_list": [{"name": "last", "filter": [
            {"function": "custom", "filter_fn": "!function own.last_letter"}, {"function": "take_first"}
        ]}],
        "metric_list": [
            {"metric": "right", "aggregation": "mean", "higher_is_better": True},
            {"metric": "length", "aggregation": "mean", "higher_is_better": False},
        ],
    },
    "own_mutual": {
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}",
        "doc_to_choice": "choices",
        "doc_to_target": "label",
        "metric_list": [
            {"metric": "acc_mutual_info", "aggregation": "mean", "higher_is_better": True},
            {"metric": "f1", "aggregation": "f1", "higher_is_better": True},
        ],
    },
}  # fmt: skip
CODE = """
import re

def last_letter(resps, docs):
    return [[(re.findall("[A-E]", text) or ["-"])[-1] for text in each] for each in resps]

def process_results(doc, results):
    return {"right": float(results[0] == doc["gold"]), "length": len(results[0])}
"""


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group of ten tasks of the harness and two of its user, all of which read rows from files."""
    folder = tmp_path_factory.mktemp("harness")
    (folder / "own.py").write_text(CODE)
    tasks: list[Any] = []
    for name, make in ROWS.items():
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(make(number)) + "\n" for number in range(12)))
        files = dict.fromkeys(("train", "validation", "test", "dev", "val"), str(data))
        source = {"dataset_path": "json", "dataset_name": None, "dataset_kwargs": {"data_files": files}}
        if name in OWN:
            text = json.dumps({"task": name, "test_split": "test", **source, **OWN[name]})
            (folder / f"{name}.yaml").write_text(re.sub(r'"(!function [\w.]+)"', r"\1", text))
            tasks.append(name)
        else:
            tasks.append({"task": name, **source})
    file = folder / "local.yaml"
    file.write_text(
        json.dumps(
            {
                "group": "local",
                "task": tasks,
                "aggregate_metric_list": [{"metric": "acc", "aggregation": "mean", "weight_by_size": True}],
            }
        )
    )
    return file


def test_the_numbers_are_those_of_the_harness(group: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(MODEL), "local", str(group.parent)]
    whole = subprocess.run(command, capture_output=True, text=True, check=False)
    assert whole.returncode == 0, whole.stderr[-3000:]
    harness = json.loads(whole.stdout.splitlines()[-1])
    suite = harness_suite(str(group), tmp_path / "cache")
    assert suite.notes
    run = gage_eval.run(suite.config, store=str(tmp_path / "store"), engine=f"{MODEL}:Hashed")
    ours = {
        f"{task.task_id} {metric.metric_id}": metric.raw_values["score"]
        for task in run.summary.tasks
        for metric in task.metrics
    }
    theirs = {
        f"{task} {name.replace(',none', '').replace(',', '_')}": value
        for task, values in harness["results"].items()
        for name, value in values.items()
        if task in ROWS and "," in name and "stderr" not in name
    }
    left_out = {"own_mutual f1"}
    assert {note for note in suite.notes if "f1 of own_mutual" in note} == {*suite.notes}
    assert ours == pytest.approx({name: value for name, value in theirs.items() if name not in left_out}, rel=1e-14)
    assert len(ours) > len(ROWS)
    group_of_acc = next(item for item in run.summary.groups if item.group_id == "local_acc")
    micro = next(metric for metric in group_of_acc.metrics if metric.metric_id == "acc").micro
    assert micro.value == pytest.approx(harness["groups"]["local"]["acc,none"], rel=1e-14)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no_such_task", "no task, group or tag"),
        ("gsm8k,shots=3", "num_fewshot"),
        ("gsm8k,num_fewshot=many", "whole number"),
        ("no_such_file.yaml", "no file"),
        ("TEXT.yaml", "neither a task nor a group"),
        ("RAISES.yaml", "ZeroDivisionError"),
    ],
)
def test_what_cannot_run_is_one_sentence(text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "TEXT.yaml").write_text("hello: there\n")
    (tmp_path / "rows.jsonl").write_text('{"q": "a"}\n')
    (tmp_path / "raises.py").write_text("def text(doc):\n    return 1 / 0\n")
    (tmp_path / "RAISES.yaml").write_text(
        f"task: raises\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {tmp_path / 'rows.jsonl'}}}}}\n"
        "output_type: generate_until\ntest_split: test\ndoc_to_text: !function raises.text\ndoc_to_target: q\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said) as refused:
        harness_suite(text, tmp_path / "cache")
    assert "\n" not in str(refused.value)
