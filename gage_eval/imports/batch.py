"""Outputs of OpenAI's batch interface and of ``vllm run-batch``, with the requests where they are at hand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.imports.contract import ImportedAnswer, ImportedLog, content_of, messages_of
from gage_eval.imports.values import mapping, rows_of, sequence, text


def read_batch(path: Path, requests: Path | None = None) -> ImportedLog:
    """Read the output of a batch.

    Args:
        path: the output.
        requests: the input, which holds the prompts; the output does not.

    Raises:
        InputError: a file cannot be read, or a row is not one of a batch.
    """
    log = ImportedLog("openai-batch", None, path.name.split(".")[0])
    log.other_files = [] if requests is None else [requests]
    prompts = {} if requests is None else dict(_prompts(requests, log))
    for where, row in rows_of(path):
        sample_id = text(row.get("custom_id"))
        if not sample_id or not {"response", "error"} & row.keys():
            raise InputError(f"{where} has no 'custom_id' and 'response', as outputs of a batch have.")
        if prompts and sample_id not in prompts:
            raise InputError(f"{where}: '{requests and requests.name}' has no request '{sample_id}'.")
        if sample_id not in prompts:
            log.leave("messages")
        response = mapping(row.get("response"))
        body = mapping(response.get("body"))
        log.models.add(text(body.get("model")))
        messages = prompts.get(sample_id) or messages_of(None, log)
        choices = sequence(body.get("choices"))
        for replicate, choice in enumerate(choices):
            log.answers.append(ImportedAnswer(sample_id, replicate, messages, _reply(mapping(choice), log)))
        if not choices:
            log.answers.append(ImportedAnswer(sample_id, 0, messages, None, error=_error(row, response, body)))
    return log


def _prompts(path: Path, log: ImportedLog) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    seen = set()
    for where, row in rows_of(path):
        sample_id, body = text(row.get("custom_id")), mapping(row.get("body"))
        if not sample_id or sample_id in seen:
            raise InputError(f"{where} has no 'custom_id' of its own.")
        seen.add(sample_id)
        yield sample_id, messages_of(body.get("messages") or body.get("prompt"), log)


def _reply(choice: dict[str, Any], log: ImportedLog) -> str:
    message = mapping(choice.get("message"))
    if message.get("tool_calls"):
        log.leave("tool_calls")
    known = text(choice.get("text"))
    return known if known is not None else content_of(message.get("content"), log)


def _error(row: dict[str, Any], response: dict[str, Any], body: dict[str, Any]) -> str:
    own = row.get("error")
    # vLLM's has another one inside.
    for error in (mapping(own).get("error"), own, body.get("error")):
        message = text(mapping(error).get("message")) or text(error)
        if message is not None:
            return message
    return f"no answer (status {response.get('status_code')})"
