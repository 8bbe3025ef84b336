"""Results of promptfoo: ``promptfoo eval -o FILE.json`` or ``FILE.jsonl``."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.imports.contract import ImportedAnswer, ImportedLog, messages_of, prompt_of, scores_of
from gage_eval.imports.values import document, mapping, rows_of, sequence, text

_NEWEST = 4
_ERROR = 2  # failureReason of a row without an answer
_GOLD = ("equals", "contains", "icontains", "starts-with")


def read_promptfoo(path: Path) -> ImportedLog:
    """Read results. Each test with each prompt is a sample.

    Raises:
        InputError: the file cannot be read, is of a later version, or has answers of several providers.
    """
    log = ImportedLog("promptfoo", None, path.name.split(".")[0])
    rows = list(_rows(path, log))
    log.models |= {text(mapping(row.get("provider")).get("id")) or text(row.get("provider")) for _, row in rows}
    several = len({text(row.get("promptIdx")) for _, row in rows}) > 1
    for where, row in rows:
        test, prompt = text(row.get("testIdx")), text(row.get("promptIdx"))
        if test is None or prompt is None:
            raise InputError(f"{where} has no 'testIdx' and 'promptIdx', as results of promptfoo have.")
        sample_id = f"{test}-prompt{prompt}" if several else test
        log.answers.append(_answer(row, sample_id, log))
    return log


def _rows(path: Path, log: ImportedLog) -> Iterator[tuple[str, dict[str, Any]]]:
    if ".json" not in path.suffixes:
        yield from rows_of(path)
        return
    tree = mapping(document(path))
    results = mapping(tree.get("results"))
    version = results.get("version")
    if version is not None and (not isinstance(version, int) or not 1 <= version < _NEWEST):
        raise InputError(f"'{path.name}' has results of version {version!r}; those of promptfoo up to 3 are read.")
    log.version = text(mapping(tree.get("metadata")).get("promptfooVersion"))
    log.task = text(mapping(tree.get("config")).get("description")) or log.task
    for place, row in enumerate(sequence(results.get("results")), 1):
        if not isinstance(row, dict):
            raise InputError(f"result {place} of '{path.name}' is not an object with fields.")
        yield f"result {place} of '{path.name}'", row


def _answer(row: dict[str, Any], sample_id: str, log: ImportedLog) -> ImportedAnswer:
    response, test = mapping(row.get("response")), mapping(row.get("testCase"))
    output = response.get("output")
    failed = row.get("failureReason") == _ERROR or output is None
    named = mapping(row.get("namedScores"))
    scores = {**named, "pass": row.get("success"), "score": row.get("score")}
    gold = [mapping(known) for known in sequence(test.get("assert"))]
    for name in ("metadata", "toolCalls"):
        if response.get(name) not in (None, {}, []):
            log.leave(f"response.{name}")
    if sequence(mapping(row.get("gradingResult")).get("componentResults")):
        log.leave("gradingResult.componentResults")
    return ImportedAnswer(
        sample_id,
        log.next_replicate(sample_id),
        messages_of(prompt_of(mapping(row.get("prompt")).get("raw")), log),
        None if failed else output if isinstance(output, str) else json.dumps(output, ensure_ascii=False),
        {} if failed else scores_of(scores, log, "namedScores"),
        [known["value"] for known in gold if known.get("type") in _GOLD and isinstance(known.get("value"), str)],
        error=text(row.get("error")) or text(response.get("error")),
        metadata={"vars": mapping(row.get("vars"))} if row.get("vars") else {},
    )
