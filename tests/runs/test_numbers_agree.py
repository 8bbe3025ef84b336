"""One run, one number: summary, report, console, SQL, frames, events, every export and the Prefect artifact agree."""

import csv
import io
import json
import zipfile
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

import gage_eval
from gage_eval.cli.main import main
from gage_eval.report.console import artifact_rows, print_scores, score_text
from tests.support.endpoint import mock_endpoint
from tests.support.runs import write_config

KINDS = ["jsonl", "csv", "parquet", "per_sample_json", "lm-eval", "inspect"]


def test_the_score_and_its_counts_are_the_same_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with mock_endpoint(accuracy=0.6, fault={"context": 0.05}) as endpoint:
        task = {"task_id": "sums", "dataset_id": "sums", "max_error_share": 1.0}
        write_config(tmp_path, endpoint.url, rows=120, tasks=[task], export=KINDS)
        run = gage_eval.run("sums.yaml", store="store", run_id="first")
    folder = Path(run.folder)
    metric = run.summary.tasks[0].metrics[0]
    value, n = metric.value, metric.n
    assert value is not None
    assert 0.3 < value < 0.9
    assert n == 120 - metric.error < 120

    kept = orjson.loads((folder / "summary.json").read_bytes())
    assert kept["metrics"][0]["raw_values"] == kept["tasks"][0]["metrics"][0]["raw_values"] == {"score": value}

    def counted(results: list[dict[str, object]]) -> tuple[float, int]:
        scored = [one for one in results if one["status"] != "unscored"]
        values = [float(one["values"]["score"]) for one in scored]  # type: ignore[index]
        return pytest.approx(sum(values) / len(values)), len(values)

    lines = [orjson.loads(line) for line in (folder / "samples.jsonl").read_bytes().splitlines()]
    assert counted([line["eval_result"]["numeric_match"][0] for line in lines]) == (value, n)
    table = pq.read_table(folder / "samples.parquet")
    found = [orjson.loads(text)["numeric_match"][0] for text in table["eval_result"].to_pylist()]
    assert counted(found) == (value, n)
    rows = list(csv.DictReader(io.StringIO((folder / "samples.csv").read_text(encoding="utf-8"))))
    assert counted([orjson.loads(row["eval_result"])["numeric_match"][0] for row in rows]) == (value, n)
    single = [orjson.loads(file.read_bytes()) for file in (folder / "samples" / "sums").iterdir()]
    assert counted([one["eval_result"]["numeric_match"][0] for one in single]) == (value, n)

    (results,) = (folder / "lm-eval").glob("*/results_*.json")
    assert orjson.loads(results.read_bytes())["results"]["sums"]["numeric_match,none"] == value
    with zipfile.ZipFile(folder / "inspect" / "sums.eval") as log:
        header = json.loads(log.read("header.json"))
    assert header["results"]["scores"][0]["metrics"]["mean"]["value"] == value
    assert header["results"]["scores"][0]["scored_samples"] == n

    frame = run.frame()
    answered = frame[frame["score_status"] != "unscored"]
    assert (answered["value"].mean(), len(answered)) == (pytest.approx(value), n)
    assert list(run.scores()["value"]) == [value]
    sql = gage_eval.sql("select value, n from metrics where run_id = 'first' and slice_field is null", store="store")
    assert sql.to_pylist() == [{"value": value, "n": n}]

    events = [orjson.loads(line) for line in (folder / "events.jsonl").read_bytes().splitlines()]
    (told,) = [event["payload"] for event in events if event["type"] == "metric"]
    assert (told["value"], told["n"], told["ci_low"]) == (value, n, metric.ci_low)

    shown = score_text(metric)
    assert artifact_rows(run.summary)[0]["score"] == shown
    out = io.StringIO()
    print_scores(run.summary, stream=out)
    assert shown in out.getvalue()
    assert shown in (folder / "report.html").read_text(encoding="utf-8")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["show", "first", "--store", "store", "--json"])
    assert f'"score": {value}' in capsys.readouterr().out
