"""Datasets of the Hugging Face hub at a fixed commit: which lack one, and the pass that puts pins into a config.

A pin is a commit that was chosen for a dataset with `gage pin`. It is in the store, so that everybody who uses the
store runs the same data.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from gage_eval.base.files import is_folder
from gage_eval.base.git import is_commit
from gage_eval.config.document import Document, Origin
from gage_eval.config.models import DatasetConfig

Pins: TypeAlias = Callable[[], Mapping[str, str]]
"""Gives the pinned commits by the name of the dataset on the hub; asked only where a config has an unpinned one."""

_MOVING = (None, "main")


def has_commit(dataset: Mapping[str, Any]) -> bool:
    """Whether a dataset as it is written names a full commit."""
    return is_commit(str(_revision(dataset.get("hub_params"), dataset.get("params"))))


def unpinned(datasets: Iterable[DatasetConfig], base_dir: Path) -> list[str]:
    """The datasets of the hub whose revision may move, by their names there."""
    names = []
    for dataset in datasets:
        named = dataset.hub is not None and not is_folder(dataset.hub, base_dir)
        if named and not is_commit(str(_revision(dataset.hub_params, dataset.params.model_extra))):
            names.append(str(dataset.hub))
        names += [data.hub for data in dataset.built_from if not is_commit(data.revision)]
    return list(dict.fromkeys(names))


def apply_pins(document: Document, pins: Pins | None, base_dir: Path) -> None:
    """Give each dataset of the hub that names no revision the pinned commit."""
    revisions: Mapping[str, str] | None = None
    for index, dataset in document.mappings("datasets"):
        hub = dataset.get("hub")
        moves = _revision(dataset.get("hub_params"), dataset.get("params")) in _MOVING
        if pins is None or not isinstance(hub, str) or not moves or is_folder(hub, base_dir):
            continue
        revisions = pins() if revisions is None else revisions
        if hub in revisions:
            document.put(("datasets", index, "hub_params", "revision"), revisions[hub], Origin("pin", "gage pin"))


def _revision(*places: Any) -> Any:
    """The revision that a dataset names, in one place or the other."""
    named = (place.get("revision") for place in places if isinstance(place, dict))
    return next((revision for revision in named if revision is not None), None)
