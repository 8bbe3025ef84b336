"""The metrics give the official scorers' numbers; differences are listed, and none is left out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from score_tables import answers, sample, samples, telemetry
from vector_differences import GAGE_INITIAL, INSPECT, UNSCORED_REASONS

from gage_eval.base.errors import InputError
from gage_eval.scoring.metrics import bind

METRICS = frozenset(
    {"exact_match", "contains", "numeric_match", "multi_choice_accuracy", "latency", "regex_match", "text_length"}
)


def _rows(shared: Path, name: str) -> Iterator[dict[str, Any]]:
    with (shared / "vectors" / f"{name}.jsonl").open("rb") as lines:
        for line in lines:
            yield orjson.loads(line)


def _first_version(row: dict[str, Any]) -> tuple[dict[str, float] | None, str]:
    """Values and explanation for a row of `gage_initial`; values are None where the metric is refused."""
    try:
        metric = bind(row["metric"], row["params"], on_missing_field="ignore")
    except InputError as error:
        return None, str(error)
    fields = {key: row["sample"][key] for key in ("metadata", "options") if row["sample"].get(key)}
    label, answer = row["sample"].get("label"), row["model_output"].get("answer")
    latency = row["model_output"].get("latency_ms")
    table = metric.score_table(
        {
            "samples": samples([sample(0, None if label is None else str(label), **fields)]),
            "responses": answers([None if answer is None else str(answer)]),
            "response_telemetry": telemetry([float(latency) if isinstance(latency, int | float) else None]),
        }
    )
    (scored,) = table.to_pylist()
    return dict(scored["values"]), scored["explanation"] or ""


def test_the_first_versions_numbers_are_kept_but_for_listed_rows(shared: Path) -> None:
    seen, differing = 0, set()
    for row in _rows(shared, "gage_initial"):
        if row["metric"] not in METRICS:
            continue
        seen += 1
        values, explanation = _first_version(row)
        expected = row["expected"].get("values")
        if values == expected or (values == {} and any(reason in explanation for reason in UNSCORED_REASONS)):
            continue
        differing.add(row["id"])
    assert seen == 615
    assert differing == set(GAGE_INITIAL)


def test_contains_is_inspects_includes(shared: Path) -> None:
    differing = set()
    for row in _rows(shared, "inspect_ai_scorers"):
        if row["scorer"] == "includes":
            params = {"case_sensitive": not row["params"]["ignore_case"]}
            if _right("contains", params, row) != (row["expected"]["value"] == "C"):
                differing.add(row["id"])
    assert differing == set(INSPECT)


@pytest.mark.parametrize(
    ("model", "published"),
    [
        ("6b_finetuning", 0.216831),
        ("6b_verification", 0.390447),
        ("175b_finetuning", 0.347233),
        ("175b_verification", 0.562547),
    ],
)
def test_numeric_match_reproduces_published_gsm8k_scores_row_by_row(shared: Path, model: str, published: float) -> None:
    file = shared / "data" / "replays" / "gsm8k_openai_solutions" / "example_model_solutions.jsonl"
    rows = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    metric = bind("numeric_match")
    table = metric.score_table(
        {
            "samples": samples([sample(i, row["ground_truth"]) for i, row in enumerate(rows)]),
            "responses": answers([row[model]["solution"] for row in rows]),
        }
    )
    scored = [dict(values)["score"] for values in table.column("values").to_pylist()]
    assert scored == [float(row[model]["is_correct"]) for row in rows]
    (number,) = metric.aggregate([table], {"ok": len(rows)})
    assert (number["n"], round(number["value"], 6)) == (1319, published)


def _right(metric: str, params: dict[str, Any], row: dict[str, Any]) -> bool:
    targets, bound = row["target"], bind(metric, params)
    table = bound.score_table(
        {
            "samples": samples([sample(i, target) for i, target in enumerate(targets)]),
            "responses": answers([row["completion"]] * len(targets)),
        }
    )
    return any(dict(values).get("score") == 1.0 for values in table.column("values").to_pylist())
