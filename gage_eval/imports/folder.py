"""A log as a folder with a config: samples, answers, and where they come from."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from gage_eval.base.canonical import canonical_json, digest
from gage_eval.base.errors import InputError
from gage_eval.base.files import new_folder
from gage_eval.base.hashing import file_digest
from gage_eval.config.interpolate import literal
from gage_eval.config.models import LONGEST_ID
from gage_eval.imports.atif import trajectories_of
from gage_eval.imports.contract import NOT_IN_LOG, ImportedAnswer, ImportedLog

CONFIG = "import.yaml"
PROVENANCE = "import.json"
_NOT_OF_AN_ID = re.compile(r"[^A-Za-z0-9_.@+-]+")
_HEAD = """# Made by gage import. Add metrics or a judge, and run it again: gage run {config}
"""


def id_of(text: str, default: str) -> str:
    """A text as an id of a config."""
    return _NOT_OF_AN_ID.sub("-", text).strip("-.@+")[: LONGEST_ID // 2] or default


def provenance(log: ImportedLog, path: Path) -> dict[str, Any]:
    """Where the answers come from: tool, version, each file that was read with its hash, and what was not mapped."""
    read = {*(trajectories_of(path) if path.is_dir() else [path]), *log.other_files}
    root = path if path.is_dir() else path.parent
    files = {os.path.relpath(file, root): file_digest(file) for file in sorted(read)}
    whole = sum(answer.messages[0].get("content") != NOT_IN_LOG for answer in log.answers)
    return {
        "tool": log.tool,
        "tool_version": log.version,
        "file": path.name,
        # Of the list of the files' hashes, where there are several.
        "sha256": digest([*files.items()]) if len(files) > 1 or path.is_dir() else files[path.name],
        "files": files,
        "model": log.model,
        "task": log.task,
        "answers": len(log.answers),
        "with_prompt": whole,
        "errors": sum(answer.answer is None for answer in log.answers),
        "unmapped": dict(log.unmapped.most_common()),
        "lower_is_better": sorted(log.lower),
    }


def default_folder(log: ImportedLog, path: Path) -> Path:
    """The folder of an import that has no name."""
    return Path("imports") / f"{id_of(log.task, 'log')}-{provenance(log, path)['sha256'][:8]}"


def write_import(log: ImportedLog, path: Path, folder: Path) -> Path:
    """Write a log's folder: it is there as a whole, or not at all.

    Args:
        log: the answers.
        path: the file that they are from.
        folder: is made.

    Returns:
        The config.

    Raises:
        InputError: the folder is there already or cannot be written.
    """
    samples = _samples(log)
    try:
        with new_folder(folder) as made:
            _write_lines(made / "samples.jsonl", samples)
            _write_lines(made / "answers.jsonl", _records(log))
            (made / PROVENANCE).write_bytes(canonical_json(provenance(log, path)) + b"\n")
            text = yaml.safe_dump(literal(_config(log, path)), sort_keys=False, allow_unicode=True)
            (made / CONFIG).write_text(_HEAD.format(config=folder / CONFIG) + text, encoding="utf-8")
    except ValueError as error:
        raise InputError(f"'{path.name}' holds a value without a JSON form: {error}.") from error
    return folder / CONFIG


def _samples(log: ImportedLog) -> list[dict[str, Any]]:
    samples: dict[str, dict[str, Any]] = {}
    for answer in log.answers:
        sample = samples.setdefault(answer.sample_id, _sample(answer))
        own = sample["metadata"]["imported"]
        own += [None] * (answer.replicate + 1 - len(own))
        own[answer.replicate] = {"scores": answer.scores, **({"error": answer.error} if answer.error else {})}
    return [*samples.values()]


def _sample(answer: ImportedAnswer) -> dict[str, Any]:
    return {
        "id": answer.sample_id,
        "messages": answer.messages,
        "references": answer.references,
        **({"options": answer.options} if answer.options else {}),
        "metadata": {**answer.metadata, "imported": []},
    }


def _records(log: ImportedLog) -> Iterator[dict[str, Any]]:
    for answer in log.answers:
        if answer.answer is not None:
            yield {"id": answer.sample_id, "replicate": answer.replicate, "answer": answer.answer}


def _config(log: ImportedLog, path: Path) -> dict[str, Any]:
    facts = provenance(log, path)
    tool = " ".join(filter(None, (log.tool, log.version)))
    names = dict.fromkeys(name for answer in log.answers for name in answer.scores if name not in log.lower)
    taken: dict[str, str] = {}
    for score in names:
        own = id_of(score, "score")
        taken[own if own not in taken else f"{own}-{len(taken) + 1}"] = score
    metrics: list[Any] = [
        {"metric_id": metric_id, "implementation": "recorded_score", "params": {"score": score}}
        for metric_id, score in taken.items()
    ]
    if not metrics:
        has_gold = all(answer.references for answer in log.answers)
        metrics = ["exact_match" if has_gold else "text_length"]
    name = id_of(log.task, "log")
    return {
        "metadata": {
            "name": name,
            "description": f"Imported from {tool}: {facts['file']}, sha256 {facts['sha256']}.",
        },
        "datasets": [{"dataset_id": name, "params": {"path": "samples.jsonl"}}],
        "backends": [
            {
                "backend_id": id_of(log.model or "imported", "imported"),
                "type": "replay",
                "config": {
                    "path": "answers.jsonl",
                    "answer_field": "answer",
                    # The name that a run shows.
                    "model": log.model or "imported",
                    "replicate_field": "replicate",
                },
            }
        ],
        "metrics": metrics,
        "tasks": [
            {
                "task_id": name,
                "dataset_id": name,
                "replicates": 1 + max(answer.replicate for answer in log.answers),
                "max_error_share": 1.0,
                "max_unscored_share": 1.0,
            }
        ],
    }


def _write_lines(file: Path, records: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> None:
    with file.open("wb") as out:
        for record in records:
            out.write(canonical_json(record) + b"\n")
