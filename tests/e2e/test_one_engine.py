"""An engine starts once per run and answers all roles of all tasks, inline and under Prefect."""

from pathlib import Path

import pytest
from support.engines import starts, write_fake_vllm
from support.runs import gage, stage_outputs, write_config

from gage_eval.store import Store

TASKS, ROWS, REPLICAS = 4, 50, 2


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Tasks with a judge, all asked of one backend whose vLLM is `fake_vllm`."""
    engine = {**write_fake_vllm(tmp_path), "replicas": REPLICAS}
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
    return len(starts(folder)), tasks


def test_one_engine_serves_a_whole_run_inline(suite: Path) -> None:
    gage(suite, "run", "sums.yaml", "--inline", "--run-id", "whole")
    assert served(suite) == (REPLICAS, [(ROWS, REPLICAS)] * TASKS)


@pytest.mark.server
def test_one_engine_serves_a_whole_run_under_prefect(suite: Path, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("prefect")
    gage(suite, "run", "sums.yaml", "--prefect", "--run-id", "whole", env=server.env)
    assert served(suite) == (REPLICAS, [(ROWS, REPLICAS)] * TASKS)
