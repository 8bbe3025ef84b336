"""The built-in suites on data of this machine: files next to the checkout, else rows that `made_rows` makes."""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from bench import made_rows
from gage_eval.base.hashing import file_digest
from gage_eval.base.stages import StageResult
from gage_eval.config.data_origins import load_origin
from gage_eval.config.load import load_config
from gage_eval.config.models import DatasetParams, implied_loader, origin_patterns
from gage_eval.config.suites.template_places import suite_file, suite_folders
from gage_eval.data.datasets.build import build_loader
from gage_eval.data.datasets.origins import DataOrigin, origin_paths
from gage_eval.data.sample.record import parse_record
from gage_eval.data.sample.table import messages_from_array
from gage_eval.observability.observer import Observers
from gage_eval.pipeline import stages
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.plan import make_plan
from gage_eval.store import Store

NEVER_LOCAL = frozenset(made_rows.ORIGINS)
"""Origins without files next to a checkout: their rows are always made."""


@dataclass(frozen=True)
class LocalSuite:
    """A suite whose datasets are files here.

    Attributes:
        name: of the suite.
        card: its section ``suite``.
        definition: without backends; no dataset has an origin or a hub.
        base_dir: the folder that the other paths start from.
    """

    name: str
    card: dict[str, Any]
    definition: dict[str, Any]
    base_dir: Path

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(self.card.get("needs", ()))

    def tasks(self) -> Iterator[dict[str, Any]]:
        yield from self.definition["tasks"]


def suite_names() -> list[str]:
    return sorted(suite_folders())


def template_of(name: str) -> tuple[Path, dict[str, Any]]:
    """The newest template of a suite and its file."""
    path = suite_file(name)
    # Dumped and read again: anchors become copies.
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    return path, copy.deepcopy(loaded)


def missing_origins(name: str, shared: Path) -> list[str]:
    """The origins of a suite whose folder is not next to the checkout; none for suites whose rows are made."""
    _, template = template_of(name)
    used = {dataset["params"].get("origin") for dataset in template["definition"]["datasets"]}
    return sorted(origin for origin in used - {None, *NEVER_LOCAL} if not (shared / "data" / origin).is_dir())


def local_suite(name: str, shared: Path, folder: Path, image: str) -> LocalSuite:
    """A suite with its data here.

    Args:
        name: of the suite.
        shared: the folder next to the checkout.
        folder: where made rows go.
        image: the path of an image in `folder`, for rows with images.
    """
    path, template = template_of(name)
    definition = template["definition"]
    for dataset in definition["datasets"]:
        params = dataset["params"] = dict(dataset.get("params", {}))
        if "hub" in dataset:
            rows = made_rows.HUB[dataset.pop("hub")](dataset.pop("hub_params"), image)
            file = made_rows.write_rows(folder / name / f"{dataset['dataset_id']}.jsonl", rows)
            params |= {"path": str(file), "content_root": str(folder)}
            dataset["loader"] = "jsonl"
        elif "origin" in params:
            _put_files(params, shared, folder / name)
    return LocalSuite(name, template.get("suite", {}), definition, path.parent)


def _put_files(params: dict[str, Any], shared: Path, folder: Path) -> None:
    origin = load_origin(params.pop("origin"))
    here = {} if origin.name in NEVER_LOCAL else files_here(origin, shared)
    for key, patterns in origin_patterns(DatasetParams.model_validate(params)).items():
        names = [file.path for file in origin_paths(origin, patterns)]
        if origin.name in NEVER_LOCAL:
            files = [made_rows.write_rows(folder / path, made_rows.ORIGINS[origin.name](path)) for path in names]
        elif names[0].startswith("cot-prompts/"):
            tasks = [Path(path).stem for path in here]
            files = [_write(folder / f"{task}.txt", made_rows.bbh_prompts(task)) for task in sorted(tasks)]
        else:
            files = [here[path] for path in names if path in here]
        params[key] = [str(file) for file in files] if len(files) > 1 else str(files[0])


def _write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def files_here(origin: DataOrigin, shared: Path) -> dict[str, Path]:
    """The pinned files of an origin that are next to the checkout, under any name, by their pinned path."""
    by_hash = {file_digest(file): file for file in (shared / "data" / origin.name).rglob("*") if file.is_file()}
    return {path: by_hash[file.sha256] for path, file in origin.files.items() if file.sha256 in by_hash}


def prepared_requests(config: Path, store: Path) -> dict[str, list[dict[str, Any]]]:
    """What each task of a config would ask: messages, prompt and choices of its rows. Nothing is asked."""
    opened = Store.open(str(store))
    env = StageContext(opened, None, Observers(), "prepared")

    def samples(of: Any) -> StageResult:
        return stages.standardize(env, of.standardize, raw=stages.load(env, of.load))

    requests = {}
    for task in make_plan(load_config(config)).tasks:
        pool = samples(task.pool) if task.pool else None
        ready = stages.preprocess(env, task.preprocess, samples=samples(task), few_shot=pool)
        table = opened.artifact(ready.outputs["prepared"]).table()
        messages = messages_from_array(table["messages"], collapse=True)
        requests[task.task_id] = [
            {**row, "messages": chat}
            for row, chat in zip(table.select(["prompt", "choices"]).to_pylist(), messages, strict=True)
        ]
    return requests


def records_of(suite: LocalSuite, task_id: str, count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The first records of a task's dataset, and those of its examples that the first record may get."""
    (task,) = [task for task in suite.tasks() if task["task_id"] == task_id]
    datasets = {dataset["dataset_id"]: dataset for dataset in suite.definition["datasets"]}

    def records(dataset: dict[str, Any]) -> Iterator[dict[str, Any]]:
        params = DatasetParams.model_validate(dataset["params"])
        loader = dataset.get("loader") or implied_loader(dataset)
        arguments = {**(params.model_extra or {}), **({} if params.path is None else {"path": params.path})}
        for _, text in build_loader(str(loader), arguments, suite.base_dir).records():
            yield parse_record(text)

    rows = list(islice(records(datasets[task["dataset_id"]]), count))
    shots = task.get("few_shot")
    if shots is None:
        return rows, []
    field = {"data_tag.subject": ("subject", "category"), "data_tag.task": ("task",)}.get(shots.get("match"), ())
    name = next((rows[0][field_name] for field_name in field if field_name in rows[0]), None)
    kind = None if name is None else re.sub(r"_(test|dev)$", "", name)
    examples = [
        record
        for record in records(datasets[shots["dataset_id"]])
        if kind is None or kind in {re.sub(r"_(test|dev)$", "", str(record.get(field_name))) for field_name in field}
    ]
    return rows, examples
