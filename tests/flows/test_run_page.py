"""What the page of a flow run says: the state's message, the stages' lines, progress that moves."""

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from flows.page import score_line, stage_line
from flows.progress import Progress
from flows.reporter import Report, Reporter
from flows.states import end_state
from gage_eval.errors import GageError
from gage_eval.observability.events import StageProgress
from gage_eval.observability.results import StageResult
from gage_eval.report.suite_run import SuiteRun
from gage_eval.runs.figures import progress_line
from tests.report.run_summaries import metric_row, summary

FIGURES = {"rows_per_s": 212.0, "in_flight": 64, "retried": 3}


def test_the_message_of_a_completed_run_is_its_score() -> None:
    assert score_line(summary()) == "exact_match,strict-match 0.842 ± 0.020 · 1,319 samples"
    assert score_line(summary([])) == "no scores · 1,319 samples"


def test_a_modified_suite_says_so_beside_its_score() -> None:
    changed = SuiteRun(name="gsm8k", version="v1", digest="d", modified=["tasks[0].max_samples"])
    modified = summary().model_copy(update={"suite": changed})
    assert score_line(modified) == "exact_match,strict-match 0.842 ± 0.020 (modified) · 1,319 samples"


def test_messages_have_no_character_that_a_database_refuses() -> None:
    said = "the endpoint said: \x00\x1b[2J \ud800\nin two lines é"
    for state in (end_state(GageError(said)), end_state(ValueError(said)), end_state(SystemExit(said))):
        assert state.message is not None
        assert state.message.endswith("the endpoint said: ��[2J �\nin two lines é")


def test_several_tasks_are_named_and_the_rest_is_counted() -> None:
    one = summary([metric_row(), metric_row(metric_id="other")])
    (task,) = one.tasks
    several = [task.model_copy(update={"task_id": f"t{number}"}) for number in range(5)]
    line = score_line(one.model_copy(update={"tasks": several}))
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


class _Api:
    """Stands in for the client of an API: keeps the artifacts."""

    def __init__(self) -> None:
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.answers = True

    def request(self, method: str, path: str, json: dict[str, Any]) -> "_Api":
        if not self.answers:
            raise ConnectionError
        self._id = path.removeprefix("/artifacts/") or str(uuid4())
        self.artifacts[self._id] = {**self.artifacts.get(self._id, {}), **json}
        return self

    def json(self) -> dict[str, str]:
        return {"id": self._id}


class _Reporter(Reporter):
    """Delivers reports when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Report] = []

    def send(self, report: Report) -> None:
        self.waiting.append(report)

    def deliver(self, api: _Api) -> None:
        while self.waiting:
            report: Callable[[Any], None] = self.waiting[0]
            report(api)
            self.waiting.pop(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def _tell(shown: Progress, done: int, *, stage: str = "infer", total: int | None = 100) -> None:
    shown.tell(StageProgress("sums", stage, done, total, {"rows_per_s": 10.0}))


def test_one_artifact_per_stage_moves_and_the_log_says_so_now_and_then(clock: list[float]) -> None:
    flow_run, task_run, said = UUID(int=1), UUID(int=2), list[str]()
    api, reporter = _Api(), _Reporter()
    shown = Progress(flow_run, reporter, lambda stage_id: task_run, lambda text, level: said.append(text))

    for done in range(0, 80, 2):
        _tell(shown, done)
        reporter.deliver(api)
        clock[0] += 1.0
    _tell(shown, 100)
    shown.ended(("sums", "infer"))
    reporter.deliver(api)

    (artifact,) = api.artifacts.values()
    assert artifact["type"] == "progress"
    assert artifact["key"] == "sums-infer"
    assert (artifact["flow_run_id"], artifact["task_run_id"]) == (str(flow_run), str(task_run))
    assert (artifact["data"], artifact["description"]) == (100.0, "100 of 100 · 10 rows/s")
    assert said == ["sums infer: 60 of 100 · 10 rows/s · about 4 s left"]


def test_while_the_api_is_silent_one_update_waits_and_then_shows_the_latest(clock: list[float]) -> None:
    api, reporter = _Api(), _Reporter()
    shown = Progress(UUID(int=1), reporter, lambda stage_id: None, lambda text, level: None)
    api.answers = False
    for done in range(50):
        _tell(shown, done)
        clock[0] += 2.0
        with pytest.raises(ConnectionError):
            reporter.deliver(api)
    assert len(reporter.waiting) == 1

    api.answers = True
    reporter.deliver(api)
    assert [one["data"] for one in api.artifacts.values()] == [49.0]


@pytest.mark.parametrize(("stage", "total"), [("load", 100), ("infer", None)])
def test_stages_that_ask_no_model_have_no_artifact(stage: str, total: int | None, clock: list[float]) -> None:
    reporter = _Reporter()
    shown = Progress(UUID(int=1), reporter, lambda stage_id: None, lambda text, level: None)
    _tell(shown, 1, stage=stage, total=total)
    shown.ended(("sums", stage))
    assert reporter.waiting == []
