"""YAML files next to a config are read within bounds, and what is beyond them is a sentence."""

import os
from pathlib import Path

import pytest
import yaml

from gage_eval.plain_yaml import MAX_BYTES, plain_values, read_bounded

_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
_TOWER = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [[[[[[[[*a{n - 1}]]]]]]]]\n" for n in range(1, 12))


def test_what_aliases_repeat_is_there_each_time() -> None:
    assert plain_values(b"a: &a {b: [1, x]}\nc: [*a, *a]\n") == {
        "a": {"b": [1, "x"]},
        "c": [{"b": [1, "x"]}, {"b": [1, "x"]}],
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 200_000, "it is nested more than 64 levels deep"),
        (_BOMB, "its aliases make more than 200,000 values or 64 levels of it"),
        (_TOWER, "its aliases make more than 200,000 values or 64 levels of it"),
        ("a: &a [*a]", "its aliases contain themselves"),
        ("a: 2020-13-45", "month must be in 1..12"),
        (" " * (MAX_BYTES + 1), "it is larger than 1 MiB"),
    ],
    ids=["deep", "bomb", "tower", "itself", "date", "large"],
)
def test_what_no_such_file_needs_is_refused(text: str, reason: str) -> None:
    with pytest.raises(yaml.YAMLError) as refused:
        plain_values(text.encode())
    assert str(refused.value) == reason


def test_a_file_without_an_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    for name in ("pipe.yaml", "zero.yaml"):
        with pytest.raises(OSError, match="it is not a regular file"):
            read_bounded(tmp_path / name)
    (tmp_path / "long.yaml").write_bytes(b"#" * (2 * MAX_BYTES))
    assert len(read_bounded(tmp_path / "long.yaml")) == MAX_BYTES + 1
