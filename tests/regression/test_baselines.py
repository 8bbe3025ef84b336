"""Promises of baselines: only what can be measured again becomes one, and entries are never changed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import gage_eval
from gage_eval.base.errors import InputError
from gage_eval.regression.baselines import Baselines
from gage_eval.runs.options import Locations
from gage_eval.runs.record import RunRecord, SuiteRun
from gage_eval.runs.results.reading import RunReader
from gage_eval.store import Store
from tests.support.workspace import write_config, write_rows


@pytest.fixture
def run(tmp_path: Path) -> RunReader:
    write_rows(tmp_path)
    store = str(tmp_path / "store")
    gage_eval.run(write_config(tmp_path), run_id="first", store=store)
    return RunReader.open(Locations.at(store), "first")


def changed(run: RunReader, change: Callable[[RunRecord], RunRecord]) -> RunReader:
    run.stored.folder.update(change)
    return RunReader.open(run.stored.folder.locations, run.run_id)


def modified(record: RunRecord) -> RunRecord:
    suite = SuiteRun(name="gsm8k", version="v1", digest="0" * 64, modified=["tasks.gsm8k.sampling_params"])
    return record.model_copy(update={"suite": suite})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda record: record.model_copy(update={"pinned": False}), "without a fixed commit"),
        (modified, r"logic of suite 'gsm8k' was modified \(tasks\.gsm8k\.sampling_params\)"),
        (lambda record: record.model_copy(update={"status": "failed"}), "is failed, so it cannot be a baseline"),
        (
            lambda record: record.with_stages(
                {"sums/infer": record.stages["sums/infer"].model_copy(update={"complete": False})}
            ),
            r"infer of task 'sums' has rows that ended in error.*resume first --only-errors",
        ),
    ],
)
def test_a_run_that_cannot_be_repeated_cannot_be_a_baseline(
    run: RunReader, change: Callable[[RunRecord], RunRecord], sentence: str
) -> None:
    broken = changed(run, change)
    baselines = Baselines(Store.open(run.stored.folder.locations.store))
    with pytest.raises(InputError, match=sentence):
        baselines.add("main", [broken], promote=False)
    assert baselines.names() == []


def test_the_name_of_a_suite_is_one_folder_of_the_store(run: RunReader) -> None:
    named = changed(run, lambda record: record.model_copy(update={"name": "../../a b~/%2e"}))
    store = Store.open(run.stored.folder.locations.store)
    Baselines(store).add("main", [named], promote=False)
    assert Baselines(store).names() == [("../../a b~/%2e", "main")]
    assert Baselines(store).latest("../../a b~/%2e", "main").number == 1
    assert all(item.path.count("/") == 3 for item in store.objects.list("baselines"))


def test_a_damaged_entry_is_named(run: RunReader) -> None:
    store = Store.open(run.stored.folder.locations.store)
    baselines = Baselines(store)
    baselines.add("main", [run], promote=False)
    path = next(item.path for item in store.objects.list("baselines"))
    store.objects.replace(path, b"{")
    with pytest.raises(InputError, match=r"000001\.json in the store is damaged"):
        baselines.latest("small", "main")


def test_two_processes_that_set_the_same_entry_do_not_overwrite_each_other(run: RunReader) -> None:
    store = Store.open(run.stored.folder.locations.store)
    Baselines(store).add("main", [run], promote=False)
    with pytest.raises(InputError, match="exists"):
        Baselines(store).add("main", [run], promote=False)
    assert [entry.number for entry in Baselines(store).history("small", "main")] == [1]
    Baselines(store).add("main", [run], promote=True)
    assert [entry.why for entry in Baselines(store).history("small", "main")] == ["set", "promoted"]


def test_other_files_beside_the_entries_are_passed_over(run: RunReader) -> None:
    store = Store.open(run.stored.folder.locations.store)
    Baselines(store).add("main", [run], promote=False)
    folder = next(store.objects.list("baselines")).path.rpartition("/")[0]
    store.objects.create(f"{folder}/notes.txt", b"ours")
    store.objects.create("baselines/suite_small/drafts/notes.txt", b"ours")
    assert Baselines(store).names() == [("small", "main")]
    assert Baselines(store).latest("small", "main").number == 1


@pytest.mark.parametrize("name", ["", "..", "../../..", "/etc", "no such"])
def test_a_name_that_no_baseline_can_have_is_an_unknown_one(run: RunReader, name: str) -> None:
    baselines = Baselines(Store.open(run.stored.folder.locations.store))
    with pytest.raises(InputError, match=r"no baseline '.*'small' has none yet"):
        baselines.latest("small", name)


def test_a_baseline_of_another_config_is_named_where_it_is_looked_for(run: RunReader) -> None:
    baselines = Baselines(Store.open(run.stored.folder.locations.store))
    baselines.add("main", [run], promote=False)
    with pytest.raises(InputError, match=r"'other' has none yet\. A baseline 'main' is of 'small'.*metadata\.name"):
        baselines.latest("other", "main")


def test_a_user_without_a_name_can_set_a_baseline(run: RunReader, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("gage_eval.base.processes.getuser", unknown)
    store = Store.open(run.stored.folder.locations.store)
    assert Baselines(store).add("main", [run], promote=False).by == f"uid {os.getuid()}"
