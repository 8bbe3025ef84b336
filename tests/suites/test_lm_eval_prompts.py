"""The prompts of built-in suites are those of the lm-eval harness, apart from the differences that are declared.

The harness itself runs in ``make bench-prompts``; here its prompts are hashes. Where one differs, run that command: it
shows both.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.local_suites import local_suite, missing_origins, suite_names
from bench.prompts import (
    GOLDEN,
    NOT_COMPARED,
    PAGE,
    ROWS,
    TASKS,
    Task,
    comparable,
    digest,
    local_image,
    our_prompts,
    page,
)

SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_ten_prompts_are_the_harnesss(task: Task, golden: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="needs the extra media")
    if missing := missing_origins(task.suite, SHARED):
        pytest.skip(f"no data of {', '.join(missing)} in ../shared/data")
    suite = local_suite(task.suite, SHARED, tmp_path, local_image(tmp_path))
    digests = [digest(comparable(prompt, task)) for prompt in our_prompts(task, suite, tmp_path)]
    assert len(digests) == ROWS
    assert digests == golden["tasks"][task.name]["prompts"]


def test_every_suite_is_compared_or_says_why_not(golden: dict[str, Any]) -> None:
    compared = {task.suite for task in TASKS}
    assert compared.isdisjoint(NOT_COMPARED)
    assert compared | set(NOT_COMPARED) == set(suite_names())
    assert set(golden["tasks"]) == {task.name for task in TASKS}


def test_the_page_names_every_difference(golden: dict[str, Any]) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(golden["lm_eval"], golden["tasks"]), "run make pages"


def test_a_prompt_that_differs_is_noticed(golden: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="needs the extra media")
    (task,) = [entry for entry in TASKS if entry.name == "hellaswag_likelihood/hellaswag"]
    suite = local_suite(task.suite, SHARED, tmp_path, local_image(tmp_path))
    (dataset,) = suite.definition["datasets"]
    dataset["params"]["preprocess_kwargs"]["template"] = "{{ question }} "
    digests = [digest(prompt) for prompt in our_prompts(task, suite, tmp_path)]
    assert not set(digests) & set(golden["tasks"][task.name]["prompts"])
