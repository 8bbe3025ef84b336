"""Promises of ``decided``: a run stops at a verdict, the gate gives the same one, and few rows give none."""

import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.workspace import write_config

from gage_eval.base.errors import InputError
from gage_eval.regression.baselines import Baselines
from gage_eval.regression.gating import gate
from gage_eval.runs import RunOptions, RunOutcome, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.store import Store

ROWS = 1000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(35)
    records = [
        {"id": f"s{row}", "question": f"{row}?", "answer": "2" if rng.random() < 0.8 else "3"} for row in range(ROWS)
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return tmp_path


def _run(folder: Path, name: str, stop: dict[str, Any] | None = None, **model: Any) -> RunOutcome:
    backend = {"backend_id": "model", "type": "dummy", "config": model or {"mode": "fixed", "answer": "2"}}
    task = {"task_id": "sums", "dataset_id": "sums", **({} if stop is None else {"stop_when": stop})}
    write_config(folder, backends=[backend], tasks=[task])
    return run_inline(RunOptions(config="mine.yaml", store="store", run_id=name))


def _reader(name: str) -> RunReader:
    return RunReader.open(Locations.at("store"), name)


def _baseline(folder: Path) -> Baselines:
    _run(folder, "whole")
    baselines = Baselines(Store.open(str(folder / "store")))
    baselines.add("main", [_reader("whole")], promote=False)
    return baselines


DECIDED = {"decided": {"baseline": "main", "tolerance": 0.1}}
WORSE = {"mode": "choice", "choices": ["2", "3"]}


def test_a_model_that_is_worse_is_found_before_all_rows_are_asked(folder: Path) -> None:
    baselines = _baseline(folder)
    stopped = _run(folder, "now", DECIDED, **WORSE).summary.tasks[0].stopped
    assert stopped is not None
    assert stopped.samples < ROWS
    assert stopped.high < -0.1
    assert "exact_match minus that of baseline main, of all samples of this benchmark, is -" in stopped.text
    (task,) = gate(_reader("now"), baselines.latest("small", "main")).tasks
    assert task.decision.verdict == "regressed"
    assert "holds at every look" in task.decision.notes[-1]
    assert task.decision.evidence.high < -0.02


def test_a_model_that_is_the_same_passes_early(folder: Path) -> None:
    baselines = _baseline(folder)
    stopped = _run(folder, "now", DECIDED).summary.tasks[0].stopped
    assert stopped is not None
    assert stopped.samples < ROWS
    assert stopped.low > -0.1
    entry = baselines.latest("small", "main")
    rule = gate(_reader("now"), entry).rule.model_copy(update={"tolerance": 0.1})
    assert gate(_reader("now"), entry, rule).verdict == "passed"


def test_a_run_that_stopped_for_its_width_has_no_verdict_from_too_few_rows(folder: Path) -> None:
    baselines = _baseline(folder)
    _run(folder, "now", {"half_width": 0.2}, mode="choice", choices=["2", "2", "2", "2", "2", "2", "2", "3"])
    (task,) = gate(_reader("now"), baselines.latest("small", "main")).tasks
    assert task.comparison.pairing.unpaired == 0
    assert task.decision.verdict == "inconclusive"


def test_the_baseline_must_be_there(folder: Path) -> None:
    with pytest.raises(InputError, match="'small' has no baseline 'main'"):
        _run(folder, "now", DECIDED)
