"""The Python API: run a config from a script or a notebook, and get its numbers and rows."""

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

import gage_eval
from gage_eval.base.errors import ConfigError, InputError, RunFailed
from gage_eval.report.console import score_text
from gage_eval.report.notebook import run_html
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.results.export import EXPORTED
from gage_eval.runs.resume import resumed
from gage_eval.scoring.metrics.score_rows import FEWEST_ROWS
from tests.support.runs import stage_states
from tests.support.workspace import ROWS, config, write_config, write_rows

COLUMNS = [
    "model", "task_id", "metric_id", "filter", "value_key", "value", "stderr", "ci_low", "ci_high", "n", "truncated",
    "looped", "unparsed", "unscored", "error",
]  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    write_config(tmp_path)
    return tmp_path


def test_scores_are_a_frame_with_one_row_a_metric() -> None:
    run = gage_eval.run("mine.yaml", store="store", run_id="first")
    scores = run.scores()
    assert list(scores.columns) == COLUMNS
    (row,) = scores.to_dict("records")
    assert (row["task_id"], row["metric_id"], row["n"]) == ("sums", "exact_match", ROWS)
    assert row["value"] == pytest.approx(1 / ROWS)
    assert row["ci_low"] < row["value"] < row["ci_high"]


def test_samples_come_with_their_responses_and_scores() -> None:
    run = gage_eval.run("mine.yaml", store="store")
    table = run.samples()
    assert table.schema == EXPORTED
    second = table.to_pylist()[1]
    assert second["id"] == "s1"
    assert orjson.loads(second["predict_result"])[0]["answer"] == "2"
    assert orjson.loads(second["eval_result"])["exact_match"][0]["values"] == {"score": 1}
    assert run.samples("sums") == table
    assert run.responses().num_rows == ROWS


def test_the_process_it_runs_in_stays_as_its_owner_set_it() -> None:
    before = gc.get_threshold(), sys.getswitchinterval()
    mine = (701, 11, 12), 0.004
    gc.set_threshold(*mine[0])
    sys.setswitchinterval(mine[1])
    try:
        gage_eval.run("mine.yaml", store="store")
        assert (gc.get_threshold(), sys.getswitchinterval()) == mine
    finally:
        gc.set_threshold(*before[0])
        sys.setswitchinterval(before[1])


