"""The configs of the page on uncertainty run, and its example calls give numbers."""

import re
from pathlib import Path
from typing import Any

import orjson
import yaml

from gage_eval import stats
from gage_eval.runs import RunOptions, run_inline

PAGE = (Path(__file__).parents[2] / "docs" / "uncertainty.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_pages_metrics_and_groups_run_and_are_in_the_summary(tmp_path: Path) -> None:
    config: dict[str, Any] = {
        "datasets": [{"dataset_id": name, "params": {"path": f"{name}.jsonl"}} for name in ("mine", "yours")],
        "backends": [{"backend_id": "model", "type": "dummy", "config": {"mode": "fixed", "answer": "1"}}],
    }
    for block in blocks("yaml"):
        # A task that stops early is shown by itself.
        if "stop_when" not in block:
            config |= yaml.safe_load(block)
    rows = [
        {
            "id": f"r{n}",
            "question": "?",
            "answer": str(n % 2),
            "metadata": {"passage": f"p{n // 2}", "points": n + 1},
            "data_tag": {"topic": "odd" if n % 2 else "even"},
        }
        for n in range(8)
    ]
    for name in ("mine", "yours"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    file = tmp_path / "config.json"
    file.write_bytes(orjson.dumps(config))
    summary = run_inline(RunOptions(config=str(file), store=str(tmp_path / "store"))).summary
    task = summary.tasks[0]
    assert [(metric.metric_id, metric.aggregation, metric.value) for metric in task.metrics] == [
        ("exact_match", "mean", 0.5),
        ("graded", "weighted_mean", 20 / 36),
    ]
    assert {(score.slice_name, score.value, score.n) for score in task.slices} == {
        ("data_tag.topic = even", 0.0, 4),
        ("data_tag.topic = odd", 1.0, 4),
        ("model_output.finish_reason = stop", 0.5, 8),
    }
    tasks, slices = summary.groups
    assert [(metric.metric_id, metric.micro.value, metric.n) for metric in tasks.metrics] == [("exact_match", 0.5, 16)]
    assert [(metric.metric_id, metric.macro.value, metric.n) for metric in slices.metrics] == [("exact_match", 0.5, 8)]
    assert (slices.by, slices.members) == ("data_tag.topic", 2)


def test_the_pages_calls_give_numbers() -> None:
    (code,) = blocks("python")
    numbers = []
    for line in code.splitlines()[2:]:
        call = line.partition("#")[0].strip()
        names = {"stats": stats, "run_a": [1.0, 0.0, 1.0], "run_b": [0.0, 0.0, 1.0]}
        numbers.append(eval(call, {"__builtins__": {}}, names))
    assert len(numbers) == 8
    assert None not in numbers
