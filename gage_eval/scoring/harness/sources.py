"""What a task of the harness was read from, next to the config of its documents, so that any machine can score them.

FOLDER/harness.json     what to load; sha256 of each file; which data stand for which call of `datasets`
FOLDER/task/…           the user's own YAML, Python and data, as they lay
FOLDER/data/…           data from elsewhere
"""

import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from os.path import commonpath
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import canonical_json, decode
from gage_eval.base.errors import InputError
from gage_eval.base.hashing import file_digest
from gage_eval.extend.allowed_code import check_file
from gage_eval.extend.loading import config_folders
from gage_eval.scoring.harness.reads import CODE, FILE

_OWN, _DATA, _HARNESS = "task", "data", "lm_eval/tasks"


class SourcesChanged(InputError):
    """The files of a task are not those from which its documents were written."""


@dataclass(frozen=True)
class Sources:
    """The content of ``harness.json``.

    Attributes:
        name: a task, group or tag of the harness; or the file of a user's task, below the folder.
        files: sha256 by path, below the folder or, for those of the harness, below its package.
        data: ``commit``, or ``path`` (of a builder of `datasets`) and ``files`` by split, by the digest of the call.
    """

    name: str
    files: Mapping[str, str]
    data: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, folder: Path) -> "Sources":
        """The sources in a folder.

        Raises:
            SourcesChanged: there are none, or they are not what `write_sources` writes.
        """
        try:
            sources = cls(**decode((folder / FILE).read_bytes()))
            texts = {sources.name, *sources.files, *sources.files.values()}
            leaving = [name for name in sources.files if Path(name).is_absolute() or ".." in Path(name).parts]
            data = [entry for entry in sources.data.values() if "files" in entry]
            known = all({*own} <= sources.files.keys() for entry in data for own in entry["files"].values())
            unlisted = sources.name.endswith(".yaml") and sources.name not in sources.own()
            if leaving or unlisted or not known or not all(isinstance(text, str) for text in texts):
                raise ValueError
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise SourcesChanged(f"'{folder / FILE}' cannot be read: start the suite again.") from error
        return sources

    def place(self, folder: Path) -> str:
        """What the harness is asked to load."""
        return str((folder / self.name).resolve()) if self.name.endswith(".yaml") else self.name

    def own(self) -> list[str]:
        """The files that lie in the folder."""
        return [name for name in self.files if not name.startswith(f"{_HARNESS}/")]

    def check(self, folder: Path) -> None:
        """Refuse sources that are not as they were written, and code that the operator of a server did not allow.

        Raises:
            SourcesChanged: a file is missing, was changed or was added.
            CodeRefused: a file is not allowed.
        """
        here = folder.resolve()
        places = {name: harness_file(name) or here / name for name in self.files}
        added = {str(file.relative_to(here)) for file in (here / _OWN).rglob("*") if file.suffix in CODE} - {*places}
        for name in (*self.files, *added):
            place = places.get(name)
            is_same = False
            with suppress(OSError):
                is_same = place is not None and file_digest(place) == self.files[name]
            if not is_same:
                raise SourcesChanged(f"'{name}' changed after the documents of the task were written: start it again.")
        # A file that is not listed may still be read by one that is; the config is among those next to `FILE`.
        code = [file for file in here.rglob("*") if file.suffix == ".py" or file.parent != here]
        check_file(self.name, [file for file in code if file.suffix in CODE])


def harness_file(name: str) -> Path | None:
    """The place of a file of the harness; None for a user's file."""
    spec = find_spec("lm_eval")
    if not name.startswith(f"{_HARNESS}/") or spec is None or spec.origin is None:
        return None
    return Path(spec.origin).resolve().parent / name.removeprefix("lm_eval/")


def found(sources: str) -> Path:
    """The folder with sources, next to a config that this process has read.

    Args:
        sources: sha256 of the ``harness.json``.

    Raises:
        SourcesChanged: no config has them.
    """
    for folder in dict.fromkeys((*config_folders(), *sys.path)):
        file = Path(folder, FILE)
        if file.is_file() and file_digest(file) == sources:
            return file.parent
    raise SourcesChanged(f"'{FILE}' with the files of the task is not next to the config, or was changed.")


def write_sources(
    folder: Path, name: str, *, is_file: bool, files: Iterable[str], datasets: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Copy the files of a task into a folder, and describe them.

    Args:
        folder: is there.
        name: of the harness, or the file.
        is_file: which of both.
        files: that the harness read, as `reads.Reads.files` has them.
        datasets: that it loaded, as `reads.Reads.datasets` has them.

    Returns:
        sha256 of each file by the place from which it was read.
    """
    package = harness_file(f"{_HARNESS}/__init__.py")
    assert package is not None
    read = {*map(Path, files), *((Path(name),) if is_file else ())}
    of_harness = {file for file in read if file.is_relative_to(package.parent)}
    own = read - of_harness
    root = Path(commonpath([file.parent for file in own])) if own else folder
    data = {file for entry in datasets.values() for file in _local(entry)}
    names = {file: f"{_OWN}/{file.relative_to(root).as_posix()}" for file in own}
    for file in data - own:
        below = file.relative_to(root).as_posix() if own and file.is_relative_to(root) else None
        names[file] = f"{_DATA}/{file_digest(file)[:12]}-{file.name}" if below is None else f"{_OWN}/{below}"
    for file, copy in names.items():
        (folder / copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / copy)
    names |= {file: f"{_HARNESS}/{file.relative_to(package.parent).as_posix()}" for file in of_harness}
    hashes = {copy: file_digest(file if copy.startswith(_HARNESS) else folder / copy) for file, copy in names.items()}
    stored = {
        call: {
            "path": entry["path"],
            "files": {split: [names[Path(file).resolve()] for file in own] for split, own in entry["files"].items()},
        }
        if _local(entry)
        else {"commit": entry["commit"]}
        for call, entry in datasets.items()
    }
    task = names[Path(name)] if is_file else name
    sources = Sources(task, dict(sorted(hashes.items())), dict(sorted(stored.items())))
    (folder / FILE).write_bytes(canonical_json(asdict(sources)))
    return {str(file): hashes[copy] for file, copy in names.items()}


def _local(entry: Mapping[str, Any]) -> set[Path]:
    """The files of loaded data, if all of them are on this machine."""
    files = [file for own in entry["files"].values() for file in own]
    return set() if any("://" in file for file in files) else {Path(file).resolve() for file in files}
