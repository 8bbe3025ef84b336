"""Samples files of the lm-eval harness (``--log_samples``), with the results file next to them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.imports.contract import ImportedAnswer, ImportedLog, messages_of, prompt_of
from gage_eval.imports.values import document, mapping, number, rows_of, sequence, text, texts

_NAME = re.compile(r"samples_(?P<task>.+?)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
_MAPPED = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
_HASHES = {"doc_hash", "prompt_hash", "target_hash"}


def read_lm_eval(path: Path) -> ImportedLog:
    """Read a samples file.

    Raises:
        InputError: it cannot be read, or a row is not one of the harness.
    """
    named = _NAME.match(path.name)
    task = named["task"] if named else path.name.split(".")[0].removeprefix("samples_")
    file = path.with_name(f"results_{named['time'] if named else ''}.json")
    # The results of the same evaluation.
    others = [file] if named is not None and file.is_file() else []
    results = mapping(document(file)) if others else {}
    log = ImportedLog(
        "lm-eval",
        text(results.get("lm_eval_version")),
        task,
        text(results.get("model_name")) or text(mapping(results.get("config")).get("model")),
        other_files=others,
    )
    higher = mapping(mapping(results.get("higher_is_better")).get(task))
    answers: dict[str, list[ImportedAnswer]] = {}
    for where, row in rows_of(path):
        if not text(row.get("doc_id")) or not sequence(row.get("resps")):
            raise InputError(f"{where} has no 'doc_id' and 'resps', as rows of the lm-eval harness have.")
        scores = dict(_scores(row, log))
        log.lower |= {name for name in scores if higher.get(name.partition(",")[0]) is False}
        made = list(_answers(row, scores, log))
        if not made:
            raise InputError(f"{where} has no response in 'resps'.")
        before = answers.setdefault(made[0].sample_id, made)
        if before is not made:
            _add_filter(before, made, where)
    log.answers = [answer for own in answers.values() for answer in own]
    return log


def _add_filter(before: list[ImportedAnswer], made: list[ImportedAnswer], where: str) -> None:
    """Add the scores of a document's answers after another filter."""
    if [answer.answer for answer in before] != [answer.answer for answer in made]:
        raise InputError(f"{where} has other answers than an earlier line of doc_id {made[0].sample_id}.")
    for answer, again in zip(before, made, strict=True):
        if answer.scores.keys() & again.scores.keys():
            raise InputError(f"{where} scores doc_id {answer.sample_id} a second time with the same filter.")
        answer.scores.update(again.scores)


def _answers(row: dict[str, Any], scores: dict[str, float], log: ImportedLog) -> Iterator[ImportedAnswer]:
    requests = list(_requests(row.get("arguments")))
    prompt = requests[0][0] if requests else None
    continuations = [continuation for _, continuation in requests if continuation is not None]
    target = row.get("target")
    options: list[str] = []
    first = sequence(row["resps"])[0]
    likelihoods = [_likelihood(response) for response in sequence(row["resps"])]
    replies: list[str | None]
    if continuations and all(value is not None for value in likelihoods):
        log.leave("resps (log-likelihoods)")
        if len(continuations) > 1 and len(continuations) == len(likelihoods):
            options = [continuation.strip() for continuation in continuations]
            best = max(range(len(options)), key=lambda place: likelihoods[place] or 0.0)
            replies = [options[best]]
        else:
            replies = [str(likelihoods[0])]
    else:
        replies = [*map(text, first if isinstance(first, list) else [first])]
        for _ in sequence(row["resps"])[1:]:
            log.leave("resps of further requests")
    for replicate, reply in enumerate(replies):
        yield ImportedAnswer(
            str(row["doc_id"]),
            replicate,
            messages_of(prompt_of(prompt), log),
            reply,
            # The harness scores a document once, whatever its number of answers.
            {**scores},
            _references(target, options),
            options,
        )


def _requests(arguments: Any) -> Iterator[tuple[Any, str | None]]:
    """(prompt, continuation or None) of each request, in the form of today's harness and that of earlier ones."""
    for request in arguments.values() if isinstance(arguments, dict) else sequence(arguments):
        pair = (
            [request.get("arg_0"), request.get("arg_1")]
            if isinstance(request, dict)
            else [*sequence(request), None, None]
        )
        yield pair[0], pair[1] if isinstance(pair[1], str) else None


def _likelihood(response: Any) -> float | None:
    """The log-likelihood of ``[[ll, is_greedy]]``, which the harness writes as texts."""
    while isinstance(response, list) and len(response) == 1:
        response = response[0]
    if isinstance(response, list) and len(response) == 2 and str(response[1]) in ("True", "False"):
        try:
            return float(response[0])
        except (TypeError, ValueError):
            return None
    return None


def _references(target: Any, options: list[str]) -> list[str]:
    known = texts(target)
    if (
        options
        and len(known) == 1
        and known[0] not in options
        and known[0].isdecimal()
        and int(known[0][:9]) < len(options)
    ):
        return [options[int(known[0])]]
    return [reference.strip() for reference in known] if options else known


def _scores(row: dict[str, Any], log: ImportedLog) -> Iterator[tuple[str, float]]:
    listed = [name for name in sequence(row.get("metrics")) if isinstance(name, str)]
    names = listed or [name for name in row if name not in _MAPPED | _HASHES]
    suffix = row.get("filter")
    for name in names:
        value = number(row.get(name))
        if value is None:
            log.leave(name)
        else:
            yield f"{name},{suffix}" if isinstance(suffix, str) and suffix != "none" else name, value
