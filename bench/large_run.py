#!/usr/bin/env python3
"""Make a stored run of many answers without asking a model: a small real run, whose tables are replaced by large ones.

large_run.py STORE --rows N [--run-id NAME] [--seed N]
"""

import argparse
import tempfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import yaml

import gage_eval
from gage_eval.base.canonical import canonical_text, decode, digest
from gage_eval.base.tables import METRICS, REPORT, TableSchema
from gage_eval.runs.folder import RunFolder
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader
from gage_eval.store import Store

PART = 4096
_SEED_ROWS = 64
_TOPICS = ("algebra", "counting", "fractions", "geometry", "number theory", "probability")
_SHARE_RIGHT = 0.71


def make_run(store: str, rows: int, run_id: str = "large", seed: int = 0) -> None:
    """Store a run named ``large`` of one task with that many answers; about 29 % are wrong, 2 % unparsed.

    Args:
        store: the store; made if it does not exist.
        rows: number of answers.
        run_id: name of the run.
        seed: other seeds give other answers to the same questions.
    """
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _seed_run(Path(folder), Path(store).resolve(), run_id)
    locations = Locations.at(store, None)
    task = RunReader.open(locations, run_id).task()
    opened = Store.open(store)
    made = _Rows(seed)
    outputs = {
        ("standardize", "samples"): _tiled(opened, task.samples, rows, made.samples),
        ("preprocess", "prepared"): _tiled(opened, task.asked, rows, made.keys_only),
        ("infer", "responses"): _tiled(opened, task.artifact("responses"), rows, made.responses),
        ("infer", "response_telemetry"): _tiled(opened, task.artifact("response_telemetry"), rows, made.telemetry),
    }
    scores = _tiled(opened, next(iter(task.scores.values())), rows, made.scores)
    mean, unparsed = made.right / rows, made.unparsed
    metrics = [{**row, **_counted(row, mean, rows, unparsed), "scores": scores} for row in task.metrics]
    outputs["auto_eval", "metrics"] = _written(opened, METRICS, pa.Table.from_pylist(metrics, METRICS.arrow))
    report = decode(task.artifact("report").table()["summary"][0].as_py())
    report = _recounted(report, mean, rows, unparsed)
    text = pa.Table.from_pylist([{"summary": canonical_text(report)}], REPORT.arrow)
    outputs["report", "report"] = _written(opened, REPORT, text)
    _point_to(RunFolder.open(locations, run_id), task.task_id, outputs, report, rows)


