"""What the page of a flow run says: the state's message, the stages' lines, progress in words."""

from unittest.mock import Mock

import pytest

from flows.page import score_line, stage_line
from flows.states import completed, end_state
from gage_eval.base.errors import GageError
from gage_eval.base.stages import StageResult
from gage_eval.observability.events import StageProgress
from gage_eval.report.suite_run import SuiteRun
from gage_eval.runs import RunOutcome
from gage_eval.runs.results.formatting import progress_line
from tests.report.run_summaries import metric_row, summary

FIGURES = {"rows_per_s": 212.0, "in_flight": 64, "retried": 3}


def test_the_message_of_a_completed_run_is_its_score() -> None:
    assert score_line(summary()) == "exact_match,strict-match 0.842 ± 0.020 · 1,319 samples"
    assert score_line(summary([])) == "no scores · 1,319 samples"


def test_a_modified_suite_says_so_beside_its_score() -> None:
    changed = SuiteRun(name="gsm8k", version="v1", digest="d", modified=["tasks[0].max_samples"])
    modified = summary().model_copy(update={"suite": changed})
    assert score_line(modified) == "exact_match,strict-match 0.842 ± 0.020 (modified) · 1,319 samples"


def test_a_run_whose_answers_no_metric_could_read_is_no_plain_completed_one() -> None:
    rows = metric_row()["rows"]
    for unparsed, name in ((0, "Completed"), (rows - 1, "Completed"), (rows, "Unparsed")):
        run = RunOutcome("first", Mock(url="s3://runs/first"), summary([metric_row(unparsed=unparsed)]), {})
        state = completed(run)
        assert (state.is_completed(), state.name) == (True, name)
    other = summary([metric_row(unparsed=rows), metric_row(metric_id="other")])
    assert completed(RunOutcome("first", Mock(url=""), other, {})).name == "Completed", "another metric could read them"


def test_messages_have_no_character_that_a_database_refuses() -> None:
    said = "the endpoint said: \x00\x1b[2J \ud800\nin two lines é"
    for state in (end_state(GageError(said)), end_state(ValueError(said)), end_state(SystemExit(said))):
        assert state.message is not None
        assert state.message.endswith("the endpoint said: ��[2J �\nin two lines é")


def test_several_tasks_are_named_and_the_rest_is_counted() -> None:
    whole = summary([metric_row(), metric_row(metric_id="other")])
    (task,) = whole.tasks
    several = [task.model_copy(update={"task_id": f"t{number}"}) for number in range(5)]
    line = score_line(whole.model_copy(update={"tasks": several}))
    assert line.count("exact_match,strict-match 0.842 ± 0.020") == 3
    assert line.startswith("t0 exact_match,strict-match")
    assert "; 2 more · " in line


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (StageProgress("t", "infer", 1051, 1319, FIGURES),
         "1,051 of 1,319 · 212 rows/s · 64 in flight · 3 retried · about 1 s left"),
        (StageProgress("t", "infer", 0, 1319, {"in_flight": 64}), "0 of 1,319 · 64 in flight"),
        (StageProgress("t", "infer", 1319, 1319, {"rows_per_s": 212.0}), "1,319 of 1,319 · 212 rows/s"),
    ],
    ids=["running", "first", "last"],
)  # fmt: skip
def test_progress_is_told_in_words(event: StageProgress, line: str) -> None:
    assert progress_line(event) == line


@pytest.mark.parametrize(
    ("stage", "cached", "line"),
    [
        ("infer", False, "gsm8k infer: 1,319 rows · 268 reused · 526 requests/s, in 2.0 s"),
        ("infer", True, "gsm8k infer: cached, 1,319 rows"),
        ("report", True, "gsm8k report: cached"),
    ],
)
def test_the_log_says_what_a_stage_did_in_words(stage: str, cached: bool, line: str) -> None:
    counts = {"responses": 1319, "sent": 1051, "reused": 268}
    result = StageResult(stage=stage, task_id="gsm8k", key="k", outputs={}, cached=cached, counts=counts, seconds=2.0)
    assert stage_line(result) == line
