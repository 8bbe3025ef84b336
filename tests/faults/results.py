"""What a run left in its store, and the truth of the mock endpoint to hold it against."""

import sys
from pathlib import Path
from typing import Any

from support.endpoint import SCRIPT
from support.runs import stage_outputs

from gage_eval.store import Artifact, Store

sys.path.append(str(SCRIPT.parent))
from mock_endpoint import answer_to, is_right


def artifact(folder: Path, run_id: str, stage: str, name: str | None = None, task: str = "sums") -> Artifact:
    """An output of a stage of a run."""
    outputs = stage_outputs(folder, run_id)[f"{task}/{stage}"]
    return Store.open(str(folder / ".gage")).artifact(outputs[name] if name else next(iter(outputs.values())))


def answers(folder: Path, run_id: str) -> list[dict[str, Any]]:
    """The responses of a run."""
    rows: list[dict[str, Any]] = artifact(folder, run_id, "infer", "responses").table().to_pylist()
    return rows


def score(folder: Path, run_id: str, metric: str = "numeric_match") -> dict[str, Any]:
    """A metric's row of a run."""
    rows = artifact(folder, run_id, "auto_eval", "metrics").table().to_pylist()
    (row,) = [row for row in rows if row["metric_id"] == metric]
    return dict(row)


def prompt(row: int) -> str:
    """The prompt of a row of `support.runs.write_sums`."""
    return f"What is {row} + {2 * row + 1}?"


def truth(rows: int, accuracy: float) -> float:
    """The score the endpoint's rule gives over so many rows."""
    right = [row for row in range(rows) if is_right(prompt(row), accuracy)]
    return len(right) / rows


__all__ = ["answer_to", "answers", "artifact", "prompt", "score", "truth"]
