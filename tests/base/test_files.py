"""Paths as people write them."""

from pathlib import Path

import pytest

from gage_eval.base.errors import InputError
from gage_eval.base.files import is_folder, local_path


@pytest.mark.parametrize("path", ["a" * 256, "ü" * 128 + "/b", "b/" + "a" * 5000, "a\0b"])
def test_what_no_file_can_be_called_is_refused_in_one_sentence(tmp_path: Path, path: str) -> None:
    with pytest.raises(
        InputError, match=r"^'.{1,61}…' cannot be a path: it has a null byte, or a name over 255 bytes\.$"
    ):
        local_path(path, tmp_path)
    assert not is_folder(path, tmp_path)


def test_long_paths_of_short_names_are_fine(tmp_path: Path) -> None:
    path = "/".join(["ü" * 127] * 4)
    (tmp_path / path).mkdir(parents=True)
    assert is_folder(path, tmp_path)
