"""``gage new``: a config for one's own data, from a look at the first rows."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product, takewhile
from pathlib import Path
from typing import Any

from gage_eval.authoring.validation import validated
from gage_eval.base.errors import InputError, closest
from gage_eval.base.files import closest_file, local_path
from gage_eval.config import parse_config
from gage_eval.config.model_choice import backend_for, key_reference
from gage_eval.config.models import implied_loader, is_id
from gage_eval.config.rules import name_of_file
from gage_eval.config.sugar import metric_form
from gage_eval.config.yaml.nodes import node_of
from gage_eval.config.yaml.text import yaml_text
from gage_eval.data.standardize.default import ANSWER_FIELDS, CHOICES_FIELDS, QUESTION_FIELDS
from gage_eval.extend import registry
from gage_eval.pipeline.plan import make_plan
from gage_eval.runs.options import RunOptions
from gage_eval.store.media import media_url

_ROWS = 200
_SCHEMA = ".gage/config.schema.json"
_MOST_FIELDS = 12

# Names that data sets use for the parts of a question; those that preprocessors look for by themselves come first.
_QUESTIONS = (*QUESTION_FIELDS[:4], "input", "query", "instruction", "problem", "request", "stem", "ctx")
_ANSWERS = (
    *ANSWER_FIELDS,
    *("output", "expected", "gold", "solution", "response", "completion", "reference", "ground_truth", "answers"),
    *("references", "correct", "correct_answer", "answer_idx", "answerKey"),
)
_CHOICES = (*CHOICES_FIELDS, "candidates", "answers_list", "endings")
# One field for each option, as option_a, option_b or sol1, sol2.
_OPTION_FIELDS = ("", "option", "option_", "choice", "choice_", "ending", "sol", "answer_")
_OPTION_ENDS = ("ABCDEFGHIJ", "abcdefghij", "1234567890", "0123456789")
# What stands before the number in references like those of GSM8K.
_GSM8K = "#### "
# Longer answers than this are compared by their words.
_SHORT_ANSWER = 60
_SHORT_PROMPT = "Answer with a word, a number or a short phrase only."
_NUMBER_PROMPT = "Answer with the number only."
_ROOM = {"exact_match": 64, "numeric_match": 64, "multi_choice_accuracy": 16}

# What counts as right, as a person says it.
RIGHT: Mapping[str, str] = {
    "exact_match": "the answer is the reference, upper and lower case alike",
    "contains": "the reference occurs in the answer",
    "numeric_match": "the number is the same",
    "multi_choice_accuracy": "the right option is chosen",
    "token_f1": "the words are the same, or many of them",
    "rouge": "the text is similar (ROUGE)",
}


@dataclass(frozen=True)
class DataPreview:
    """Facts about a data file, from its first rows.

    Attributes:
        file: the file.
        rows: how many rows were looked at.
        fields: names of their fields.
        question: the field with the question; None for rows with messages.
        answer: the field with the reference.
        worked: whether references end with ``#### `` and a number, as in GSM8K.
        choices: the field with the options, or one field for each option; None without options.
        index_base: what the number of a right option counts from.
        metric: what most likely counts as right.
    """

    file: Path
    rows: int
    fields: Sequence[str]
    question: str | None
    answer: str | None
    worked: bool
    choices: str | list[str] | None
    index_base: int
    metric: str

    @property
    def shown_rows(self) -> str:
        """The rows of the preview, for messages."""
        return "first row" if self.rows == 1 else f"first {self.rows:,} rows"


def look(data: str, *, question: str | None = None, answer: str | None = None) -> DataPreview:
    """Preview the first rows of a data file.

    Args:
        data: the file.
        question: the field that holds the question; found by its name unless given.
        answer: the field that holds the reference.

    Raises:
        InputError: the file cannot be read, or its rows have no question.
    """
    file = local_path(data, Path())
    if not os.path.isfile(file):
        raise InputError(f"no data file '{data}'.{closest_file(file)}")
    if implied_loader({"params": {"path": str(file)}}) is None:
        raise InputError(f"'{data}': no loader reads this ending; use .jsonl, .json, .csv, .tsv or .parquet.")
    records = list(islice(_records(file), _ROWS))
    fields = list(dict.fromkeys(key for record in records for key in record))
    for name, field in (("--question", question), ("--answer", answer)):
        if field is not None and field.split(".")[0] not in fields:
            known = ", ".join(fields[:_MOST_FIELDS])
            raise InputError(f"{name} {field}: the rows of '{data}' have no such field. Fields: {known}."
                             f"{closest(field, fields)}")  # fmt: skip
    messages = question is None and "messages" in fields
    question = None if messages else question or _first(fields, _QUESTIONS)
    if question is None and not messages:
        known = ", ".join(fields[:_MOST_FIELDS])
        raise InputError(f"which field of '{data}' is the question? Name it with --question. Fields: {known}.")
    choices = _choices(fields, records)
    answer = answer or _first([field for field in fields if field != question], _ANSWERS)
    answers = [value for record in records if (value := _at(record, answer)) is not None]
    base = _index_base(records, choices, answers)
    worked = bool(answers) and all(isinstance(text, str) and _GSM8K in text for text in answers)
    return DataPreview(file, len(records), fields, question, answer, worked, choices, base, _metric(choices, answers))


def _records(file: Path) -> Iterator[dict[str, Any]]:
    text = json.dumps({"datasets": [{"dataset_id": "data", "params": {"path": str(file)}}],
                       "backends": [{"backend_id": "b", "type": "dummy"}]})  # fmt: skip
    load = make_plan(parse_config(text, source=str(file), env={})).tasks[0].load
    media = registry.loaders.get(load.loader).info.get("keeps_media")
    rows = load.source.records(lambda *_: media_url("0" * 64)) if media else load.source.records()
    for number, (_, record) in enumerate(rows, 1):
        try:
            value = json.loads(record)
        except ValueError as error:
            raise InputError(f"'{file}': row {number} is not JSON ({error}).") from error
        if not isinstance(value, dict):
            raise InputError(f"'{file}': row {number} is not an object with fields.")
        yield value


def _first(fields: Sequence[str], names: Sequence[str]) -> str | None:
    lower = {field.lower(): field for field in reversed(fields)}
    return next((lower[name.lower()] for name in names if name.lower() in lower), None)


def _at(record: Mapping[str, Any], field: str | None) -> Any:
    value: Any = record
    for part in field.split(".") if field else ("",):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _choices(fields: Sequence[str], records: Sequence[Mapping[str, Any]]) -> str | list[str] | None:
    name = _first(fields, _CHOICES)
    if name is not None and any(isinstance(record.get(name), list | dict) for record in records):
        return name
    for start, ends in product(_OPTION_FIELDS, _OPTION_ENDS):
        columns = list(takewhile(lambda column: column in fields, (start + end for end in ends)))
        if len(columns) > 1:
            return columns
    return None


def _index_base(records: Sequence[Mapping[str, Any]], choices: str | list[str] | None, answers: Sequence[Any]) -> int:
    """1 where an index never is 0 and is the number of options somewhere."""
    numbers = [number for number in answers if isinstance(number, int) and not isinstance(number, bool)]
    if choices is None or not numbers or min(numbers) < 1:
        return 0
    candidates = [choices] if isinstance(choices, list) else [record.get(choices) for record in records]
    sizes = [len(options) for options in candidates if isinstance(options, list | dict)]
    return int(max(numbers) >= max(sizes, default=0))


def _metric(choices: str | list[str] | None, answers: Sequence[Any]) -> str:
    if choices is not None:
        return "multi_choice_accuracy"
    texts = [str(answer[0] if isinstance(answer, list) and answer else answer) for answer in answers]
    if texts and all(_is_number(text.rpartition(_GSM8K)[2].strip()) for text in texts):
        return "numeric_match"
    return "exact_match" if all(len(text) <= _SHORT_ANSWER for text in texts) else "rouge"


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True


def new_config(
    seen: DataPreview,
    *,
    model: str | None,
    endpoint: str | None = None,
    engine: str | None = None,
    api_key_env: str | None = None,
    metric: str | None = None,
    out: Path | None = None,
) -> tuple[Path, str, list[str]]:
    """A config for the data: its path, its text, and notes for the user. Nothing is written.

    Args:
        seen: what the data look like.
        model: the model under test: its name at the endpoint, a folder, a ``.gguf`` file or a name on the hub.
        endpoint: URL of an OpenAI-compatible server.
        engine: type of the backend.
        api_key_env: the variable that holds the endpoint's key.
        metric: what counts as right; what the data suggest unless given.
        out: the file that is meant; the data's name in the working folder unless given.

    Raises:
        InputError: the options name no model or metric, the file is there already, or the config would be wrong.
    """
    if model is None and engine is None:
        raise InputError("name the model with --model, and its server with --endpoint.")
    metric = metric or seen.metric
    implementation = _implementation(metric, seen)
    name = name_of_file(seen.file.name)
    out = out or Path(f"{name}.yaml")
    if os.path.exists(out):
        raise InputError(f"'{out}' is there already; choose another name with --out.")
    backend = backend_for(model, endpoint, engine, key_reference(api_key_env, None), images=False)
    # Paths that lead up out of a folder do not work before it is there: checked is the config for a folder that is.
    there = next(folder for folder in (out.parent, *out.absolute().parents) if os.path.isdir(folder))
    checked = _text(seen, metric, implementation, backend, name, there)
    warnings = validated(RunOptions.of({"config": str(there), "text": checked})).warnings
    return out, _text(seen, metric, implementation, backend, name, out.parent), warnings


def _text(
    seen: DataPreview, metric: str, implementation: str, backend: Mapping[str, Any], name: str, folder: Path
) -> str:
    """The config as YAML, with paths as they are seen from a folder."""
    params: dict[str, Any] = {"path": os.path.relpath(seen.file, folder), **_preprocess(seen, implementation)}
    config = {
        "datasets": [{"dataset_id": name if is_id(name) else "data", "params": params}],
        "backends": [{"backend_id": "model", **backend, "config": _backend_config(backend, implementation, folder)}],
        "metrics": [metric],
    }
    head = (
        f"# yaml-language-server: $schema={_SCHEMA}\n"
        f"# Made by gage new from the {seen.shown_rows} of {seen.file.name}. Right is: "
        f"{RIGHT.get(implementation, f'what {metric} says')}.\n"
    )
    return yaml_text(node_of(config, name), head=head)


def _backend_config(backend: Mapping[str, Any], metric: str, folder: Path) -> dict[str, Any]:
    config = {key: _near(value, folder) for key, value in backend["config"].items()}
    if backend["type"] != "dummy":
        config["default_params"] = {"temperature": 0, "max_new_tokens": _ROOM.get(metric, 512)}
    return config


def _implementation(metric: str, seen: DataPreview) -> str:
    """The registered metric of a form such as ``numeric_match(tolerance=0.01)``.

    Raises:
        InputError: there is none, or the data have no reference for it.
    """
    try:
        name: str = metric_form(metric, ())["implementation"] if "(" in metric else metric
    except ValueError as error:
        raise InputError(f"--metric: {error}.") from error
    if name not in registry.metrics.names():
        known = ", ".join(RIGHT)
        raise InputError(f"no metric '{metric}'. The usual ones: {known}; all: gage list metrics."
                         f"{closest(metric, registry.metrics.names())}")  # fmt: skip
    if seen.answer is None and name in RIGHT:
        known = ", ".join(seen.fields[:_MOST_FIELDS])
        raise InputError(f"which field of '{seen.file}' is the reference? Name it with --answer. Fields: {known}.")
    return name


def _preprocess(seen: DataPreview, metric: str) -> dict[str, Any]:
    """Preprocessor and prompt for the rows as they are."""
    prompt = {"exact_match": _SHORT_PROMPT, "numeric_match": _NUMBER_PROMPT}.get(metric)
    said = {} if prompt is None else {"system_prompt": prompt}
    if seen.choices is not None and seen.question is not None:
        named = {
            "question_field": (seen.question, "question"),
            "choices_field": (seen.choices, "choices"),
            "answer_field": (seen.answer, "answer"),
            "answer_index_base": (seen.index_base, 0),
        }
        kwargs = {key: value for key, (value, default) in named.items() if value != default}
        return {"preprocess": "multi_choice", **({"preprocess_kwargs": kwargs} if kwargs else {})}
    if seen.worked and seen.question in QUESTION_FIELDS and seen.answer in ANSWER_FIELDS:
        return {"preprocess_kwargs": {"answer_split": _GSM8K, "answer_strip": ",", **said}}
    usual_answer = seen.answer is None or seen.answer in (*ANSWER_FIELDS, "references")
    if seen.question is None:
        # Messages are sent as they are: a system prompt is for questions.
        return {} if usual_answer else {"preprocess_kwargs": {"answer_field": seen.answer}}
    if seen.question in QUESTION_FIELDS and usual_answer:
        return {"preprocess_kwargs": said} if said else {}
    fields = {"question_field": seen.question, "answer_field": seen.answer}
    return {"preprocess": "simple", "preprocess_kwargs": {**fields, **said}}


def _near(value: Any, folder: Path) -> Any:
    """A model's folder as the config names it; relative if it is below the config's folder."""
    if not isinstance(value, str) or not os.path.isabs(value):
        return value
    place = Path(value)
    return os.path.relpath(place, folder) if place.is_relative_to(folder.resolve()) else value


def write_schema(folder: Path) -> None:
    """Put the JSON Schema of configs where the header of a new config names it."""
    from gage_eval.config.schema import config_schema

    file = folder / _SCHEMA
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(config_schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"'{file}' cannot be written: {error.strerror}.") from error
