"""Suites by name: templates ``<suite>/v<N>.yaml`` of the package and of the folders in ``GAGE_EVAL_SUITES``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from pydantic import ValidationError

from gage_eval.backends.base import BackendContext
from gage_eval.config import yaml_lines
from gage_eval.config.card import SuiteCard
from gage_eval.config.load import Changes, LoadedConfig, load_config
from gage_eval.config.pins import has_commit
from gage_eval.config.template_places import suite_file, suite_folders, versions_in
from gage_eval.errors import InputError


@dataclass(frozen=True)
class SuiteInfo:
    """A suite.

    Attributes:
        name: the name in ``gage suite NAME``.
        versions: ``v1``, ``v2``, …; the last is the default.
        description: description of that version, one line.
        path: file of that version.
        card: the facts of that version; None where its template has none.
        tasks: how many tasks it has.
        pinned: whether the commit of all its data is fixed.
    """

    name: str
    versions: tuple[str, ...]
    description: str
    path: Path
    card: SuiteCard | None = None
    tasks: int = 0
    pinned: bool = True


def list_suites(root: Path | None = None) -> list[SuiteInfo]:
    """All suites by name; ``root`` stands in for `configs_dir` in tests."""
    suites = []
    for name, folder in sorted(suite_folders(root).items()):
        versions = versions_in(folder)
        path = folder / f"{versions[-1]}.yaml"
        suites.append(_info(name, versions, path))
    return suites


def load_suite(
    name: str,
    version: str | None = None,
    *,
    root: Path | None = None,
    context: BackendContext | None = None,
    **changes: Unpack[Changes],
) -> LoadedConfig:
    """`load_config` of a suite.

    Raises:
        InputError: unknown suite or version, or an override that cannot be applied.
        ConfigError: the filled-in template has mistakes.
    """
    return load_config(suite_file(name, version, root=root), context=context, **changes)


def _info(name: str, versions: Sequence[str], path: Path) -> SuiteInfo:
    """What the newest version's template says, read without loading the plug-ins it names.

    Raises:
        InputError: the card is wrong.
    """
    data = yaml_lines.as_written(yaml_lines.parse(path.read_text(encoding="utf-8"), str(path)))
    metadata, definition = _mapping(data, "metadata"), _mapping(data, "definition")
    text = metadata.get("description")
    description = text.strip().partition("\n")[0] if isinstance(text, str) else ""
    datasets = [one for one in definition.get("datasets") or () if isinstance(one, dict)]
    tasks = definition.get("tasks") or datasets
    try:
        card = None if data.get("suite") is None else SuiteCard.model_validate(data["suite"])
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, ("suite", *problem["loc"])))
        raise InputError(f"{path}: {where}: {problem['msg']}.") from error
    pinned = all(one.get("hub") is None or has_commit(one) for one in datasets)
    return SuiteInfo(name, tuple(versions), description, path, card, len(tasks), pinned)


def _mapping(data: Any, key: str) -> dict[str, Any]:
    found = data.get(key) if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}
