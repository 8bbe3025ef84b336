"""Where a run lies, and the command that leads back to it."""

import shutil
from pathlib import Path

import pytest

import gage_eval
from gage_eval.base.errors import InputError
from gage_eval.runs.folder import RunFolder, list_runs
from gage_eval.runs.options import Locations, RunOptions
from gage_eval.runs.results.listing import listed_runs
from gage_eval.runs.results.stored import stored_runs
from tests.support.workspace import write_config, write_rows


@pytest.mark.parametrize(
    ("store", "output_dir", "options"),
    [
        (None, None, ""),
        (".gage", ".gage/runs", ""),
        ("my store", None, " --store 'my store'"),
        (None, "runs", " --output-dir runs"),
        ("s3://bucket/prefix", "here", " --store s3://bucket/prefix --output-dir here"),
    ],
)
def test_the_way_back_names_the_places_that_are_not_the_defaults(
    store: str | None, output_dir: str | None, options: str
) -> None:
    assert Locations.at(store, output_dir).again("quiet-otter") == f"gage resume quiet-otter{options}"


def test_what_the_environment_says_needs_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAGE_EVAL_STORE", "shared")
    assert Locations.at().again("quiet-otter") == "gage resume quiet-otter"
    assert Locations.at(".gage").again("quiet-otter") == "gage resume quiet-otter --store .gage"


@pytest.mark.parametrize("places", [{"store": "s3://"}, {"store": "s3:///x"}, {"output_dir": "s3://"}])
def test_a_url_without_a_bucket_is_refused_as_it_was_written(places: dict[str, str]) -> None:
    (url,) = places.values()
    with pytest.raises(InputError, match=f"^'{url}' names no bucket: write s3://bucket/prefix.$"):
        Locations.at(**places)


def test_a_record_holds_places_that_hold_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = RunOptions(config="mine.yaml", store="here", output_dir="s3://bucket/runs").recorded()
    assert kept["config"] == str(tmp_path / "mine.yaml")
    assert (kept["store"], kept["output_dir"]) == (str(tmp_path / "here"), "s3://bucket/runs")


def test_a_run_is_looked_for_where_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"no run 'lost': there are no runs at \.gage/runs"):
        RunFolder.open(Locations.at(), "lost")
    with pytest.raises(InputError, match="cannot be a run id"):
        RunFolder.open(Locations.at(), "../lost")
    assert not (tmp_path / ".gage").exists()


@pytest.mark.parametrize("store", ["file", "file/below"])
def test_a_file_in_the_place_of_a_store_is_named(tmp_path: Path, store: str) -> None:
    (tmp_path / "file").touch()
    locations = Locations.at(str(tmp_path / store))
    for look in (lambda: list(stored_runs(locations)), lambda: RunFolder.open(locations, "first")):
        with pytest.raises(InputError, match="/file is a file: give a folder"):
            look()


def test_a_folder_that_holds_other_folders_of_runs_lists_its_own_runs_only(tmp_path: Path) -> None:
    write_rows(tmp_path)
    write_config(tmp_path)
    gage_eval.run(tmp_path / "mine.yaml", run_id="outer", store=str(tmp_path / "store"), output_dir=str(tmp_path))
    gage_eval.run(tmp_path / "mine.yaml", run_id="inner", store=str(tmp_path / "store"))
    assert list_runs(str(tmp_path)) == ["outer"]
    assert [run.run for run in listed_runs(Locations.at(str(tmp_path / "store"), str(tmp_path)))] == ["outer"]


def test_a_run_that_is_removed_while_runs_are_listed_is_one_sentence(tmp_path: Path) -> None:
    write_rows(tmp_path)
    write_config(tmp_path)
    gage_eval.run(tmp_path / "mine.yaml", run_id="gone", store=str(tmp_path / "store"))
    (stored,) = stored_runs(Locations.at(str(tmp_path / "store")))
    shutil.rmtree(tmp_path / "store" / "runs" / "gone")
    with pytest.raises(InputError, match=r"gone/run\.json was removed"):
        _ = stored.record
