"""One run, one number: summary, report, console, viewer, SQL, frames, events, exports and Prefect's artifacts agree."""

import csv
import io
import json
import re
import zipfile
from html import unescape
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

import gage_eval
from flows.page import report_markdown, score_line
from gage_eval.cli.main import main
from gage_eval.report.console import artifact_rows, print_scores, score_rows, score_text
from gage_eval.report.summary import TaskMetric
from gage_eval.runs import RunOptions, RunOutcome, run_inline
from gage_eval.runs.options import Locations
from gage_eval.viewer.app import viewer_app
from gage_eval.viewer.open_runs import OpenRuns
from tests.support.runs import write_config, write_sums

KINDS = ["jsonl", "csv", "parquet", "per_sample_json", "lm-eval", "inspect"]
ROWS = 60


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    """Two tasks on recorded answers: all right, and a mixture of right, wrong, unparsed and missing ones."""
    folder = tmp_path_factory.mktemp("numbers")
    write_sums(folder / "sums.jsonl", ROWS)
    recorded: dict[str, list[dict[str, str]]] = {"right": [], "mixed": []}
    for i in range(ROWS):
        right = str(3 * i + 1)
        recorded["right"].append({"id": f"sum-{i}", "answer": right})
        said = {0: "I cannot say.", 1: "It is 5000.", 2: None}.get(i % 7, right)
        if said is not None:
            recorded["mixed"].append({"id": f"sum-{i}", "answer": said})
    for name, answers in recorded.items():
        (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in answers))
    replay = {name: {"path": f"{name}.jsonl", "answer_field": "answer"} for name in recorded}
    tasks = [{"task_id": name, "dataset_id": "sums", "adapter_id": name, "max_error_share": 1.0} for name in recorded]
    config = write_config(
        folder,
        "",
        rows=ROWS,
        backends=[{"backend_id": name, "type": "replay", "config": params} for name, params in replay.items()],
        tasks=tasks,
        export=KINDS,
        observability={"sample_rate": 1.0},
    )
    return run_inline(RunOptions(config=str(config), store=str(folder / "store"), run_id="first"))


@pytest.fixture
def store(outcome: RunOutcome) -> str:
    return outcome.folder.locations.store


@pytest.fixture
def folder(outcome: RunOutcome) -> Path:
    return Path(outcome.folder.location(""))


@pytest.fixture(params=["right", "mixed"])
def metric(request: pytest.FixtureRequest, outcome: RunOutcome) -> TaskMetric:
    """The number of each task, in the summary that all others are compared with."""
    (own,) = [metric for metric in outcome.summary.metrics if metric.task_id == request.param]
    return own


def test_the_run_has_all_kinds_of_rows_and_both_kinds_of_intervals(outcome: RunOutcome) -> None:
    right, mixed = (task.metrics[0] for task in outcome.summary.tasks)
    assert (right.value, right.n, mixed.n) == (1.0, ROWS, ROWS - mixed.error)
    assert (mixed.error, mixed.unparsed, mixed.value) == (9, 9, pytest.approx(33 / 51))
    assert re.fullmatch(r"1\.000 \[0\.\d+, 1\.0+\]", score_text(right)), (
        "an interval that is not symmetric has its ends"
    )


