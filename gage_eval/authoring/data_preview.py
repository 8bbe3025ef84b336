"""What the first rows of a data file show: fields, labels, options, media and the metric that fits."""

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, product, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from gage_eval.authoring.first_rows import raw_records
from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import walk
from gage_eval.base.files import closest_file, local_path
from gage_eval.config.compose import refuse_other_tools
from gage_eval.config.files import read_config
from gage_eval.config.load import parse_config
from gage_eval.config.models import implied_loader
from gage_eval.data.sample.record import RecordRejected, parse_record
from gage_eval.data.standardize.default import ANSWER_FIELDS, CHOICES_FIELDS, QUESTION_FIELDS
from gage_eval.pipeline.plan import make_plan
from gage_eval.scoring.metrics.builtin.json_fields import field_types

_ROWS = 200
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
    *("references", "correct", "correct_answer", "answer_idx", "answerKey", "ideal", "ground_truths", "category"),
    *("class", "sentiment", "intent", "topic", "labels", "json"),
)
_MESSAGES = ("messages", "conversation", "conversations", "input", "prompt")
_CONTEXTS = ("contexts", "context", "retrieved_contexts", "retrieval_context", "passages", "documents", "chunks")
_LABELS = frozenset({"label", "labels", "category", "class", "sentiment", "intent", "topic"})
_MOST_LABELS = 30
_MOST_JSON_FIELDS = 50
_LONGEST_LABEL = 40
# Labels are looked for in more rows than the rest: a rare one may come late.
_LABEL_ROWS = 20_000
# Files of a folder that are neither media nor their transcripts.
_MOST_OTHERS = 50_000


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
MEDIA: Mapping[str, _Media] = {
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
_CHOICES = (*CHOICES_FIELDS, "candidates", "answers_list", "endings")
# One field for each option, as option_a, option_b or sol1, sol2.
_OPTION_FIELDS = ("", "option", "option_", "choice", "choice_", "ending", "sol", "answer_")
_OPTION_ENDS = ("ABCDEFGHIJ", "abcdefghij", "1234567890", "0123456789")
# What stands before the number in references like those of GSM8K.
GSM8K = "#### "
# Longer answers than this are compared by their words.
_SHORT_ANSWER = 60


class UnknownField(InputError):
    """A field that must be named; ``option`` is how. The message names some of the fields that there are."""

    def __init__(self, message: str, option: str, fields: Sequence[str], hint: str = "") -> None:
        super().__init__(f"{message} Fields: {', '.join(fields[:_MOST_FIELDS])}.{hint}")
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
        return MEDIA[self.kind].word

    @property
    def shown_rows(self) -> str:
        """The rows of the preview, for messages."""
        return "first row" if self.rows == 1 else f"first {self.rows:,} rows"


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
            message = f"--{option} {name}: the rows of '{data}' have no such field."
            raise UnknownField(message, option, fields, closest(name, fields))
    messages = next((name for name in _MESSAGES if question is None and _all(records, name, _is_conversation)), None)
    kinds = ((name, kind) for name in fields for kind in MEDIA if _all(records, name, partial(_is_of, kind)))
    medium, kind = next(kinds, (None, "image"))
    question = None if messages else question or _first([name for name in fields if name != medium], _QUESTIONS)
    if question is None and not messages and not medium:
        only = fields[0] if len(fields) == 1 else ""
        if between := next((mark for mark in ";|\t" if mark in only), None):
            raise InputError(
                f"'{data}' has one column, '{only}', so its cells seem to be separated by {between!r}. Save it with "
                "commas, or as .tsv with tabs."
            )
        message = f"which field of '{data}' is the question? Name it with --question."
        raise UnknownField(message, "question", fields)
    contexts = _first([name for name in fields if question is not None and _all(records, name, _is_texts)], _CONTEXTS)
    choices = _choices(fields, records)
    others = [name for name in fields if name not in (question, messages, medium, contexts)]
    answer = answer or _first(others, _ANSWERS)
    last_turn = answer is None and messages is not None and all(_ends_with_model(row[messages]) for row in records)
    turns = [row[messages][-1] for row in records] if last_turn and messages is not None else []
    answers = [turn.get("content") for turn in turns] or [
        value for record in records if (value := _at(record, answer)) is not None
    ]
    worked = bool(answers) and all(isinstance(text, str) and GSM8K in text for text in answers)
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
    kind_of = {ending: kind for kind, media in MEDIA.items() for ending in media.endings}
    tables = sorted(path for path in file.iterdir() if path.suffix.lower() in _TABLES)
    if len(tables) > 1:
        raise InputError(f"'{data}' holds several data files: name one of {', '.join(path.name for path in tables)}.")
    media = sorted(_media(file, kind_of, data))
    if tables:
        return tables[0], {"content_root": str(file)} if media else {}, []
    kinds = list(dict.fromkeys(sorted((kind_of[path.suffix.lower()] for path in media), key=[*MEDIA].index)))
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


def _media(folder: Path, endings: Collection[str], data: str) -> Iterator[Path]:
    """The media in a folder and all below it.

    Raises:
        InputError: far too many other files are there, as in a home folder.
    """
    others = 0
    # os.walk passes over folders that vanish or cannot be read.
    for path in (Path(inner, name) for inner, _, names in os.walk(folder) for name in names):
        if path.suffix.lower() in endings:
            yield path
        elif path.suffix.lower() != ".txt" and (others := others + 1) > _MOST_OTHERS:
            raise InputError(
                f"'{data}' holds more than {_MOST_OTHERS:,} files that are not media: name the folder of the data."
            )


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
    task = make_plan(parse_config(text, source=str(file), env={})).tasks[0]
    for number, (_, record) in enumerate(raw_records(task.load), 1):
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
        and (path.lower().endswith(MEDIA[kind].endings) or (kind == "image" and path.startswith("media://")))
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
    return None if field is None else walk(record, field, None)


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
    if texts and all(_is_number(text.rpartition(GSM8K)[2].strip()) for text in texts):
        return "numeric_match"
    return "exact_match" if all(len(text) <= _SHORT_ANSWER for text in texts) else "rouge"


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
