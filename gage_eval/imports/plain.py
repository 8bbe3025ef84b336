"""Answers in a file of records: JSON Lines, JSON, CSV, TSV, Parquet or Excel."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import MISSING, walk_or_key
from gage_eval.config.record_files import records_of
from gage_eval.imports.contract import ImportedAnswer, ImportedLog, messages_of
from gage_eval.imports.values import number, text, texts

# The names that each part of a record is looked for by, the first one that is there.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "id": ("id", "sample_id", "question_id", "doc_id", "index"),
    "question": ("messages", "question", "prompt", "input", "query", "instruction"),
    "answer": (
        "output",
        "response",
        "completion",
        "prediction",
        "model_output",
        "model_answer",
        "generated_text",
        "answer",
    ),
    "reference": ("references", "reference", "target", "gold", "expected", "ground_truth", "label"),
    "score": ("scores", "score", "correct", "is_correct", "acc", "accuracy"),
    "model": ("model", "model_name"),
}
_NEEDED = ("question", "answer")
_TEXTS = ("id", "answer", "model")
_WORDS = {"true": 1.0, "false": 0.0}


def read_plain(path: Path, fields: Mapping[str, str]) -> ImportedLog:
    """Read a file of answers. Records of one id are replicates.

    Args:
        path: the file.
        fields: the field of a part of the record, where it is not one of `FIELDS`; with dots for nested ones.

    Raises:
        InputError: the file cannot be read, or a record lacks a part.
    """
    for part in fields:
        if part not in FIELDS:
            raise InputError(f"--field '{part}' is unknown: {', '.join(FIELDS)}.{closest(part, FIELDS)}")
    log = ImportedLog("records", None, path.name.split(".")[0])
    first: dict[str, tuple[str, ImportedAnswer]] = {}
    for place, (where, record) in enumerate(records_of(str(path)), 1):
        read = {part: _found(record, part, fields, where) for part in FIELDS}
        for part in _TEXTS:
            if isinstance(read[part], dict | list):
                raise InputError(
                    f"{where}: the {part} is {'an object' if isinstance(read[part], dict) else 'a list'}, not a text. "
                    f"Name a field in it: --field {part}=FIELD.NAME, or FIELD.0 for the first of a list."
                )
        sample_id = text(read["id"]) or str(place)
        log.models.add(text(read["model"]))
        for part in ("question", "reference"):
            if isinstance(read[part], dict):
                log.leave(f"the {part}, which is an object")
        answer = ImportedAnswer(
            sample_id,
            log.next_replicate(sample_id),
            messages_of(read["question"] if isinstance(read["question"], list) else text(read["question"]), log),
            text(read["answer"]),
            _scores(read["score"], fields.get("score", "score"), log),
            [] if read["reference"] in (None, "") else texts(read["reference"]),
        )
        _check_replicate(answer, where, *first.setdefault(sample_id, (where, answer)))
        log.answers.append(answer)
        used = {*fields.values()} | {name for part, names in FIELDS.items() if part not in fields for name in names}
        for name in record.keys() - used - {value.split(".")[0] for value in fields.values()}:
            log.leave(name)
    return log


def _check_replicate(answer: ImportedAnswer, where: str, first_where: str, first: ImportedAnswer) -> None:
    """Refuse a record that has the id of another sample."""
    if (answer.messages, answer.references) != (first.messages, first.references):
        part = "question" if answer.messages != first.messages else "reference"
        raise InputError(
            f"{where} has the id '{answer.sample_id}' of {first_where}, but another {part}. Give each sample its own "
            "id, or name another field: --field id=FIELD."
        )


def _found(record: dict[str, Any], part: str, fields: Mapping[str, str], where: str) -> Any:
    """The value of a part of a record; None where there is none."""
    if part in fields:
        value = walk_or_key(record, fields[part])
        if value is MISSING:
            raise InputError(f"{where} has no field '{fields[part]}'.{closest(fields[part], record)}")
        return value
    names = [name for name in FIELDS[part] if name in record]
    if not names and part in _NEEDED:
        raise InputError(
            f"{where} has no {part} that is known here: {', '.join(list(record)[:20])}. Name it: --field {part}=FIELD."
        )
    return record[names[0]] if names else None


def _scores(value: Any, name: str, log: ImportedLog) -> dict[str, float]:
    scores = {}
    for key, item in value.items() if isinstance(value, dict) else ((name, value),):
        known = _number(item)
        if known is not None:
            scores[key] = known
        elif item not in (None, ""):
            log.leave(key)
    return scores


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            return _WORDS[value.lower()] if value.lower() in _WORDS else number(float(value))
        except ValueError:
            return None
    return number(value)
