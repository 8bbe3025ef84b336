"""``gage new``: a config for one's own data, from a look at the first rows."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, product, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from gage_eval.authoring.first_rows import first_samples
from gage_eval.authoring.validation import validated
from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import reference_texts
from gage_eval.base.files import closest_file, local_path, write_new
from gage_eval.config import list_suites, parse_config
from gage_eval.config.compose import refuse_other_tools
from gage_eval.config.files import read_config
from gage_eval.config.model_choice import backend_for, key_reference
from gage_eval.config.models import implied_loader, is_id
from gage_eval.config.rules import name_of_file
from gage_eval.config.sugar import metric_form
from gage_eval.config.suites.card import Need
from gage_eval.config.suites.template_file import read_template
from gage_eval.config.yaml.lines import as_written
from gage_eval.config.yaml.nodes import node_of
from gage_eval.config.yaml.text import yaml_text
from gage_eval.data.sample.record import RecordRejected, parse_record
from gage_eval.data.standardize.default import ANSWER_FIELDS, CHOICES_FIELDS, QUESTION_FIELDS
from gage_eval.extend import registry
from gage_eval.pipeline.plan import make_plan
from gage_eval.pipeline.score_row import score
from gage_eval.runs.options import RunOptions
from gage_eval.runs.planned import planned
from gage_eval.scoring.metrics.bind import BoundMetric
from gage_eval.scoring.metrics.builtin.json_fields import field_types
from gage_eval.scoring.metrics.text_utils import as_text
from gage_eval.store.media import media_url

_ROWS = 200
_SCHEMA = ".gage/config.schema.json"
_MOST_FIELDS = 12

# Names that data sets use for the parts of a question; those that preprocessors look for by themselves come first.
_QUESTIONS = (
    *QUESTION_FIELDS[:4],
    *("input", "query", "instruction", "problem", "request", "stem", "ctx", "sentence", "review", "content", "message"),
    *("utterance", "document", "body", "comment", "tweet", "email", "user_input"),
)
_ANSWERS = (
    *ANSWER_FIELDS,
    *("output", "expected", "gold", "solution", "response", "completion", "reference", "ground_truth", "answers"),
    *(
        "references",
        "correct",
        "correct_answer",
        "answer_idx",
        "answerKey",
        "ideal",
        "ground_truths",
        "category",
        "class",
    ),
    *("sentiment", "intent", "topic", "labels", "json"),
)
_MESSAGES = ("messages", "conversation", "conversations", "input", "prompt")
_CONTEXTS = ("contexts", "context", "retrieved_contexts", "retrieval_context", "passages", "documents", "chunks")
_LABELS = frozenset({"label", "labels", "category", "class", "sentiment", "intent", "topic"})
_MOST_LABELS = 30
_MOST_JSON_FIELDS = 50
_LONGEST_LABEL = 40
_TRIED = 20
# Labels are looked for in more rows than the rest: a rare one may come late.
_LABEL_ROWS = 20_000


class _Media(NamedTuple):
    """A kind of media in folders and fields.

    Attributes:
        word: what one is called.
        endings: of its files.
        question: what is asked where the rows have no question.
        params: of a dataset, which decode it.
    """

    word: str
    endings: tuple[str, ...]
    question: str
    params: Mapping[str, Any]


# By their kind, as a preprocessor's `fields` names it.
_MEDIA: Mapping[str, _Media] = {
    "image": _Media("picture", (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp"), "What is in the picture?", {}),
    "audio": _Media(
        "recording",
        (".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac"),
        "Write down what is said, word for word, and nothing else.",
        {"audio_rate": 16_000},
    ),
    "video": _Media(
        "video", (".mp4", ".webm", ".mov", ".mkv", ".avi"), "What happens in the video?", {"video_frames": 32}
    ),
    "file": _Media("document", (".pdf",), "What is the document about?", {"pdf": "images"}),
}
_TABLES = (".jsonl", ".csv", ".tsv", ".json", ".parquet", ".xlsx")
_SPLITS = ("test", "validation", "dev", "eval", "train")
# How a field of an answer is named to the model.
_TYPE_WORDS = {"number": "number", "boolean": "true or false", "list": "list", "json": "object"}
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
_ROOM = {"exact_match": 64, "classification": 64, "numeric_match": 64, "multi_choice_accuracy": 16}

# What counts as right, as a person says it.
RIGHT: Mapping[str, str] = {
    "exact_match": "the answer is the reference, upper and lower case alike",
    "contains": "the reference occurs in the answer",
    "numeric_match": "the number is the same",
    "multi_choice_accuracy": "the right option is chosen",
    "token_f1": "the words are the same, or many of them",
    "rouge": "the text is similar (ROUGE)",
    "classification": "the answer names the label",
    "json_fields": "the fields of the JSON are the same",
    "tool_call_match": "the same tools are called with the same arguments",
    "wer": "the words are those that are said (word error rate)",
}


class UnknownField(InputError):
    """A field that must be named; ``option`` is how."""

    def __init__(self, message: str, option: str) -> None:
        super().__init__(message)
        self.option = option


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
        source: loader and parameters with which the rows are read, besides the path.
        messages: the field with the conversation; None without one.
        last_turn: whether the reference is the conversation's last message, as in rows for fine-tuning.
        medium, contexts: the fields with media and with retrieved texts.
        kind: what the media are: image, audio, video or file.
        several_contexts: whether a row has a list of texts.
        labels: the labels that references consist of.
        types: the fields of references in JSON, with their types.
        structured: whether these references are objects, not text.
        made_rows: the rows of a folder of media, with a folder for each label or a text file next to each; they are to
            be written next to the config.
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
    source: Mapping[str, Any] = field(default_factory=dict)
    messages: str | None = None
    last_turn: bool = False
    medium: str | None = None
    kind: str = "image"
    contexts: str | None = None
    several_contexts: bool = False
    labels: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    structured: bool = False
    made_rows: str | None = None

    @property
    def word(self) -> str:
        """What a medium of the rows is called."""
        return _MEDIA[self.kind].word

    @property
    def shown_rows(self) -> str:
        """The rows of the preview, for messages."""
        return "first row" if self.rows == 1 else f"first {self.rows:,} rows"


class UnknownMetric(InputError):
    """A metric that does not exist or cannot be read."""


def look(data: str, *, question: str | None = None, answer: str | None = None) -> DataPreview:
    """Preview the first rows of a data file or folder.

    Args:
        data: the file, or a folder that ``save_to_disk`` wrote, of data files, or of media.
        question: the field that holds the question; found by its name unless given.
        answer: the field that holds the reference.

    Raises:
        UnknownField: a field must be named.
        InputError: the data cannot be read.
    """
    file = local_path(data, Path())
    file, source, made = _source(file, data)
    records = made or list(islice(_records(file, source), _ROWS))
    fields = list(dict.fromkeys(key for record in records for key in record))
    for option, name in (("question", question), ("answer", answer)):
        if name is not None and name.split(".")[0] not in fields:
            known = ", ".join(fields[:_MOST_FIELDS])
            raise UnknownField(f"--{option} {name}: the rows of '{data}' have no such field. Fields: {known}."
                               f"{closest(name, fields)}", option)  # fmt: skip
    messages = next((name for name in _MESSAGES if question is None and _all(records, name, _is_conversation)), None)
    kinds = ((name, kind) for name in fields for kind in _MEDIA if _all(records, name, partial(_is_of, kind)))
    medium, kind = next(kinds, (None, "image"))
    question = None if messages else question or _first([name for name in fields if name != medium], _QUESTIONS)
    if question is None and not messages and not medium:
        known = ", ".join(fields[:_MOST_FIELDS])
        raise UnknownField(
            f"which field of '{data}' is the question? Name it with --question. Fields: {known}.", "question"
        )
    contexts = _first([name for name in fields if question is not None and _all(records, name, _is_texts)], _CONTEXTS)
    choices = _choices(fields, records)
    others = [name for name in fields if name not in (question, messages, medium, contexts)]
    answer = answer or _first(others, _ANSWERS)
    last_turn = answer is None and messages is not None and all(_ends_with_model(row[messages]) for row in records)
    turns = [row[messages][-1] for row in records] if last_turn and messages is not None else []
    answers = [turn.get("content") for turn in turns] or [
        value for record in records if (value := _at(record, answer)) is not None
    ]
    worked = bool(answers) and all(isinstance(text, str) and _GSM8K in text for text in answers)
    calls = any(turn.get("tool_calls") for turn in turns) or "golden_trajectories" in fields
    types = {} if calls or choices is not None else _json_types(answers)
    more = made or islice(_records(file, source), _LABEL_ROWS) if answer is not None and not types else ()
    labels = () if choices is not None or worked else _labels(answer, (_at(record, answer) for record in more))
    metric = (
        "tool_call_match" if calls
        else "json_fields" if types
        else "classification" if labels
        else "token_f1" if contexts is not None
        else "wer" if kind == "audio" and question is None and choices is None
        else _metric(choices, answers)
    )  # fmt: skip
    return DataPreview(
        file, len(records), fields, question, answer, worked, choices, _index_base(records, choices, answers), metric,
        source=source, messages=messages, last_turn=last_turn, medium=medium, kind=kind, contexts=contexts,
        several_contexts=contexts is not None and _all(records, contexts, lambda value: isinstance(value, list)),
        labels=labels, types=types, structured=any(isinstance(value, dict) for value in answers),
        made_rows="".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made) or None,
    )  # fmt: skip


def _source(file: Path, data: str) -> tuple[Path, dict[str, Any], list[dict[str, Any]]]:
    """The file or folder to read, loader and parameters for it, and the rows that a folder of media stands for."""
    if os.path.isfile(file):
        if implied_loader({"params": {"path": str(file)}}) is None:
            if file.suffix in (".yaml", ".yml"):
                refuse_other_tools(read_config(file, data), data)
            raise InputError(f"'{data}': no loader reads this ending; use {', '.join(_TABLES)}.")
        return file, {}, []
    if not os.path.isdir(file):
        raise InputError(f"no data file '{data}'.{closest_file(file)}")
    if (file / "dataset_dict.json").is_file() or (file / "state.json").is_file() or any(file.glob("*.arrow")):
        return file, {"loader": "hf_hub", "split": _split(file)}, []
    # os.walk passes over folders that vanish or cannot be read.
    files = (Path(folder, name) for folder, _, names in os.walk(file) for name in names)
    kind_of = {ending: kind for kind, media in _MEDIA.items() for ending in media.endings}
    media = sorted(path for path in files if path.suffix.lower() in kind_of)
    tables = sorted(path for path in file.iterdir() if path.suffix.lower() in _TABLES)
    if len(tables) == 1:
        return tables[0], {"content_root": str(file)} if media else {}, []
    if tables:
        raise InputError(f"'{data}' holds several data files: name one of {', '.join(path.name for path in tables)}.")
    kinds = list(dict.fromkeys(sorted((kind_of[path.suffix.lower()] for path in media), key=[*_MEDIA].index)))
    if len(kinds) > 1:
        raise InputError(f"'{data}' holds media of several kinds ({', '.join(kinds)}): put each in a separate folder.")
    places = [path.relative_to(file) for path in media]
    if places and all(path.with_suffix(".txt").is_file() for path in media):
        rows = [
            {kinds[0]: place.as_posix(), "answer": _transcript(path)} for place, path in zip(places, media, strict=True)
        ]
    elif places and all(len(place.parts) > 1 for place in places):
        rows = [{kinds[0]: place.as_posix(), "label": place.parts[0]} for place in places]
    else:
        raise InputError(f"'{data}' holds no data file, such as labels.csv with a column for the file and one for the "
                         "reference, no text file of the same name next to each medium, and no folder of media for "
                         "each label.")  # fmt: skip
    return file, {"content_root": str(file)}, rows


def _transcript(medium: Path) -> str:
    file = medium.with_suffix(".txt")
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"'{file}' cannot be read as UTF-8 text.") from error


def _split(folder: Path) -> str:
    """The split of a folder of the library datasets that is for evaluation."""
    description = folder / "dataset_dict.json"
    if not description.is_file():
        return "train" if not (folder / "state.json").is_file() else "test"
    try:
        splits = list(decode(description.read_bytes())["splits"])
        return next((name for name in _SPLITS if name in splits), None) or str(splits[0])
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"'{description}' names no splits.") from error


def _records(file: Path, source: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    loader = {key: value for key, value in source.items() if key == "loader"}
    params = {key: value for key, value in source.items() if key != "loader"}
    text = json.dumps({"datasets": [{"dataset_id": "data", **loader, "params": {"path": str(file), **params}}],
                       "backends": [{"backend_id": "b", "type": "dummy"}]})  # fmt: skip
    load = make_plan(parse_config(text, source=str(file), env={})).tasks[0].load
    media = registry.loaders.get(load.loader).info.get("keeps_media")
    rows = load.source.records(lambda *_: media_url("0" * 64)) if media else load.source.records()
    for number, (_, record) in enumerate(rows, 1):
        try:
            yield parse_record(record)
        except RecordRejected as error:
            raise InputError(f"'{file}': row {number} cannot be read: {error.reason}") from error


def _all(records: Sequence[Mapping[str, Any]], name: str, fits: Callable[[Any], bool]) -> bool:
    """Whether a field fits in every row that has it, and one has it."""
    values = [record[name] for record in records if record.get(name) is not None]
    return bool(values) and all(map(fits, values))


def _is_conversation(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "role" in item for item in value)


def _is_of(kind: str, value: Any) -> bool:
    """Whether a value names media of a kind. Stored bytes of a table are taken for images."""
    paths = value if isinstance(value, list) else [value]
    return bool(paths) and all(
        isinstance(path, str)
        and (path.lower().endswith(_MEDIA[kind].endings) or (kind == "image" and path.startswith("media://")))
        for path in paths
    )


def _is_texts(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _ends_with_model(messages: Any) -> bool:
    return isinstance(messages, list) and len(messages) > 1 and messages[-1].get("role") == "assistant"


def _labels(name: str | None, values: Iterator[Any]) -> tuple[str, ...]:
    """The labels that references consist of, where they are few and come again; empty for other references."""
    counts: Counter[str] = Counter()
    for value in values:
        if value is None:
            continue
        if not isinstance(value, str | int) or len(str(value)) > _LONGEST_LABEL or len(counts) > _MOST_LABELS:
            return ()
        counts[str(value).strip()] += 1
    named = (name or "").lower() in _LABELS
    if not 2 <= len(counts) <= _MOST_LABELS or len({label.casefold() for label in counts}) < len(counts):
        return ()
    numbers = all(_is_number(label) for label in counts)
    return tuple(sorted(counts)) if named or (not numbers and counts.total() >= 5 * len(counts)) else ()


def _json_types(answers: Sequence[Any]) -> dict[str, str]:
    """The fields of references that are objects, or JSON text of them, with the types of their values."""
    types: dict[str, str] = {}
    for answer in answers:
        try:
            value = decode(answer) if isinstance(answer, str) else answer
        except ValueError:
            return {}
        if not isinstance(value, dict):
            return {}
        for path, kind in field_types(value).items():
            types[path] = kind if types.get(path, kind) == kind else "text"
    return types if len(types) <= _MOST_JSON_FIELDS else {}


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
    """A config for the data: its path, its text, and notes for the user. Only rows of pictures are written, next to it.

    It is tried: on the first rows, an answer that is the reference must be right.

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
    needs: tuple[Need, ...] = () if seen.medium is None or seen.kind == "audio" else ("images",)
    backend = backend_for(model, endpoint, engine, key_reference(api_key_env, None), needs)
    if seen.made_rows is not None:
        rows = out.with_name(f"{out.stem}-rows.jsonl")
        write_new(rows, seen.made_rows)
        seen = replace(seen, file=rows)
    # Paths that lead up out of a folder do not work before it is there: checked is the config for a folder that is.
    there = next(folder for folder in (out.parent, *out.absolute().parents) if os.path.isdir(folder))
    options = RunOptions.of({"config": str(there), "text": _text(seen, metric, implementation, backend, name, there)})
    warnings = validated(options).warnings
    _try(options)
    if seen.contexts is not None:
        warnings = [*warnings, "the judge is the model itself; name another one under backends, as 'judge'."]
    return out, _text(seen, metric, implementation, backend, name, out.parent), warnings


