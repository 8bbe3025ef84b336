"""Summaries for report tests."""

from dataclasses import dataclass, field
from typing import Any

from gage_eval.report.summary import Summary, run_summary, task_summary


@dataclass(frozen=True)
class Stage:
    """A stage's result, as far as a report looks at it."""

    stage: str
    task_id: str = "gsm8k"
    cached: bool = False
    started: float = 0.0
    seconds: float = 1.0
    counts: dict[str, int] = field(default_factory=dict)


def metric_row(**changes: Any) -> dict[str, Any]:
    """A row of the metrics table."""
    return {
        "metric_id": "exact_match",
        "implementation": "exact_match",
        "filter": "strict-match",
        "value_key": "score",
        "aggregation": "mean",
        "value": 0.842,
        "stderr": 0.01,
        "ci_low": 0.822,
        "ci_high": 0.862,
        "interval": "wilson",
        "n": 1319,
        "rows": 1319,
        "unparsed": 36,
        "unscored": 0,
        "truncated": 5,
        "refused": 0,
        "error": 0,
        "skipped": 0,
        "scores": "a" * 64,
    } | changes


def summary(rows: list[dict[str, Any]] | None = None, **task: Any) -> Summary:
    """A run of one task."""
    settings: dict[str, Any] = {
        "task_id": "gsm8k",
        "dataset_id": "gsm8k_test",
        "model": "Qwen3-8B",
        "metrics": [metric_row()] if rows is None else rows,
        "sample_count": 1319,
        "statuses": {"ok": 1314, "truncated": 5},
        "tokens": {"prompt_tokens": 1_000_000, "completion_tokens": 310_000},
    }
    stages = [
        Stage("load"),
        Stage("infer", started=1.0, seconds=10.0, counts={"sent": 1051, "reused": 268}),
        Stage("auto_eval", started=11.0, seconds=0.5),
    ]
    return run_summary(
        run_id="quiet-otter", name="gsm8k", tasks=[task_summary(**settings | task)], stages=stages, wall_s=19.2
    )
