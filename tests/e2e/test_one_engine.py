"""An engine starts once per run and answers all roles of all tasks, inline and under Prefect."""

import sys
from pathlib import Path
from typing import Any

import pytest
from support.runs import gage, stage_outputs, write_config

from gage_eval.store import Store

FAKE = Path(__file__).parents[1] / "support" / "fake_vllm.py"
TASKS, ROWS, REPLICAS = 4, 50, 2


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Tasks with a judge, all asked of one backend whose vLLM is `fake_vllm`."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text('{"max_position_embeddings": 512, "bos_token_id": 7}')
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    python.chmod(0o755)
    engine: dict[str, Any] = {"model_path": "checkpoint", "python": "./python", "replicas": REPLICAS}
    adapters = [
        {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "engine"},
        {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "engine", "prompt_id": "verdict"},
    ]
    write_config(
        tmp_path,
        "",
        rows=ROWS,
        backends=[{"backend_id": "engine", "type": "vllm", "config": engine}],
        prompts=[{"prompt_id": "verdict", "template": "Is {{ model_answer }} right? SCORE: 1"}],
        role_adapters=adapters,
        tasks=[{"task_id": f"t{k}", "dataset_id": "sums", "sampling_params": {"seed": k}} for k in range(TASKS)],
    )
    return tmp_path


def served(folder: Path) -> tuple[int, list[tuple[int, int]]]:
    """How many engines were started; of each task its answers, and the processes that gave them."""
    store = Store.open(str(folder / ".gage"))
    outputs = stage_outputs(folder, "whole")
    tasks = []
    for task in range(TASKS):
        answers = store.artifact(outputs[f"t{task}/infer"]["responses"]).table(columns=["answer"])["answer"].to_pylist()
        tasks.append((len(answers), len({answer.split()[0] for answer in answers})))
    return len((folder / "starts").read_text().splitlines()), tasks


def test_one_engine_serves_a_whole_run_inline(suite: Path) -> None:
    gage(suite, "run", "sums.yaml", "--inline", "--run-id", "whole", env={"FAKE_LOG": str(suite / "starts")})
    assert served(suite) == (REPLICAS, [(ROWS, REPLICAS)] * TASKS)


@pytest.mark.server
def test_one_engine_serves_a_whole_run_under_prefect(suite: Path, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("prefect")
    env = {**server.env, "FAKE_LOG": str(suite / "starts")}
    gage(suite, "run", "sums.yaml", "--prefect", "--run-id", "whole", env=env)
    assert served(suite) == (REPLICAS, [(ROWS, REPLICAS)] * TASKS)
