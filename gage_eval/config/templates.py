"""Suites by name: templates ``<suite>/v<N>.yaml`` of the package and of the folders in ``GAGE_EVAL_SUITES``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from pydantic import ValidationError

from gage_eval.backends.base import BackendContext
from gage_eval.config.card import SuiteCard
from gage_eval.config.load import Changes, LoadedConfig, load_config
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
    """

    name: str
    versions: tuple[str, ...]
    description: str
    path: Path
    card: SuiteCard | None = None


def list_suites(root: Path | None = None) -> list[SuiteInfo]:
    """All suites by name; ``root`` stands in for `configs_dir` in tests."""
    suites = []
    for name, folder in sorted(suite_folders(root).items()):
        versions = versions_in(folder)
        path = folder / f"{versions[-1]}.yaml"
        suites.append(SuiteInfo(name, tuple(versions), *_facts(path)))
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


def _facts(path: Path) -> tuple[str, Path, SuiteCard | None]:
    """Description, file and card of a template, read without loading the plug-ins it names.

    Raises:
        InputError: the card is wrong.
    """
    from gage_eval.config import yaml_lines

    root = yaml_lines.as_written(yaml_lines.parse(path.read_text(encoding="utf-8"), str(path)))
    data = root if isinstance(root, dict) else {}
    metadata = data.get("metadata")
    text = metadata.get("description") if isinstance(metadata, dict) else None
    description = text.strip().partition("\n")[0] if isinstance(text, str) else ""
    if data.get("suite") is None:
        return description, path, None
    try:
        return description, path, SuiteCard.model_validate(data["suite"])
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, ("suite", *problem["loc"])))
        raise InputError(f"{path}: {where}: {problem['msg']}.") from error
