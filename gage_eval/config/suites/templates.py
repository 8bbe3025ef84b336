"""Suites by name: templates ``<suite>/v<N>.yaml`` of the package and of the folders in ``GAGE_EVAL_SUITES``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from pydantic import ValidationError

from gage_eval.base.errors import ConfigError, Problem
from gage_eval.config.files import read_config
from gage_eval.config.load import LoadedConfig, load_config
from gage_eval.config.overrides import Changes
from gage_eval.config.pins import has_commit
from gage_eval.config.problems import path_text
from gage_eval.config.suites.card import SuiteCard
from gage_eval.config.suites.template_places import suite_file, suite_folders, versions_in
from gage_eval.config.validation_messages import plain_words
from gage_eval.config.yaml import lines
from gage_eval.models.backends.base import BackendContext


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
        needs_model: whether its template leaves the model to the run.
    """

    name: str
    versions: tuple[str, ...]
    description: str
    path: Path
    card: SuiteCard | None = None
    tasks: int = 0
    pinned: bool = True
    needs_model: bool = True


def list_suites(root: Path | None = None) -> list[SuiteInfo]:
    """All suites by name; ``root`` stands in for `configs_dir` in tests."""
    suites = []
    for name, folder in sorted(suite_folders(root).items()):
        versions = versions_in(folder)
        path = folder / f"{versions[-1]}.yaml"
        suites.append(_info(name, versions, path))
    return suites


def suite_info(name: str, root: Path | None = None) -> SuiteInfo:
    """A suite by its name.

    Raises:
        InputError: there is none.
    """
    path = suite_file(name, root=root)
    return _info(name, versions_in(path.parent), path)


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
    """The facts of a suite's newest version, read without loading the plug-ins that it names.

    Raises:
        InputError: the file cannot be read.
        ConfigError: it is not YAML, or its card is wrong; all mistakes of the card.
    """
    data = lines.as_written(lines.parse(read_config(path), str(path)))
    metadata, definition = _mapping(data, "metadata"), _mapping(data, "definition")
    text = metadata.get("description")
    description = text.strip().partition("\n")[0] if isinstance(text, str) else ""
    datasets = [dataset for dataset in _items(definition, "datasets") if isinstance(dataset, dict)]
    tasks = _items(definition, "tasks") or datasets
    facts = data.get("suite") if isinstance(data, dict) else None
    try:
        card = None if facts is None else SuiteCard.model_validate(facts)
    except ValidationError as error:
        problems = plain_words(error, facts, SuiteCard, ("suite",))
        raise ConfigError(str(path), [Problem(path_text(item.loc), item.message) for item in problems]) from error
    pinned = all(dataset.get("hub") is None or has_commit(dataset) for dataset in datasets)
    needs_model = not _items(definition, "backends")
    return SuiteInfo(name, tuple(versions), description, path, card, len(tasks), pinned, needs_model)


def _mapping(data: Any, key: str) -> dict[str, Any]:
    section = data.get(key) if isinstance(data, dict) else None
    return section if isinstance(section, dict) else {}


def _items(data: dict[str, Any], key: str) -> list[Any]:
    section = data.get(key)
    return section if isinstance(section, list) else []
