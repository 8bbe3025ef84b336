"""Promises of the noise floor: how many rows flip between identical runs, next to every difference and in its power."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gage_eval.cli.outputs import NoiseFloor
from gage_eval.regression.baselines import Baselines
from gage_eval.regression.compare import TaskComparisonResult, compare
from gage_eval.regression.gating import gate_with_anchor
from gage_eval.regression.power import plan_power
from gage_eval.regression.report_adapter import comparison
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.options import Locations
from gage_eval.runs.planned import planned
from gage_eval.runs.results.reading import RunReader
from gage_eval.stats.gate_rule import GateRule
from gage_eval.stats.planned import planned_loss
from gage_eval.store import Store
from tests.support.changing_model import ChangingModel, changing_model
from tests.support.workspace import write_config, write_rows

ROWS = 40


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[ChangingModel]]:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path, ROWS)
    with changing_model() as (url, model):
        _config(url)
        yield model


def _config(url: str, model: str = "sums") -> None:
    config = {"base_url": url, "model": model, "default_params": {"temperature": 0}}
    write_config(Path(), backends=[{"backend_id": "model", "type": "openai_http", "config": config}])


def run(name: str, *wrong: int, **options: Any) -> RunReader:
    options = {"config": "mine.yaml", "store": "store", "run_id": name, "freshness": name, **options}
    return RunReader.open(Locations.at("store"), run_inline(RunOptions(**options)).run_id)


def only(results: list[TaskComparisonResult]) -> TaskComparisonResult:
    (result,) = results
    return result


def three_runs(model: type[ChangingModel]) -> list[RunReader]:
    """Of one model: the second has two wrong answers, the third has two others."""
    runs = []
    for name, wrong in (("a", ()), ("b", (1, 2)), ("c", (3, 4))):
        model.changed = dict.fromkeys(wrong, "no")
        runs.append(run(name))
    model.changed = {}
    return runs


# 2, 2 and 4 rows differ between the three pairs of runs.
SENTENCE = "2.67 of 40 rows flip between two identical runs (A/A, 3 runs)"


def test_repeats_of_a_baseline_and_stored_runs_show_the_same_floor(model: type[ChangingModel]) -> None:
    runs = three_runs(model)
    model.changed = {5: "no"}
    now = run("now", overrides=("backends.model.config.model=other",))
    baselines = Baselines(Store.open("store"))
    baselines.add("alone", [runs[0]], promote=False)
    entry = baselines.add("repeated", runs, promote=False)
    assert baselines.noise_floors(entry)["sums"].text == SENTENCE
    compared = only(compare(runs[0], now))
    assert compared.notes[0] == SENTENCE
    expected: NoiseFloor = {"runs": 3, "rows": ROWS, "flips": pytest.approx(8 / 3)}
    assert compared.as_record()["noise_floor"] == expected
    assert SENTENCE in comparison("a", [compared]).tasks[0].notes
    for name in ("alone", "repeated"):
        gated, _ = gate_with_anchor(now, name)
        assert gated.tasks[0].remarks[0] == SENTENCE
        assert gated.as_record()["tasks"][0]["details"]["noise_floor"] == expected


def test_the_power_of_compare_gate_and_plan_is_one_figure(model: type[ChangingModel]) -> None:
    runs = three_runs(model)
    now = run("now", overrides=("backends.model.config.model=other",))
    Baselines(Store.open("store")).add("main", runs, promote=False)
    compared = only(compare(runs[0], now))
    assert compared.task.spread is not None
    gated, _ = gate_with_anchor(now, "main")
    plan = planned(RunOptions(config="mine.yaml", store="store"))
    (power,) = plan_power(plan.plan, plan.store, plan.locations)
    loss = planned_loss(compared.task.spread, ROWS, GateRule())
    assert loss is not None
    assert gated.tasks[0].decision.detectable == power.loss
    # The order of the runs is another one: the spread is that of the last against the mean of the others.
    assert compared.detectable == loss == pytest.approx(power.loss, rel=0.5)


def test_other_models_prompts_subsets_and_cached_answers_are_no_repeats(model: type[ChangingModel]) -> None:
    first = run("first")
    run("other_model", overrides=("backends.model.config.model=other",))
    run("fewer", max_samples=20)
    run("warmer", overrides=("backends.model.config.default_params.temperature=1",))
    run("cached", freshness="first")
    now = run("now")
    assert only(compare(first, now)).task.noise_floor is None
    assert not [note for note in only(compare(first, now)).notes if "A/A" in note]
    run("again")
    floor = only(compare(first, now)).task.noise_floor
    assert floor is not None
    assert (floor.runs, floor.flips) == (2, 0.0)
    assert floor.text.startswith("0 of 40 rows flip")
