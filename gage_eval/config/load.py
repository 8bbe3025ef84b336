"""From a file to a `LoadedConfig`, with all mistakes of the file said at once.

The order: YAML → placeholders → overrides → secrets → types and keys → cross-references → plug-ins. A mistake
at one place does not hide those at other places; what follows from a mistake that was said is not said again.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gage_eval.canonical import digest
from gage_eval.config import secrets, yaml_lines
from gage_eval.config.check import cross_check
from gage_eval.config.fit import check_fit
from gage_eval.config.interpolate import Filled, fill
from gage_eval.config.models import PipelineConfig
from gage_eval.config.overrides import apply_overrides
from gage_eval.config.plain_words import allowed_words, as_written, model_at, plain_words
from gage_eval.config.plugins import check_plugins
from gage_eval.config.problems import ConfigProblem, Loc, path_text
from gage_eval.errors import ConfigError, InputError, Problem, closest

_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True)
class LoadedConfig:
    """A config that was read and checked.

    Attributes:
        config: what it says, placeholders replaced and overrides applied.
        text: the file as it stands, placeholders as written: this is what a run keeps.
        source: the file, as it was named.
        digest: sha256 of the canonical form of ``config``.
        warnings: what works but is rarely meant, one sentence each.
        base_dir: the folder that relative paths of the config start from.
    """

    config: PipelineConfig
    text: str
    source: str
    digest: str
    warnings: tuple[str, ...]
    base_dir: Path


def load_config(
    path: str | Path,
    *,
    env: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    max_samples: int | None = None,
    model_path: str | None = None,
) -> LoadedConfig:
    """Read and check a PipelineConfig, or the definition of a BuiltinTemplate.

    Args:
        path: the YAML file.
        env: what placeholders are filled from; the process's environment unless given.
        overrides: ``a.b=c`` each, as with ``--set``; they count before the file.
        max_samples: at most so many samples of every task (``--max-samples``).
        model_path: the model of the backend under test (``--model-path``).

    Raises:
        InputError: the file cannot be read, or an override has no place to go.
        ConfigError: the config is wrong; all its problems, each with its line.
    """
    file = Path(path)
    return parse_config(
        _read(file),
        source=str(path),
        base_dir=file.parent,
        env=env,
        overrides=overrides,
        max_samples=max_samples,
        model_path=model_path,
    )


def parse_config(
    text: str,
    *,
    source: str = "config",
    base_dir: Path | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Sequence[str] = (),
    max_samples: int | None = None,
    model_path: str | None = None,
) -> LoadedConfig:
    """`load_config` for a text that is in memory; the arguments and errors are the same."""
    filled = fill(yaml_lines.parse(text, source), os.environ if env is None else env)
    report = _Report(filled)
    root = _definition(filled, report)
    if root is None:
        raise report.error(source)
    prefix, data = root
    report.overridden = {
        (*prefix, *loc) for loc in apply_overrides(data, overrides, max_samples=max_samples, model_path=model_path)
    }
    report.add(secrets.literals(filled.value, filled.variables))
    config = _validate(data, prefix, report, base_dir)
    if config is None or report.problems:
        raise report.error(source)
    return LoadedConfig(
        config=config,
        text=text,
        source=source,
        digest=digest(config.model_dump(mode="json")),
        warnings=tuple(dict.fromkeys(report.warnings)),
        base_dir=base_dir or Path(),
    )


class _Report:
    """Problems with their lines. One place has one problem, and its surroundings none that follow from it."""

    def __init__(self, filled: Filled) -> None:
        self.filled = filled
        self.overridden: set[Loc] = set()
        self.places: list[Loc] = []
        self.problems: list[Problem] = []
        self.warnings: list[str] = []
        self.add(filled.found)

    def add(self, found: Iterable[ConfigProblem], prefix: Loc = ()) -> None:
        said = list(self.places)
        for item in found:
            loc = (*prefix, *item.loc)
            if any(place[: len(loc)] == loc for place in said):
                continue
            self.places.append(loc)
            line = self.filled.line(loc)
            from_command = any(
                loc[: len(place)] == place or (line is None and place[: len(loc)] == loc) for place in self.overridden
            )
            line = None if from_command else line
            message = f"{item.message} (given on the command line)" if from_command else item.message
            self.problems.append(Problem(path_text(loc), message, line))

    def error(self, source: str) -> ConfigError:
        return ConfigError(source, sorted(self.problems, key=lambda problem: problem.line or 0))


def _read(file: Path) -> str:
    try:
        if file.is_dir():
            raise InputError(f"'{file}' is a folder; name a config file in it.")
        if file.stat().st_size > yaml_lines.MAX_BYTES:
            raise InputError(f"'{file}' is larger than {yaml_lines.MAX_BYTES // 2**20} MiB; that is no config.")
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"no config file '{file}'.{_closest_file(file)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"'{file}' is not UTF-8 text (byte {error.start}); save it as UTF-8.") from error
    except OSError as error:
        raise InputError(f"cannot read config file '{file}': {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"{str(file)!r} is no file name: {error}.") from error


def _closest_file(file: Path) -> str:
    if not file.parent.is_dir():
        return f" There is no folder '{file.parent}' either."
    names = sorted(other.name for other in file.parent.iterdir() if other.suffix in _SUFFIXES)
    return closest(file.name, names)


def _definition(filled: Filled, report: _Report) -> tuple[Loc, dict[str, Any]] | None:
    """Where the pipeline stands in the document, and the pipeline; None when there is none, which is said."""
    data = filled.value
    if not isinstance(data, dict):
        report.add([ConfigProblem((), "a config is a mapping of sections such as 'datasets' and 'backends'.")])
        return None
    if data.get("kind") != "BuiltinTemplate":
        return (), data
    definition = data.get("definition")
    if not isinstance(definition, dict):
        report.add(
            [ConfigProblem(("definition",), "a BuiltinTemplate needs a 'definition', the mapping of a pipeline.")]
        )
        return None
    metadata = data.get("metadata")
    if isinstance(metadata, dict) and "metadata" not in definition:
        shared = ("name", "description", "version")
        definition["metadata"] = {key: metadata[key] for key in shared if metadata.get(key) is not None}
    return ("definition",), definition


def _validate(data: dict[str, Any], prefix: Loc, report: _Report, base_dir: Path | None) -> PipelineConfig | None:
    try:
        config = checked = PipelineConfig.model_validate(data)
    except ValidationError as error:
        report.add(plain_words(error, data, PipelineConfig), prefix)
        mended = _without_mistakes(data, error)
        if mended is None:
            return None
        config, checked = None, mended
    references = cross_check(checked, base_dir)
    for found, warnings in (
        (references.found, references.warnings),
        check_plugins(checked),
        (check_fit(checked, references, base_dir or Path()), ()),
    ):
        report.add(found, prefix)
        report.warnings += warnings
    return config


def _without_mistakes(data: dict[str, Any], error: ValidationError) -> PipelineConfig | None:
    """The config less its unknown keys and wrong optional values, so that the rest of it can be checked too.

    A needed word that is misspelled is taken for the one it resembles. None when something else that is needed is
    missing or wrong: what would be said then might not be true.
    """
    copy = _copied(data)
    for item in error.errors(include_url=False):
        loc = tuple(item["loc"])
        needed = item["type"] != "extra_forbidden" and not _optional(loc)
        meant = get_close_matches(str(item["input"]), allowed_words(item.get("ctx", {})), n=1) if needed else []
        if needed and not meant:
            return None
        written = as_written(loc, data)
        parent: Any = copy
        for part in written[:-1]:
            parent = parent.get(part) if isinstance(parent, dict) else _item(parent, part)
        if not isinstance(parent, dict) or written[-1] not in parent:
            return None
        if meant:
            parent[written[-1]] = meant[0]
        else:
            del parent[written[-1]]
    try:
        return PipelineConfig.model_validate(copy)
    except ValidationError:
        return None


def _optional(loc: Loc) -> bool:
    if len(loc) < 2 or not isinstance(loc[-1], str):
        return False
    model = model_at(PipelineConfig, loc[:-1])
    return model is not None and loc[-1] in model.model_fields and not model.model_fields[loc[-1]].is_required()


def _item(parent: Any, part: str | int) -> Any:
    return parent[part] if isinstance(parent, list) and isinstance(part, int) and part < len(parent) else None


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
