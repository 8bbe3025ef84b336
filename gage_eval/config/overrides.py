"""Values from the command line, put into a config before it is checked.

A path names list items by index or by id: ``backends.local.config.model=x``, ``tasks[0].max_samples=5``. An
id may hold dots. The value is read like one in the file (``5`` is a number, ``'5'`` is text, ``{a: 1}`` is a
mapping), but without placeholders.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from gage_eval.base.errors import ConfigError, InputError, Problem, closest
from gage_eval.config.document import Document, Origin
from gage_eval.config.environment import EnvironmentValue, holds_mapping, local_model
from gage_eval.config.interpolate import fill
from gage_eval.config.model_choice import MODEL_FIELDS, ModelChoice, adapters_of
from gage_eval.config.models import PipelineConfig
from gage_eval.config.pins import Pins
from gage_eval.config.problems import Loc, path_text
from gage_eval.config.rules import name_implied_tasks, write_out_metric
from gage_eval.config.secrets import literals
from gage_eval.config.validation_messages import model_at, spellings_of
from gage_eval.config.yaml import lines
from gage_eval.config.yaml.nodes import NAMED_SECTIONS
from gage_eval.extend import registry
from gage_eval.extend.loading import absolute_name
from gage_eval.models.backends.base import BackendConfig

_INDEX = re.compile(r"\[(\d{1,6})\]")
_NUMBER = re.compile(r"\d{1,6}")
# The field that names an item, by the list the item is in.
_ID_FIELDS = {**NAMED_SECTIONS, "metric_overrides": "metric_id", "steps": "step"}


class Changes(TypedDict, total=False):
    """What a caller sets in addition to the text of a config. Everything is optional.

    Attributes:
        env: what placeholders are filled from; the process's environment unless given.
        overrides: ``a.b=c`` each, as with ``--set``; they count before the file.
        max_samples: at most so many samples of every task (``--max-samples``).
        shuffle_seed: shuffle the rows of every task with this seed (``--shuffle-seed``).
        model_path: the model of the backend under test (``--model-path``).
        freshness: of the answers of every model (``--freshness``).
        models: the models that the command line chooses, for a suite or in place of the config's.
        pins: gives the commits of datasets of the hub, by their names there (``gage pin``).
        settings: what the environment sets where the config does not (`gage_eval.config.settings.Settings.values_set`).
    """

    env: Mapping[str, str] | None
    overrides: Sequence[str]
    max_samples: int | None
    shuffle_seed: int | None
    model_path: str | None
    freshness: str | None
    models: ModelChoice | None
    pins: Pins | None
    settings: Mapping[str, EnvironmentValue] | None


def apply_overrides(document: Document, base_dir: Path, changes: Changes) -> None:
    """Put the values from the command line into the config.

    Args:
        document: the config, not validated yet.
        base_dir: the folder that paths of plug-in files start from.
        changes: of them, those of tasks and backends, and of any path.

    Raises:
        InputError: an override cannot be read, or its path leads nowhere.
    """
    _apply_all(document, changes.get("overrides", ()))
    if (max_samples := changes.get("max_samples")) is not None:
        if max_samples < 1:
            raise InputError(f"--max-samples {max_samples}: give a number of samples, 1 or more.")
        for index, _ in document.mappings("tasks"):
            document.put(("tasks", index, "max_samples"), max_samples, Origin("command line", "--max-samples"))
    if (shuffle_seed := changes.get("shuffle_seed")) is not None:
        for index, _ in document.mappings("tasks"):
            for field, value in (("shuffle", True), ("shuffle_seed", shuffle_seed)):
                document.put(("tasks", index, field), value, Origin("command line", "--shuffle-seed"))
    if (model_path := changes.get("model_path")) is not None:
        _set_model(document, model_path, base_dir)
    if (freshness := changes.get("freshness")) is not None:
        _set_freshness(document, freshness)


def refuse_secrets(overrides: Sequence[str]) -> None:
    """Refuse values from the command line that are literal secrets, before they are put anywhere.

    Raises:
        InputError: one is, or cannot be read.
    """
    for text in overrides:
        path, _, literal = text.partition("=")
        value = _value(literal, path)
        for name in reversed(_INDEX.sub(r".\1", path.strip()).split(".")):
            value = {name: value}
        for problem in literals(value, {}):
            raise InputError(f"--set {path.strip()}: {problem.message}")


def _apply_all(document: Document, overrides: Sequence[str]) -> None:
    """Apply the values of ``--set``, then report all that cannot be applied."""
    refused = []
    for text in overrides:
        try:
            loc = _apply(document, text)
        except InputError as error:
            refused.append(str(error))
            continue
        if loc[0] == "datasets" and (len(loc) < 3 or loc[2] == "dataset_id"):
            _name_tasks_again(document)
    if len(refused) == 1:
        raise InputError(refused[0])
    if refused:
        raise ConfigError("the command line", [Problem("", message) for message in refused])


def _name_tasks_again(document: Document) -> None:
    """Rename implied tasks after datasets whose ids the command line changed."""
    origin = document.origin(("tasks",))
    if origin is not None and origin.kind == "rule":
        document.data["tasks"] = None
        name_implied_tasks(document)


def _apply(document: Document, text: str) -> Loc:
    path, equals, value = text.partition("=")
    segments = _INDEX.sub(r".\1", path.strip()).split(".")
    if not equals or "" in segments:
        raise InputError(f"--set {text}: write path=value, as in backends.local.config.model=name.")
    loc: Loc = ()
    here: Any = document.data
    while True:
        step, used = _step(document, here, segments, text, loc)
        segments = segments[used:]
        loc = (*loc, step)
        if not segments:
            document.put(loc, _value(value, text), Origin("command line", f"--set {path.strip()}"))
            return loc
        here = {} if isinstance(here, dict) and here.get(step) is None else here[step]


def _step(document: Document, here: Any, segments: list[str], text: str, loc: Loc) -> tuple[str | int, int]:
    """The next key or index, and the number of segments it used."""
    if isinstance(here, dict):
        return _as_in_file(here, segments[0], loc), 1
    if not isinstance(here, list):
        raise InputError(f"--set {text}: '{path_text(loc)}' is a single value without fields.")
    if _NUMBER.fullmatch(segments[0]) and int(segments[0]) < len(here):
        return int(segments[0]), 1
    ids = _ids(document, here, loc)
    for used in range(len(segments), 0, -1):
        name = ".".join(segments[:used])
        if name in ids:
            return ids[name], used
    name, known = segments[0], ", ".join(ids) or "nothing"
    raise InputError(f"--set {text}: no '{name}' in '{path_text(loc)}'. It holds: {known}.{closest(name, ids)}")


def _as_in_file(here: dict[str, Any], key: str, loc: Loc) -> str:
    """A key in the file's spelling, so that the override replaces the file's value."""
    model = model_at(PipelineConfig, loc) or (BackendConfig if loc[-1:] == ("config",) else None)
    spellings = next((names for names in spellings_of(model) if key in names), ()) if model is not None else ()
    return next((name for name in spellings if name in here), key)


def _ids(document: Document, items: list[Any], loc: Loc) -> dict[str, int]:
    """Indexes of a list's items by id. Short forms are replaced by full forms, which have fields to set."""
    section = str(loc[-1]) if loc else ""
    field = _ID_FIELDS.get(section)
    if field is None:
        return {}
    out: dict[str, int] = {}
    for index, item in enumerate(items):
        if field == "metric_id":
            write_out_metric(document, (*loc, index))
        elif field == "step" and isinstance(item, str):
            document.respell((*loc, index), {"step": item}, {"step": ()})
        name = items[index].get(field) if isinstance(items[index], dict) else None
        if isinstance(name, str):
            out.setdefault(name, index)
    return out


