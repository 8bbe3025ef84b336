"""The one reader of runs: everything of a sample side by side, page by page, also while the run goes on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gage_eval
from gage_eval.base.errors import BudgetSpent, InputError, RunFailed
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.calls import PendingResponses
from gage_eval.runs.results.explain import explained, tally
from gage_eval.runs.results.outcomes import RowFilter
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.store import Artifact
from tests.support.workspace import JUDGED, ROWS, write_config, write_rows

MANY = 10_000
LIGHT = {"row_index", "sample_id", "replicate", "status", "error_kind", "completion_tokens", "filter", "values"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    write_config(tmp_path)
    return tmp_path


def run(**options: Any) -> TaskReader:
    run_inline(RunOptions(config="mine.yaml", store="store", run_id="first", **options))
    return reader().task()


def reader() -> RunReader:
    return RunReader.open(Locations.at("store"), "first")


def test_a_row_has_everything_the_run_has_of_its_sample(here: Path) -> None:
    write_config(here, **JUDGED)
    task = run()
    row = list(task.rows())[1]
    assert (row.task_id, row.row_index, row.sample_id, row.sample["label"]) == ("sums", 1, "s1", "2")
    assert [(response["replicate"], response["status"], response["answer"]) for response in row.responses] == [
        (0, "ok", "2")
    ]
    assert [entry["source"] for entry in row.telemetry] == ["sent"]
    assert [judgment["score"] for judgment in row.judgments] == [3]
    assert [score["values"] for score in row.scores["exact_match"]] == [{"score": 1}]
    calls = task.calls(row)
    assert [(call.stage, call.adapter_id, call.as_sent) for call in calls] == [
        ("infer", "dut", True),
        ("judge", "judge", True),
    ]
    assert calls[1].request["messages"][0]["content"] == "Is 2 right? Expected: 2"


def test_replicates_of_a_sample_stand_in_one_row_and_are_told_apart(here: Path) -> None:
    write_config(here, tasks=[{"task_id": "twice", "dataset_id": "sums", "replicates": 2}])
    task = run()
    row = next(task.rows())
    assert [response["replicate"] for response in row.responses] == [0, 1]
    assert [score["replicate"] for score in row.scores["exact_match"]] == [0, 1]
    wrong = RowFilter(outcomes=frozenset({"wrong"}), measure=task.measure())
    assert (task.count(wrong), tally(task, wrong).matching) == (ROWS - 1, 2 * (ROWS - 1))
    assert [(answer.sample_id, answer.replicate) for _, answer in explained(task, wrong, limit=3)] == [
        ("s0", 0), ("s0", 1), ("s2", 0),
    ]  # fmt: skip


def test_filters_by_id_status_and_outcome_meet(here: Path) -> None:
    task = run()
    measure = task.measure()
    wrong = RowFilter(outcomes=frozenset({"wrong"}), measure=measure)
    assert [row.sample_id for row in task.rows(wrong)] == ["s0", "s2", "s3", "s4", "s5"]
    assert [row.sample_id for row in task.rows(wrong, start=1, limit=2)] == ["s2", "s3"]
    both = RowFilter(ids=("s1", "s2"), outcomes=frozenset({"wrong"}), measure=measure)
    assert [row.sample_id for row in task.rows(both)] == ["s2"]
    assert [row.sample_id for row in task.rows(RowFilter(statuses=frozenset({"error"})))] == []
    assert (task.count(), task.count(wrong), task.count(both)) == (ROWS, ROWS - 1, 1)


def test_a_missing_task_sample_or_metric_is_said(here: Path) -> None:
    task = run()
    assert task.find("nope") is None
    with pytest.raises(InputError, match=r"no task 'sum'\. Tasks: sums\. Did you mean 'sums'"):
        reader().task("sum")
    with pytest.raises(InputError, match=r"no metric 'exact_mach'\. Metrics: exact_match\. Did you mean"):
        task.measure("exact_mach")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[tuple[str, int, Any]]]:
    """The parts that were read since the last look: (table, part, columns)."""
    seen: list[tuple[str, int, Any]] = []
    whole = Artifact.read

    def read(self: Artifact, part_index: int, columns: Any = None, **rows: Any) -> pa.Table:
        seen.append((self.manifest.table, part_index, columns))
        return whole(self, part_index, columns, **rows)

    monkeypatch.setattr(Artifact, "read", read)

    def look() -> list[tuple[str, int, Any]]:
        reads_so_far = list(seen)
        seen.clear()
        return reads_so_far

    return look


def test_a_page_of_a_large_run_reads_one_part_and_a_filter_only_its_columns(
    here: Path, reads: Callable[[], list[tuple[str, int, Any]]]
) -> None:
    write_rows(here, MANY)
    task = run()
    assert len(task.parts) > 2
    reads()
    assert [row.sample_id for row in task.rows(start=9_000, limit=2)] == ["s9000", "s9001"]
    assert {part for _, part, _ in reads()} == {task.parts[-1]}
    wrong = RowFilter(outcomes=frozenset({"wrong"}), measure=task.measure())
    assert (task.count(wrong), tally(task, wrong).matching) == (MANY - 1, MANY - 1)
    assert all(columns is not None and set(columns) <= LIGHT for _, _, columns in reads())
    first = next(task.rows(wrong, start=MANY - 2, limit=1))
    assert first.sample_id == f"s{MANY - 1}"
    whole = [(table, part) for table, part, columns in reads() if columns is None]
    assert {part for _, part in whole} == {task.parts[-1]}, "only the part that holds the row is decoded"


def test_a_stage_that_stopped_for_errors_is_read_as_far_as_it_got(here: Path) -> None:
    backend = {"backend_id": "model", "type": "dummy", "config": {"fail_sample_ids": ["s1"]}}
    write_config(here, backends=[backend])
    with pytest.raises(RunFailed):
        run()
    task = reader().task()
    failed = RowFilter(outcomes=frozenset({"error"}))
    ((_, answer),) = explained(task, failed)
    assert answer.sample_id == "s1"
    assert answer.failure is not None
    assert answer.failure.endswith("the dummy was told to fail")
    assert [row.scores for row in task.rows()] == [{}] * ROWS
    with pytest.raises(InputError, match=r"auto_eval of task 'sums' has not finished .* gage resume first"):
        task.measure()


def test_answers_that_are_only_in_the_logs_are_read(here: Path) -> None:
    write_config(here, limits={"tokens": 12})
    with pytest.raises(BudgetSpent):
        run(concurrency=1)
    task = reader().task()
    assert isinstance(task.responses, PendingResponses)
    rows = list(task.rows())
    answered = [row for row in rows if row.responses]
    assert 0 < len(answered) < len(rows) == ROWS
    assert answered[0].responses[0]["answer"] == "2"
    assert [call.as_sent for call in task.calls(answered[0])] == [True]
    assert task.calls(rows[-1])[0].response is None
    assert gage_eval.open_run("first", store="store").responses().num_rows == len(answered)


def test_a_stage_that_is_computed_again_shows_its_new_answers_and_not_the_stored_ones(here: Path) -> None:
    assert len([row for row in run().rows() if row.responses]) == ROWS
    write_config(here, limits={"tokens": 12})
    options = RunOptions(config="mine.yaml", store="store", run_id="second", refresh=("infer",), concurrency=1)
    with pytest.raises(BudgetSpent):
        run_inline(options)
    task = RunReader.open(Locations.at("store"), "second").task()
    assert 0 < len([row for row in task.rows() if row.responses]) < ROWS


def test_the_python_api_reads_rows_page_by_page(here: Path) -> None:
    opened = gage_eval.run("mine.yaml", store="store")
    assert [row.sample_id for row in opened.rows(start=4)] == ["s4", "s5"]
    assert [row.sample_id for row in opened.rows(outcomes=["wrong"], limit=2)] == ["s0", "s2"]
    assert [row.sample_id for row in opened.rows(ids=["s3"])] == ["s3"]
