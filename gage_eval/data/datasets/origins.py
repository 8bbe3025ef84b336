"""Pinned origins of public data: repository, commit, and the size and sha256 of each file.

``configs/origins/<name>.yaml`` describes those that come with the package. A dataset names one with ``origin:``; its
paths then start from the root of that repository.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from glob import has_magic

from pydantic import Field, field_validator

from gage_eval.base.errors import InputError, closest
from gage_eval.base.strict_model import StrictModel

GITHUB = "https://raw.githubusercontent.com"
"""Where the files of GitHub repositories are fetched from, unless a mirror is set."""


class OriginFile(StrictModel):
    """A file as it is at its origin."""

    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class DataOrigin(StrictModel):
    """A repository at one commit, and its files that datasets may name."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    repository: str = Field(pattern=r"^github\.com/[\w.-]+/[\w.-]+$")
    commit: str = Field(pattern=r"^[0-9a-f]{40}$")
    licence: str = Field(min_length=1)
    non_commercial: bool = False
    files: dict[str, OriginFile]

    @field_validator("files")
    @classmethod
    def _stay_inside(cls, files: dict[str, OriginFile]) -> dict[str, OriginFile]:
        """Files are written into the cache under their paths, so no path may lead out of it."""
        for path in files:
            if not path or path.startswith(("/", "~")) or "\\" in path or "\0" in path or ".." in path.split("/"):
                raise ValueError(f"'{path[:80]}' is not a path inside a repository")
        return files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataOrigin) and (self.name, self.commit) == (other.name, other.commit)

    def __hash__(self) -> int:
        return hash((self.name, self.commit))

    def url(self, path: str, base: str = GITHUB) -> str:
        """The address of a file at the pinned commit.

        Args:
            path: the file, from the root of the repository.
            base: the host, or a mirror with the same paths.
        """
        from urllib.parse import quote

        owner_and_name = self.repository.removeprefix("github.com/")
        return f"{base.rstrip('/')}/{owner_and_name}/{self.commit}/{quote(path)}"

    def select(self, pattern: str) -> list[str]:
        """The files that a path or a glob pattern names, sorted.

        Raises:
            InputError: there is none; the message names the closest one.
        """
        if pattern in self.files:
            return [pattern]
        matches = _matching(pattern, self.files) if has_magic(pattern) else []
        if matches:
            return matches
        what = "file matching" if has_magic(pattern) else "file"
        raise InputError(f"origin '{self.name}' has no {what} '{pattern}'.{closest(pattern, self.files)}")


@dataclass(frozen=True)
class OriginPath:
    """One file of an origin."""

    origin: DataOrigin
    path: str

    @property
    def file(self) -> OriginFile:
        """Its size and sha256."""
        return self.origin.files[self.path]


def origin_paths(origin: DataOrigin, patterns: Sequence[str]) -> list[OriginPath]:
    """The files of several paths or patterns, each pattern's sorted.

    Raises:
        InputError: one of them names no file.
    """
    return [OriginPath(origin, path) for pattern in patterns for path in origin.select(pattern)]


def _matching(pattern: str, files: Mapping[str, OriginFile]) -> list[str]:
    """Files that match a glob: ``*`` stays within a folder, ``**`` matches any number of folders."""
    steps = [".*" if step == "**" else translate(step)[4:-3].replace(".*", "[^/]*") for step in pattern.split("/")]
    whole = re.compile("(?s:" + "/".join(steps).replace(".*/", "(?:.*/)?") + r")\Z")
    return sorted(path for path in files if whole.match(path))
