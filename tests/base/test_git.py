"""Promises of `commit_of`: the commit that is checked out, whatever form git keeps it in."""

from pathlib import Path

import pytest

from gage_eval.base.git import commit_of

COMMIT, OTHER = "a" * 40, "b" * 40


@pytest.mark.parametrize(
    ("files", "commit"),
    [
        ({"HEAD": f"{COMMIT}\n"}, COMMIT),
        ({"HEAD": "ref: refs/heads/main\n", "refs/heads/main": f"{COMMIT}\n"}, COMMIT),
        ({"HEAD": "ref: refs/heads/a/b", "packed-refs": f"{OTHER} refs/heads/b\n{COMMIT} refs/heads/a/b"}, COMMIT),
        ({"HEAD": "ref: refs/heads/main\n", "packed-refs": ""}, None),
        ({"HEAD": "ref: refs/heads/main\n"}, None),
        ({"HEAD": "ref: /etc/passwd"}, None),
        ({"HEAD": "\udcff".encode("utf-8", "surrogateescape").decode("latin-1")}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_commit_of_a_folder_in_a_repository(tmp_path: Path, files: dict[str, str], commit: str | None) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    write(tmp_path / ".git", files)
    assert commit_of(tmp_path / "deep" / "er") == commit


def test_the_commit_of_a_worktree(tmp_path: Path) -> None:
    write(tmp_path / "main" / ".git", {"refs/heads/side": COMMIT})
    write(tmp_path / "main" / ".git" / "worktrees" / "side", {"HEAD": "ref: refs/heads/side", "commondir": "../..\n"})
    (tmp_path / "side").mkdir()
    (tmp_path / "side" / ".git").write_text(f"gitdir: {tmp_path}/main/.git/worktrees/side\n", encoding="utf-8")
    assert commit_of(tmp_path / "side") == COMMIT


def test_a_folder_outside_of_a_repository_has_none() -> None:
    assert commit_of(Path("/")) is None


def write(git: Path, files: dict[str, str]) -> None:
    git.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (git / name).parent.mkdir(parents=True, exist_ok=True)
        (git / name).write_text(text, encoding="utf-8")
