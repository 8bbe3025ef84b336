"""Figures: measured values with unit and target."""

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Literal

from gage_eval.models.backends.gpus import processor_name

_PACKAGES = ("aiohttp", "httptools", "numpy", "orjson", "prefect", "pyarrow", "pydantic", "uvloop")


@dataclass(frozen=True)
class Figure:
    """One measured quantity of a case.

    Attributes:
        name: the name in the tables.
        unit: ``s``, ``s CPU / 1,000 rows``, ``MiB``, ``rows/s per core``, ``×`` or ``requests``.
        values: one value per repetition.
        target: the required bound; None for a figure that is only for comparison.
        bound: ``≤`` for an upper bound, ``≥`` for a lower bound.
    """

    name: str
    unit: str
    values: Sequence[float]
    target: float | None = None
    bound: Literal["≤", "≥"] = "≤"

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the median meets the target; None without a target."""
        if self.target is None:
            return None
        return self.median <= self.target if self.bound == "≤" else self.median >= self.target

    def to_json(self) -> dict[str, Any]:
        """The figure as results.json holds it."""
        return {
            "name": self.name,
            "unit": self.unit,
            "min": round(min(self.values), 4),
            "median": round(self.median, 4),
            "max": round(max(self.values), 4),
            "repeats": len(self.values),
            "target": f"{self.bound} {self.target:g}" if self.target is not None else None,
            "met": self.met,
        }


def machine() -> dict[str, Any]:
    """Facts about this machine and its software that affect figures."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": processor_name(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES},
    }


def hardware(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that do not depend on installed software."""
    return {name: facts[name] for name in ("cores", "cpu", "memory_gib")}


def commit() -> str:
    """The checkout's commit, with ``+`` if files differ from it; empty outside a checkout."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    described = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return described.stdout.strip()
