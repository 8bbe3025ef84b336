"""Five rows, one field changed at a time: exactly what the field's mark says is computed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import five_rows
import pytest
from changes import CONFIG, MODELS, OPTIONS, SETTINGS
from five_rows import Change, Laboratory, computed, computed_metrics, stages_of
from pydantic import BaseModel

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.base.marks import mark_of
from gage_eval.base.stages import stages_before
from gage_eval.config.settings import Settings
from gage_eval.pipeline.plan import make_plan
from gage_eval.runs import RunOptions
from gage_eval.runs.options import ModelOptions, load
from tests.support.marked_fields import walk_fields

# What makes no stage's key, so it has tests of its own below.
_APART = {
    # What the options of models make of a config: tests/config/test_model_choice.py.
    RunOptions: {"config", "text", "store", "refresh", "resume", "model_path", *ModelOptions.model_fields},
    Settings: {"store", "vllm_native_model_path"},
}


def cases() -> Iterator[Any]:
    for name, fields in CONFIG.items():
        for field, changes in fields.items():
            for number, change in enumerate(changes):
                yield pytest.param(MODELS[name], field, change, id=f"{name}.{field}-{number}")
    for model, registered in ((Settings, SETTINGS), (RunOptions, OPTIONS)):
        for field, changes in registered.items():
            for number, change in enumerate(changes):
                yield pytest.param(model, field, change, id=f"{model.__name__}.{field}-{number}")


@pytest.mark.parametrize("model", [*MODELS.values(), Settings, RunOptions])
def test_every_field_has_another_value_to_test_it_with(model: type[BaseModel]) -> None:
    registered = {Settings: SETTINGS, RunOptions: OPTIONS}.get(model, CONFIG.get(model.__name__, {}))
    leaves = {name for name, mark, _ in walk_fields(model) if mark != "nested"} - _APART.get(model, set())
    assert leaves - registered.keys() == set(), "add another value for it to tests/keys/changes.py"
    assert registered.keys() - leaves == set(), "there is no such field"


@pytest.mark.parametrize(("model", "field", "change"), list(cases()))
def test_a_changed_field_computes_what_its_mark_says(
    model: type[BaseModel], field: str, change: Change, lab: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change.refused is not None:
        with pytest.raises(InputError) as refusal:
            lab.run(change, monkeypatch)
        assert change.refused in str(refusal.value)
        return
    mark, stage = mark_of(model, field)
    outcome = lab.run(change, monkeypatch)
    done = computed(outcome)
    if mark == "scheduling" or change.same:
        assert done == (["report"] if change.shown else [])
        keys = {name: result.key for name, result in stages_of(lab.base(change.base)).items() if name != "report"}
        assert {name: result.key for name, result in stages_of(outcome).items() if name != "report"} == keys
    else:
        assert done[:1] == [stage]


def test_the_stages_before_a_change_are_the_same_actions(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    before = stages_of(lab.base())
    after = stages_of(lab.run(Change({"prompts.0.template": "What?"}), monkeypatch))
    unchanged = stages_before("infer")
    assert {name: before[name].outputs for name in unchanged if name in before} == {
        name: after[name].outputs for name in unchanged if name in after
    }


@pytest.mark.parametrize(
    "change",
    [
        Change({"metrics.0.metric_id": "renamed"}),
        Change({"tasks.0.task_id": "renamed"}),
        Change({"datasets.0.dataset_id": "renamed", "tasks.0.dataset_id": "renamed"}),
    ],
    ids=["metric_id", "task_id", "dataset_id"],
)
def test_names_reach_tables_and_report_only(change: Change, lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = lab.run(change, monkeypatch)
    assert set(computed(outcome)) <= {"auto_eval", "report"}
    assert computed_metrics(outcome) == 0
    task = outcome.summary.tasks[0]
    assert "renamed" in {task.task_id, task.dataset_id, *(metric.metric_id for metric in task.metrics)}


def test_changed_parameters_of_a_metric_score_that_metric_alone(
    lab: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lab.base().summary.tasks[0].metrics
    outcome = lab.run(Change({"metrics.0.params": {"case_sensitive": True}}), monkeypatch)
    after = outcome.summary.tasks[0].metrics
    assert computed_metrics(outcome) == 1
    assert after[1].scores == before[1].scores


def test_a_new_metric_scores_itself_alone(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = ["exact_match", "contains", "text_length", {"metric_id": "latency", "implementation": "latency"}]
    first = Change({"metrics": metrics[:1]})
    store = lab.copy_store()
    assert computed_metrics(lab.run(first, monkeypatch, store)) == 0, "the same metric under another name"
    for count in (2, 3, 4):
        outcome = lab.run(Change({"metrics": metrics[:count]}), monkeypatch, store)
        assert computed(outcome) == ["auto_eval", "report"]
        assert computed_metrics(outcome) == 1


def test_a_changed_judge_computes_the_judge_and_the_metric_that_reads_it(
    lab: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = lab.run(Change({"backends.3.config.answer": "CORRECT: no"}), monkeypatch)
    assert computed(outcome)[:2] == ["judge", "auto_eval"]
    assert computed_metrics(outcome) == 1


def test_a_refreshed_stage_computes_under_the_same_key(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = lab.run(Change(options={"refresh": ["infer"]}), monkeypatch)
    assert computed(outcome) == ["infer"]
    assert stages_of(outcome)["infer"].key == stages_of(lab.base())["infer"].key


def test_a_resumed_run_hits(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    store = lab.copy_store()
    lab.run(Change(options={"run_id": "again"}), monkeypatch, store)
    assert computed(lab.run(Change(options={"run_id": "again", "resume": True}), monkeypatch, store)) == []


@pytest.mark.parametrize("how", ["option", "setting"])
def test_the_same_store_under_another_address_hits(how: str, lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    url = lab.copy_store().as_uri()
    change = (
        Change(options={"store": url})
        if how == "option"
        else Change(options={"store": None}, env={"GAGE_EVAL_STORE": url})
    )
    outcome = lab.run(change, monkeypatch)
    assert computed(outcome) == []
    assert stages_of(outcome)["report"].key == stages_of(lab.base())["report"].key


def test_a_config_with_the_same_content_hits_under_any_name(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    store = lab.copy_store()
    assert computed(lab.run(Change(), monkeypatch, store)) == []


def test_model_path_counts_by_the_file_and_not_its_name(lab: Laboratory) -> None:
    config = {**five_rows.config("plain"), "backends": [{"backend_id": "model", "type": "llama_cpp"}]}
    file = lab.write(config, "local-model")

    def planned(model: Path) -> JsonValue:
        plan = make_plan(load(RunOptions(config=str(file), model_path=str(model))))
        return plan.tasks[0].infer.material()

    first, second = lab.folder / "one.gguf", lab.folder / "two.gguf"
    first.write_bytes(b"weights")
    second.write_bytes(b"weights")
    same = planned(first)
    assert planned(second) == same
    second.write_bytes(b"Weights")
    assert planned(second) != same
