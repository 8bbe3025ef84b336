"""Tasks of the harness, and of a user, whose rows are in local files. It needs no package."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

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
    "own_corpus": lambda n: {"q": f"say {n}", "gold": f"So we get #### {n} or less.", "part": n % 3},
    "own_class": lambda n: {"q": f"name {n}", "gold": "ABCDE"[n % 5]},
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
            {"metric": "mcc", "aggregation": "matthews_corrcoef", "higher_is_better": True},
        ],
    },
    "own_corpus": {
        "output_type": "generate_until",
        "doc_to_text": "{{q}}",
        "doc_to_target": "gold",
        "process_results": "!function own.parts",
        "metric_list": [
            {"metric": name, "aggregation": name, "higher_is_better": name != "ter"}
            for name in ("bleu", "chrf", "ter", "median", "nanmean")
        ] + [{"metric": "own", "aggregation": "!function own.spread", "higher_is_better": False}],
    },
    "own_class": {"class": "!function own.Names"},
}  # fmt: skip
CODE = """
import re
from pathlib import Path

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

DATA = str(Path(__file__).with_name("own_class.jsonl"))

def last_letter(resps, docs):
    return [[(re.findall("[A-E]", text) or ["-"])[-1] for text in each] for each in resps]

def process_results(doc, results):
    return {"right": float(results[0] == doc["gold"]), "length": len(results[0])}

def parts(doc, results):
    texts = dict.fromkeys(("bleu", "chrf", "ter"), (doc["gold"], results[0]))
    rows = {"median": len(results[0]), "nanmean": float("nan") if doc["part"] == 1 else len(results[0])}
    return {**texts, **rows, **({"own": {"part": doc["part"]}} if doc["part"] else {})}

def spread(items):
    return max(item["part"] for item in items) / len(items)

class Names(ConfigurableTask):
    VERSION = 1

    def __init__(self, config=None):
        source = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": DATA}}, "test_split": "test"}
        super().__init__(config={"task": "own_class", "doc_to_text": "{{q}}", "doc_to_target": "gold", **source})

    def construct_requests(self, doc, ctx, chat_template=None, apply_chat_template=False, **kwargs):
        arguments = (ctx, {"until": [";"], "max_gen_toks": 48})
        return [Instance(request_type="generate_until", doc=doc, arguments=arguments, idx=0, **kwargs)]

    def process_results(self, doc, results):
        return {"named": int(doc["gold"] in results[0])}

    def aggregation(self):
        return {"named": np.mean}

    def higher_is_better(self):
        return {"named": True}
"""


def write_group(folder: Path, names: Iterable[str] = tuple(ROWS), rows: int = 12) -> Path:
    """Write the group ``local`` of some of these tasks, and return its file."""
    (folder / "own.py").write_text(CODE)
    tasks: list[Any] = []
    for name in names:
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(ROWS[name](number)) + "\n" for number in range(rows)))
        files = dict.fromkeys(("train", "validation", "test", "dev", "val"), str(data))
        source = {"dataset_path": "json", "dataset_name": None, "dataset_kwargs": {"data_files": files}}
        if name in OWN:
            own = {} if name == "own_class" else {"test_split": "test", **source}
            text = json.dumps({"task": name, **own, **OWN[name]})
            (folder / f"{name}.yaml").write_text(re.sub(r'"(!function [\w.]+)"', r"\1", text))
            tasks.append(name)
        else:
            tasks.append({"task": name, **source})
    numbers = [{"metric": "acc", "aggregation": "mean", "weight_by_size": True}]
    file = folder / "local.yaml"
    file.write_text(json.dumps({"group": "local", "task": tasks, "aggregate_metric_list": numbers}))
    return file
