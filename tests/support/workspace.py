"""A working folder with a small dataset and a config for the dummy backend."""

from pathlib import Path
from typing import Any

import orjson
import yaml

ROWS = 6


def config(**changes: Any) -> dict[str, Any]:
    """A config over ``rows.jsonl``; sections are replaced by what is given."""
    return {
        "metadata": {"name": "small"},
        "datasets": [{"dataset_id": "sums", "params": {"path": "rows.jsonl"}}],
        "backends": [
            {
                "backend_id": "model",
                "type": "dummy",
                "config": {"mode": "fixed", "answer": "2", "default_params": {"temperature": 0}},
            }
        ],
        "metrics": ["exact_match"],
        **changes,
    }


def write_rows(folder: Path, rows: int = ROWS, *, name: str = "rows.jsonl", first: int = 0) -> Path:
    """A file of sums with their results."""
    file = folder / name
    records = [{"id": f"s{i}", "question": f"{i} + 1 = ?", "answer": str(i + 1)} for i in range(first, first + rows)]
    file.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return file


def write_config(folder: Path, name: str = "mine.yaml", **changes: Any) -> Path:
    """A config file."""
    file = folder / name
    file.write_text(yaml.safe_dump(config(**changes)), encoding="utf-8")
    return file


JUDGED: dict[str, Any] = {
    "backends": [
        {"backend_id": "model", "type": "dummy", "config": {"answer": "2"}},
        {"backend_id": "strict", "type": "dummy", "config": {"answer": "SCORE: 3"}},
    ],
    "prompts": [{"prompt_id": "verdict", "template": "Is {{ model_answer }} right? Expected: {{ sample.label }}"}],
    "role_adapters": [
        {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"},
        {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "strict", "prompt_id": "verdict"},
    ],
}
