"""Promises of a night: every cell is measured, a failed one leaves the others, and a night is never from the store."""

import re
import threading
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest
import yaml

from gage_eval.base.errors import ConfigError, InputError, StoreError
from gage_eval.engine.host import SharedEngines
from gage_eval.regression import gate_report
from gage_eval.regression import nightly as nightly_module
from gage_eval.regression.baselines import Baselines
from gage_eval.regression.nightly import NightCell, Nightly, label_of, run_night
from gage_eval.regression.pages import cell_page, night_page
from gage_eval.regression.policy import GatePolicy
from gage_eval.regression.trend import trend, trend_before
from gage_eval.report.trend_chart import trend_chart
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.record import FlowRunRecord
from gage_eval.runs.results.reading import RunReader
from gage_eval.store import Store
from tests.support.nights import FIRST, SECOND, answer, night_of, set_baselines, two_models
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def nightly(tmp_path: Path) -> Nightly:
    return two_models(tmp_path)


def test_a_cell_without_a_baseline_is_unmeasured_and_says_how_to_set_one(nightly: Nightly, tmp_path: Path) -> None:
    night = night_of(nightly, tmp_path, FIRST)
    assert [cell.verdict for cell in night.cells] == ["unmeasured", "unmeasured"]
    assert "gage baseline set steady every-night-2026-03-01-mine-steady --repeats 5" in (night.cells[0].problem or "")
    assert [cell.run and cell.run.run_id for cell in night.cells] == [
        "every-night-2026-03-01-mine-steady",
        "every-night-2026-03-01-mine-shaky",
    ]


def test_a_worse_model_is_regressed_and_the_other_one_passes(nightly: Nightly, tmp_path: Path) -> None:
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)
    answer(tmp_path, "shaky", 280)
    night = night_of(nightly, tmp_path, SECOND)
    assert {cell.model.name: cell.verdict for cell in night.cells} == {"steady": "passed", "shaky": "regressed"}
    assert night.verdict == "regressed"
    assert night.sentence == "mine.yaml with shaky: regressed (sums exact_match −0.100)"
    # Which of the two has fired, and why the other one has not.
    page = night_page(night)
    assert "The nightly verdict is regressed for 1 cell; the sequential alarm rings for 0 cells." in page
    assert "the sequential alarm is withheld: the baseline needs 5 repeats and has 1" in page
    regressed = next(cell.run for cell in night.cells if cell.verdict == "regressed")
    assert regressed is not None
    assert f"- mine.yaml with shaky: run {regressed.run_id}, then its triage small-triage" in page

    flow_run = FlowRunRecord(flow_run_id="1", flow_run_name="shaky", url="https://prefect.test/runs/flow-run/1")
    regressed.stored.folder.update(lambda record: record.model_copy(update={"prefect": flow_run}))
    shown = RunReader.open(regressed.stored.folder.locations, regressed.run_id)
    cells = tuple(replace(cell, run=shown) if cell.run is regressed else cell for cell in night.cells)
    assert (
        f"run [{regressed.run_id}]({flow_run.url}), then its triage "
        "[small-triage](https://prefect.test/artifacts/key/small-triage)"
    ) in night_page(replace(night, cells=cells))


def test_a_night_fails_by_its_policy(nightly: Nightly, tmp_path: Path) -> None:
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)
    answer(tmp_path, "shaky", 313)
    policy = GatePolicy.model_validate({"critical": ["exact_match"], "require_evidence": True})
    night = night_of(nightly.model_copy(update={"policy": policy}), tmp_path, SECOND)
    assert {cell.model.name: (cell.verdict, cell.is_bad) for cell in night.cells} == {
        "steady": ("passed", False),
        "shaky": ("inconclusive", True),
    }
    assert night.sentence.startswith("mine.yaml with shaky: inconclusive")
    assert "the policy asks for evidence" in night_page(night)


def test_all_problems_of_a_policy_are_said_with_those_of_the_night() -> None:
    text = """
schedule: {cron: "0 2 * * *"}
rows: [gsm8k]
models: [{name: m, options: {modle: x}}]
policy: {critical: [a, a], supporting: [b, b]}
"""
    with pytest.raises(ConfigError) as refused:
        Nightly.of_text(text, "nightly.yaml")
    assert [problem.path for problem in refused.value.problems] == [
        "options of gsm8k with m",
        "policy.critical[1]",
        "policy.supporting[1]",
    ]


def test_the_page_says_what_would_decide_a_night_that_did_not(nightly: Nightly, tmp_path: Path) -> None:
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)
    answer(tmp_path, "shaky", 313)
    night = night_of(nightly, tmp_path, SECOND)
    assert night.verdict == "inconclusive"
    assert "rows would decide, and there are 400: it cannot be decided with this data set" in night_page(night)


