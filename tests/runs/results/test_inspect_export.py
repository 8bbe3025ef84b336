"""Exported logs open with Inspect's own reader, in its own environment (`make test-inspect`)."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

import gage_eval
from gage_eval.runs.options import Locations
from gage_eval.runs.results.export import LocalTarget, export
from gage_eval.runs.results.reading import RunReader
from tests.support.endpoint import mock_endpoint
from tests.support.pictures import image
from tests.support.runs import write_config as write_sums
from tests.support.workspace import write_config

READ = """
import sys
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

file = sys.argv[1]
header = read_eval_log(file, header_only=True)
log = read_eval_log(file)
summaries = read_eval_log_sample_summaries(file)
one = read_eval_log_sample(file, id=summaries[-1].id, epoch=summaries[-1].epoch)
assert header.results == log.results
print('{"log": ', log.model_dump_json(), ', "one": ', one.model_dump_json(), ', "summaries": ', len(summaries), '}')
"""


@pytest.fixture
def inspect_python(repo_root: Path) -> Path:
    python = repo_root / ".venv-inspect" / "bin" / "python"
    if not (repo_root / ".venv-inspect" / ".ready").exists():
        pytest.skip("Inspect is not installed in .venv-inspect: make test-inspect")
    return python


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def exported(run_id: str) -> Path:
    reader = RunReader.open(Locations.at("store"), run_id)
    return Path("out") / export(reader.tasks(), "inspect", LocalTarget.made(Path("out")), reader.stored.record)


def read(python: Path, file: Path) -> dict[str, Any]:
    done = subprocess.run([python, "-c", READ, file], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def test_a_run_with_errors_reads_back_with_its_numbers_its_messages_and_its_scores(
    here: Path, inspect_python: Path
) -> None:
    with mock_endpoint(accuracy=0.7, fault={"context": 0.1}) as endpoint:
        task = {"task_id": "sums", "dataset_id": "sums", "max_error_share": 1.0, "replicates": 2}
        task |= {"sampling_params": {"temperature": 0.5, "max_new_tokens": 64, "stop": ["END"]}}
        write_sums(here, endpoint.url, rows=40, tasks=[task])
        run = gage_eval.run("sums.yaml", store="store", run_id="first")
    content = read(inspect_python, exported("first") / "sums.eval")
    log, summary = content["log"], run.summary.tasks[0]
    (score,) = log["results"]["scores"]
    assert (score["name"], score["metrics"]["mean"]["value"]) == ("numeric_match", summary.metrics[0].value)
    assert score["scored_samples"] == summary.metrics[0].n
    assert log["eval"]["model_generate_config"] == log["eval"]["model_generate_config"] | {
        "temperature": 0.5, "max_tokens": 64, "stop_seqs": ["END"]
    }  # fmt: skip
    assert log["eval"]["config"]["epochs"] == 2
    usage = log["stats"]["model_usage"]["mock"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (summary.tokens.prompt, summary.tokens.completion)
    samples = log["samples"]
    assert len(samples) == content["summaries"] == 80
    failed = [sample for sample in samples if sample["error"] is not None]
    assert len(failed) == summary.responses["error"] > 0
    assert all(sample["scores"] == {} and "context" in sample["error"]["message"] for sample in failed)
    values = [sample["scores"]["numeric_match"]["value"] for sample in samples if sample["scores"]]
    scored = run.frame()
    assert sorted(values) == sorted(scored[scored["score_status"] != "unscored"]["value"])
    first = samples[0]
    assert (first["input"][0]["content"], first["target"]) == ("What is 0 + 1?", "1")
    key = content["one"]["id"], content["one"]["epoch"]
    assert (
        next(sample for sample in samples if (sample["id"], sample["epoch"]) == key)["scores"]
        == content["one"]["scores"]
    )


def test_options_pictures_tools_reasoning_and_odd_ids_read_back(here: Path, inspect_python: Path) -> None:
    png = f"data:image/png;base64,{base64.b64encode(image()).decode()}"
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "Look."}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Which?"}, {"type": "image_url", "image_url": {"url": png}}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": ""}], "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a cat"}]},
        {"role": "user", "content": [{"type": "text", "text": "So? \u2028 </script>"}]},
    ]
    row = {
        "id": "a/b ü 1", "task_type": "multiple-choice", "messages": messages, "label": "A",
        "options": [{"id": "A", "content": "cat"}, {"id": "B", "content": "dog"}],
        "references": [{"answer": [{"type": "text", "text": "A"}]}], "metadata": {"origin": "x"},
    }  # fmt: skip
    (here / "rows.jsonl").write_bytes(orjson.dumps(row) + b"\n")
    write_config(here)
    gage_eval.run("mine.yaml", store="store", run_id="first")
    (sample,) = read(inspect_python, exported("first") / "sums.eval")["log"]["samples"]
    assert sample["id"] == "a/b ü 1"
    assert sample["choices"] == ["cat", "dog"]
    assert [message["role"] for message in sample["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]
    assert sample["messages"][1]["content"][1]["image"].startswith("media://sha256/")
    assert sample["messages"][2]["tool_calls"][0]["arguments"] == {"x": 1}
    assert sample["metadata"]["origin"] == "x"
