"""Promises of the power before a run: from stored variances, on the planned rows; nights without it are refused."""

from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import ConfigError
from gage_eval.regression.baselines import Baselines
from gage_eval.regression.nightly import Nightly, check_detect
from gage_eval.regression.nightly_files import nightly_files
from gage_eval.regression.power import NumberPower, entry_power, plan_power
from gage_eval.runs.options import Locations, RunOptions
from gage_eval.runs.planned import planned
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.planned import RowSpread, planned_rows
from gage_eval.store import Store
from tests.support.nights import COUNT, FIRST, SECOND, night_of, set_baselines, two_models


@pytest.fixture
def nightly(tmp_path: Path) -> Nightly:
    """A night has made the baselines of both models."""
    nightly = two_models(tmp_path)
    set_baselines(night_of(nightly, tmp_path, FIRST), tmp_path)
    return nightly


def asking(nightly: Nightly, detect: float, tolerance: float = 0.0, **changes: Any) -> Nightly:
    return nightly.model_copy(update={"detect": detect, "gate": GateRule(tolerance=tolerance), **changes})


def powers(folder: Path, **options: Any) -> list[NumberPower]:
    store = str(folder / "store")
    run = planned(RunOptions(config=str(folder / "mine.yaml"), store=store, **options))
    return plan_power(run.plan, run.store, run.locations)


def test_a_plan_says_what_the_gate_could_find_on_the_planned_rows(nightly: Nightly, tmp_path: Path) -> None:
    whole = powers(tmp_path)
    # 320 of 400 are right: two independent runs differ by 2 · 0.8 · 0.2 a row.
    assert [power.against.split(" (")[0] for power in whole] == ["baseline steady", "baseline shaky"]
    assert [power.rows for power in whole] == [COUNT, COUNT]
    first = whole[0]
    assert first.spread is not None
    assert first.spread.variance == pytest.approx(2 * 0.8 * 0.2, rel=0.01)
    assert first.loss is not None
    for fewer in (powers(tmp_path, max_samples=100), powers(tmp_path, quick=100)):
        assert fewer[0].rows == 100
        assert fewer[0].loss is not None
        assert fewer[0].loss > first.loss
    assert "is found with a chance of 80 % on 400 rows; a loss of 0.01 takes " in first.sentence


def test_repeats_show_more_than_one_run_and_the_newest_run_stands_for_a_baseline(
    nightly: Nightly, tmp_path: Path
) -> None:
    store = Store.open(str(tmp_path / "store"))
    night = night_of(nightly, tmp_path, SECOND)
    baselines = Baselines(store)
    steady = next(cell.run for cell in night.cells if cell.model.name == "steady")
    assert steady is not None
    entry = baselines.add("twice", [steady, steady], promote=False)
    locations = Locations.at(store.url)
    run = planned(RunOptions(config=str(tmp_path / "mine.yaml"), store=store.url))
    (twice,) = entry_power(run.plan, store, entry, locations, GateRule(tolerance=0))
    nowhere = Locations.at(store.url, str(tmp_path / "elsewhere"))
    (once,) = entry_power(run.plan, store, baselines.latest("small", "steady"), nowhere, GateRule(tolerance=0))
    assert twice.loss is not None
    assert once.loss is not None
    assert twice.loss < once.loss / 4
    assert "(2 repeats)" in twice.sentence
    for path in list(store.objects.list("baselines")):
        store.objects.delete(path.path)
    (alone,) = plan_power(run.plan, store, Locations.at(store.url))
    assert alone.against.endswith("alone, as if another run were independent of it"), "a recording is no repeat"


def test_nights_that_cannot_find_the_loss_are_refused_with_the_rows(nightly: Nightly, tmp_path: Path) -> None:
    locations = Locations.at(str(tmp_path / "store"))
    configs = nightly.configs_in(tmp_path)
    for refusing in (
        lambda night: check_detect(night, configs, locations),
        lambda night: nightly_files(night, tmp_path, locations, None),
        lambda night: night_of(night, tmp_path, SECOND),
    ):
        with pytest.raises(ConfigError, match="detect") as refused:
            refusing(asking(nightly, 0.02))
        said = [problem.message for problem in refused.value.problems]
        assert len(said) == 2
        assert all("a loss of 0.02 takes " in text and "rows, and 400 are planned" in text for text in said)
    assert not list((tmp_path / "store" / "runs").glob(f"*{SECOND}*"))
    check_detect(asking(nightly, 0.2), configs, locations)
    with pytest.raises(ConfigError, match=r"the tolerance of 0\.02 accepts a loss of 0\.02"):
        check_detect(asking(nightly, 0.02, 0.02), configs, locations)


def test_a_quick_look_and_cells_without_a_baseline_are_not_refused(nightly: Nightly, tmp_path: Path) -> None:
    locations, configs = Locations.at(str(tmp_path / "store")), nightly.configs_in(tmp_path)
    check_detect(asking(nightly, 0.001).chosen((), (), 20), configs, locations)
    check_detect(asking(nightly, 0.001), configs, Locations.at(str(tmp_path / "empty")))
    check_detect(asking(nightly, 0.001), {}, locations)
    with pytest.raises(ConfigError):
        check_detect(asking(nightly, 0.001), configs, locations)


def test_cells_without_a_baseline_are_checked_by_the_newest_run_and_others_are_named(
    nightly: Nightly, tmp_path: Path
) -> None:
    store, configs = Store.open(str(tmp_path / "store")), nightly.configs_in(tmp_path)
    for path in list(store.objects.list("baselines")):
        store.objects.delete(path.path)
    with pytest.raises(ConfigError, match=r"with steady: .* rows, and 400 are planned"):
        check_detect(asking(nightly, 0.001), configs, Locations.at(store.url))
    empty = Locations.at(str(tmp_path / "empty"))
    why = "detect is not checked, because nothing stored shows how its rows vary"
    said = [f"mine.yaml with {name}: {why}" for name in ("steady", "shaky")]
    assert check_detect(asking(nightly, 0.02), configs, empty) == said
    assert [*nightly_files(asking(nightly, 0.02), tmp_path, empty, None).lacks(None)][:2] == said


NIGHT = "rows: [gsm8k]\nmodels: [{name: m}]\nschedule: {cron: '0 2 * * *'}\n"


@pytest.mark.parametrize(
    ("more", "tolerance"),
    [
        ("", 0.02),
        ("detect: 0.02", 0.01),
        ("detect: 0.5", 0.02),
        ("detect: 0.02\ngate: {alpha: 0.01}", 0.01),
        ("detect: 0.02\ngate: {tolerance: 0.015}", 0.015),
    ],
)
def test_a_night_that_is_to_find_a_loss_does_not_tolerate_it_by_default(more: str, tolerance: float) -> None:
    assert Nightly.of_text(NIGHT + more, "nightly.yaml").gate.tolerance == tolerance


def test_a_tolerance_of_half_the_loss_takes_no_more_rows() -> None:
    spread = RowSpread(0.02, 1.0, binary=True, repeats=5)
    assert planned_rows(0.02, spread, GateRule(tolerance=0.01)) == planned_rows(0.02, spread, GateRule(tolerance=0))


@pytest.mark.parametrize("value", ["0", "-0.02", ".inf", "much"])
def test_an_impossible_loss_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="detect"):
        Nightly.of_text(f"{NIGHT}detect: {value}\n", "nightly.yaml")
