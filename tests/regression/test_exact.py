"""Promises of mode exact: every changed answer is found, chance is never a change, and nothing passes unasked."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.base.errors import InputError
from gage_eval.engine.host import SharedEngines
from gage_eval.regression.baselines import BaselineEntry, Baselines
from gage_eval.regression.gating import GateResult, gate, gate_with_anchor
from gage_eval.regression.nightly import Nightly, run_night
from gage_eval.regression.pages import night_page
from gage_eval.regression.policy import GatePolicy
from gage_eval.regression.triage import triage
from gage_eval.runs import RunOptions, run_inline
from gage_eval.runs.folder import has_run
from gage_eval.runs.options import Locations
from gage_eval.runs.planned import planned
from gage_eval.runs.probes import probe_models
from gage_eval.runs.results.reading import RunReader
from gage_eval.stats.gate_rule import GateRule
from gage_eval.store import Store
from tests.support.changing_model import ChangingModel, changing_model
from tests.support.workspace import write_config, write_rows

ROWS = 40
EXACT = GateRule(mode="exact")


@pytest.fixture
def model() -> Iterator[type[ChangingModel]]:
    with changing_model() as (url, model):
        config = {"base_url": url, "model": "sums", "default_params": {"temperature": 0}}
        write_config(Path(), backends=[{"backend_id": "model", "type": "openai_http", "config": config}])
        yield model


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path, ROWS)
    return tmp_path


def probed() -> None:
    (probed,) = probe_models(planned(RunOptions(config="mine.yaml", store="store")))
    assert probed.verdict.verdict == "exact"


def run(name: str, **options: Any) -> RunReader:
    return ask(RunOptions(config="mine.yaml", store="store", run_id=name, **{"freshness": name, **options}))


def ask(options: RunOptions) -> RunReader:
    return RunReader.open(Locations.at("store"), run_inline(options).run_id)


def baseline(*runs: RunReader) -> BaselineEntry:
    return Baselines(Store.open("store")).add("main", runs, promote=False)


def gated(reader: RunReader, entry: BaselineEntry, **options: Any) -> GateResult:
    return gate(reader, entry, EXACT, ask=ask, **options)


def changed_in(result: GateResult) -> tuple[str, ...]:
    (task,) = result.tasks
    assert task.changes is not None
    return task.changes.changed


def test_the_same_answers_pass_and_nothing_is_asked_again(model: type[ChangingModel]) -> None:
    probed()
    entry = baseline(run("before"), run("before2"))
    now = run("now")
    model.numbers.clear()
    result = gated(now, entry)
    assert (result.verdict, model.numbers) == ("passed", [])
    assert result.tasks[0].decision.notes == (f"0 of {ROWS} rows changed",)


@pytest.mark.parametrize("seed", range(2))
def test_every_planted_change_is_found_and_asked_again(model: type[ChangingModel], seed: int) -> None:
    rng = random.Random(seed)
    planted = rng.sample(range(ROWS), rng.randint(1, 12))
    # Another answer that scores the same, and one that differs by a space.
    model.changed = {planted[0]: "no"}
    probed()
    entry = baseline(run("before"))
    model.changed = {number: rng.choice(["no!", f"{number + 1} "]) for number in planted}
    now = run("now")
    model.numbers.clear()
    result = gated(now, entry)
    assert (result.verdict, changed_in(result)) == ("regressed", tuple(f"s{number}" for number in sorted(planted)))
    assert sorted(model.numbers) == sorted(planted)
    assert result.tasks[0].decision.notes[0].startswith(f"{len(planted)} of {ROWS} rows changed: s{min(planted)}")
    assert result.as_record()["tasks"][0]["details"]["changed"] == [f"s{number}" for number in sorted(planted)]


def test_an_engine_whose_changed_answers_do_not_come_again_is_not_exact(model: type[ChangingModel]) -> None:
    probed()
    entry = baseline(run("before"))
    model.changed, model.drifting = {3: "no"}, {7}
    result = gated(run("now"), entry)
    assert (result.verdict, changed_in(result)) == ("inconclusive", ("s3", "s7"))
    assert "this engine is not exact: asked again, 1 of 2 changed rows have another answer" in result.tasks[0].remarks


def test_repeats_of_the_baseline_that_differ_show_an_engine_that_is_not_exact(model: type[ChangingModel]) -> None:
    probed()
    model.drifting = {7}
    entry = baseline(run("before"), run("before2"))
    model.drifting, model.changed = set(), {3: "no"}
    model.numbers.clear()
    result = gated(run("now"), entry)
    assert result.verdict == "inconclusive"
    assert "this engine is not exact: the repeats of the baseline differ in 1 rows" in result.tasks[0].remarks
    assert len(model.numbers) == ROWS, "the changed rows are not asked again for nothing"


@pytest.mark.parametrize("when", ["never", "after", "between"])
def test_without_a_probe_before_both_runs_nothing_is_decided(model: type[ChangingModel], when: str) -> None:
    before = run("before")
    if when == "between":
        probed()
    now = run("now")
    if when == "after":
        probed()
    result = gated(now, baseline(before))
    assert result.verdict == "inconclusive"
    unknown = [name for name in ("before", "now") if when != "between" or name == "before"]
    for name in unknown:
        assert any(f"nothing shows that the engine of run {name} is exact" in note for note in result.tasks[0].remarks)


def test_changed_rows_that_cannot_be_asked_again_leave_no_verdict(model: type[ChangingModel]) -> None:
    probed()
    entry = baseline(run("before"))
    model.changed = {3: "no"}
    now = run("now")
    assert gate(now, entry, EXACT).tasks[0].decision.notes[-1] == "the changed rows were not asked again"
    model.down = True
    result = gated(now, entry)
    assert result.verdict == "inconclusive"
    assert "asked again" in result.tasks[0].decision.notes[-1]


def test_answers_from_the_store_and_missing_answers_do_not_pass(model: type[ChangingModel]) -> None:
    probed()
    entry = baseline(run("before", freshness=None))
    kept = gated(run("kept", freshness=None), entry)
    assert (kept.verdict, changed_in(kept)) == ("inconclusive", ())
    assert any("40 answers were taken from the store" in note for note in kept.tasks[0].remarks)
    fewer = gated(run("fewer", max_samples=30), entry)
    assert (fewer.verdict, changed_in(fewer)) == ("inconclusive", ())
    assert "10 rows have an answer in one of the runs only" in fewer.tasks[0].remarks
    drawn = gated(run("drawn", quick=30), entry)
    assert (drawn.verdict, drawn.tasks[0].decision.notes) == ("passed", ("0 of 30 rows changed",))


def test_a_run_that_stopped_early_is_refused(model: type[ChangingModel]) -> None:
    entry = baseline(run("before"))
    document = yaml.safe_load(Path("mine.yaml").read_text())
    document["tasks"] = [{"task_id": "sums", "dataset_id": "sums", "stop_when": {"half_width": 0.1}}]
    Path("mine.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(
        InputError, match=r"'sums' of now stopped early \(stop_when\), and mode exact compares all rows"
    ):
        gated(run("now"), entry)


def test_a_policy_says_which_number_is_exact(model: type[ChangingModel]) -> None:
    probed()
    entry = baseline(run("before"))
    model.changed = {3: "4 "}
    now = run("now")
    policy = GatePolicy.model_validate({"critical": [{"metric": "exact_match", "mode": "exact"}]})
    assert gate(now, entry, ask=ask).verdict != "regressed", "the score is the same"
    result = gate(now, entry, policy=policy, ask=ask)
    assert (result.verdict, changed_in(result)) == ("regressed", ("s3",))


def test_the_anchor_and_triage_look_at_scores(model: type[ChangingModel]) -> None:
    probed()
    first = run("first")
    baselines = Baselines(Store.open("store"))
    baselines.add("main", [first], promote=False)
    model.changed = {3: "4!"}
    baselines.add("main", [run("second")], promote=True)
    newest, anchor = gate_with_anchor(run("now"), "main", EXACT, ask=ask)
    assert anchor is not None
    assert (newest.verdict, anchor.tasks[0].changes) == ("passed", None)
    cause = triage(first, baselines.latest("small", "main"), EXACT, ask)
    assert (cause.tasks, cause.gated.tasks[0].changes) == ((), None)


def test_a_night_asks_the_changed_rows_again_with_its_own_engines(model: type[ChangingModel], folder: Path) -> None:
    probed()
    locations = Locations.at(str(folder / "store"))
    document = {
        "schedule": {"cron": "0 2 * * *"},
        "gate": {"mode": "exact"},
        "rows": [{"config": "mine.yaml"}],
        "models": [{"name": "sums"}],
    }
    nightly = Nightly.of_text(yaml.safe_dump(document), "nightly.yaml")
    calls: list[tuple[str, ...]] = []

    def carry_out(options: RunOptions, host: SharedEngines) -> RunReader:
        calls.append(options.sample_ids)
        resume = options.run_id is not None and has_run(locations, options.run_id)
        placed = options.model_copy(update={"resume": resume})
        return RunReader.open(locations, run_inline(placed, host=host).run_id)

    def night(label: str) -> Any:
        return run_night(nightly, label, nightly.configs_in(folder), locations, carry_out)

    (cell,) = night("2026-03-01").cells
    assert cell.run is not None
    Baselines(Store.open("store")).add("sums", [cell.run], promote=False)
    (quiet,) = night("2026-03-02").cells
    assert quiet.verdict == "passed"
    model.changed = {3: "no", 5: "no"}
    changed = night("2026-03-03")
    assert (changed.verdict, calls[-1]) == ("regressed", ("s3", "s5"))
    assert "2 of 40 rows changed" in changed.sentence
    assert "2 of 40 rows changed: s3, s5" in night_page(changed)
