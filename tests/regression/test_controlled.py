"""Promises of a comparison with a part: the score of the whole, and no complaint about what was not asked."""

import random
from pathlib import Path

import orjson
import pytest
from support.workspace import write_config

from gage_eval.regression.compare import compare
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader

ROWS = 800


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(35)
    records = [{"id": f"s{row}", "question": f"{row}?", "answer": rng.choice("234")} for row in range(ROWS)]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return tmp_path


def _run(folder: Path, name: str, seed: int, **options: object) -> RunReader:
    model = {"backend_id": "model", "type": "dummy", "config": {"mode": "choice", "choices": ["2", "3"], "seed": seed}}
    write_config(folder, backends=[model])
    run_inline(RunOptions.of({"config": "mine.yaml", "store": "store", "run_id": name, **options}))
    return RunReader.open(Locations.at("store"), name)


def test_the_score_of_the_whole_comes_from_the_part_and_the_run_that_has_all(folder: Path) -> None:
    whole, part = _run(folder, "whole", 0), _run(folder, "part", 1, quick=300)
    truth = _run(folder, "truth", 1).task().metrics[0]["value"]
    (compared,) = compare(whole, part)
    known = compared.controlled
    assert known is not None
    assert (known.samples, known.total) == (300, ROWS)
    assert known.bounds is not None
    assert known.bounds[0] <= truth <= known.bounds[1]
    assert f"exact_match of all {ROWS} samples of this benchmark: " in known.text
    assert " times the samples without it" in known.text
    assert compared.notes == ()
    assert compared.as_record()["whole_score"] == known.estimate


def test_few_samples_have_no_score_of_the_whole(folder: Path) -> None:
    whole, part = _run(folder, "whole", 0), _run(folder, "part", 1, quick=100)
    (compared,) = compare(whole, part)
    assert compared.controlled is not None
    assert compared.controlled.text == "a score of all 800 samples of this benchmark needs 200 samples or more"
    (back,) = compare(part, whole)
    assert back.controlled is None
