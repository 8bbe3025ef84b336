"""Exports for others: Every Eval Ever (checked by its own schemas), model pages of the hub, OpenTelemetry."""

import hashlib
import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
import yaml

from gage_eval.base.errors import InputError
from gage_eval.cli.main import main
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.export import LocalTarget, export
from gage_eval.runs.results.published_scores import eval_results
from gage_eval.runs.results.reading import RunReader
from tests.support.workspace import ROWS, write_config

# From `make test-inspect`, which installs the package of the schemas beside Inspect.
SCHEMAS = Path(".venv-inspect") / "every_eval_ever" / "schemas"
PLACE = re.compile(
    r"data/gage-eval/[\w.-]+/[\w.-]+/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
)


@pytest.fixture
def reader(here: Path) -> RunReader:
    write_config(here)
    run_inline(RunOptions(config="mine.yaml", store="store", run_id="first"))
    return RunReader.open(Locations.at("store"), "first")


def exported(reader: RunReader, kind: str) -> Path:
    return Path("out") / export(reader.tasks(), kind, LocalTarget.made(Path("out")), reader.stored.record)


def every_eval_ever(reader: RunReader) -> tuple[Path, dict[str, Any], list[dict[str, Any]], bytes]:
    """The folder, both files, and the second's bytes."""
    folder = exported(reader, "every-eval-ever")
    (numbers,) = folder.rglob("*.json")
    (rows,) = folder.rglob("*_samples.jsonl")
    data = rows.read_bytes()
    return rows.relative_to(folder), json.loads(numbers.read_bytes()), [*map(json.loads, data.splitlines())], data


def test_every_eval_ever_has_the_numbers_of_the_summary_and_a_row_for_each_score(reader: RunReader) -> None:
    place, numbers, rows, data = every_eval_ever(reader)
    assert PLACE.fullmatch(str(place).removesuffix("_samples.jsonl"))
    detailed = numbers["detailed_evaluation_results"]
    assert detailed["file_path"] == str(place)
    assert (detailed["total_rows"], detailed["checksum"]) == (len(rows), hashlib.sha256(data).hexdigest())
    (metric,) = reader.task().summary.metrics
    (result,) = numbers["evaluation_results"]
    assert result["score_details"]["score"] == metric.value
    interval = result["score_details"]["uncertainty"]["confidence_interval"]
    assert (interval["lower"], interval["upper"]) == (metric.ci_low, metric.ci_high)
    assert len(rows) == ROWS
    assert {row["evaluation_result_id"] for row in rows} == {result["evaluation_result_id"]}
    assert {row["evaluation_id"] for row in rows} == {numbers["evaluation_id"]}
    scores = [row["evaluation"]["score"] for row in rows]
    assert sum(scores) / len(scores) == pytest.approx(metric.value)
    assert [row["evaluation"]["is_correct"] for row in rows] == [score == 1 for score in scores]
    assert every_eval_ever(reader)[1] == numbers, "the same run gives the same files"


def test_every_eval_ever_fits_the_schemas_of_its_package(reader: RunReader, repo_root: Path) -> None:
    schemas = repo_root / SCHEMAS
    if not schemas.is_dir():
        pytest.skip("the schemas of Every Eval Ever are not installed: make test-inspect")
    _, numbers, rows, _ = every_eval_ever(reader)
    jsonschema.validate(numbers, json.loads((schemas / "eval.schema.json").read_bytes()))
    check = jsonschema.Draft7Validator(json.loads((schemas / "instance_level_eval.schema.json").read_bytes()))
    for row in rows:
        check.validate(row)


def test_the_validator_of_every_eval_ever_finds_nothing(reader: RunReader, repo_root: Path) -> None:
    program = repo_root / ".venv-every-eval-ever" / "bin" / "every_eval_ever"
    if not program.is_file():
        pytest.skip("Every Eval Ever is not installed: make test-every-eval-ever")
    folder = exported(reader, "every-eval-ever")
    files = [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]
    checked = subprocess.run(
        [program, "validate", "--format", "json", *files], cwd=folder, capture_output=True, text=True, check=False
    )
    assert [(own["valid"], own["errors"]) for own in json.loads(checked.stdout)] == [(True, []), (True, [])]


def test_scores_are_events_of_opentelemetry(reader: RunReader) -> None:
    lines = [json.loads(line) for line in exported(reader, "otel").read_bytes().splitlines()]
    assert len(lines) == ROWS
    ((logs,),) = {len(line["resourceLogs"]): line["resourceLogs"] for line in lines[:1]}.values()
    (record,) = logs["scopeLogs"][0]["logRecords"]
    assert record["eventName"] == "gen_ai.evaluation.result"
    fields = {entry["key"]: entry["value"] for entry in record["attributes"]}
    assert fields["gen_ai.evaluation.name"] == {"stringValue": "exact_match"}
    value = fields["gen_ai.evaluation.score.value"]["doubleValue"]
    assert fields["gen_ai.evaluation.score.label"] == {"stringValue": "pass" if value == 1 else "fail"}


def test_a_page_of_a_model_names_the_dataset_of_the_hub(reader: RunReader, capsys: pytest.CaptureFixture[str]) -> None:
    task = reader.task()
    params = {"hub": "openai/gsm8k", "subset": "main"}
    of_hub: Any = SimpleNamespace(
        task_id=task.task_id, summary=task.summary, plan=SimpleNamespace(load=SimpleNamespace(params=params))
    )
    (entry,) = yaml.safe_load(eval_results(of_hub, reader.stored.record))
    assert entry["dataset"] == {"id": "openai/gsm8k", "task_id": "main"}
    assert entry["value"] == task.summary.metrics[0].value
    of_hub.summary = task.summary.model_copy(update={"metrics": []})
    with pytest.raises(InputError, match="no metric"):
        eval_results(of_hub, reader.stored.record)
    with pytest.raises(SystemExit, match="2"):
        main(["export", "first", "--format", "eval-results", "--store", "store"])
    assert "hf_hub" in capsys.readouterr().err