def test_a_night_asks_again_what_the_night_before_asked(nightly: Nightly, tmp_path: Path) -> None:
    night_of(nightly, tmp_path, FIRST)
    # Both models have the same recorded answers, so one of them may take those of the other.
    runs = [cell.run for cell in night_of(nightly, tmp_path, SECOND).cells]
    assert any("infer" not in run.summary.run.cached_stages for run in runs if run is not None)


def test_another_attempt_of_a_night_asks_anew_and_is_in_the_trend(nightly: Nightly, tmp_path: Path) -> None:
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)
    again = night_of(nightly, tmp_path, FIRST)
    assert all(cell.run and "infer" in cell.run.summary.run.cached_stages for cell in again.cells)
    night = night_of(nightly, tmp_path, label_of(date.fromisoformat(FIRST), "fixed"))
    runs = [cell.run for cell in night.cells if cell.run is not None]
    # Both models have the same recorded answers, so one of them may take those of the other.
    assert not all("infer" in run.summary.run.cached_stages for run in runs)
    assert [run.run_id for run in runs] == [f"every-night-2026-03-01.fixed-mine-{name}" for name in ("steady", "shaky")]
    assert [len(cell.trend) for cell in night.cells] == [2, 2]


def test_a_night_of_some_rows_and_models_runs_only_these(nightly: Nightly, tmp_path: Path) -> None:
    night = night_of(nightly.chosen(["mine.yaml"], ["shaky"]), tmp_path, FIRST)
    assert [cell.name for cell in night.cells] == ["mine.yaml with shaky"]
    assert nightly.chosen([], []) == nightly
    for rows, models, what in ((["gsm8k"], [], "no row 'gsm8k'"), ([], ["large"], "no model 'large'")):
        with pytest.raises(InputError, match=what):
            nightly.chosen(rows, models)


def test_a_night_of_some_samples_runs_only_these(nightly: Nightly, tmp_path: Path) -> None:
    night = night_of(nightly.chosen([], ["shaky"], 7), tmp_path, FIRST)
    assert [task.sample_count for cell in night.cells if cell.run for task in cell.run.summary.tasks] == [7]


def test_the_cells_of_a_night_go_side_by_side(nightly: Nightly, tmp_path: Path) -> None:
    together = threading.Barrier(2, timeout=PATIENCE_S)

    def run(options: RunOptions, host: SharedEngines) -> RunReader:
        together.wait()
        return RunReader.open(Locations.at(options.store), run_inline(options, host=host).run_id)

    configs, places = nightly.configs_in(tmp_path), Locations.at(str(tmp_path / "store"))
    night = run_night(nightly, FIRST, configs, places, run)
    assert [cell.model.name for cell in night.cells if cell.run is not None] == ["steady", "shaky"]


def test_a_cell_that_crashes_leaves_the_others(nightly: Nightly, tmp_path: Path) -> None:
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)
    (tmp_path / "steady.jsonl").unlink()
    night = night_of(nightly, tmp_path, SECOND)
    assert {cell.model.name: cell.verdict for cell in night.cells} == {"steady": "failed", "shaky": "passed"}
    assert night.verdict == "failed"
    assert "steady.jsonl" in night.sentence


def test_a_store_that_answers_wrongly_for_one_cell_leaves_the_others_and_the_verdicts(
    nightly: Nightly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(nightly_module, "trend", Mock(side_effect=StoreError("the bucket answers 500")))
        night = night_of(nightly, tmp_path, SECOND)
    assert [(cell.verdict, cell.trend) for cell in night.cells] == [("passed", ()), ("passed", ())]
    gate = nightly_module.gate_with_anchor
    for error in (StoreError("the bucket answers 500"), ValueError("not a number")):
        with monkeypatch.context() as patch:
            patch.setattr(nightly_module, "gate_with_anchor", Mock(side_effect=[error, DEFAULT], wraps=gate))
            night = night_of(nightly, tmp_path, SECOND)
        problems = {cell.verdict: cell.problem for cell in night.cells}
        assert problems.keys() == {"unmeasured", "passed"}
        assert str(error) in (problems["unmeasured"] or "")


def test_a_cell_that_cannot_be_told_or_has_no_config_leaves_the_others(nightly: Nightly, tmp_path: Path) -> None:
    told = Mock(side_effect=OSError("the server is away"))
    night = night_of(nightly, tmp_path, FIRST, told=told)
    assert [cell.verdict for cell in night.cells] == ["unmeasured", "unmeasured"]
    assert told.call_count == 2
    lost = night_of(nightly, tmp_path, SECOND, {"elsewhere.yaml": "elsewhere.yaml"})
    assert [cell.verdict for cell in lost.cells] == ["failed", "failed"]


def test_the_trend_of_a_cell_holds_its_own_nights_only(nightly: Nightly, tmp_path: Path) -> None:
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)
    answer(tmp_path, "shaky", 280)
    night_of(nightly, tmp_path, SECOND)
    row, shaky = nightly.rows[0], nightly.models[1]
    store = Store.open(str(tmp_path / "store"))
    entry = Baselines(store).latest("small", "shaky")
    points = trend(Locations.at(store.url), entry, lambda stored: nightly.is_run_of(stored.run_id, row, shaky))
    assert [point.value for point in points] == [0.8, 0.7]
    picture = trend_chart(points, 0.8, "sums <b>")
    assert picture.count("<circle") == 2
    assert "baseline 0.800" in picture
    assert "<b>" not in picture


