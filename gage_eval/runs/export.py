"""Samples with their results in one table or file: Parquet, JSON lines, or one JSON file a sample.

Each sample carries ``predict_result`` (its responses, a list) and ``eval_result`` (its score rows by metric), and in
tasks with an answer type ``score_card``. Such tasks' answers are also written as canonical answers. One part of a
dataset is in memory at a time.
"""

import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from gage_eval.canonical import canonical_json, canonical_text, decode
from gage_eval.runs.cards import Cards
from gage_eval.runs.folder import RunFolder
from gage_eval.sample.table import rows_of
from gage_eval.scorecards.card import ScoreCard
from gage_eval.store import Artifact, Store
from gage_eval.tables import SAMPLES

if TYPE_CHECKING:
    from gage_eval.runs.session import RunSession

# Results as JSON text: what a metric extracts and explains is as different as metrics are.
EXPORTED = pa.schema(
    [
        ("task_id", pa.string()),
        *SAMPLES.arrow,
        *((name, pa.string()) for name in ("predict_result", "eval_result", "score_card")),
    ]
)
EXPORT_STAGES = ("standardize", "infer", "auto_eval", "report")
"""The stages whose results an export holds."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,80}")
_OF_ROW = frozenset({"row_index", "sample_id"})


@dataclass(frozen=True)
class TaskResults:
    """What a task came to, by artifact id.

    Attributes:
        task_id: the task.
        samples, responses: the artifacts of those tables.
        scores: artifact of the score rows by metric id.
        cards: how score cards of its samples are made, None in a task without an answer type.
    """

    task_id: str
    samples: str
    responses: str
    scores: Mapping[str, str]
    cards: Cards | None = None

    @classmethod
    def of(cls, store: Store, task_id: str, outputs: Mapping[str, Mapping[str, str]]) -> "TaskResults":
        """From the outputs of the task's stages, by stage and name."""
        metrics = store.artifact(outputs["auto_eval"]["metrics"]).table().to_pylist()
        report = decode(store.artifact(outputs["report"]["report"]).table()["summary"][0].as_py())
        card = report.get("score_card")
        return cls(
            task_id,
            outputs["standardize"]["samples"],
            outputs["infer"]["responses"],
            {row["metric_id"]: row["scores"] for row in metrics},
            None if card is None else Cards.of(ScoreCard.model_validate(card), metrics),
        )


def export(session: "RunSession", kind: str) -> None:
    """Write one kind of export into the run's folder."""
    tasks = []
    for task in session.plan.tasks:
        outputs = {stage: session.results[task.task_id, stage].outputs for stage in EXPORT_STAGES}
        tasks.append(TaskResults.of(session.store, task.task_id, outputs))
    _KINDS[kind](session.store, tasks, session.folder)


def _write_parquet(store: Store, tasks: list[TaskResults], folder: RunFolder) -> None:
    import pyarrow.parquet as pq

    with _placed(folder, "samples.parquet") as file, pq.ParquetWriter(file, EXPORTED) as writer:
        for task in tasks:
            for table in sample_tables(store, task):
                writer.write_table(table)


def _write_jsonl(store: Store, tasks: list[TaskResults], folder: RunFolder) -> None:
    with _placed(folder, "samples.jsonl") as file, file.open("wb") as lines:
        for task in tasks:
            for sample in sample_records(store, task):
                lines.write(canonical_json({"task_id": task.task_id, **sample}) + b"\n")


def _write_files(store: Store, tasks: list[TaskResults], folder: RunFolder) -> None:
    for task in tasks:
        for sample in sample_records(store, task):
            name = f"samples/{file_name(task.task_id)}/{file_name(sample['id'])}.json"
            folder.write(name, canonical_json(sample) + b"\n")


def _write_answers(store: Store, tasks: list[TaskResults], folder: RunFolder) -> None:
    """Canonical answers, a line each, of the tasks that have an answer type."""
    with _placed(folder, "canonical_answers.jsonl") as file, file.open("wb") as lines:
        for task in tasks:
            for sample in sample_records(store, task) if task.cards else ():
                assert task.cards is not None
                for response in sample["predict_result"]:
                    answer = task.cards.answer(task.task_id, sample, response)
                    lines.write(canonical_json(answer.model_dump(mode="json")) + b"\n")


_KINDS = {
    "samples_parquet": _write_parquet,
    "samples_jsonl": _write_jsonl,
    "per_sample_json": _write_files,
    "canonical_answers": _write_answers,
}


