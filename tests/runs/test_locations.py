"""Where a run lies, and the command that leads back to it."""

from pathlib import Path

import pytest

from gage_eval.errors import InputError
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.options import Locations, RunOptions


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


@pytest.mark.parametrize("given", [{"store": "s3://"}, {"store": "s3:///x"}, {"output_dir": "s3://"}])
def test_a_url_without_a_bucket_is_refused_as_it_was_written(given: dict[str, str]) -> None:
    (url,) = given.values()
    with pytest.raises(InputError, match=f"^'{url}' names no bucket: write s3://bucket/prefix.$"):
        Locations.at(**given)


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