def test_the_report_of_a_cell_shows_its_verdict_and_its_nights(nightly: Nightly, tmp_path: Path) -> None:
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)
    answer(tmp_path, "shaky", 280)
    steady, shaky = (report_of(cell) for cell in night_of(nightly, tmp_path, SECOND).cells)
    assert "−0.100 regressed" in shaky
    assert "0.000 passed" in steady
    for report, name in ((steady, "steady"), (shaky, "shaky")):
        assert f"Against baseline {name}, entry 1" in report
        nights = re.findall(r"<title>(every-night-[^:]+)", report)
        assert nights == [f"every-night-{label}-mine-{name}" for label in (FIRST, SECOND)]


def test_a_report_that_cannot_be_written_costs_no_verdict(
    nightly: Nightly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)

    def refuse(*args: object) -> str:
        raise OSError("no space left")

    monkeypatch.setattr(gate_report, "stored_report", refuse)
    assert [cell.verdict for cell in night_of(nightly, tmp_path, SECOND).cells] == ["passed", "passed"]


def test_the_page_of_a_cell_has_its_verdict_and_its_trend(nightly: Nightly, tmp_path: Path) -> None:
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)
    answer(tmp_path, "shaky", 280)
    page = cell_page(night_of(nightly, tmp_path, SECOND).cells[1])
    assert page.startswith("## Regressed against baseline `shaky`, entry 1")
    assert "- **regressed**, alarm withheld: mine.yaml with shaky, sums exact\\_match 0.800 → 0.700 (−0.100, at" in page
    assert "](data:image/svg+xml;base64," in page


def test_the_gate_draws_only_runs_that_measure_the_same(nightly: Nightly, tmp_path: Path) -> None:
    first = night_of(nightly, tmp_path, FIRST)
    set_baselines(first, tmp_path)
    run_inline(RunOptions(config=str(tmp_path / "mine.yaml"), store=str(tmp_path / "store"), max_samples=3))
    answer(tmp_path, "shaky", 280)
    run = night_of(nightly, tmp_path, SECOND).cells[1].run
    assert run is not None
    entry = Baselines(run.store).latest("small", "shaky")
    points = trend_before(run, entry, {"sums": ["exact_match"]})
    assert [point.run_id for point in points] == [
        "every-night-2026-03-01-mine-shaky",
        "every-night-2026-03-02-mine-shaky",
    ]


def test_the_trend_of_a_suite_leaves_out_runs_of_chosen_samples(nightly: Nightly, tmp_path: Path) -> None:
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)
    store = str(tmp_path / "store")
    run_inline(RunOptions(config=str(tmp_path / "mine.yaml"), store=store, sample_ids=("s1", "s399")))
    entry = Baselines(Store.open(store)).latest("small", "shaky")
    assert {point.run_id.rpartition("-")[2] for point in trend(Locations.at(store), entry)} == {"steady", "shaky"}


def report_of(cell: NightCell) -> str:
    assert cell.run is not None
    return (cell.run.stored.folder.read("report.html") or b"").decode()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"schedule": {"cron": "0 2 * * *", "timezone": "Europe/Berlim"}}, "no time zone 'Europe/Berlim'"),
        ({"schedule": None}, "schedule"),
        ({"schedule": {"cron": "0 2 * *"}}, "schedule.cron: '0 2 * *' is not a schedule: give minute, hour, day of"),
        ({"modles": []}, "unknown key 'modles'. Did you mean 'models'?"),
        (
            {"models": [{"name": "small", "options": {"modell": "x"}}]},
            "options of gsm8k with small: modell: unknown key 'modell'. Did you mean 'model'?",
        ),
        ({"models": [{"name": "a b", "baseline": "a b"}]}, "the baseline 'a b' needs a plain name"),
        ({"models": [{"name": "a b"}, {"name": "a-b"}]}, "two cells would have the run name"),
        ({"models": [{"name": "a" * 100}]}, "is too long for the name of a run"),
        ({"gate": {"tolerance": -1}}, "gate.tolerance"),
        ({"webhook": "javascript:alert(1)"}, "webhook"),
        ({"notify": "team"}, "notify"),
        ({"runs_at_once": 0}, "runs_at_once"),
    ],
)
def test_an_impossible_file_is_refused(changes: dict[str, Any], sentence: str) -> None:
    values = {"schedule": {"cron": "0 2 * * *"}, "rows": ["gsm8k"], "models": [{"name": "small"}], **changes}
    with pytest.raises(InputError, match=r".") as error:
        Nightly.of_text(yaml.safe_dump(values), "nightly.yaml")
    assert sentence in str(error.value)
