"""The places of templates: the package, the folders of ``GAGE_EVAL_SUITES``, or any path of a file."""

import os
import re
from pathlib import Path

from gage_eval.base.errors import InputError, closest
from gage_eval.base.files import is_folder, local_path
from gage_eval.base.packaged import configs_dir

SUITES_VARIABLE = "GAGE_EVAL_SUITES"
BUILTIN_PREFIX = "builtin/"

_VERSION = re.compile(r"v([1-9][0-9]{0,8})\Z")


def suite_folders(root: Path | None = None) -> dict[str, Path]:
    """The folder of each suite by name, built-in ones first; ``root`` stands in for `configs_dir` in tests.

    Raises:
        InputError: two folders hold a suite of the same name, or a folder of the variable is not there.
    """
    folders: dict[str, Path] = {}
    for place in _roots(root):
        for folder in sorted(place.iterdir()) if place.is_dir() else ():
            if not versions_in(folder):
                continue
            if folder.name in folders:
                places = f"{folders[folder.name]} and in {folder}"
                raise InputError(f"the suite '{folder.name}' is in {places}; rename one of the folders.")
            folders[folder.name] = folder
    return folders


def _roots(root: Path | None) -> list[Path]:
    roots = [(root or configs_dir()) / "builtin_templates"]
    for name in filter(None, os.environ.get(SUITES_VARIABLE, "").split(os.pathsep)):
        folder = local_path(name, Path())
        if not folder.is_dir():
            raise InputError(f"{SUITES_VARIABLE} names {folder}, and the folder does not exist.")
        roots.append(folder)
    return roots


def version_name(version: str) -> str:
    """A version as its template's file is called: ``v2``, also from ``2``."""
    return "v" + version.removeprefix("v")


def is_version_name(name: str) -> bool:
    """Whether a template's file may have this name: ``v1``, ``v2`` and so on."""
    return _VERSION.match(name) is not None


def versions_in(folder: Path) -> list[str]:
    """The versions of a suite in their order; none where a folder is not a suite."""
    if not folder.is_dir():
        return []
    numbers = [int(match[1]) for file in folder.glob("v*.yaml") if (match := _VERSION.match(file.stem))]
    return [f"v{number}" for number in sorted(numbers)]


def suite_file(name: str, version: str | None = None, *, root: Path | None = None) -> Path:
    """The template file of a suite.

    Args:
        name: a name that `suite_folders` has; ``builtin/NAME`` for one of the package.
        version: ``v2`` or ``2``; the newest by default.

    Raises:
        InputError: unknown suite or version; the message lists the known ones.
    """
    # Names are compared with existing folders, and never used in a path unchecked.
    folders = suite_folders(root)
    plain = name
    if name.startswith(BUILTIN_PREFIX):
        plain = name.removeprefix(BUILTIN_PREFIX)
        own = (root or configs_dir()) / "builtin_templates"
        folders = {key: folder for key, folder in folders.items() if folder.parent == own}
    if plain not in folders:
        known = ", ".join(sorted(folders)) or "none"
        raise InputError(f"no suite '{name}'. Suites: {known}.{closest(plain, folders, digits_count=False)}")
    return suite_version(folders[plain], version, f"suite '{name}'")


def find_template(name: str, version: str | None, folder: Path) -> Path:
    """The template that a RunConfig or a command names: a suite, or a file by its path from a folder.

    Raises:
        InputError: there is none.
    """
    if is_file(name):
        file = local_path(name, folder)
        return suite_version(file, version) if is_folder(name, folder) else file
    return suite_file(name, version)


def is_file(name: str) -> bool:
    """Whether a template is named by its file or folder, not as a suite."""
    return not name.startswith(BUILTIN_PREFIX) and (name.endswith((".yaml", ".yml", ".json")) or "/" in name)


def suite_version(folder: Path, version: str | None, called: str = "") -> Path:
    """The template of a suite's folder.

    Args:
        folder: the folder.
        version: ``v2`` or ``2``; the newest by default.
        called: what an error calls the suite, if not by its folder.

    Raises:
        InputError: it has no such version, or none at all.
    """
    versions = versions_in(folder)
    if not versions:
        raise InputError(f"'{folder}' holds no template: a suite's folder has v1.yaml, v2.yaml and so on.")
    wanted = versions[-1] if version is None else version_name(version)
    if wanted not in versions:
        raise InputError(f"{called or folder} has no version '{version}'. Versions: {', '.join(versions)}.")
    return folder / f"{wanted}.yaml"