def _try(options: RunOptions) -> None:
    """Score the references of the first rows as answers.

    Raises:
        InputError: no such answer is right by the first metric.
    """
    task = planned(options).plan.tasks[0]
    samples = [sample for sample in first_samples(task) if isinstance(sample, dict)][:_TRIED]
    for metric in task.auto_eval.metrics[:1]:
        if not samples or metric.inputs - {"samples", "responses"} or metric.implementation not in RIGHT:
            return
        spec = {"implementation": metric.implementation, "params": dict(metric.recipe["params"])}
        results = [score(spec, sample=sample, model_output=_perfect(sample)) for sample in samples]
        if not any(_has_credit(metric, key, value) for result in results for key, value in result.values.items()):
            why = next(
                (str(result.metadata["explanation"]) for result in results if result.metadata["explanation"]), ""
            )
            raise InputError(
                f"an answer that is the reference is not right by {metric.implementation} in the first "
                f"{len(samples)} rows{f' ({why})' if why else ''}. Name another --metric or --answer."
            )


def _has_credit(metric: BoundMetric, key: str, value: float) -> bool:
    scale = metric.scale(key)
    return scale.is_right(value) if scale.higher_is_better is False else value > 0


def _perfect(sample: Mapping[str, Any]) -> dict[str, Any]:
    if trajectories := sample.get("golden_trajectories"):
        return {"tool_calls": [call for message in trajectories[0] for call in message.get("tool_calls") or ()]}
    texts = reference_texts(sample) or [as_text(sample.get("metadata", {}).get("reference"))]
    return {"answer": texts[0]}


