"""Small real runs for tests: a dataset of sums, a config, and ``gage`` as a process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from gage_eval.runs.folder import RunFolder
from gage_eval.store import Store


def write_sums(file: Path, rows: int, *, start: int = 0) -> Path:
    """A dataset of sums, which the mock endpoint knows the truth of."""
    with file.open("w") as out:
        for i in range(start, start + rows):
            record = {"id": f"sum-{i}", "question": f"What is {i} + {2 * i + 1}?", "answer": str(3 * i + 1)}
            out.write(json.dumps(record) + "\n")
    return file


def write_config(folder: Path, url: str, *, rows: int = 100, name: str = "sums.yaml", **changes: Any) -> Path:
    """A config of one task on the sums; ``changes`` are merged into its top level, ``backend`` into the backend."""
    data = folder / "sums.jsonl"
    if not data.exists():
        write_sums(data, rows)
    backend = {"base_url": url, "model": "mock", "max_concurrency": 16, **changes.pop("backend", {})}
    config = {
        "metadata": {"name": "sums"},
        "datasets": [{"dataset_id": "sums", "params": {"path": "sums.jsonl"}}],
        "backends": [{"backend_id": "mock", "type": "openai_http", "config": backend}],
        "metrics": ["numeric_match"],
        **changes,
    }
    file = folder / name
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    return file


def gage(
    folder: Path, *arguments: str, env: dict[str, str] | None = None, check: bool = True
) -> "subprocess.CompletedProcess[str]":
    """Run ``gage`` in a folder as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "gage_eval", *arguments],
        cwd=folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if check:
        assert done.returncode == 0, (
            f"gage {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
    return done


def stage_outputs(folder: Path, run_id: str) -> dict[str, dict[str, str]]:
    """Artifact ids by stage of a finished run, without what the weather determines."""
    record = json.loads((folder / ".gage" / "runs" / run_id / "run.json").read_text())
    return {
        stage: {name: id_ for name, id_ in entry["outputs"].items() if not name.endswith("telemetry")}
        for stage, entry in record["stages"].items()
    }


def stage_states(folder: RunFolder) -> set[str]:
    """The states of a run's stages in its run.json."""
    return {stage.state for stage in folder.record().stages.values()}


def score_ids(folder: Path, run_id: str) -> list[str]:
    """Artifact ids of the scores of a finished run."""
    store = Store.open(str(folder / ".gage"))
    metrics = [outputs["metrics"] for outputs in stage_outputs(folder, run_id).values() if "metrics" in outputs]
    return sorted(str(row) for id_ in metrics for row in store.artifact(id_).table()["scores"].to_pylist())


def summary(folder: Path, run_id: str) -> dict[str, Any]:
    """summary.json of a run."""
    value: dict[str, Any] = json.loads((folder / ".gage" / "runs" / run_id / "summary.json").read_text())
    return value
