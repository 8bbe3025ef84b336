"""The suites of log-likelihoods run with a model of 135 million parameters: a few rows each, one start of the engine.

``make test-suites`` runs this; ``make test-suites ROWS=20`` takes more rows. ``test_every_suite_command.py`` runs every
suite from the command line.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.local_suites import LocalSuite, local_suite, missing_origins, suite_names, template_of
from gage_eval.runs import RunOptions, run_inline

pytestmark = [pytest.mark.suites, pytest.mark.timeout(480)]

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
ENGINES = ROOT / ".venv-vllm" / "bin" / "python"
MODEL = ROOT / "build" / "smollm2-135m"
ROWS = int(os.environ.get("ROWS", "3"))


def suites_of_likelihoods(folder: Path) -> list[LocalSuite]:
    """The suites of log-likelihoods that run here."""
    named = {name: template_of(name)[1]["suite"].get("needs", ()) for name in suite_names()}
    here = [name for name, needs in named.items() if "likelihood" in needs and not missing_origins(name, SHARED)]
    return [local_suite(name, SHARED, folder, "") for name in here]


def merged(suites: Iterable[LocalSuite], backend: dict[str, Any]) -> dict[str, Any]:
    """One config of several suites, with one model. Ids get the suite's name in front."""
    whole: dict[str, Any] = {
        "datasets": [],
        "tasks": [],
        "prompts": [],
        "groups": [],
        "backends": [{"backend_id": "model", **backend}],
        "role_adapters": [{"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"}],
    }
    for suite in suites:
        for section, keys in IDS.items():
            for item in json.loads(json.dumps(suite.definition.get(section, []))):
                whole[section].append(renamed(item, keys, suite.name))
        for dataset in whole["datasets"][-len(suite.definition["datasets"]) :]:
            path = dataset["params"].get("path")
            if isinstance(path, str):
                dataset["params"]["path"] = str(suite.base_dir / path)
    for task in whole["tasks"]:
        task |= {"adapter_id": "dut", "max_samples": ROWS}
        if "few_shot" in task:
            # Each candidate is computed after its whole context: five examples take minutes on a CPU.
            task["few_shot"]["k"] = 1
    return whole


IDS = {
    "datasets": ("dataset_id",),
    "prompts": ("prompt_id",),
    "tasks": ("task_id", "dataset_id"),
    "groups": ("group_id", "tasks"),
}


def renamed(item: dict[str, Any], keys: Iterable[str], suite: str) -> dict[str, Any]:
    for key in keys:
        if isinstance(item.get(key), list):
            item[key] = [f"{suite}.{name}" for name in item[key]]
        elif key in item:
            item[key] = f"{suite}.{item[key]}"
    if "few_shot" in item:
        item["few_shot"]["dataset_id"] = f"{suite}.{item['few_shot']['dataset_id']}"
    return item


def check(summary: Any, suites: list[LocalSuite]) -> None:
    """Every task of every suite asked its rows, and every metric has a number over them."""
    assert {task.task_id.partition(".")[0] for task in summary.tasks} == {suite.name for suite in suites}
    for task in summary.tasks:
        answered = task.responses.get("ok", 0) + task.responses.get("truncated", 0)
        assert 1 <= answered == task.sample_count <= ROWS, (task.task_id, task.responses)
        assert task.metrics, task.task_id
        for metric in task.metrics:
            assert metric.value is not None, (task.task_id, metric.name)
            assert metric.n == answered, (task.task_id, metric.name)


def run(config: dict[str, Any], folder: Path) -> Any:
    file = folder / "suites.yaml"
    file.write_text(yaml.safe_dump(config, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return run_inline(RunOptions(config=str(file), store=str(folder / "store"), run_id="small")).summary


def test_the_suites_of_log_likelihoods_run_on_one_engine(tmp_path: Path) -> None:
    if not (ENGINES.is_file() and (MODEL / "config.json").is_file()):
        pytest.skip("needs the second environment and its model: make install-vllm")
    suites = suites_of_likelihoods(tmp_path)
    assert suites
    backend = {
        "type": "transformers",
        "config": {"model_path": str(MODEL), "python": str(ENGINES), "device": "cpu", "dtype": "float32"},
    }
    check(run(merged(suites, backend), tmp_path), suites)