def test_sequential_tasks_come_one_after_the_other(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_SEQUENTIAL", "1")
    names = ["a", "b", "c"]
    write_config(here, datasets=[{"dataset_id": name, "params": {"path": "rows.jsonl"}} for name in names])
    run = gage_eval.run("mine.yaml", store="store")
    events = map(orjson.loads, (Path(run.folder) / "events.jsonl").read_bytes().splitlines())
    order = [event["task_id"] for event in events if event["stage"]]
    assert order == sorted(order)


def test_options_reach_the_run() -> None:
    run = gage_eval.run(
        "mine.yaml", store="store", max_samples=2, overrides=["metrics=[contains]"], concurrency=1, run_id="few"
    )
    assert (run.run_id, run.samples().num_rows) == ("few", 2)
    assert list(run.scores()["metric_id"]) == ["contains"]


def test_a_mapping_is_a_config_that_can_be_resumed(here: Path) -> None:
    run = gage_eval.run(config(), store="store")
    assert run.summary.name == "small"
    again = resumed(run.run_id, store="store")
    assert again.base_dir == here
    assert stage_states(run_inline(again).folder) == {"cached"}
    assert {file.name for file in here.iterdir()} == {"mine.yaml", "rows.jsonl", "store"}


def test_a_mapping_with_mistakes_leaves_nothing(here: Path) -> None:
    with pytest.raises(ConfigError, match="no metric 'exact_mach'"):
        gage_eval.run(config(metrics=["exact_mach"]))
    with pytest.raises(InputError, match="YAML has no form"):
        gage_eval.run(config(metadata={"name": object()}))
    assert not (here / ".gage").exists()


def test_a_second_run_is_cached_unless_a_stage_is_refreshed() -> None:
    gage_eval.run("mine.yaml", store="store")
    again = gage_eval.run("mine.yaml", store="store")
    assert "infer" in again.summary.run.cached_stages
    fresh = gage_eval.run("mine.yaml", store="store", refresh=["infer"])
    assert "infer" not in fresh.summary.run.cached_stages


def test_it_works_where_an_event_loop_runs() -> None:
    async def notebook() -> gage_eval.Run:
        return gage_eval.run("mine.yaml", store="store")

    assert asyncio.run(notebook()).status == "completed"


def test_nothing_is_printed_unless_progress_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    gage_eval.run("mine.yaml", store="store")
    assert capsys.readouterr() == ("", "")
    gage_eval.run("mine.yaml", store="store", progress=True)
    assert "infer" in capsys.readouterr().out


def test_an_earlier_run_is_opened_by_its_name() -> None:
    gage_eval.run("mine.yaml", store="store", run_id="first")
    opened = gage_eval.open_run("first", store="store")
    assert (opened.tasks, opened.status) == (("sums",), "completed")
    assert opened.samples().num_rows == ROWS
    with pytest.raises(InputError, match="no run 'frist'"):
        gage_eval.open_run("frist", store="store")


def test_a_notebook_shows_the_score_table_and_names_stay_text(here: Path) -> None:
    run = gage_eval.run("mine.yaml", store="store")
    shown = run._repr_html_()
    (score,) = run.summary.tasks[0].metrics
    assert f"<td>{score_text(score)}</td>" in shown
    assert all(f"<th>{name}</th>" in shown for name in ("task", "metric", "score", "n", "unparsed"))
    hostile = run.summary.tasks[0].model_copy(update={"task_id": "<img src=x onerror=alert(1)>"})
    text = run_html("<script>", "completed", run.summary.model_copy(update={"tasks": [hostile]}))
    assert "<img" not in text
    assert "<script" not in text
    assert run_html("first", "running", None) == "<p><b>first</b> running</p>"


def test_a_failed_run_says_what_is_missing() -> None:
    with pytest.raises(RunFailed):
        gage_eval.run("mine.yaml", store="store", run_id="bad", overrides=["backends[0].config.fail_sample_ids=[s1]"])
    bad = gage_eval.open_run("bad", store="store")
    assert bad.status == "failed"
    with pytest.raises(InputError, match="gage resume bad"):
        bad.scores()
    with pytest.raises(InputError, match="auto_eval of task 'sums' has not finished"):
        bad.samples()
    assert bad.responses().num_rows == ROWS


def test_a_wrong_task_is_named_with_the_closest() -> None:
    run = gage_eval.run("mine.yaml", store="store")
    with pytest.raises(InputError, match="Did you mean 'sums'"):
        run.samples("sum")


def test_what_the_package_does_not_have_is_said() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        gage_eval.nothing  # noqa: B018


@pytest.mark.parametrize(
    "first", ["import gage_eval", "import gage_eval.runs", "from gage_eval.runs import RunOptions"]
)
def test_importing_is_light_and_in_any_order(first: str) -> None:
    program = (
        f"{first}\nimport sys, gage_eval\n"
        "assert callable(gage_eval.run) and callable(gage_eval.open_run)\n"
        "from gage_eval import Run, run\nassert callable(run)\n"
        "assert not {'prefect', 'pandas', 's3fs', 'aiohttp'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_alone_loads_no_arrow() -> None:
    program = "import gage_eval, sys; assert not {'pyarrow', 'numpy', 'pydantic'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_run_is_read_from_the_store_that_it_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(tmp_path)
    write_rows(tmp_path)
    named = run_inline(RunOptions.of({"config": str(tmp_path / "mine.yaml"), "store": str(tmp_path / "of-the-block")}))
    monkeypatch.setattr("gage_eval.local.launch.launch_run", lambda options, **_: named)
    done = gage_eval.run(tmp_path / "mine.yaml", store="block:kept")
    assert done.samples().num_rows == ROWS


@pytest.mark.parametrize("guard", ["if True:", 'if __name__ == "__main__":'])
def test_a_script_without_a_guard_does_not_wait_for_itself(tmp_path: Path, guard: str) -> None:
    write_rows(tmp_path, 2 * FEWEST_ROWS)
    write_config(tmp_path)
    (tmp_path / "script.py").write_text(
        f"import gage_eval\n{guard}\n    gage_eval.run('mine.yaml', store='store', run_id='first', inline=True)\n"
    )
    env = {**os.environ, "GAGE_EVAL_AUTOEVAL_WORKERS": "2"}
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280, check=False)
    said = 'put what starts it under if __name__ == "__main__":'
    assert (done.returncode, said in done.stderr) == ((1, True) if guard == "if True:" else (0, False)), done.stderr
    status = gage_eval.open_run("first", store=str(tmp_path / "store")).status
    assert status == ("failed" if guard == "if True:" else "completed")


@pytest.mark.parametrize("name", ["task_ids", "sample_ids", "judges", "overrides", "refresh"])
def test_a_text_in_place_of_a_list_is_not_read_letter_by_letter(name: str) -> None:
    with pytest.raises(gage_eval.GageError, match=f"{name}: must be a list, not 'sums'"):
        gage_eval.run("mine.yaml", store="store", **{name: "sums"})
