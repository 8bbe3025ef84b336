"""Which tool wrote a log, and its answers, checked."""

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from gage_eval.base.errors import InputError, closest
from gage_eval.base.files import closest_file
from gage_eval.config.secrets import scrub
from gage_eval.imports.atif import read_atif, trajectories_of
from gage_eval.imports.batch import read_batch
from gage_eval.imports.contract import ImportedAnswer, ImportedLog
from gage_eval.imports.evalscope import read_evalscope
from gage_eval.imports.helm import read_helm
from gage_eval.imports.inspect_log import read_inspect
from gage_eval.imports.lm_eval import read_lm_eval
from gage_eval.imports.plain import read_plain
from gage_eval.imports.promptfoo import read_promptfoo
from gage_eval.imports.values import document, mapping, rows_of
from gage_eval.models.client.types import without_surrogates

Format: TypeAlias = Literal["inspect", "lm-eval", "evalscope", "helm", "promptfoo", "atif", "batch", "records"]
FORMATS: tuple[str, ...] = get_args(Format)
_READERS: Mapping[str, Callable[[Path], ImportedLog]] = {
    "inspect": read_inspect,
    "lm-eval": read_lm_eval,
    "evalscope": read_evalscope,
    "helm": read_helm,
    "promptfoo": read_promptfoo,
    "atif": read_atif,
}
_MOST_SCORES = 200
_MOST_REPLICATES = 1000


def read_log(
    path: Path, *, format_: str | None = None, requests: Path | None = None, fields: Mapping[str, str] | None = None
) -> ImportedLog:
    """Read a log of any known form. No code of it is run, and nothing that it names is opened.

    Args:
        path: the log.
        format_: its form, told by its content unless given.
        requests: the input of a batch.
        fields: the fields of plain records.

    Returns:
        The log, with secrets masked by the rules for configs.

    Raises:
        InputError: it cannot be read, its form is not known, or two answers are of one sample and replicate.
    """
    if format_ is not None and format_ not in FORMATS:
        raise InputError(f"--format '{format_}' is unknown: {', '.join(FORMATS)}.{closest(format_, FORMATS)}")
    for file in (path, requests):
        if file is not None and file.is_dir() and not trajectories_of(file):
            raise InputError(f"'{file}' is a folder without TRIAL/agent/trajectory.json; name {_log_in(file)}.")
        if file is not None and not file.is_file() and not file.is_dir():
            raise InputError(f"there is no file '{file}'.{closest_file(file)}")
    form = format_ or _form(path)
    if requests is not None and form != "batch":
        raise InputError(f"--requests belongs to outputs of a batch, and '{path.name}' is {form}.")
    if fields and form != "records":
        raise InputError(f"--field belongs to plain records, and '{path.name}' is {form}.")
    if form == "batch":
        log = read_batch(path, requests)
    elif form == "records":
        log = read_plain(path, fields or {})
    else:
        log = _READERS[form](path)
    if not log.answers:
        raise InputError(f"'{path.name}' holds no answers.")
    if all(answer.answer is None for answer in log.answers):
        because = next((f", the first because: {answer.error}" for answer in log.answers if answer.error), "")
        remedy = " --field answer=FIELD names the field of the answers." if form == "records" else ""
        raise InputError(f"'{path.name}' holds no answer to any of its {len(log.answers):,} rows{because}.{remedy}")
    log.settle_model(path.name)
    _check_answers(log, path.name)
    try:
        log.answers = [_clean(answer) for answer in log.answers]
    except RecursionError:
        raise InputError(f"'{path.name}' holds values that are nested too deep.") from None
    log.task, log.model, log.version = (_clean_text(value) for value in (log.task, log.model, log.version))
    return log


# Keys that tell the tool of a JSON document, and of the first row of JSON Lines.
_DOCUMENTS = {
    "inspect": {"eval", "samples"},
    "helm": {"adapter_spec", "request_states"},
    "atif": {"schema_version", "agent", "steps"},
}
_ROWS = {
    "lm-eval": ({"doc_id", "resps"},),
    "evalscope": ({"index", "model_output"}, {"index", "sample_score"}),
    "promptfoo": ({"testIdx", "promptIdx"},),
    "atif": ({"schema_version", "agent", "steps"},),
    "batch": ({"custom_id", "response"}, {"custom_id", "error"}),
}


# What logs in a folder are called, by the tools of which the name says it.
_NAMES = ("*.eval", "samples_*.jsonl", "scenario_state.json", "*.jsonl")


def _log_in(folder: Path) -> str:
    """A file of a folder, or of a folder in it, that may be the log."""
    logs = (file for name in _NAMES for depth in ("", "*/") for file in sorted(folder.glob(depth + name)))
    return f"a file of the log, such as '{log}'" if (log := next(logs, None)) else "a file of the log"


def _form(path: Path) -> str:
    if path.is_dir():
        return "atif"
    # Workbooks are ZIP files as well.
    if path.suffix == ".eval" or (path.suffix.lower() != ".xlsx" and zipfile.is_zipfile(path)):
        if not zipfile.is_zipfile(path):
            raise InputError(f"'{path.name}' cannot be read as a log of Inspect: it is not a ZIP file, or is torn.")
        return "inspect"
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".zst", ".bz2", ".xz")]
    if suffixes[-1:] == [".json"]:
        tree = document(path)
        keys = mapping(tree).keys()
        for form, known in _DOCUMENTS.items():
            if known <= keys:
                return form
        if {"results", "versions", "n-samples"} <= keys:
            raise InputError(
                f"'{path.name}' holds scores of lm-eval and no answers; import the samples_*.jsonl next to it."
            )
        if isinstance(mapping(tree).get("results"), dict) and "results" in tree["results"]:
            return "promptfoo"
    if suffixes[-1:] in ([".jsonl"], [".ndjson"]):
        for _, row in islice(rows_of(path), 1):
            for form, groups in _ROWS.items():
                if any(group <= row.keys() for group in groups):
                    return form
    return "records"


def _check_answers(log: ImportedLog, name: str) -> None:
    scores = {score for answer in log.answers for score in answer.scores}
    if len(scores) > _MOST_SCORES:
        raise InputError(f"'{name}' has {len(scores):,} different scores; at most {_MOST_SCORES} are imported.")
    most = 1 + max(answer.replicate for answer in log.answers)
    if most > _MOST_REPLICATES:
        raise InputError(f"'{name}' has {most:,} answers of one sample; at most {_MOST_REPLICATES:,} are imported.")
    seen = set()
    for answer in log.answers:
        if (answer.sample_id, answer.replicate) in seen:
            which = f" {answer.replicate + 1}" if answer.replicate else ""
            raise InputError(
                f"'{name}' has two answers{which} of sample '{answer.sample_id}'; each id is for one sample."
            )
        seen.add((answer.sample_id, answer.replicate))


def _clean(answer: ImportedAnswer) -> ImportedAnswer:
    values: dict[str, Any] = {name: scrub(without_surrogates(value)) for name, value in vars(answer).items()}
    # Scores are numbers: a name such as `exact_token` hides nothing.
    values["scores"] = {without_surrogates(key): score for key, score in answer.scores.items()}
    values["error"] = (values["error"] or "the log holds no answer") if answer.answer is None else None
    return replace(answer, **values)


def _clean_text(value: Any) -> Any:
    return None if value is None else scrub(without_surrogates(value))
