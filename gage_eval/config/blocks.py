"""The pass that replaces ``block: NAME`` of a backend by the type and config that a Prefect block gives it."""

from collections.abc import Mapping
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.config.document import Document, Origin
from gage_eval.config.problems import ConfigProblem, Loc
from gage_eval.models.backends.base import Blocks

# In the place of a backend whose block cannot be read, so that the rest of the config is checked.
_STAND_IN: Mapping[str, Any] = {"type": "transformers", "config": {"model_path": "model"}}


def use_blocks(document: Document, blocks: Blocks | None) -> dict[str, Mapping[str, Any]]:
    """Put what blocks describe into the backends that name one. The backend's own ``config`` counts first.

    Args:
        document: the config.
        blocks: the blocks of the Prefect API; None without one.

    Returns:
        What was used, by the block's name.
    """
    used: dict[str, Mapping[str, Any]] = {}
    for loc, backend in list(document.backends()):
        name = backend.get("block")
        if name is None:
            continue
        try:
            if not isinstance(name, str):
                raise InputError("the name of a block is a text.")
            if "type" in backend:
                raise InputError(f"block '{name}' gives the type: remove 'type'.")
            block = used[name] = _read(name, blocks)
        except InputError as error:
            document.add([ConfigProblem((*loc, "block"), str(error))])
            block = _STAND_IN
        _fill(document, loc, backend, block, Origin("block", f"block {name}"))
    return used


def _read(name: str, blocks: Blocks | None) -> Mapping[str, Any]:
    if blocks is None:
        raise InputError(f"block '{name}' needs a Prefect API: set PREFECT_API_URL, or start one: gage server start.")
    return blocks.backend(name)


def _fill(document: Document, loc: Loc, backend: dict[str, Any], block: Mapping[str, Any], origin: Origin) -> None:
    document.take((*loc, "block"))
    document.put((*loc, "type"), block["type"], origin)
    own = backend.get("config")
    if own is not None and not isinstance(own, dict):
        return  # The check of the config refuses it.
    for field, value in block["config"].items():
        if field not in (own or {}):
            document.put((*loc, "config", field), value, origin)
