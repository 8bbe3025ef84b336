"""Stored responses under other metrics: nothing is asked, nothing is scored twice, and the result can be kept."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from gage_eval.base.errors import InputError
from gage_eval.cli.main import main
from gage_eval.config.models import MetricConfig
from gage_eval.pipeline.score_row import metric_spec
from gage_eval.runs import RunOptions, RunOutcome, run_inline
from gage_eval.runs.folder import list_runs
from gage_eval.runs.gc_roots import find_roots
from gage_eval.runs.options import Locations
from gage_eval.runs.record import RescoredRecord
from gage_eval.runs.rescore import RescoredRun, as_in_run, rescore
from gage_eval.runs.results.stored import StoredRun
from gage_eval.runs.resume import resumed
from gage_eval.store import Store
from tests.support.workspace import JUDGED, ROWS, write_config

TWO = [
    {"dataset_id": "sums", "params": {"path": "rows.jsonl"}},
    {"dataset_id": "more", "params": {"path": "more.jsonl"}},
]


def run(here: Path, run_id: str = "first", **changes: Any) -> RunOutcome:
    write_config(here, **changes)
    return run_inline(RunOptions(config="mine.yaml", store="store", run_id=run_id))


def again(*metrics: Any, run_id: str = "first", **options: Any) -> RescoredRun:
    stored = StoredRun.open(Locations.at("store"), run_id)
    return rescore(
        stored,
        Store.open("store"),
        [metric if isinstance(metric, MetricConfig) else metric_spec(metric) for metric in metrics],
        **options,
    )


def values(rescored: RescoredRun) -> dict[str, float | None]:
    return {f"{metric.task_id}/{metric.metric_id}": metric.value for metric in rescored.summary.metrics}


def test_other_metrics_give_what_a_run_with_them_gives(here: Path) -> None:
    run(here, datasets=TWO)
    # Neither the data nor the model is looked at.
    for name in ("rows.jsonl", "more.jsonl", "mine.yaml"):
        (here / name).rename(here / f"away-{name}")
    rescored = again("numeric_match", "contains")
    for name in ("rows.jsonl", "more.jsonl", "mine.yaml"):
        (here / f"away-{name}").rename(here / name)
    whole = run(here, "whole", datasets=TWO, metrics=["numeric_match", "contains"])
    assert values(rescored) == {
        f"{metric.task_id}/{metric.metric_id}": metric.value for metric in whole.summary.metrics
    }
    assert [task.model_dump() for task in rescored.summary.tasks] == [task.model_dump() for task in whole.summary.tasks]
    assert whole.results["sums", "auto_eval"].cached, "the run finds the scores that are there"


def test_a_metric_is_named_as_the_table_prints_it(here: Path) -> None:
    """With its own parameters and filters, and nothing but the aggregation changed."""
    own = {"metric_id": "own", "implementation": "contains", "filters": ["last_number", "first_number"]}
    outcome = run(here, metrics=[own], tasks=[{"task_id": "sums", "dataset_id": "sums", "replicates": 2}])
    (before,) = [metric for metric in outcome.summary.metrics if metric.name == "own,last_number"]
    stored = StoredRun.open(Locations.at("store"), "first")
    (after,) = again(as_in_run(stored, metric_spec("own,last_number pass@2"))).summary.metrics
    assert (after.name, after.value) == ("own,last_number pass@2", before.value)
    with pytest.raises(InputError, match="Did you mean 'last_number'"):
        as_in_run(stored, metric_spec("own,last_nmber pass@2"))
    with pytest.raises(InputError, match="Did you mean 'pass@2'"):
        metric_spec("own pas@2")
    assert as_in_run(stored, metric_spec("contains")).filters == []


def test_only_what_is_new_is_computed(here: Path) -> None:
    run(here)
    first = again("exact_match", "contains")
    assert first.results["sums", "auto_eval"].counts["computed_metrics"] == 1
    assert again("exact_match", "contains").results["sums", "auto_eval"].cached


def test_one_task_of_several(here: Path) -> None:
    run(here, datasets=TWO)
    assert list(values(again("contains", tasks=["more"]))) == ["more/contains"]
    with pytest.raises(InputError, match="Did you mean 'more'"):
        again("contains", tasks=["mor"])


def test_a_judges_verdicts_are_scored_where_there_are_some(here: Path) -> None:
    run(here, "judged", **JUDGED)
    assert values(again("judge_threshold(threshold=2)", run_id="judged")) == {"sums/judge_threshold": 1.0}
    run(here)
    with pytest.raises(InputError, match="has no judge"):
        again("judge_threshold")


def test_a_run_that_was_not_answered_is_refused(here: Path) -> None:
    backends = [{"backend_id": "model", "type": "dummy", "config": {"error_rate": 1.0}}]
    with pytest.raises(Exception, match="ended in an error"):
        run(here, "failed", backends=backends)
    table = again("contains", run_id="failed").summary.metrics[0]
    assert (table.n, table.error) == (0, ROWS)
    write_config(here, metrics=["exact_match"], datasets=[{"dataset_id": "x", "params": {"path": "none.jsonl"}}])
    with pytest.raises(InputError):
        run_inline(RunOptions(config="mine.yaml", store="store", run_id="empty"))
    with pytest.raises(InputError, match=r"standardize of task .* has not finished"):
        again("contains", run_id="empty")


def test_two_metrics_of_one_name_are_refused(here: Path) -> None:
    run(here)
    with pytest.raises(InputError, match="two metrics are named 'contains'"):
        again("contains", "contains(case_sensitive=True)")


def test_a_saved_scoring_is_a_run_to_look_at_and_to_keep(here: Path) -> None:
    run(here)
    rescored = again("contains")
    folder = rescored.save("second")
    kept = StoredRun.open(Locations.at("store"), "second")
    assert kept.state == "completed"
    assert kept.summary == rescored.summary
    assert kept.summary.run.run_id == "second"
    assert kept.record.rescored == RescoredRecord(
        run_id="first", metrics=[{"metric_id": "contains", "implementation": "contains"}]
    )
    assert folder.read("report.html")
    ids = {*kept.outputs["sums", "auto_eval"].values(), *kept.outputs["sums", "infer"].values()}
    assert ids <= find_roots(Store.open("store"), Locations.at("store")).artifacts
    assert values(again("exact_match", run_id="second")) == {"sums/exact_match": pytest.approx(1 / ROWS)}
    with pytest.raises(InputError, match="resume that one"):
        resumed("second", store="store")


def test_the_command_prints_the_table_or_json_and_saves(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(here)
    command = ["score", "first", "--store", "store", "--metric", "contains", "--metric", "numeric_match(tolerance=1)"]
    assert _exit(command) == 0
    shown = capsys.readouterr().out
    assert "contains" in shown
    assert "numeric_match" in shown
    assert list_runs("store/runs") == ["first"]
    assert _exit([*command, "--json", "--save", "--run-id", "kept"]) == 0
    assert orjson.loads(capsys.readouterr().out)["run"]["run_id"] == "kept"
    assert StoredRun.open(Locations.at("store"), "kept").status == "completed"
    for wrong, said in (
        (["score", "first", "--store", "store", "--metric", "contain"], "Did you mean 'contains'"),
        (["score", "frist", "--store", "store", "--metric", "contains"], "Did you mean 'first'"),
        ([*command, "--run-id", "x"], "needs --save"),
        (
            ["score", "first", "--store", "store", "--metric", ""],
            "metric: cannot read '': write a name, or name(key='value', …).\n",
        ),
    ):
        assert _exit(wrong) == 2
        assert said in capsys.readouterr().err


def _exit(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_a_metric_that_scores_no_row_is_shown_and_fails_the_command(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(here)
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["score", "first", "--store", "store", "--metric", "exact_match(label_field='metadata.nowhere')"])
    printed = capsys.readouterr()
    assert ended.value.code == 1
    assert "exact_match" in printed.out
    assert "scored none of the" in printed.err
