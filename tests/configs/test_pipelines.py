"""The pipelines that come with the project, on the real data they are for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.endpoint import MockEndpoint, mock_endpoint

import gage_eval

PUBLISHED = {
    "6b_finetuning": 0.216831,
    "6b_verification": 0.390447,
    "175b_finetuning": 0.347233,
    "175b_verification": 0.562547,
}


@pytest.fixture
def pipelines(repo_root: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of pipelines, with LOCAL_DATASETS_ROOT pointing at the reference data."""
    monkeypatch.setenv("LOCAL_DATASETS_ROOT", str(shared / "data"))
    return repo_root / "configs" / "pipelines"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[MockEndpoint]:
    with mock_endpoint() as running:
        monkeypatch.setenv("MODEL_BASE_URL", running.url)
        monkeypatch.setenv("MODEL_NAME", "mock")
        yield running


def test_the_replay_reproduces_the_four_published_accuracies(pipelines: Path, tmp_path: Path) -> None:
    run = gage_eval.run(str(pipelines / "replays" / "gsm8k_openai_solutions.yaml"), store=str(tmp_path), inline=True)

    scores = run.scores().set_index("task_id")
    assert {task: round(value, 6) for task, value in scores["value"].items()} == PUBLISHED
    assert set(scores["n"]) == {1319}


@pytest.mark.parametrize(("name", "rows"), [("gsm8k", 1319), ("piqa", 1838)])
def test_real_benchmarks_go_through_all_stages(
    pipelines: Path, endpoint: MockEndpoint, tmp_path: Path, name: str, rows: int
) -> None:
    run = gage_eval.run(str(pipelines / f"{name}.yaml"), store=str(tmp_path), inline=True)

    (task,) = run.summary.tasks
    assert (task.sample_count, task.rejects, task.responses["ok"]) == (rows, 0, rows)
    assert run.scores()["n"].tolist() == [rows]
    assert endpoint.stats()["requests"] == rows