def sample_tables(store: Store, task: TaskResults) -> Iterator[pa.Table]:
    """The task's samples with their results as tables of the schema `EXPORTED`, part by part."""
    for table, predicted, evaluated in _parts(store, task):
        rows = table["row_index"].to_pylist()
        columns = {
            **{name: table[name] for name in table.column_names},
            "task_id": pa.repeat(pa.scalar(task.task_id), table.num_rows),
            "predict_result": pa.array([canonical_text(predicted[row]) for row in rows], pa.string()),
            "eval_result": pa.array([canonical_text(evaluated.get(row, {})) for row in rows], pa.string()),
            "score_card": pa.array(
                [
                    None if task.cards is None else canonical_text(_card(task.cards, predicted[row], evaluated, row))
                    for row in rows
                ],
                pa.string(),
            ),
        }
        yield pa.Table.from_arrays([columns[name] for name in EXPORTED.names], schema=EXPORTED)


def sample_records(store: Store, task: TaskResults) -> Iterator[dict[str, Any]]:
    """The task's samples in canonical form with ``predict_result`` and ``eval_result``, in row order."""
    for table, predicted, evaluated in _parts(store, task):
        for row, sample in zip(table["row_index"].to_pylist(), rows_of(table), strict=True):
            record = {**sample, "predict_result": predicted[row], "eval_result": evaluated.get(row, {})}
            if task.cards is not None:
                record["score_card"] = _card(task.cards, predicted[row], evaluated, row)
            yield record


def _card(
    cards: Cards, responses: list[dict[str, Any]], evaluated: Mapping[int, dict[str, Any]], row: int
) -> dict[str, Any]:
    return cards.card(responses, evaluated.get(row, {})).model_dump(mode="json")


def _parts(
    store: Store, task: TaskResults
) -> Iterator[tuple[pa.Table, dict[int, list[dict[str, Any]]], dict[int, dict[str, Any]]]]:
    """Of each part the samples that were asked, their responses and their scores, both by row index."""
    samples, responses = store.artifact(task.samples), store.artifact(task.responses)
    scores = {metric_id: store.artifact(artifact_id) for metric_id, artifact_id in task.scores.items()}
    for part in responses.parts:
        predicted = _predicted(responses, part.index)
        table = samples.read(part.index)
        asked = pc.is_in(table["row_index"], pa.array(sorted(predicted), pa.int64()))
        yield table.filter(asked), predicted, _evaluated(scores, part.index)


def _predicted(responses: Artifact, part: int) -> dict[int, list[dict[str, Any]]]:
    out: dict[int, list[dict[str, Any]]] = {}
    for row in responses.read(part).to_pylist():
        kept = {name: value for name, value in row.items() if value is not None and name not in _OF_ROW}
        if "tool_calls" in kept:
            kept["tool_calls"] = decode(kept["tool_calls"])
        out.setdefault(row["row_index"], []).append(kept)
    return out


def _evaluated(scores: Mapping[str, Artifact], part: int) -> dict[int, dict[str, Any]]:
    out: dict[int, dict[str, Any]] = {}
    for metric_id, artifact in scores.items():
        for row in artifact.read(part).to_pylist():
            out.setdefault(row["row_index"], {}).setdefault(metric_id, []).append(score_entry(row))
    return out


def score_entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `tables.SCORES` as it stands under a metric's name."""
    return {
        "replicate": row["replicate"],
        "filter": row["filter"],
        "status": row["status"],
        "values": dict(row["values"] or []),
        "extracted": row["extracted"],
        "reason": row["reason"],
        "explanation": row["explanation"],
        **({"overrides": decode(row["overrides"])} if row["overrides"] else {}),
    }


def file_name(text: str) -> str:
    """A file name for a sample or task: its id where that is plain, else a hash of it."""
    return text if _PLAIN.fullmatch(text) else hashlib.sha256(text.encode()).hexdigest()[:24]


@contextmanager
def _placed(folder: RunFolder, name: str) -> Iterator[Path]:
    """A local file to write, which becomes the run's file of that name once it is whole."""
    local = folder.local
    # Beside its place it is moved there in one step, whatever its size; what a kill leaves is no object of the store.
    with tempfile.TemporaryDirectory(prefix=".tmp-export-", dir=local) as temporary:
        file = Path(temporary) / name
        yield file
        if local is not None:
            file.replace(local / name)
        else:
            folder.write(name, file.read_bytes())