def _text(
    seen: DataPreview, metric: str, implementation: str, backend: Mapping[str, Any], name: str, folder: Path
) -> str:
    """The config as YAML, with paths as they are seen from a folder."""
    params: dict[str, Any] = {"path": os.path.relpath(seen.file, folder), **_preprocess(seen, implementation)}
    params |= {key: value for key, value in seen.source.items() if key not in ("loader", "content_root")}
    params |= {} if seen.medium is None else _MEDIA[seen.kind].params
    if "content_root" in seen.source:
        params["content_root"] = os.path.relpath(seen.source["content_root"], folder)
    loader = {"loader": seen.source["loader"]} if "loader" in seen.source else {}
    dataset = name if is_id(name) else "data"
    model = {**backend, "config": _backend_config(backend, implementation, folder)}
    scored = _metric_entry(seen, metric, implementation)
    config: dict[str, Any] = {
        "datasets": [{"dataset_id": dataset, **loader, "params": params}],
        "backends": [{"backend_id": "model", **model}],
    }
    if seen.contexts is None:
        config["metrics"] = [scored]
    else:
        config["backends"].append({"backend_id": "judge", **model})
        config |= _judged(seen, dataset, scored)
    head = (
        f"# yaml-language-server: $schema={_SCHEMA}\n"
        f"# Made by gage new from the {seen.shown_rows} of {seen.file.name}. Right is: "
        f"{RIGHT.get(implementation, f'what {metric} says')}.\n"
    )
    return yaml_text(node_of(config, name), head=head)