def test_summary_json_and_the_console_have_the_number(
    outcome: RunOutcome, folder: Path, metric: TaskMetric, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = orjson.loads((folder / "summary.json").read_bytes())
    (task,) = [task for task in kept["tasks"] if task["task_id"] == metric.task_id]
    assert task["metrics"][0]["raw_values"] == {"score": metric.value}
    assert [task["metrics"][0][name] for name in ("n", "ci_low", "ci_high", "unparsed", "error")] == [
        *(metric.n, metric.ci_low, metric.ci_high),
        *(metric.unparsed, metric.error),
    ]
    out = io.StringIO()
    print_scores(outcome.summary, stream=out)
    line = next(line for line in out.getvalue().splitlines() if line.startswith(metric.task_id))
    assert f"numeric_match  {score_text(metric)}" in line
    assert line.split()[-1] == str(metric.error)
    with pytest.raises(SystemExit):
        main(["show", "first", "--store", outcome.folder.locations.store, "--json"])
    shown = orjson.loads(capsys.readouterr().out)
    assert metric.value in _values(shown, "score")


def test_exports_have_the_number(folder: Path, metric: TaskMetric) -> None:
    def counted(samples: list[dict[str, Any]]) -> tuple[Any, int, int]:
        results = [sample["eval_result"]["numeric_match"][0] for sample in samples]
        values = [float(result["values"]["score"]) for result in results if result["status"] != "unscored"]
        unparsed = sum(result["status"] == "unparsed" for result in results)
        return pytest.approx(sum(values) / len(values)), len(values), unparsed

    expected = metric.value, metric.n, metric.unparsed

    def mine(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [sample for sample in samples if sample["task_id"] == metric.task_id]

    lines = [orjson.loads(line) for line in (folder / "samples.jsonl").read_bytes().splitlines()]
    assert counted(mine(lines)) == expected
    table = pq.read_table(folder / "samples.parquet").to_pylist()
    assert counted([{"eval_result": orjson.loads(row["eval_result"])} for row in mine(table)]) == expected
    rows = list(csv.DictReader(io.StringIO((folder / "samples.csv").read_text(encoding="utf-8"))))
    assert counted([{"eval_result": orjson.loads(row["eval_result"])} for row in mine(rows)]) == expected
    single = [orjson.loads(file.read_bytes()) for file in (folder / "samples" / metric.task_id).iterdir()]
    assert counted(single) == expected

    files = [orjson.loads(file.read_bytes()) for file in (folder / "lm-eval").glob("*/results_*.json")]
    (value,) = [
        content["results"][metric.task_id]["numeric_match,none"]
        for content in files
        if metric.task_id in content["results"]
    ]
    assert value == metric.value
    with zipfile.ZipFile(folder / "inspect" / f"{metric.task_id}.eval") as log:
        scores = json.loads(log.read("header.json"))["results"]["scores"][0]
    assert (scores["metrics"]["mean"]["value"], scores["scored_samples"]) == (metric.value, metric.n)


def test_sql_frames_and_events_have_the_number(folder: Path, store: str, metric: TaskMetric) -> None:
    query = f"select value, n, ci_low, ci_high from metrics where task_id = '{metric.task_id}' and slice_field is null"
    expected = {"value": metric.value, "n": metric.n, "ci_low": metric.ci_low, "ci_high": metric.ci_high}
    assert gage_eval.sql(query, store=store).to_pylist() == [expected]

    run = gage_eval.open_run("first", store=store)
    frame = run.frame()
    frame = frame[(frame["task_id"] == metric.task_id) & (frame["score_status"] != "unscored")]
    assert (frame["value"].mean(), len(frame)) == (pytest.approx(metric.value), metric.n)
    scores = run.scores()
    assert list(scores[scores["task_id"] == metric.task_id]["value"]) == [metric.value]

    events = [orjson.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]
    mine = [event for event in events if event["task_id"] == metric.task_id]
    (told,) = [event["payload"] for event in mine if event["type"] == "metric"]
    assert {name: told[name] for name in expected} == expected
    scored = [event["payload"] for event in mine if event["type"] == "sample_scored"]
    values = [score["values"]["score"] for score in scored if score["status"] != "unscored"]
    assert (sum(values) / len(values), len(values)) == (pytest.approx(metric.value), metric.n)


def test_report_and_viewer_have_the_number(
    outcome: RunOutcome, folder: Path, metric: TaskMetric, tmp_path: Path
) -> None:
    assert score_text(metric) in (folder / "report.html").read_text(encoding="utf-8")
    open_runs = OpenRuns(Locations.at(outcome.folder.locations.store), tmp_path / "cache")
    with TestClient(viewer_app(open_runs, "token"), base_url="http://127.0.0.1:4280") as browser:
        browser.get("/", params={"token": "token"})
        assert score_text(metric) in unescape(browser.get("/").text)
        page = browser.get("/runs/first")
        while page.status_code == 202 or "Making the index" in page.text:
            page = browser.get("/runs/first")
        (card,) = [card for card in page.text.split("<section")[1:] if f"task={metric.task_id}" in card]
        assert score_text(metric) in unescape(card)
        assert f"n {metric.n}<" in card
        counts = {kind: int(count) for count, kind in re.findall(r"<b>(\d+)</b> (\w+)</a>", card)}
        assert counts.get("unparsed", 0) == metric.unparsed
        assert counts.get("error", 0) == metric.error
    open_runs.close()


def test_prefects_artifacts_have_the_number(outcome: RunOutcome, metric: TaskMetric) -> None:
    (row,) = [row for row in artifact_rows(outcome.summary) if row["task"] == metric.task_id]
    assert (row["score"], row["n"], row["error"]) == (score_text(metric), str(metric.n), str(metric.error))
    (cells,) = [cells for cells in score_rows(outcome.summary) if cells[0] == metric.task_id]
    assert tuple(row.values()) == cells
    assert f"{metric.task_id} numeric_match {score_text(metric)}" in score_line(outcome.summary)
    (line,) = [line for line in report_markdown(outcome).splitlines() if line.startswith(f"| {metric.task_id} |")]
    assert score_text(metric) in line.replace("\\", "")


def _values(record: Any, name: str) -> list[Any]:
    """The values of a key anywhere in a record."""
    if isinstance(record, list):
        return [value for item in record for value in _values(item, name)]
    if not isinstance(record, dict):
        return []
    here = [record[name]] if name in record else []
    return here + [value for item in record.values() for value in _values(item, name)]