def _seed_run(folder: Path, store: Path, run_id: str) -> None:
    """A real run over a few questions."""
    lines = [
        {"id": f"q{i}", "question": f"What is {i} + 1?", "answer": str(i + 1), "data_tag": {"topic": _TOPICS[i % 6]}}
        for i in range(_SEED_ROWS)
    ]
    (folder / "rows.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    config = {
        "metadata": {"name": "large"},
        "datasets": [{"dataset_id": "sums", "params": {"path": str(folder / "rows.jsonl")}}],
        "backends": [{"backend_id": "model", "type": "dummy", "config": {"answer": "2"}}],
        "metrics": ["numeric_match"],
    }
    (folder / "large.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    gage_eval.run("large.yaml", run_id=run_id, store=str(store), inline=True)


class _Rows:
    """The changed columns of each part."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.right = self.unparsed = 0

    def samples(self, first: int, table: pa.Table) -> pa.Table:
        numbers = range(first, first + table.num_rows)
        table = _keyed(table, "id", first)
        questions = [_question(i) for i in numbers]
        messages = [[{"role": "user", "content": [{"type": "text", "text": question}]}] for question in questions]
        table = _with(table, "messages", messages)
        table = _with(table, "label", [str(3 * i + 7) for i in numbers])
        table = _with(table, "references", [[{"answer": [{"type": "text", "text": str(3 * i + 7)}]}] for i in numbers])
        return _with(table, "data_tag", [canonical_text({"topic": _TOPICS[i * 7 % 6]}) for i in numbers])

    def keys_only(self, first: int, table: pa.Table) -> pa.Table:
        return _keyed(table, "sample_id", first)

    def responses(self, first: int, table: pa.Table) -> pa.Table:
        numbers = range(first, first + table.num_rows)
        right, read = self._drawn(first, table.num_rows)
        tokens = 40 + np.random.default_rng([self._seed, 2, first]).geometric(0.02, table.num_rows)
        answers = [
            _answer(i, ok, known, int(count)) for i, ok, known, count in zip(numbers, right, read, tokens, strict=True)
        ]
        table = _with(_keyed(table, "sample_id", first), "answer", answers)
        table = _with(table, "completion_tokens", tokens.tolist())
        return _with(table, "response_key", [digest([self._seed, i]) for i in numbers])

    def telemetry(self, first: int, table: pa.Table) -> pa.Table:
        latency = np.random.default_rng([self._seed, 3, first]).gamma(4.0, 120.0, table.num_rows)
        return _with(_keyed(table, "sample_id", first), "latency_ms", latency.tolist())

    def scores(self, first: int, table: pa.Table) -> pa.Table:
        right, read = self._drawn(first, table.num_rows)
        self.right += int((right & read).sum())
        self.unparsed += int((~read).sum())
        table = _keyed(table, "sample_id", first)
        values = [[("score", float(ok and known))] for ok, known in zip(right, read, strict=True)]
        numbers = range(first, first + table.num_rows)
        texts = [
            (str(3 * i + 7) if ok else str(3 * i + 8)) if known else None
            for i, ok, known in zip(numbers, right, read, strict=True)
        ]
        table = _with(_with(table, "values", values), "extracted", texts)
        table = _with(table, "status", ["scored" if known else "unparsed" for known in read])
        return _with(table, "reason", [None if known else "unparsed_answer" for known in read])

    def _drawn(self, first: int, count: int) -> "tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]":
        draws = np.random.default_rng([self._seed, 1, first]).random((2, count))
        return draws[0] < _SHARE_RIGHT, draws[1] >= 0.02


def _question(i: int) -> str:
    return f"A shop sells {i} pens on Monday and {2 * i} on Tuesday, then {i % 7 + 7 - i % 7} more. How many in all?"


def _answer(i: int, right: bool, read: bool, tokens: int) -> str:
    steps = f"On Monday {i}, on Tuesday {2 * i}, so {3 * i} on both days. " * (1 + tokens // 40)
    return steps + (f"The answer is {3 * i + 7 + (not right)}." if read else "I cannot say.")


def _keyed(table: pa.Table, name: str, first: int) -> pa.Table:
    numbers = range(first, first + table.num_rows)
    return _with(_with(table, "row_index", list(numbers)), name, [f"sample-{i:07}" for i in numbers])


def _with(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), pa.array(values, table.schema.field(place).type))


def _tiled(store: Store, small: Any, rows: int, change: Callable[[int, pa.Table], pa.Table]) -> str:
    """A table like a small one with that many rows, and its changed columns; returns its id."""
    seed = small.table()
    with store.writer(small.schema) as writer:
        for part, first in enumerate(range(0, rows, PART)):
            count = min(PART, rows - first)
            places = pa.array(np.arange(count) % seed.num_rows)
            writer.write(part, change(first, seed.take(places)))
        return writer.commit().id


def _written(store: Store, schema: TableSchema, table: pa.Table) -> str:
    with store.writer(schema) as writer:
        writer.write(0, table)
        return writer.commit().id


def _counted(row: dict[str, Any], mean: float, rows: int, unparsed: int) -> dict[str, Any]:
    if row["slice_field"] is not None:
        return {}
    half = 1.96 * (mean * (1 - mean) / rows) ** 0.5
    counts = {"n": rows, "rows": rows, "unparsed": unparsed}
    return {"value": mean, "stderr": half / 1.96, "ci_low": mean - half, "ci_high": mean + half, **counts}


def _recounted(task: dict[str, Any], mean: float, rows: int, unparsed: int) -> dict[str, Any]:
    metrics = []
    for metric in task["metrics"]:
        changed = _counted({"slice_field": None}, mean, rows, unparsed)
        value = changed.pop("value")
        metrics.append({**metric, **changed, "raw_values": {"score": value}, "values": {"score": f"{value:.3f}"}})
    return {**task, "metrics": metrics, "sample_count": rows, "responses": {"ok": rows}}


def _point_to(
    folder: RunFolder, task_id: str, outputs: dict[tuple[str, str], str], report: dict[str, Any], rows: int
) -> None:
    """Let the run's record and summary name the large tables."""

    def changed(record: Any) -> Any:
        stages = dict(record.stages)
        for (stage, output), id_ in outputs.items():
            name = f"{task_id}/{stage}"
            stages[name] = stages[name].model_copy(update={"outputs": {**stages[name].outputs, output: id_}})
        return record.model_copy(update={"stages": stages})

    folder.update(changed)
    data = folder.read("summary.json")
    assert data is not None
    summary = {**decode(data), "sample_count": rows, "tasks": [report]}
    summary["metrics"] = [{**metric, "task_id": task_id} for metric in report["metrics"]]
    folder.write_json("summary.json", summary)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--run-id", default="large")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    make_run(options.store, options.rows, options.run_id, options.seed)