def _metric_entry(seen: DataPreview, metric: str, implementation: str) -> Any:
    """The metric with what the data say about it."""
    params: dict[str, Any] = {}
    if implementation == "classification" and seen.labels:
        params["labels"] = list(seen.labels)
    if implementation == "json_fields" and seen.types:
        params["fields"] = dict(seen.types)
    if seen.structured:
        params["label_field"] = "sample.metadata.reference"
    if metric != implementation or not params:
        return metric
    return {"metric_id": implementation, "implementation": implementation, "params": params}


def _judged(seen: DataPreview, dataset: str, scored: Any) -> dict[str, Any]:
    """Tasks for retrieved texts: the criteria of suite ``rag`` that the rows allow; the first one has the metric."""
    suite = as_written(read_template(next(suite.path for suite in list_suites() if suite.name == "rag")).definition)
    prompts, adapters, tasks = [], [], []
    for prompt, adapter, task in zip(suite["prompts"], suite["role_adapters"], suite["tasks"], strict=True):
        needs_reference = "sample.label" in prompt["template"]
        if needs_reference and seen.answer is None:
            continue
        template = prompt["template"]
        if not seen.several_contexts:
            template = template.replace("sample.metadata.contexts", "[sample.metadata.contexts]")
        prompts.append({**prompt, "template": template})
        adapters.append({**adapter, "backend_id": "judge"})
        tasks.append({**task, "dataset_id": dataset})
    dut = {"adapter_id": "model", "role_type": "dut_model", "backend_id": "model"}
    for task in tasks:
        task.pop("sampling_params", None)
    if seen.answer is not None:
        tasks[0]["metric_overrides"] = [scored, *tasks[0]["metric_overrides"]]
    return {"prompts": prompts, "role_adapters": [dut, *adapters], "tasks": tasks}


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
        raise UnknownMetric(f"--metric: {error}.") from error
    if name not in registry.metrics.names():
        known = ", ".join(RIGHT)
        raise UnknownMetric(f"no metric '{metric}'. The usual ones: {known}; all: gage list metrics."
                         f"{closest(metric, registry.metrics.names())}")  # fmt: skip
    if (
        seen.answer is None
        and name in RIGHT
        and not seen.last_turn
        and seen.contexts is None
        and (name != "tool_call_match")
    ):
        known = ", ".join(seen.fields[:_MOST_FIELDS])
        raise UnknownField(
            f"which field of '{seen.file}' is the reference? Name it with --answer. Fields: {known}.", "answer"
        )
    return name


