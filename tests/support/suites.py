"""The built-in suites on data of this machine: files beside the checkout, else rows that `made_rows` makes."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gage_eval.config.models import DatasetParams, origin_patterns
from gage_eval.config.templates import list_suites
from gage_eval.datasets.origins import DataOrigin, load_origin, origin_paths
from gage_eval.hashing import file_digest
from support import made_rows

NEVER_LOCAL = frozenset({"agieval"})
"""Origins whose files are not beside any checkout: their rows are always made."""


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
    return [suite.name for suite in list_suites()]


def template_of(name: str) -> tuple[Path, dict[str, Any]]:
    """The newest template of a suite and its file."""
    (path,) = [suite.path for suite in list_suites() if suite.name == name]
    # Dumped and read again: anchors become copies.
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    return path, copy.deepcopy(loaded)


def missing_origins(name: str, shared: Path) -> list[str]:
    """The origins of a suite that have no file beside the checkout."""
    _, template = template_of(name)
    used = {params.get("origin") for dataset in template["definition"]["datasets"] for params in [dataset["params"]]}
    return sorted(one for one in used - {None, *NEVER_LOCAL} if not (shared / "data" / one).is_dir())


def local_suite(name: str, shared: Path, folder: Path, image: str) -> LocalSuite:
    """A suite with its data here.

    Args:
        name: of the suite.
        shared: what lies beside the checkout.
        folder: where made rows go.
        image: the path of an image in `folder`, for rows with images.
    """
    path, template = template_of(name)
    definition = template["definition"]
    for dataset in definition["datasets"]:
        params = dataset["params"] = dict(dataset.get("params", {}))
        if "hub" in dataset:
            rows = made_rows.HUB[dataset.pop("hub")](dataset.pop("hub_params"), image)
            file = made_rows.write_jsonl(folder / name / f"{dataset['dataset_id']}.jsonl", rows)
            params |= {"path": str(file), "content_root": str(folder)}
            dataset["loader"] = "jsonl"
        elif "origin" in params:
            _put_files(params, shared, folder / name)
    return LocalSuite(name, template.get("suite", {}), definition, path.parent)


def _put_files(params: dict[str, Any], shared: Path, folder: Path) -> None:
    origin = load_origin(params.pop("origin"))
    here = {} if origin.name in NEVER_LOCAL else files_here(origin, shared)
    for key, patterns in origin_patterns(DatasetParams.model_validate(params)).items():
        names = [one.path for one in origin_paths(origin, patterns)]
        if origin.name in NEVER_LOCAL:
            found = [made_rows.write_jsonl(folder / one, made_rows.agieval(one)) for one in names]
        elif names[0].startswith("cot-prompts/"):
            tasks = [Path(one).stem for one in here]
            found = [_write(folder / f"{task}.txt", made_rows.bbh_prompts(task)) for task in sorted(tasks)]
        else:
            found = [here[one] for one in names if one in here]
        params[key] = [str(file) for file in found] if len(found) > 1 else str(found[0])


def _write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def files_here(origin: DataOrigin, shared: Path) -> dict[str, Path]:
    """The pinned files of an origin that lie beside the checkout, whatever their names are, by their pinned path."""
    by_hash = {file_digest(file): file for file in (shared / "data" / origin.name).rglob("*") if file.is_file()}
    return {path: by_hash[file.sha256] for path, file in origin.files.items() if file.sha256 in by_hash}
