"""``gage suite lm-eval:NAME``: a config for a task, group or tag of the lm-eval harness, or for a user's own file.

The harness writes the documents with their requests and scores the answers. Everything between is a run like any other:
the documents are a file whose hash is in the key, and so are the version of the harness and all that the task is read
from. Both lie in one folder, which may go to another machine.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from gage_eval.base.canonical import canonical_text, decode, digest
from gage_eval.base.errors import InputError, closest
from gage_eval.base.files import write_text
from gage_eval.base.git import is_commit
from gage_eval.base.hashing import file_digest
from gage_eval.base.version import __version__
from gage_eval.config.settings import load_settings
from gage_eval.config.validation_messages import plain_words
from gage_eval.config.yaml.nodes import node_of
from gage_eval.config.yaml.text import yaml_text
from gage_eval.runs.options import Locations
from gage_eval.runs.stored_pins import stored_pins
from gage_eval.scoring.harness import reads, worker
from gage_eval.scoring.harness.client import PREFIX, HarnessProcess, shared_process
from gage_eval.scoring.harness.sources import Sources, SourcesChanged, write_sources

_CONFIG = "config.yaml"


class _Choices(BaseModel):
    """What may follow the name, as in ``gsm8k,num_fewshot=0,chat=true``."""

    model_config = ConfigDict(extra="forbid")

    num_fewshot: int | None = None
    seed: int = 1234
    chat: bool = False
    limit: int | None = None


def suite_config(name: str, store: str | None, output_dir: str | None) -> str | None:
    """The config for a name such as ``lm-eval:gsm8k``; None for other names.

    Args:
        name: as for ``gage suite``.
        store: where commits of data are pinned.
        output_dir: as for a run.

    Raises:
        InputError: as `harness_suite`.
    """
    if not name.startswith(PREFIX):
        return None
    cache = Path(load_settings().data_cache).expanduser() / "lm-eval"
    pins = stored_pins(Locations.at(store, output_dir).store)
    return str(harness_suite(name.removeprefix(PREFIX), cache, pins))


def harness_suite(text: str, cache: Path, pins: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Write the config, the documents and the sources of a task, a group or a tag.

    Args:
        text: the name in the harness, or a task's file; ``num_fewshot``, ``seed`` (of the choice of examples), ``chat``
            (messages in place of one text) and ``limit`` may follow it: ``hellaswag,num_fewshot=10``.
        cache: the folder for what is written. What was written is used again where nothing changed of all that it was
            read from: no file, and no data of the hub, which must be at fixed commits.
        pins: the commits of data of the hub for which the task names none.

    Returns:
        The config.

    Raises:
        InputError: there is no such task, it does not run here, or a choice is wrong.
    """
    name, choices = _read(text)
    if name.endswith(".yml"):
        raise InputError(f"'{name}': the harness reads files whose names end with .yaml; rename it.")
    is_file = name.endswith(".yaml")
    if is_file:
        name = str(Path(name).resolve())
        if not Path(name).is_file():
            raise InputError(f"there is no file '{name}'.")
    # Among them the harness finds tasks by their names.
    stats = [(str(file), file.stat()) for file in reads.yaml_files(Path(name).parent)] if is_file else []
    neighbours = [[file, stat.st_size, stat.st_mtime_ns] for file, stat in stats]
    code = [file_digest(Path(str(module.__file__))) for module in (worker, reads)]
    inputs = [text, name, os.getcwd(), __version__, _installed(), code, choices.model_dump(), {**pins}, neighbours]
    record = cache / f"{digest(inputs)}.json"
    config = _written(record)
    if config is not None:
        with suppress(SourcesChanged):
            # The process is ready when the first answers are.
            shared_process().load(file_digest(config.with_name(reads.FILE)), config.parent)
            return config
    try:
        cache.mkdir(parents=True, exist_ok=True)
        return _build(text, name, choices, record, pins, is_file=is_file)
    except OSError as error:
        raise InputError(f"the suite cannot be written into '{cache}': {error.strerror or error}.") from error


def _installed() -> str | None:
    try:
        return version("lm-eval")
    except PackageNotFoundError:
        return None


def _written(record: Path) -> Path | None:
    """The config that was written before, if all that it was made from is as it was."""
    try:
        known = decode(record.read_bytes())
        same = all(file_digest(Path(file)) == sha256 for file, sha256 in known["files"].items())
        config = record.with_name(known["folder"]) / _CONFIG
        return config if same and config.is_file() and config.with_name(reads.FILE).is_file() else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _build(text: str, name: str, choices: _Choices, record: Path, pins: Mapping[str, str], *, is_file: bool) -> Path:
    """Have the harness write the documents, and remember from what."""
    cache = record.parent
    with tempfile.TemporaryDirectory(dir=cache) as made:
        folder = Path(made)
        # A run in this process scores with the tasks that are loaded here.
        built = shared_process().call("build", name=name, folder=made, pins={**pins}, **choices.model_dump())
        files = write_sources(folder, name, is_file=is_file, files=built["files"], datasets=built["datasets"])
        sources = file_digest(folder / reads.FILE)
        shared_process().keep(sources)
        head = f"# Written by: gage suite {PREFIX}{text}\n"
        config = yaml_text(node_of(_config(f"{PREFIX}{text}", built, sources), _CONFIG), head=head)
        write_text(folder / _CONFIG, config)
        hashes = {task["file"]: file_digest(folder / task["file"]) for task in built["tasks"]}
        place = cache / digest([sources, hashes, config])[:16]
        whole = False
        with suppress(SourcesChanged, FileNotFoundError):
            Sources.of(place).check(place)
            whole = all(file_digest(place / file) == sha256 for file, sha256 in hashes.items())
        if not whole:
            shutil.rmtree(place, ignore_errors=True)
            # Temporary folders are for their owner alone.
            folder.chmod(0o755)
            try:
                folder.rename(place)
                folder.mkdir()
            except OSError:
                # Another command wrote the same in the meantime.
                if not place.exists():
                    raise
    if built["datasets"] and all(map(_is_fixed, built["datasets"].values())):
        write_text(record, canonical_text({"folder": place.name, "files": files}))
    return place / _CONFIG