def _preprocess(seen: DataPreview, metric: str) -> dict[str, Any]:
    """Preprocessor and prompt for the rows as they are."""
    made = _asked(seen, metric)
    if seen.medium is None:
        return made
    kwargs = made.get("preprocess_kwargs", {})
    return {**made, "preprocess_kwargs": {**kwargs, "fields": {**kwargs.get("fields", {}), seen.kind: seen.medium}}}


def _asked(seen: DataPreview, metric: str) -> dict[str, Any]:
    prompt = _instruction(seen, metric)
    said = {} if prompt is None else {"system_prompt": prompt}
    if seen.medium is not None and seen.question is None and seen.messages is None:
        asks = {"question": _MEDIA[seen.kind].question, "answer_field": seen.answer}
        return {"preprocess": "simple", "preprocess_kwargs": {**asks, **said}}
    if seen.last_turn:
        return {"preprocess": "strip_assistant", "preprocess_kwargs": {"last_only": True}}
    if metric == "tool_call_match":
        own = {"question_field": seen.question} if seen.question not in (None, *QUESTION_FIELDS) else {}
        return {"preprocess": "agent", **({"preprocess_kwargs": own} if own else {})}
    if seen.choices is not None and seen.question is not None:
        named: dict[str, tuple[Any, Any]] = {
            "question_field": (seen.question, "question"),
            "choices_field": (seen.choices, "choices"),
            "answer_field": (seen.answer, "answer"),
            "answer_index_base": (seen.index_base, 0),
        }
        kwargs = {key: value for key, (value, default) in named.items() if value != default}
        return {"preprocess": "multi_choice", **({"preprocess_kwargs": kwargs} if kwargs else {})}
    if seen.worked and seen.question in QUESTION_FIELDS and seen.answer in ANSWER_FIELDS:
        return {"preprocess_kwargs": {"answer_split": _GSM8K, "answer_strip": ",", **said}}
    if seen.contexts is not None:
        fields = {"metadata.question": seen.question or "", "metadata.contexts": seen.contexts}
        kwargs = {"question_field": seen.question, "answer_field": seen.answer, "template": _with_contexts(seen)}
        return {"preprocess": "simple", "preprocess_kwargs": {**kwargs, "fields": fields}}
    structured = {"fields": {"metadata.reference": seen.answer}} if seen.structured and seen.answer else {}
    usual_answer = seen.answer is None or seen.answer in (*ANSWER_FIELDS, "references")
    if seen.question is None:
        # Messages are sent as they are: a system prompt is for questions.
        renamed: dict[str, Any] = structured or ({} if usual_answer else {"answer_field": seen.answer})
        if seen.messages not in (None, "messages"):
            renamed = {"messages_field": seen.messages, **renamed}
        return {"preprocess_kwargs": renamed} if renamed else {}
    if seen.question in QUESTION_FIELDS and usual_answer and not structured:
        return {"preprocess_kwargs": said} if said else {}
    asks = {"question_field": seen.question, "answer_field": None if structured else seen.answer}
    return {"preprocess": "simple", "preprocess_kwargs": {**asks, **structured, **said}}


def _instruction(seen: DataPreview, metric: str) -> str | None:
    """The instruction on the form of an answer."""
    if metric == "classification" and seen.labels:
        what = "text" if seen.medium is None else seen.word
        return f"Which of these labels fits the {what}? Answer with the label only: {', '.join(seen.labels)}."
    if metric == "json_fields" and seen.types:
        named = ", ".join(f"{path} ({_TYPE_WORDS.get(kind, 'text')})" for path, kind in seen.types.items())
        return f"Answer with one JSON object and nothing else. Its fields, with dots for objects in it: {named}."
    return {"exact_match": _SHORT_PROMPT, "numeric_match": _NUMBER_PROMPT}.get(metric)


def _with_contexts(seen: DataPreview) -> str:
    place = f"record[{json.dumps(seen.contexts)}]"
    texts = (
        f"{{% for text in {place} %}}\nText {{{{ loop.index }}}}:\n{{{{ text }}}}\n{{% endfor %}}"
        if seen.several_contexts
        else f"\n{{{{ {place} }}}}\n"
    )
    return (
        "Answer the question from these texts, in a few words. If they do not say it, write that you do not know.\n"
        f"{texts}\nQuestion: {{{{ question }}}}"
    )


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
