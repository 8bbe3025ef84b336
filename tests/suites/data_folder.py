"""A folder with the data of every suite, as ``--data`` reads it, and origins that fit the files that are made for it.

Data that lie next to the checkout are used as they are. The others have rows of the right form, made for the tests.
"""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from bench import made_rows
from bench.local_suites import NEVER_LOCAL, files_here, suite_names, template_of
from gage_eval.base.packaged import configs_dir
from gage_eval.config.data_origins import load_origin

IMAGE = "image of the test"


def write_data(folder: Path, shared: Path, image: bytes) -> None:
    """Write ``folder/data``, and ``folder/configs/origins`` with the hashes of the files that were made.

    Args:
        folder: where.
        shared: the folder next to the checkout.
        image: the picture of all rows with pictures.
    """
    for name in suite_names():
        _, template = template_of(name)
        hub: dict[str, list[dict[str, Any]]] = {}
        for dataset in template["definition"]["datasets"]:
            if "hub" in dataset:
                hub.setdefault(dataset["hub"], []).append(dataset.get("hub_params", {}))
        for dataset_name, splits in hub.items():
            _write_hub(folder / "data" / dataset_name, dataset_name, splits, image)
        for origin in template["suite"].get("origins", ()):
            write_origin(folder, origin, shared)


def _write_hub(folder: Path, name: str, splits: list[dict[str, str]], image: bytes) -> None:
    """A dataset of the hub as files, with what its page says about subsets and splits."""
    configs: dict[str, list[dict[str, str]]] = {}
    for chosen in splits:
        subset, split = chosen.get("subset", "default"), chosen.get("split", "test")
        rows = [
            {key: {"bytes": image, "path": None} if value == IMAGE else value for key, value in row.items()}
            for row in made_rows.HUB[name](chosen, IMAGE)
        ]
        file = folder / f"{subset}-{split}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        columns = dict.fromkeys(key for row in rows for key in row)
        pq.write_table(pa.Table.from_pylist([{key: row.get(key) for key in columns} for row in rows]), file)
        part = {"split": split, "path": file.name}
        if part not in configs.setdefault(subset, []):
            configs[subset].append(part)
    # The suites that share a dataset may name different splits of it.
    readme = folder / "README.md"
    known = yaml.safe_load(readme.read_text().strip("-\n")) if readme.exists() else {"configs": []}
    for entry in known["configs"]:
        parts = configs.setdefault(entry["config_name"], [])
        parts += [part for part in entry["data_files"] if part not in parts]
    pages = {"configs": [{"config_name": subset, "data_files": parts} for subset, parts in configs.items()]}
    readme.write_text(f"---\n{yaml.safe_dump(pages)}---\n")


def write_origin(folder: Path, name: str, shared: Path) -> None:
    """Write the files of an origin and its description, unless that was done."""
    file = folder / "configs" / "origins" / f"{name}.yaml"
    if file.exists():
        return
    origin = load_origin(name)
    here = {} if name in NEVER_LOCAL else files_here(origin, shared)
    described = yaml.safe_load((configs_dir() / "origins" / f"{name}.yaml").read_text())
    for path in origin.files:
        place = folder / "data" / name / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if path in here:
            place.symlink_to(here[path].resolve())
            continue
        made = _made(name, path, here)
        if made is not None:
            place.write_bytes(made)
            described["files"][path] = {"bytes": len(made), "sha256": hashlib.sha256(made).hexdigest()}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(described))


def _made(name: str, path: str, here: dict[str, Path]) -> bytes | None:
    """A file in the place of one that is not here; None for those that no suite reads."""
    if path.startswith("cot-prompts/"):
        return made_rows.bbh_prompts(Path(path).stem).encode()
    if name in NEVER_LOCAL:
        return made_rows.file_of(path, made_rows.ORIGINS[name](path))
    # Another subject has the same form.
    neighbour = next((file for known, file in here.items() if Path(known).parent == Path(path).parent), None)
    return None if neighbour is None else neighbour.read_bytes()