def _is_fixed(data: dict[str, Any]) -> bool:
    """Whether the same call gives the same data as long as no file on this machine changes."""
    files = [file for own in data["files"].values() for file in own]
    return is_commit(data["revision"]) if data["hub"] else bool(files) and not any("://" in file for file in files)


def harness_names(pattern: str) -> list[tuple[str, str]]:
    """The tasks, groups and tags of the harness whose names hold a text, each with its kind.

    Raises:
        InputError: the harness is not installed.
    """
    process = HarnessProcess()
    try:
        names: dict[str, str] = process.call("names")
    finally:
        process.close()
    return sorted((name, kind) for name, kind in names.items() if pattern.lower() in name.lower())


def _read(text: str) -> tuple[str, _Choices]:
    name, *rest = text.split(",")
    pairs = [item.partition("=") for item in rest]
    values = {key.strip(): value.strip() for key, _, value in pairs}
    for key in values:
        if key not in _Choices.model_fields:
            known = ", ".join(_Choices.model_fields)
            raise InputError(
                f"'{PREFIX}{text}': there is no '{key}'; known: {known}.{closest(key, _Choices.model_fields)}"
            )
    try:
        return name, _Choices.model_validate(values)
    except ValidationError as error:
        wrong = "; ".join(f"{item.loc[-1]}: {item.message}" for item in plain_words(error, values, _Choices, ()))
        raise InputError(f"'{PREFIX}{text}': {wrong}") from error


def _config(name: str, built: dict[str, Any], sources: str) -> dict[str, Any]:
    tasks = built["tasks"]
    groups = list(_groups(built))
    return {
        "api_version": "gage/v1alpha1",
        "kind": "PipelineConfig",
        "metadata": {"name": name},
        "datasets": [
            {
                "dataset_id": _id(task["name"]),
                "loader": "jsonl",
                "params": {"path": task["file"]},
                **_built_from(task, built),
            }
            for task in tasks
        ],
        "tasks": [
            {
                "task_id": _id(task["name"]),
                "dataset_id": _id(task["name"]),
                "mode": task["mode"],
                # The choices hold theirs.
                "target_delimiter": "",
                "sampling_params": task["params"],
                "metric_overrides": list(map(partial(_metric, sources, task["name"]), task["metrics"])),
            }
            for task in tasks
        ],
        **({"groups": groups} if groups else {}),
    }


def _groups(built: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The groups, whose numbers are of the tasks that have them; several where these are not the same tasks."""
    numbers = {task["name"]: list(map(_metric_id, task["metrics"])) for task in built["tasks"]}
    for group, members in built["groups"].items():
        by_members: dict[tuple[str, ...], list[str]] = {}
        for metric in dict.fromkeys(metric for member in members for metric in numbers[member]):
            having = tuple(_id(member) for member in members if metric in numbers[member])
            by_members.setdefault(having, []).append(metric)
        shared = {having: metrics for having, metrics in by_members.items() if len(having) > 1}
        for having, metrics in shared.items():
            name = group if len(shared) == 1 else f"{group}_{metrics[0]}"
            yield {"group_id": _id(name), "tasks": list(having), "metrics": metrics}


def _metric_id(metric: dict[str, Any]) -> str:
    return _id(metric["value"] if metric["filter"] == "none" else f"{metric['value']}_{metric['filter']}")


def _built_from(task: dict[str, Any], built: dict[str, Any]) -> dict[str, Any]:
    """The data of the hub that a task's documents are from, and those that its code alone may have asked for."""
    named = {other["hub"] for other in built["tasks"]}
    data = [entry for entry in built["datasets"].values() if entry["hub"]]
    own = [entry for entry in data if entry["hub"] == task["hub"] or entry["hub"] not in named]
    listed = [{key: entry[key] for key in ("hub", "revision", "commit")} for entry in own]
    return {"built_from": [entry for at, entry in enumerate(listed) if entry not in listed[:at]]} if own else {}


def _metric(sources: str, task: str, metric: dict[str, Any]) -> dict[str, Any]:
    return {
        "metric_id": _metric_id(metric),
        "implementation": "lm_eval",
        "value_key": "score",
        "params": {
            "sources": sources,
            "task": task,
            "value": metric["value"],
            "kind": metric["kind"],
            "pipeline": metric["filter"],
        },
    }


def _id(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)
