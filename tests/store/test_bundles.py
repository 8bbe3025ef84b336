"""Bundles: files go through the store unchanged, stay in their folder, and are kept as long as a run needs them."""

import os
from pathlib import Path

import pytest

from gage_eval.base.errors import InputError
from gage_eval.store import Store
from gage_eval.store.bundles import Bundle, bundle_path, put_files, write_files
from gage_eval.store.media import media_path

FILES = {"run.yaml": b"tasks: []\n", "data/my rows.jsonl": b"{}\n", "plug/plugin.py": b"X = 1\n"}


def stored(store: Store, files: dict[str, bytes] = FILES) -> str:
    return Bundle("run.yaml", put_files(store.media, files)).put(store.objects)


def test_files_are_the_same_after_their_way_through_the_store(store: Store, tmp_path: Path) -> None:
    name = stored(store)
    assert stored(store) == name, "equal files are one bundle"

    bundle = Bundle.find(store.objects, name)
    write_files(store.media, bundle.files, tmp_path / "there")

    assert bundle.config == "run.yaml"
    there = {file.relative_to(tmp_path / "there").as_posix(): file for file in (tmp_path / "there").rglob("*.*")}
    assert {path: file.read_bytes() for path, file in there.items()} == FILES


@pytest.mark.parametrize("path", ["../out.py", "/tmp/out.py", "a/../../out.py", "..", "", "a\0b"])
def test_a_path_that_leads_out_of_the_folder_is_refused_and_nothing_is_written(
    local: Store, tmp_path: Path, path: str
) -> None:
    files = put_files(local.media, {"fine.py": b"1", "out.py": b"2"})
    with pytest.raises(InputError, match="leads out of the run's folder; nothing was written"):
        write_files(local.media, {"fine.py": files["fine.py"], path: files["out.py"]}, tmp_path / "there")
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("path", ["__pycache__/plugin.cpython-312.pyc", "plug/__pycache__/x.py"])
def test_compiled_code_that_python_takes_in_place_of_a_source_is_refused(
    local: Store, tmp_path: Path, path: str
) -> None:
    files = put_files(local.media, {path: b"1"})
    with pytest.raises(InputError, match="is compiled code, which does not travel; nothing was written"):
        write_files(local.media, files, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_changed_or_missing_file_is_refused(local: Store, tmp_path: Path) -> None:
    files = put_files(local.media, FILES)
    file = Path(local.url, media_path(files["plug/plugin.py"]))
    file.chmod(0o600)
    file.write_bytes(b"import os\n")
    with pytest.raises(InputError, match=r"'plug/plugin\.py' of the run is gone from the store or was changed"):
        write_files(local.media, files, tmp_path / "there")
    file.unlink()
    with pytest.raises(InputError, match=r"'plug/plugin\.py' of the run is gone"):
        write_files(local.media, files, tmp_path / "again")


def test_a_bundle_that_is_not_as_it_was_stored_is_refused_and_found(local: Store) -> None:
    name = stored(local)
    file = Path(local.url, bundle_path(name))
    file.chmod(0o600)
    file.write_text(file.read_text().replace("run.yaml", "bad.yaml"))
    with pytest.raises(InputError, match="was changed: start the run again"):
        Bundle.find(local.objects, name)
    assert [finding.path for finding in local.verify()] == [bundle_path(name)]
    assert [finding.path for finding in local.verify(remove=True)] == [bundle_path(name)]
    with pytest.raises(InputError, match="has no bundle"):
        Bundle.find(local.objects, name)


def test_a_collection_keeps_the_bundles_of_unfinished_runs_with_their_files(store: Store, tmp_path: Path) -> None:
    kept = stored(store)
    gone = stored(store, {"run.yaml": b"another\n"})

    store.gc([], bundles=[kept], min_age_s=-60)

    write_files(store.media, Bundle.find(store.objects, kept).files, tmp_path / "there")
    with pytest.raises(InputError, match="has no bundle"):
        Bundle.find(store.objects, gone)
    store.gc([], min_age_s=-60)
    assert list(store.objects.list("bundles")) == list(store.objects.list("media")) == []


def test_a_collection_keeps_what_is_young(local: Store) -> None:
    name = stored(local)
    assert local.gc([]).objects == 0
    # A bundle that is stored again is as young as a new one, and so are its files.
    for item in local.objects.list():
        os.utime(Path(local.url, item.path), (0, 0))
    stored(local)
    assert local.gc([]).objects == 0
    assert Bundle.find(local.objects, name).config == "run.yaml"
