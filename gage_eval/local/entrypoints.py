"""The flows by name, as attributes: Prefect imports ``gage_eval.local.entrypoints.suite`` to run a deployment of
`suite`.

A deployment could name ``flows.suite.suite``, but in a worker that name may mean a package of the user's.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from gage_eval.base.packaged import packages_beside

# The module of each flow.
FLOWS: Mapping[str, str] = {
    "cache_gc": "flows.maintenance",
    "cache_verify": "flows.maintenance",
    "evaluate": "flows.evaluate",
    "nightly": "flows.nightly",
    "serve": "flows.serve",
    "suite": "flows.suite",
    "suite_with_model": "flows.suite",
    "triage": "flows.triage",
    "warm_models": "flows.warm_models",
}


def entrypoint(flow: str) -> str:
    """What Prefect imports for a flow."""
    assert flow in FLOWS, f"no flow '{flow}'"
    return f"{__name__}.{flow}"


def __getattr__(name: str) -> Any:
    if name not in FLOWS:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    with packages_beside():
        return getattr(importlib.import_module(FLOWS[name]), name)
