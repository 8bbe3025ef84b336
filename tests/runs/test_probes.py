"""A run records what the probe knew of its models when it began. What is measured later does not change that."""

from pathlib import Path

import pytest

from gage_eval.engine.probe import keep
from gage_eval.regression.baselines import Baselines
from gage_eval.regression.compare import compare
from gage_eval.regression.gating import gate
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.planned import planned
from gage_eval.runs.probes import ModelProbe, probe_models
from gage_eval.runs.results.reading import RunReader
from gage_eval.store import Store
from tests.support.workspace import write_config, write_rows

EXACT = "dummy is exact: answers (it gives no log probabilities) to 64 prompts are the same"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path)
    write_config(tmp_path)
    return tmp_path


def probed() -> ModelProbe:
    (found,) = probe_models(planned(RunOptions(config="mine.yaml", store="store")))
    return found


def run(name: str, **options: object) -> RunReader:
    run_inline(RunOptions(config="mine.yaml", run_id=name, store="store", **options))
    return RunReader.open(Locations.at("store"), name)


def test_the_verdict_of_its_time_is_in_run_json_and_in_the_report() -> None:
    assert run("before").stored.record.probes == []
    found = probed()
    (record,) = run("after").stored.record.probes
    assert (record.model, record.tasks, record.verdict, record.probed) == (
        *("dummy", ["sums"], "exact"),
        found.verdict.created,
    )
    assert Path("store", "probes", f"{record.identity}.json").is_file()
    assert EXACT in Path("store", "runs", "after", "report.html").read_text()
    assert EXACT not in Path("store", "runs", "before", "report.html").read_text()


def test_a_verdict_on_other_settings_or_another_concurrency_is_not_recorded() -> None:
    probed()
    assert run("crowded", concurrency=3).stored.record.probes == []
    write_config(Path(), backends=[{"backend_id": "model", "type": "dummy", "config": {"answer": "3"}}])
    assert run("other").stored.record.probes == []


def test_comparison_and_gate_say_what_was_known_when_the_runs_were_asked() -> None:
    before, found = run("before"), probed()
    first = run("first", freshness="1")
    keep(Store.open("store"), found.verdict.model_copy(update={"verdict": "drifting"}))
    second = run("second", freshness="2")
    (result,) = compare(first, second)
    assert [note.partition(": ")[0] for note in result.notes if " is " in note] == ["first", "second"]
    assert any(note.startswith(f"first: {EXACT}") for note in result.notes)
    assert any(note.startswith("second: dummy is drifting") for note in result.notes)
    assert not [note for note in compare(before, before)[0].notes if "is exact" in note]
    entry = Baselines(Store.open("store")).add("main", [first, run("again", freshness="3")], promote=False)
    assert entry.runs[0].tasks["sums"].probe == first.stored.record.probes[0]
    remarks = gate(second, entry).tasks[0].remarks
    assert any(remark.startswith(f"first: {EXACT}") for remark in remarks)
    assert any(remark.startswith("again, second: dummy is drifting") for remark in remarks)


def test_a_resumed_run_keeps_a_verdict_only_if_it_held_both_times() -> None:
    found = probed()
    assert len(run("same", resume=False).stored.record.probes) == 1
    assert len(run("same", resume=True).stored.record.probes) == 1
    keep(Store.open("store"), found.verdict.model_copy(update={"verdict": "near"}))
    assert run("same", resume=True).stored.record.probes == []


def test_a_damaged_verdict_does_not_stop_a_run() -> None:
    probed()
    (file,) = Path("store", "probes").iterdir()
    file.write_bytes(b"{")
    assert run("damaged").stored.record.probes == []
