"""Exports: samples with their results as JSON lines, CSV, Parquet or one JSON file per sample, and for other tools.

Each sample has ``predict_result`` (its responses, a list) and ``eval_result`` (its score rows by metric), and in
tasks with an answer type ``score_card``. Answers of such tasks are also written as canonical answers. One part of a
dataset is in memory at a time.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import pyarrow as pa

from gage_eval.base.canonical import canonical_json, canonical_text
from gage_eval.base.errors import InputError, StoreError
from gage_eval.base.made_media import made_medium
from gage_eval.base.tables import SAMPLES
from gage_eval.data.sample.table import rows_of
from gage_eval.runs.record import RunRecord
from gage_eval.runs.results import atif_export, every_eval_ever, inspect_export, lm_eval_export, published_scores
from gage_eval.runs.results.cards import Cards
from gage_eval.runs.results.reading import TaskReader
from gage_eval.runs.results.rows import Scores
from gage_eval.runs.results.tabular import csv_records

# Results are JSON text, because each metric has its own fields.
EXPORTED = pa.schema(
    [
        ("task_id", pa.string()),
        *SAMPLES.arrow,
        *((name, pa.string()) for name in ("predict_result", "eval_result", "score_card")),
    ]
)
MEDIA = "media"
"""The folder of media that models made, and the name of their export."""

_TABLES = ("responses", "scores", "compared")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,80}")


class Target(Protocol):
    """Where exports are written, such as a `gage_eval.runs.folder.RunFolder`."""

    @property
    def local(self) -> Path | None:
        """The folder on this machine, None on S3."""

    def write(self, name: str, data: bytes) -> None:
        """Write a file, replacing an existing one."""


@dataclass(frozen=True)
class LocalTarget:
    """A folder on this machine."""

    local: Path

    @classmethod
    def made(cls, folder: Path) -> "LocalTarget":
        """The folder; created if missing.

        Raises:
            InputError: it cannot be created.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"'{folder}' cannot be created: {error.strerror}. Name another one with --to.") from error
        return cls(folder)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, replacing an existing one."""
        file = self.local / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def export(tasks: Sequence[TaskReader], kind: str, target: Target, record: RunRecord) -> str:
    """Write one kind of export.

    Args:
        tasks: readers of the tasks, which must be scored and reported.
        kind: one of `KINDS`.
        target: where to write.
        record: of the run.

    Returns:
        The name of the file or folder.

    Raises:
        InputError: a task is not scored yet.
        StoreError: the file cannot be written.
    """
    for task in tasks:
        _check(task)
    try:
        return PLAIN[kind](tasks, target) if kind in PLAIN else _OF_RUN[kind](tasks, target, record)
    except OSError as error:
        place = tempfile.gettempdir() if target.local is None else target.local
        reason = os.strerror(error.errno) if error.errno else error
        raise StoreError(
            f"the export {kind} cannot be written to '{place}': {reason}. Fix that, or name another "
            f"folder with --to: gage export {record.run_id} --format {kind}"
        ) from error


def _check(task: TaskReader) -> None:
    """Refuse an unfinished task: an export is always complete."""
    for output in ("responses", "metrics", "report"):
        task.artifact(output)


def _write_parquet(tasks: Sequence[TaskReader], target: Target) -> str:
    import pyarrow.parquet as pq

    with _placed(target, "samples.parquet") as file, pq.ParquetWriter(file, EXPORTED) as writer:
        for task in tasks:
            for table in sample_tables(task):
                writer.write_table(table)
    return "samples.parquet"


def _write_jsonl(tasks: Sequence[TaskReader], target: Target) -> str:
    samples = ({"task_id": task.task_id, **sample} for task in tasks for sample in sample_records(task))
    return _write_lines(target, "samples.jsonl", (canonical_json(sample) + b"\n" for sample in samples))


def _write_files(tasks: Sequence[TaskReader], target: Target) -> str:
    folders: set[str] = set()
    for task in tasks:
        folder, files = _different(file_name(task.task_id), task.task_id, folders), set[str]()
        for sample in sample_records(task):
            name = _different(file_name(sample["id"]), sample["id"], files)
            target.write(f"samples/{folder}/{name}.json", canonical_json(sample) + b"\n")
    return "samples"


def _write_answers(tasks: Sequence[TaskReader], target: Target) -> str:
    """Canonical answers, one per line, of the tasks that have an answer type."""
    with _placed(target, "canonical_answers.jsonl") as file, file.open("wb") as lines:
        for task in tasks:
            for sample in sample_records(task) if task.cards else ():
                assert task.cards is not None
                for response in sample["predict_result"]:
                    answer = task.cards.answer(task.task_id, sample, response)
                    lines.write(canonical_json(answer.model_dump(mode="json")) + b"\n")
    return "canonical_answers.jsonl"


def _write_media(tasks: Sequence[TaskReader], target: Target) -> str:
    """What models drew, said or filmed, one file per answer, and an index of whose answers they are."""
    folders: set[str] = set()
    with _placed(target, f"{MEDIA}/index.jsonl") as file, file.open("wb") as lines:
        for task in tasks:
            folder, taken = _different(file_name(task.task_id), task.task_id, folders), set[str]()
            for index in task.parts:
                part = task.part(index, tables=("responses",))
                ids = dict(zip(*(part.samples[name].to_pylist() for name in ("row_index", "id")), strict=True))
                for sample_id, response in ((ids[row], response) for row in ids for response in part.responses[row]):
                    if (medium := made_medium(response)) is None:
                        continue
                    replicate = response["replicate"]
                    name = _different(f"{file_name(sample_id)}__{replicate + 1}", sample_id, taken)
                    place = f"{folder}/{name}{PurePosixPath(medium.name).suffix}"
                    target.write(f"{MEDIA}/{place}", task.store.media.get(medium.url))
                    entry = {"task_id": task.task_id, "sample_id": sample_id, "replicate": replicate, "file": place}
                    lines.write(canonical_json({**entry, "url": medium.url, "bytes": medium.size}) + b"\n")
    return MEDIA


def _write_csv(tasks: Sequence[TaskReader], target: Target) -> str:
    rows = ({"task_id": task.task_id, **sample} for task in tasks for sample in sample_records(task))
    columns = [name for name in EXPORTED.names if name != "row_index"]
    return _write_lines(target, "samples.csv", csv_records(rows, columns))


def _write_lm_eval(tasks: Sequence[TaskReader], target: Target, record: RunRecord) -> str:
    """Results and samples as the lm-eval harness writes them; the tasks of each model in a separate folder."""
    ended = record.finished or datetime.now(UTC)
    moment = record.created.isoformat(timespec="microseconds").replace(":", "-").replace("+00-00", "")
    for model, mine in _by_model(tasks).items():
        folder = f"{lm_eval_export.FOLDER}/{_model_folder(lm_eval_export.sanitized(model))}"
        results = lm_eval_export.results(mine, record.created.timestamp(), ended.timestamp())
        target.write(f"{folder}/results_{moment}.json", json.dumps(results, indent=2, ensure_ascii=False).encode())
        for task in mine:
            name = f"{folder}/samples_{lm_eval_export.sanitized(task.task_id)}_{moment}.jsonl"
            _write_lines(target, name, lm_eval_export.sample_lines(task))
    return lm_eval_export.FOLDER


def _write_inspect(tasks: Sequence[TaskReader], target: Target, record: RunRecord) -> str:
    for task in tasks:
        with _placed(target, f"{inspect_export.FOLDER}/{file_name(task.task_id)}.eval") as file:
            ended = record.finished or datetime.now(UTC)
            inspect_export.write_log(task, file, run_id=record.run_id, created=record.created, finished=ended)
    return inspect_export.FOLDER


def _write_atif(tasks: Sequence[TaskReader], target: Target, record: RunRecord) -> str:
    for task in tasks:
        taken: set[str] = set()
        for sample_id, replicate, trajectory, result in atif_export.trials(task, record.run_id):
            trial = _different(f"{file_name(sample_id)}__{replicate + 1}", sample_id, taken)
            folder = f"{atif_export.FOLDER}/{file_name(task.task_id)}/{trial}"
            target.write(f"{folder}/agent/trajectory.json", canonical_json(trajectory) + b"\n")
            target.write(f"{folder}/result.json", canonical_json(result) + b"\n")
    return atif_export.FOLDER


def _write_every_eval_ever(tasks: Sequence[TaskReader], target: Target, record: RunRecord) -> str:
    for mine in _by_model(tasks).values():
        place = every_eval_ever.place(mine, record)
        rows, checksum = 0, hashlib.sha256()
        with _placed(target, f"{every_eval_ever.FOLDER}/{place}_samples.jsonl") as file, file.open("wb") as lines:
            for line in every_eval_ever.sample_lines(mine, record):
                rows += lines.write(line) > 0
                checksum.update(line)
        numbers = every_eval_ever.aggregate(mine, record, f"{place}_samples.jsonl", rows, checksum.hexdigest())
        target.write(f"{every_eval_ever.FOLDER}/{place}.json", canonical_json(numbers) + b"\n")
    return every_eval_ever.FOLDER


def _write_eval_results(tasks: Sequence[TaskReader], target: Target, record: RunRecord) -> str:
    if len(_by_model(tasks)) > 1:
        raise InputError("the tasks have several models, and .eval_results is of one: choose those of one with --task.")
    taken: set[str] = set()
    entries = [(task.task_id, published_scores.eval_results(task, record)) for task in tasks]
    for task_id, data in entries:
        name = _different(file_name(task_id), task_id, taken)
        target.write(f"{published_scores.RESULTS}/{name}.yaml", data)
    return published_scores.RESULTS


def _write_events(tasks: Sequence[TaskReader], target: Target, record: RunRecord) -> str:
    return _write_lines(target, published_scores.EVENTS, published_scores.event_lines(tasks, record))


def _write_lines(target: Target, name: str, lines: Iterable[bytes]) -> str:
    with _placed(target, name) as file, file.open("wb") as out:
        out.writelines(lines)
    return name


def _by_model(tasks: Sequence[TaskReader]) -> dict[str, list[TaskReader]]:
    models: dict[str, list[TaskReader]] = {}
    for task in tasks:
        models.setdefault(task.model, []).append(task)
    return models


PLAIN = {
    "jsonl": _write_jsonl,
    "csv": _write_csv,
    "parquet": _write_parquet,
    "per_sample_json": _write_files,
    "canonical_answers": _write_answers,
    MEDIA: _write_media,
}
"""The writer of each kind of export that needs nothing of the run but its tasks."""

_OF_RUN: dict[str, Callable[[Sequence[TaskReader], Target, RunRecord], str]] = {
    "lm-eval": _write_lm_eval,
    "inspect": _write_inspect,
    "atif": _write_atif,
    "every-eval-ever": _write_every_eval_ever,
    "eval-results": _write_eval_results,
    "otel": _write_events,
}

KINDS = (*PLAIN, *_OF_RUN)
"""The kinds of exports."""


def sample_tables(task: TaskReader) -> Iterator[pa.Table]:
    """The task's samples with their results as tables of the schema `EXPORTED`, part by part.

    Raises:
        InputError: the task is not scored yet.
    """
    _check(task)
    for index in task.parts:
        part = task.part(index, tables=_TABLES)
        rows = [(part.responses[row], part.scores.get(row, {})) for row in part.samples["row_index"].to_pylist()]
        cards = task.cards
        added = {
            "task_id": [task.task_id] * len(rows),
            "predict_result": [canonical_text(responses) for responses, _ in rows],
            "eval_result": [canonical_text(scores) for _, scores in rows],
            "score_card": [None if cards is None else canonical_text(_card(cards, *row)) for row in rows],
        }
        table = part.samples
        for name, values in added.items():
            table = table.append_column(name, pa.array(values, pa.string()))
        yield table.select(EXPORTED.names).cast(EXPORTED)


def sample_records(task: TaskReader) -> Iterator[dict[str, Any]]:
    """The task's samples in canonical form with ``predict_result`` and ``eval_result``, in row order.

    Raises:
        InputError: the task is not scored yet.
    """
    _check(task)
    for index in task.parts:
        part = task.part(index, tables=_TABLES)
        for row, sample in zip(part.samples["row_index"].to_pylist(), rows_of(part.samples), strict=True):
            responses, scores = part.responses[row], part.scores.get(row, {})
            record = {**sample, "predict_result": responses, "eval_result": scores}
            if task.cards is not None:
                record["score_card"] = _card(task.cards, responses, scores)
            yield record


def _card(cards: Cards, responses: list[dict[str, Any]], scores: Scores) -> dict[str, Any]:
    return cards.card(responses, scores).model_dump(mode="json")


def file_name(text: str) -> str:
    """A file name for a sample or task: its id if that is a safe name, else a hash of it."""
    return text if _PLAIN.fullmatch(text) else _hash(text)[:24]


def _model_folder(name: str) -> str:
    """A model's name as a folder: as it is if that is a safe name, else its safe characters and a hash of it."""
    return name if _PLAIN.fullmatch(name) else f"{re.sub('[^A-Za-z0-9]+', '-', name).strip('-')[:40]}-{_hash(name)[:8]}"


def _different(name: str, text: str, taken: set[str]) -> str:
    """A name that differs from those taken also where capitals do not count, as on the disks of many laptops."""
    if name.casefold() in taken:
        name = f"{name}-{_hash(text)[:8]}"
    taken.add(name.casefold())
    return name


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _placed(target: Target, name: str) -> Iterator[Path]:
    """Context of a local file to write. Once it is complete, it becomes the target's file of that name."""
    local = target.local
    # It is written under another name and renamed in one step, so a kill leaves no partial file.
    with tempfile.TemporaryDirectory(prefix=".tmp-export-", dir=local) as temporary:
        file = Path(temporary) / Path(name).name
        yield file
        if local is not None:
            (local / name).parent.mkdir(parents=True, exist_ok=True)
            file.replace(local / name)
        else:
            target.write(name, file.read_bytes())
