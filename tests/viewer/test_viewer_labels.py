"""Promises of the labelling page: blind, in order, with undo; labels go into the file, and only from our own forms."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from viewer_client import HOSTILE, TOKEN, answers, run, write_questions

from gage_eval.runs.options import Locations
from gage_eval.viewer.app import viewer_app
from gage_eval.viewer.open_runs import OpenRuns

ORIGIN = {"origin": "http://127.0.0.1:4280"}


def _row(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "task_id": "sums",
        "sample_id": f"s{number}",
        "replicate": 0,
        "question": f"Question {number}? {HOSTILE}",
        "answer": f"Answer {number}.",
        "label": None,
        "probability": 0.5,
        **fields,
    }


def _client(folder: Path, *rows: dict[str, Any]) -> tuple[TestClient, Path]:
    write_questions(folder)
    run(folder, "first", backends=answers("2"))
    file = folder / "labels.jsonl"
    file.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    open_runs = OpenRuns(Locations.at(str(folder / "store"), None), folder / "cache")
    client = TestClient(viewer_app(open_runs, TOKEN, None, [file]), base_url=ORIGIN["origin"], follow_redirects=True)
    client.get("/", params={"token": TOKEN})
    return client, file


def _forms(text: str) -> list[dict[str, str]]:
    """The hidden fields of each form that labels."""
    parts = text.split('action="/labels"')[1:]
    return [
        {name: unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', part)}
        for part in (part.split("</form>")[0] for part in parts)
    ]


def _labels(file: Path) -> list[Any]:
    return [json.loads(line)["label"] for line in file.read_bytes().splitlines()]


def test_answers_are_labelled_in_order_and_undone(tmp_path: Path) -> None:
    client, file = _client(tmp_path, *(_row(i, scale=[0, 1]) for i in range(3)))
    text = client.get("/labels").text
    assert "Question 0?" in text
    assert HOSTILE not in text
    for value in ("1", "0"):
        (form, *_) = _forms(text)
        text = client.post("/labels", data={**form, "label": value}, headers=ORIGIN).text
    assert _labels(file) == [1, 0, None]
    assert "Question 2?" in text
    text = client.post("/labels", data=_forms(text)[1], headers=ORIGIN).text
    assert _labels(file) == [1, None, None]
    assert "Question 1?" in text
    for _ in range(2):
        text = client.post("/labels", data={**_forms(text)[0], "label": "1"}, headers=ORIGIN).text
    assert "All 3 answers have a label" in text
    form = {**_forms(client.get("/labels?row=1").text)[0], "label": "0"}
    for change in ({"form": ""}, {"label": "2"}, {"label": "nan"}, {"line": "9"}, {"id": "s2"}, {"file": "1"}):
        assert client.post("/labels", data={**form, **change}, headers=ORIGIN).status_code == 400
    assert client.post("/labels", data=form, headers={"origin": "http://evil.example"}).status_code == 403
    assert _labels(file) == [1, 1, 1]


@pytest.mark.parametrize(
    ("scale", "keys"), [([1, 10], "1234567890"), ([0, 10], "0123456789x"), ([2, 4], "234"), ([0, 100], "")]
)
def test_each_label_of_a_small_scale_has_a_key(tmp_path: Path, scale: list[int], keys: str) -> None:
    client, file = _client(tmp_path, _row(0, scale=scale))
    text = client.get("/labels").text
    assert "".join(key for key in re.findall(r'data-press="(.)"', text) if key != "u") == keys
    client.post("/labels", data={**_forms(text)[0], "label": str(scale[1])}, headers=ORIGIN)
    assert _labels(file) == [scale[1]]


def test_rows_of_other_programs_are_shown_and_labelled(tmp_path: Path) -> None:
    """Only the sample's id is needed, and numbers may be larger than any float."""
    rows = [{"sample_id": "a", "scale": [0, 10**400]}, {"sample_id": "b", "label": 10**400}]
    client, file = _client(tmp_path, *rows)
    text = client.get("/labels", params={"row": "9" * 5000}).text
    form = {**_forms(text)[0], "label": "1"}
    assert client.post("/labels", data={**form, "line": "9" * 5000}, headers=ORIGIN).status_code == 400
    for name in ("a", "b"):
        (form, *_) = _forms(text)
        assert form["id"] == name
        text = client.post("/labels", data={**form, "label": "1"}, headers=ORIGIN).text
    assert _labels(file) == [1, 1]
    assert "All 2 answers have a label" in text
    assert f'labels: {{path: "{file}"}}' in unescape(text)


def test_a_file_with_half_a_character_is_refused_in_a_sentence(tmp_path: Path) -> None:
    client, file = _client(tmp_path, _row(0))
    file.write_text('{"sample_id": "\\ud800"}\n')
    answer = client.get("/labels")
    assert answer.status_code == 400
    assert "line 1: not JSON" in unescape(answer.text)
