"""Promises of ``--quick``: the same random samples for every model, subjects with their share, honest numbers."""

import math
import random
from collections import Counter
from pathlib import Path

import orjson
import pytest
from support.workspace import write_config

from gage_eval.base.errors import InputError
from gage_eval.runs import RunOptions, RunOutcome, run_inline
from gage_eval.stats import wilson_interval

ROWS = 300
TOPICS = {"algebra": 200, "logic": 70, "sets": 30}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(35)
    topics = [topic for topic, count in TOPICS.items() for _ in range(count)]
    records = [
        {"id": f"s{row}", "question": "?", "answer": "2" if rng.random() < 0.4 else "3", "metadata": {"topic": topic}}
        for row, topic in enumerate(topics)
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return tmp_path


def _run(folder: Path, answer: str = "2", **options: object) -> RunOutcome:
    backend = {"backend_id": "model", "type": "dummy", "config": {"mode": "fixed", "answer": answer}}
    metrics = [{"metric_id": "exact_match", "slices": ["metadata.topic"]}]
    write_config(folder, backends=[backend], metrics=metrics)
    return run_inline(RunOptions.of({"config": "mine.yaml", "store": "store", **options}))


def _ids(outcome: RunOutcome, folder: Path) -> list[str]:
    from gage_eval.store import Store

    artifact = Store.open(str(folder / "store")).artifact(outcome.results["sums", "preprocess"].outputs["prepared"])
    ids: list[str] = artifact.table(["sample_id"])["sample_id"].to_pylist()
    return ids


def test_each_subject_has_its_share_and_every_model_the_same_samples(folder: Path) -> None:
    outcome = _run(folder, quick=60)
    ids = _ids(outcome, folder)
    starts = {"algebra": range(200), "logic": range(200, 270), "sets": range(270, 300)}
    topics = Counter(topic for name in ids for topic, rows in starts.items() if int(name[1:]) in rows)
    assert topics == {"algebra": 40, "logic": 14, "sets": 6}
    assert _ids(_run(folder, answer="3", quick=60), folder) == ids
    assert _ids(_run(folder, quick=60, shuffle_seed=7), folder) != ids


def test_numbers_have_the_finite_population_correction_and_say_what_they_stand_for(folder: Path) -> None:
    outcome = _run(folder, quick=60)
    (task,) = outcome.summary.tasks
    number = task.metrics[0]
    assert number.value is not None
    assert number.n == task.sample_count == 60
    effective = 60 / (1 - 60 / ROWS)
    assert (number.ci_low, number.ci_high) == pytest.approx(wilson_interval(number.value * effective, effective))
    plain = math.sqrt(number.value * (1 - number.value) / 59)
    assert number.stderr == pytest.approx(plain * math.sqrt((ROWS - 60) / (ROWS - 1)))
    assert number.marked_name == "exact_match (of this benchmark)"
    assert task.drawn is not None
    assert (task.drawn.samples, task.drawn.total) == (60, ROWS)
    assert outcome.summary.title.endswith(", subset")


def test_a_benchmark_that_is_no_larger_is_asked_whole(folder: Path) -> None:
    (task,) = _run(folder, quick=ROWS).summary.tasks
    assert task.drawn is None
    assert task.sample_count == ROWS
    assert task.metrics[0].marks == []


def test_a_part_of_a_part_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="samples are drawn from all of them"):
        _run(folder, quick=60, sample_ids=["s1"])
