"""``gage suite lm-eval:NAME``: a config for a task, group or tag of the lm-eval harness, or for a user's own file.

The harness writes the documents with their requests and scores the answers. Everything between is a run like any other:
the documents are a file whose hash is in the key, and so are the version of the harness and the files of the task.
"""

import re
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from gage_eval.base.canonical import digest
from gage_eval.base.errors import InputError, closest
from gage_eval.base.files import write_text
from gage_eval.base.hashing import file_digest
from gage_eval.config.validation_messages import plain_words
from gage_eval.config.yaml.nodes import node_of
from gage_eval.config.yaml.text import yaml_text
from gage_eval.scoring.harness.client import HarnessProcess, shared_process, sources

PREFIX = "lm-eval:"


class _Choices(BaseModel):
    """What may follow the name, as in ``gsm8k,num_fewshot=0,chat=true``."""

    model_config = ConfigDict(extra="forbid")

    num_fewshot: int | None = None
    seed: int = 1234
    chat: bool = False
    limit: int | None = None


def harness_suite(text: str, cache: Path) -> Path:
    """Write the config and the documents of a task, a group or a tag.

    Args:
        text: the name in the harness, or a task's file; ``num_fewshot``, ``seed`` (of the choice of examples), ``chat``
            (messages in place of one text) and ``limit`` may follow it: ``hellaswag,num_fewshot=10``.
        cache: the folder for what is written; equal documents are written once.

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
    files = sources(name) if is_file else None
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        # A run in this process scores with the tasks that are loaded here.
        built = shared_process().call("build", name=name, folder=folder, **choices.model_dump())
        hashes = {task["file"]: file_digest(Path(folder, task["file"])) for task in built["tasks"]}
        place = cache / digest([name, files, hashes, built])[:16]
        if not place.exists():
            # Temporary folders are for their owner alone.
            Path(folder).chmod(0o755)
            try:
                Path(folder).rename(place)
                Path(folder).mkdir()
            except OSError:
                # Another command wrote the same in the meantime.
                if not place.exists():
                    raise
    config = place / "config.yaml"
    head = f"# Written by: gage suite {PREFIX}{text}\n"
    write_text(config, yaml_text(node_of(_config(name, built, files), str(config)), head=head))
    return config


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


def _config(name: str, built: dict[str, Any], files: dict[str, str] | None) -> dict[str, Any]:
    tasks = built["tasks"]
    groups = list(_groups(built))
    return {
        "api_version": "gage/v1alpha1",
        "kind": "PipelineConfig",
        "datasets": [
            {"dataset_id": _id(task["name"]), "loader": "jsonl", "params": {"path": task["file"]}} for task in tasks
        ],
        "tasks": [
            {
                "task_id": _id(task["name"]),
                "dataset_id": _id(task["name"]),
                "mode": task["mode"],
                # The choices hold theirs.
                "target_delimiter": "",
                "sampling_params": task["params"],
                "metric_overrides": list(map(partial(_metric, name, task["name"], files), task["metrics"])),
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


def _metric(name: str, task: str, files: dict[str, str] | None, metric: dict[str, Any]) -> dict[str, Any]:
    return {
        "metric_id": _metric_id(metric),
        "implementation": "lm_eval",
        "value_key": "score",
        "params": {
            "name": name,
            "task": task,
            "value": metric["value"],
            "kind": metric["kind"],
            "pipeline": metric["filter"],
            **({} if files is None else {"sources": files}),
        },
    }


def _id(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)
