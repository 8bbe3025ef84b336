"""The official vectors, and metrics applied to one of their rows."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from score_tables import responses, sample, samples

from gage_eval.scoring.metrics import bind


def vector_rows(shared: Path, name: str) -> Iterator[dict[str, Any]]:
    """The rows of ``vectors/<name>.jsonl``."""
    with (shared / "vectors" / f"{name}.jsonl").open("rb") as lines:
        for line in lines:
            yield orjson.loads(line)


def number(value: Any) -> Any:
    """The float that a vector writes as text, any other value as it is."""
    names = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    return names.get(value, value) if isinstance(value, str) else value


def references(*texts: str) -> list[dict[str, Any]]:
    """The references of a normalised sample."""
    return [{"answer": [{"type": "text", "text": text}]} for text in texts]


def score_one(
    metric: str, fields: Mapping[str, Any], response: Mapping[str, Any], params: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The score row of one response to one sample with these fields; ``values`` is a dict."""
    bound = bind(metric, dict(params or {}), on_missing_field="ignore")
    table = bound.score_table({"samples": samples([sample(0, None, **fields)]), "responses": responses([response])})
    (row,) = table.to_pylist()
    return {**row, "values": dict(row["values"])}
