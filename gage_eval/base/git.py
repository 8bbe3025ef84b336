"""The commit of a folder under git, read from git's own files: no program is started."""

import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")


def is_commit(text: str) -> bool:
    """Whether a text is a full commit hash, as the hub and GitHub have them."""
    return _SHA1.fullmatch(text) is not None


def commit_of(folder: Path) -> str | None:
    """The commit that is checked out where a folder lies; files may have been changed since.

    None outside of a repository, before its first commit, and where git's files cannot be read.
    """
    try:
        inside = next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)
        return None if inside is None else _head(inside / ".git")
    except (OSError, ValueError):
        return None


def _head(git: Path) -> str | None:
    if git.is_file():  # a worktree or a submodule: a file with the address of git's folder
        git = git.parent / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    common = git / "commondir"
    shared = git / common.read_text(encoding="utf-8").strip() if common.is_file() else git
    if head.startswith("ref: refs/"):
        name = head.removeprefix("ref: ")
        place = next((base / name for base in (git, shared) if (base / name).is_file()), None)
        head = _packed(shared, name) if place is None else place.read_text(encoding="utf-8").strip()
    return head if _COMMIT.fullmatch(head) else None


def _packed(git: Path, name: str) -> str:
    lines = (git / "packed-refs").read_text(encoding="utf-8").splitlines()
    return next((line.split()[0] for line in lines if line.split()[1:] == [name]), "")