def _value(text: str, override: str) -> Any:
    try:
        # No placeholders: a shell has its own. Written as in the file, `$${` is a literal `${`.
        return fill(lines.parse(text.replace("${", "$${"), "--set"), {}).value if text.strip() else ""
    except ConfigError as error:
        raise InputError(f"--set {override}: {error.problems[0].message}") from error


def _set_model(document: Document, model_path: str, base_dir: Path) -> None:
    loc, backend = _dut_backend(document)
    if not holds_mapping(backend, "config"):
        return
    config = backend.get("config") or {}
    try:
        model = registry.backends.get(absolute_name(str(backend.get("type")), base_dir)).info.get("config")
    except InputError:
        # The check of the config reports the unknown backend.
        model = None
    declared = list(config) if model is None else list(model.model_fields)
    field = next((name for name in MODEL_FIELDS if name in declared), None)
    if field is None:
        raise InputError(
            f"--model-path: backend type '{backend.get('type')}' takes no model; use --set for its settings."
        )
    document.put((*loc, "config", field), local_model(model_path), Origin("command line", "--model-path"))


def _set_freshness(document: Document, freshness: str) -> None:
    """Set the freshness of every backend, those of judges too."""
    for loc, backend in document.backends():
        if holds_mapping(backend, "config"):
            document.put((*loc, "config", "freshness"), freshness, Origin("command line", "--freshness"))


def _dut_backend(document: Document) -> tuple[Loc, dict[str, Any]]:
    """The only backend under test, as written."""
    duts, backends = adapters_of(document, "dut_model"), list(document.mappings("backends"))
    if len(duts) == 1:
        ((index, adapter),) = duts
        if isinstance(adapter.get("backend"), dict):
            return ("role_adapters", index, "backend"), adapter["backend"]
        if adapter.get("backend_id") is not None:
            backends = [item for item in backends if item[1].get("backend_id") == adapter["backend_id"]]
    if len(duts) > 1 or len(backends) != 1:
        raise InputError("--model-path: the config does not have exactly one model under test; use --set.")
    ((index, backend),) = backends
    return ("backends", index), backend
