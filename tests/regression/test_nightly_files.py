"""The configs of nightly runs travel with their deployment, as they are when it is deployed."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.regression.nightly import Nightly
from gage_eval.regression.nightly_files import NightlyFiles, nightly_files
from gage_eval.runs.deployed import DeploymentRecord, FindDeleted
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.maintenance import collect_garbage
from gage_eval.runs.options import BUNDLE_PREFIX, Locations
from gage_eval.runs.record import RunRecord
from gage_eval.store import Store
from tests.support.nights import FIRST, answer, night_of, two_models

API = "http://127.0.0.1:4200/api"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def nightly(project: Path) -> Nightly:
    return two_models(project)


def files_of(nightly: Nightly, project: Path, store: str | None = None) -> NightlyFiles:
    return nightly_files(nightly, project, Locations.at(store or str(project.parent / "store")), None)


def notes(files: NightlyFiles, pool: str | None = None) -> list[str]:
    return list(files.lacks(pool))


def keep(files: NightlyFiles, deployment_id: str = "1") -> None:
    files.keep(API, deployment_id=deployment_id, flow_id="nightly-flow")


def name_data(project: Path, path: str) -> None:
    """Have the config name other data."""
    file = project / "mine.yaml"
    config = yaml.safe_load(file.read_text())
    config["datasets"][0]["params"]["path"] = path
    file.write_text(yaml.safe_dump(config))


def test_a_night_needs_nothing_of_the_folder_that_it_was_deployed_from(
    nightly: Nightly, project: Path, tmp_path: Path
) -> None:
    files = files_of(nightly, project)
    files.put()
    shutil.rmtree(project)

    night = night_of(nightly, tmp_path, FIRST, files.configs)

    assert [cell.verdict for cell in night.cells] == ["unmeasured", "unmeasured"]


def test_a_night_runs_what_was_deployed_until_it_is_deployed_again(
    nightly: Nightly, project: Path, tmp_path: Path
) -> None:
    before = files_of(nightly, project).configs
    assert files_of(nightly, project).configs == before, "deploying again changes nothing"
    assert before["mine.yaml"].startswith(BUNDLE_PREFIX)
    assert str(project) not in str(before)
    assert not (tmp_path / "store").exists(), "reading the files stores nothing, as for --dry-run"

    answer(project, "shaky", 280)

    assert files_of(nightly, project).configs != before, "the answers that one of the models names are part of it"
    assert notes(files_of(nightly, project)) == [
        "nights run mine.yaml as of now. After a change of a config, its plug-ins or its data, deploy again."
    ]


def test_what_a_worker_must_have_itself_is_said_once(nightly: Nightly, project: Path) -> None:
    rows = (project / "rows.jsonl").resolve()
    name_data(project, str(rows))
    lines = notes(files_of(nightly, project), pool="gpus")
    assert lines[0].startswith("the workers of 'gpus' must have the store at the same path")
    assert lines[1] == f"mine.yaml: the worker needs '{rows}' at the same path (datasets[0].params.path)."
    assert len(lines) == 3


def test_a_config_that_cannot_travel_stays_where_it_is_or_is_refused(nightly: Nightly, project: Path) -> None:
    (project / "rows.jsonl").rename(project.parent / "rows.jsonl")
    name_data(project, "../rows.jsonl")
    files = files_of(nightly, project)
    assert files.configs == {"mine.yaml": str(project / "mine.yaml")}
    (note,) = notes(files)
    assert note.startswith("mine.yaml: only a worker on this machine can carry out the run")
    assert "'../rows.jsonl' is outside the config's folder" in note

    with pytest.raises(InputError, match=r"mine\.yaml: the run cannot go to a worker on another machine"):
        notes(files_of(nightly, project, "s3://bucket/evals"))


def test_mistakes_of_a_config_are_found_before_it_is_deployed(nightly: Nightly, project: Path) -> None:
    file = project / "mine.yaml"
    file.write_text(file.read_text().replace("exact_match", "exact_macth"))
    with pytest.raises(ConfigError, match="exact_macth"):
        files_of(nightly, project)


def test_a_config_that_was_not_deployed_fails_its_cell_alone(nightly: Nightly, tmp_path: Path) -> None:
    night = night_of(nightly, tmp_path, FIRST, {"other.yaml": "bundle:0"})
    assert {cell.verdict for cell in night.cells if cell.row.config == "mine.yaml"} == {"failed"}
    assert "'mine.yaml' was not deployed with this file" in str(night.cells[0].problem)


def test_gc_keeps_the_files_of_a_deployment_until_it_needs_others(nightly: Nightly, project: Path) -> None:
    locations = Locations.at(str(project.parent / "store"))
    store = Store.open(locations.store)

    def deploy() -> str:
        files = files_of(nightly, project)
        files.put()
        keep(files)
        return files.configs["mine.yaml"].removeprefix(BUNDLE_PREFIX)

    def collected() -> set[str]:
        collect_garbage(locations, min_age="0s")
        return {Path(item.path).stem for item in store.objects.list("bundles")}

    first = deploy()
    media = len(list(store.objects.list("media")))
    assert media > 0
    assert collected() == {first}
    assert len(list(store.objects.list("media"))) == media

    answer(project, "shaky", 280)
    second = deploy()
    assert second != first
    assert collected() == {second}


@pytest.fixture
def deployed(nightly: Nightly, project: Path) -> NightlyFiles:
    """The files of a deployment, in the store."""
    files = files_of(nightly, project)
    files.put()
    keep(files)
    return files


def kept(files: NightlyFiles, find_deleted: FindDeleted, *, dry_run: bool = False) -> tuple[int, int, list[str]]:
    """Collect garbage. Returns the number of bundles and of records that are left, and what is printed."""
    done = collect_garbage(Locations.at(files.store), min_age="0s", find_deleted=find_deleted, dry_run=dry_run)
    objects = Store.open(files.store).objects
    return len(list(objects.list("bundles"))), len(list(objects.list("deployments"))), done.lines[1:]


def test_gc_frees_the_files_of_a_deployment_that_its_server_does_not_have_any_more(deployed: NightlyFiles) -> None:
    def of_another_server(records: object) -> list[DeploymentRecord]:
        return []

    assert kept(deployed, of_another_server) == (1, 1, [])
    line = f"The nightly deployment 'every-night' was deleted at {API}: its files are not kept any more."
    assert kept(deployed, list, dry_run=True) == (1, 1, [line])
    assert kept(deployed, list) == (0, 0, [line])


def test_gc_keeps_the_files_while_the_server_does_not_answer(deployed: NightlyFiles) -> None:
    def silent(records: object) -> list[DeploymentRecord]:
        raise InputError("the Prefect API does not answer.")

    assert kept(deployed, silent) == (
        1,
        1,
        ["The files of all nightly deployments are kept: the Prefect API does not answer."],
    )


def test_gc_keeps_the_files_of_a_deleted_deployment_for_a_run_that_may_be_resumed(
    deployed: NightlyFiles, tmp_path: Path
) -> None:
    shaky = night_of(deployed.nightly, tmp_path, FIRST, deployed.configs).cells[1].run
    assert shaky is not None
    for status, left in (("interrupted", (1, 1)), ("completed", (0, 0))):
        folder = RunFolder.open(Locations.at(deployed.store), shaky.run_id)
        folder.update(lambda record, status=status: record.model_copy(update={"status": status}))  # type: ignore[misc]
        assert kept(deployed, list)[:2] == left


def test_gc_does_not_forget_a_deployment_that_was_made_again_meanwhile(deployed: NightlyFiles) -> None:
    def deployed_again(records: Sequence[DeploymentRecord]) -> list[DeploymentRecord]:
        keep(deployed, deployment_id="2")
        return list(records)

    assert kept(deployed, deployed_again)[1] == 1


def test_a_night_that_was_deployed_again_on_its_day_is_looked_into_with_its_new_config(
    nightly: Nightly, project: Path, tmp_path: Path
) -> None:
    def run_deployed() -> tuple[str, RunRecord]:
        files = files_of(nightly, project)
        files.put()
        shaky = night_of(nightly, tmp_path, FIRST, files.configs).cells[1].run
        assert shaky is not None
        return files.configs["mine.yaml"], shaky.stored.record

    first, record = run_deployed()
    assert record.options["config"] == first
    answer(project, "shaky", 280)
    second, record = run_deployed()
    assert second != first
    assert record.options["config"] == second
