"""The demo's records, prompts and metrics fit together: what is right scores 1, what is wrong 0."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from gage_eval.base.tables import RESPONSES
from gage_eval.config.load import LoadedConfig
from gage_eval.config.suites.templates import load_suite
from gage_eval.data.sample.rules import normalise_sample
from gage_eval.data.sample.table import samples_to_table
from gage_eval.data.standardize.compose import build
from gage_eval.extend import registry
from gage_eval.scoring.metrics import bind

Say = Callable[[dict[str, Any]], str]

RIGHT: dict[str, Say] = {
    "multi_choice_accuracy": lambda row: f"The answer is {row['answer']}.",
    "exact_match": lambda row: row["answer"].lower(),
    "contains": lambda row: f"I would say: {row['answer']}.",
    "numeric_match": lambda row: f"{row['metadata']['expression']} = {row['answer']}.",
}
WRONG: dict[str, Say] = {
    "multi_choice_accuracy": lambda row: "ABCD"[("ABCD".index(row["answer"]) + 1) % 4],
    "exact_match": lambda row: f"{row['answer']} or something like it",
    "contains": lambda row: "That is hard to say because nobody knows.",
    "numeric_match": lambda row: f"{row['metadata']['expression']} = 7{row['answer'].lstrip('-')}",
}


@pytest.fixture(scope="module")
def demo() -> LoadedConfig:
    return load_suite("demo")


def rows_and_samples(demo: LoadedConfig, dataset_id: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    params = next(dataset.params for dataset in demo.config.datasets if dataset.dataset_id == dataset_id)
    assert params.path is not None
    text = (demo.base_dir / params.path).read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    to_sample = build(registry.preprocessors.get(params.preprocess), params.preprocess_kwargs)
    return rows, [normalise_sample(to_sample(dict(row))) for row in rows]


def responses_table(rows: list[dict[str, Any]], say: Say) -> pa.Table:
    answers = [
        {"row_index": index, "sample_id": row["id"], "replicate": 0, "status": "ok", "answer": say(row)}
        for index, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(answers, schema=RESPONSES.arrow)


def test_the_suite_has_three_tasks_on_one_local_model(demo: LoadedConfig) -> None:
    tasks = demo.tasks
    assert [task.task.task_id for task in tasks] == ["multiple_choice", "short_answer", "arithmetic"]
    assert {task.dut.backend.type for task in tasks} == {"llama_cpp"}
    assert demo.warnings == ()


@pytest.mark.parametrize(("said", "score"), [(RIGHT, 1.0), (WRONG, 0.0)], ids=["right", "wrong"])
def test_each_metric_tells_right_from_wrong_on_every_row(
    demo: LoadedConfig, said: dict[str, Say], score: float
) -> None:
    for task in demo.tasks:
        rows, samples = rows_and_samples(demo, task.dataset.dataset_id)
        table = samples_to_table(samples, range(len(samples)))
        assert task.metrics
        for spec in task.metrics:
            metric = bind(spec.implementation, spec.params, metric_id=spec.metric_id, filters=spec.filters)
            responses = responses_table(rows, said[spec.implementation])
            scores = metric.score_table({"samples": table, "responses": responses}).to_pylist()
            off = [(row["sample_id"], row["filter"]) for row in scores if list(dict(row["values"]).values()) != [score]]
            assert off == [], spec.metric_id
            assert {row["status"] for row in scores} == {"scored"}


def test_every_prompt_ends_with_the_users_turn(demo: LoadedConfig) -> None:
    for dataset in demo.config.datasets:
        rows, samples = rows_and_samples(demo, dataset.dataset_id)
        for row, sample in zip(rows, samples, strict=True):
            last = sample["messages"][-1]
            assert last["role"] == "user", row["id"]
            assert row["question"] in json.dumps(last["content"], ensure_ascii=False), row["id"]
