"""Configs of two folders with modules of one name: neither gets the code of the other."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gage_eval.extend.loading import load_object, look_in


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Two folders; each has a plug-in file, and a module of the same name that says which folder it is in."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "namesake.py").write_text(f"WORD = '{name}'\n")
        (tmp_path / name / "plug.py").write_text("from namesake import WORD\n\ndef word():\n    return WORD\n")
    before = list(sys.path)
    yield tmp_path / "one", tmp_path / "two"
    sys.path[:] = before
    sys.modules.pop("namesake", None)


def test_a_file_gets_the_module_of_its_own_folder(folders: tuple[Path, Path]) -> None:
    first, second = folders
    words = []
    for folder in (first, second):
        look_in([folder])
        words.append(load_object(f"{folder / 'plug.py'}:word")[0])
    assert [word() for word in words] == ["one", "two"]


@pytest.mark.parametrize("name", ["plug.py:word", "namesake:word"])
def test_an_edited_module_is_run_again_so_that_the_identity_is_that_of_the_code_that_runs(
    folders: tuple[Path, Path], name: str
) -> None:
    """As in a notebook: otherwise results of the old code were stored as those of the new one."""
    folder = folders[0]
    look_in([folder])
    origins = {}
    for text in ("one", "two", "one"):
        (folder / "namesake.py").write_text(f"WORD = '{text}'\n\ndef word():\n    return WORD\n")
        word, origin = load_object(f"{folder / name}" if ".py" in name else name)
        assert word() == text
        assert origins.setdefault(text, origin) == origin
    assert len(set(origins.values())) == 2


def test_a_late_import_finds_the_module_of_the_config_that_was_read_last(folders: tuple[Path, Path]) -> None:
    first, second = folders
    for folder in folders:
        (folder / "plug.py").write_text("def word():\n    from namesake import WORD\n    return WORD\n")
    for folder, expected in ((first, "one"), (second, "two"), (first, "one")):
        look_in([folder])
        assert load_object(f"{folder / 'plug.py'}:word")[0]() == expected


def test_a_module_is_that_of_the_config_that_was_read_last(folders: tuple[Path, Path]) -> None:
    first, second = folders
    for folder, expected in ((first, "one"), (second, "two"), (first, "one")):
        look_in([folder])
        word, origin = load_object("namesake:WORD")
        assert word == expected
        assert origin.startswith("sha256:")


def test_folders_of_configs_stay_behind_all_others_the_last_config_first(folders: tuple[Path, Path]) -> None:
    first, second = map(str, folders)
    before = list(sys.path)
    look_in([Path(first)])
    look_in([Path(second)])
    assert sys.path.index(second) < sys.path.index(first)
    look_in([Path(first)])
    ours = sys.path.index(first)
    assert ours < sys.path.index(second)
    assert set(sys.path[:ours]) <= set(before)
