"""Promises of a triage: what comes from chance goes away when asked again, and the likeliest cause comes first."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import orjson
import pytest

from gage_eval.regression import gating, scored_task
from gage_eval.regression.baselines import BaselineEntry, Baselines
from gage_eval.regression.pages import triage_page
from gage_eval.regression.triage import Triage, triage
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.sequential import Alarm
from gage_eval.store import Store
from tests.support.workspace import write_config, write_rows

COUNT, RIGHT, LOST = 400, 320, 40


def answer(folder: Path, wrong: Callable[[int], bool]) -> None:
    rows = [{"id": f"s{n}", "output": "<b>no</b>" if wrong(n) else str(n + 1)} for n in range(COUNT)]
    (folder / "answers.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def run(folder: Path, options: RunOptions) -> RunReader:
    store = str(folder / "store")
    return RunReader.open(Locations.at(store), run_inline(options.model_copy(update={"store": store})).run_id)


@pytest.fixture
def entry(tmp_path: Path) -> BaselineEntry:
    """A baseline of a model that has the first answers right."""
    write_rows(tmp_path, COUNT)
    answer(tmp_path, lambda n: n >= RIGHT)
    backend = {"backend_id": "model", "type": "replay", "config": {"path": "answers.jsonl", "answer_field": "output"}}
    write_config(tmp_path, backends=[backend])
    first = run(tmp_path, RunOptions(config=str(tmp_path / "mine.yaml"), freshness="2026-03-01"))
    return Baselines(Store.open(str(tmp_path / "store"))).add("main", [first], promote=False)


def triaged(folder: Path, entry: BaselineEntry, then: Callable[[int], bool]) -> Triage:
    """A night on which some samples are lost, and a triage during which the model answers as ``then`` says."""
    answer(folder, lambda n: n >= RIGHT - LOST)
    night = run(folder, RunOptions(config=str(folder / "mine.yaml"), freshness="2026-03-02"))

    def ask(options: RunOptions) -> RunReader:
        answer(folder, then)
        return run(folder, options)

    return triage(night, entry, GateRule(), ask, repeats=3)


def test_a_change_is_there_again(tmp_path: Path, entry: BaselineEntry) -> None:
    result = triaged(tmp_path, entry, lambda n: n >= RIGHT - LOST)
    (task,) = result.tasks
    assert task.retried == LOST
    assert task.outcome == "confirmed"
    assert task.again is not None
    assert (task.again.n, task.again.current) == (LOST, 0)
    assert "**Confirmed**" in triage_page(result)
    (moved,) = result.moved
    assert moved.counts == {"token_not_known": LOST}
    assert f"Why sums moved: of {LOST} flips {LOST} token not known" in triage_page(result)


def test_bad_luck_goes_away(tmp_path: Path, entry: BaselineEntry) -> None:
    result = triaged(tmp_path, entry, lambda n: n >= RIGHT - 4)
    # Forty losses and no gain are not chance, whatever becomes of them.
    assert result.tasks[0].outcome == "gone again"
    assert "**Gone again**" in triage_page(result)


def test_what_the_repeats_predict_is_chance_unless_the_alarm_excludes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: BaselineEntry
) -> None:
    # A noisy model: 140 samples become worse and 120 better. Asked again, two thirds of the worse ones are right.
    answer(tmp_path, lambda n: n % 10 < 3)
    first = run(tmp_path, RunOptions(config=str(tmp_path / "mine.yaml"), freshness="2026-03-03"))
    noisy = Baselines(Store.open(str(tmp_path / "store"))).add("noisy", [first], promote=False)
    answer(tmp_path, lambda n: n % 10 in (5, 6, 7) or n % 20 == 8)
    night = run(tmp_path, RunOptions(config=str(tmp_path / "mine.yaml"), freshness="2026-03-04"))

    def ask(options: RunOptions) -> RunReader:
        answer(tmp_path, lambda n: n // 10 % 3 == 1)
        return run(tmp_path, options)

    rule = GateRule(alpha=0.25)
    result = triage(night, noisy, rule, ask, repeats=3)
    assert result.tasks[0].outcome == "chance"
    assert "**Chance**" in triage_page(result)
    ringing = Alarm(rings=True, level=0.0)
    monkeypatch.setattr(gating, "alarm", lambda *args, **more: ringing)
    assert triage(night, noisy, rule, ask, repeats=3).tasks[0].outcome == "gone again"


def test_a_uniform_loss_names_no_slice_and_a_slice_that_lost_more_is_named(tmp_path: Path) -> None:
    rows = [
        {"id": f"s{n}", "question": f"{n} + 1 = ?", "answer": str(n + 1), "data_tag": {"topic": f"t{n % 4}"}}
        for n in range(COUNT)
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    backend = {"backend_id": "model", "type": "replay", "config": {"path": "answers.jsonl", "answer_field": "output"}}
    metrics = [{"metric_id": "exact_match", "slices": ["data_tag.topic"]}]
    write_config(tmp_path, backends=[backend], metrics=metrics)
    options = RunOptions(config=str(tmp_path / "mine.yaml"))
    answer(tmp_path, lambda n: False)
    first = run(tmp_path, options.model_copy(update={"freshness": "1"}))
    entry = Baselines(Store.open(str(tmp_path / "store"))).add("sliced", [first], promote=False)
    for day, wrong, named in (
        ("2", lambda n: n % 20 < 4, []),
        ("3", lambda n: n % 4 == 1 and n % 20 < 16, ["data_tag.topic = t1"]),
    ):
        answer(tmp_path, wrong)
        night = run(tmp_path, options.model_copy(update={"freshness": day}))
        result = triage(night, entry, GateRule(), lambda options: run(tmp_path, options), repeats=1)
        assert [change.name for change in result.tasks[0].slices] == named
        assert all(change.bounds is not None and change.bounds[1] < 0 for change in result.tasks[0].slices)
        assert ("Slices that lost more" in triage_page(result)) == bool(named)


def test_the_model_is_named_before_the_environment_and_the_date_is_not(tmp_path: Path, entry: BaselineEntry) -> None:
    result = triaged(tmp_path, entry, lambda n: True)
    assert result.differences[0].kind == "model"
    assert not [difference for difference in result.differences if difference.path.endswith("freshness")]


def test_the_scores_of_the_baseline_are_read_once(
    tmp_path: Path, entry: BaselineEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Mock(wraps=scored_task.row_scores)
    monkeypatch.setattr(scored_task, "row_scores", read)
    triaged(tmp_path, entry, lambda n: True)
    # The baseline, the night, and the samples that were asked again.
    assert read.call_count == 3


def test_the_page_shows_samples_and_their_texts_stay_text(tmp_path: Path, entry: BaselineEntry) -> None:
    text = triage_page(triaged(tmp_path, entry, lambda n: True))
    assert "#### s280" in text
    assert "280 + 1 = ?" in text
    assert "\\<b\\>no\\</b\\>" in text
    assert "<b>" not in text
    assert f"{LOST} samples became worse" in text


def test_samples_that_cannot_be_asked_again_are_said(tmp_path: Path, entry: BaselineEntry) -> None:
    answer(tmp_path, lambda n: n >= RIGHT - LOST)
    night = run(tmp_path, RunOptions(config=str(tmp_path / "mine.yaml"), freshness="2026-03-02"))
    (tmp_path / "answers.jsonl").unlink()
    result = triage(night, entry, GateRule(), lambda options: run(tmp_path, options))
    assert "answers.jsonl" in (result.tasks[0].problem or "")
    assert "could not be asked again" in triage_page(result)
