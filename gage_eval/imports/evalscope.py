"""Predictions and reviews of evalscope: two files of one name, in ``predictions/MODEL`` and ``reviews/MODEL``."""

from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.imports.contract import ImportedAnswer, ImportedLog, asked_of, messages_of, reply_of, scores_of
from gage_eval.imports.values import mapping, rows_of, sequence, text, texts

_FOLDERS = ("predictions", "reviews")
_PREDICTION = {"index", "model", "model_output", "messages", "metadata"}
_REVIEW = {"index", "target", "messages", "sample_score", "input"}


def read_evalscope(path: Path) -> ImportedLog:
    """Read predictions or reviews, with the other file where it is in the folder next to it.

    Raises:
        InputError: a file cannot be read, or a row is not one of evalscope.
    """
    log = ImportedLog("evalscope", None, path.name.split(".")[0])
    files = dict.fromkeys(_FOLDERS, path)
    model = path.absolute().parent
    if model.parent.name in _FOLDERS:
        log.model = model.name
        files = {name: model.parent.parent / name / model.name / path.name for name in _FOLDERS}
    log.other_files = [file for file in files.values() if file.absolute() != path.absolute() and file.is_file()]
    predictions = _by_index(files["predictions"], "model_output", log, _PREDICTION)
    reviews = _by_index(files["reviews"], "sample_score", log, _REVIEW)
    log.models |= {text(row.get("model")) for row in predictions.values()}
    places = [mapping(review.get("sample_score")).get("generation_index") for review in reviews.values()]
    repeats = 1 + max((place for place in places if isinstance(place, int)), default=0)
    for index in dict.fromkeys([*predictions, *reviews]):
        log.answers.append(_answer(index, predictions.get(index, {}), reviews.get(index, {}), log, repeats))
    return log


def _by_index(path: Path, needed: str, log: ImportedLog, known: set[str]) -> dict[str, dict[str, Any]]:
    """The rows of a file by their index; none where the file is absent or is the other one of the two."""
    rows: dict[str, dict[str, Any]] = {}
    for where, row in rows_of(path) if path.is_file() else ():
        index = text(row.get("index"))
        if index is None or not {"model_output", "sample_score"} & row.keys():
            raise InputError(f"{where} has no 'index' with 'model_output' or 'sample_score', as evalscope writes them.")
        if needed not in row:
            continue
        if index in rows:
            raise InputError(f"{where} has the index {index} of an earlier row; each index is for one answer.")
        rows[index] = row
        log.leave_others(row, known)
    return rows


def _place(index: str, own: dict[str, Any], repeats: int) -> tuple[str, int]:
    """The sample and the replicate of an answer. Without a review only its index is known, which counts both."""
    place, group = own.get("generation_index"), text(own.get("group_id"))
    if isinstance(place, int) and place >= 0 and group is not None:
        return group, int(place)
    if not own and repeats > 1 and index.isdecimal() and len(index) < 19:
        sample, replicate = divmod(int(index), repeats)
        return str(sample), replicate
    return index, 0


def _answer(
    index: str, prediction: dict[str, Any], review: dict[str, Any], log: ImportedLog, repeats: int
) -> ImportedAnswer:
    own = mapping(review.get("sample_score"))
    score, output = mapping(own.get("score")), mapping(prediction.get("model_output"))
    reply = reply_of(output, log) if sequence(output.get("choices")) else text(score.get("prediction"))
    error = text(output.get("error"))
    messages = sequence(prediction.get("messages")) or sequence(review.get("messages"))
    return ImportedAnswer(
        *_place(index, own, repeats),
        messages_of(asked_of(messages, log) or review.get("input"), log),
        None if error else reply,
        scores_of(score.get("value"), log, "score"),
        texts(review.get("target")),
        error=error,
        metadata=mapping(prediction.get("metadata")) or mapping(own.get("sample_metadata")),
    )
