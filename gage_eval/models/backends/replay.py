"""Answers recorded elsewhere: another tool's output, a published run, a file made by hand."""

import asyncio
import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from gage_eval.base.canonical import JsonValue, canonical_text, decode
from gage_eval.base.errors import InputError, closest
from gage_eval.base.field_paths import MISSING, walk_or_key
from gage_eval.base.files import local_path
from gage_eval.base.hashing import file_digest
from gage_eval.base.marks import identity, semantic
from gage_eval.base.statuses import NO_RECORD, REPLAYED
from gage_eval.data.datasets.reading import BoundedLines, document_of, lines_of, matching_files, open_bytes
from gage_eval.extend import registry
from gage_eval.models.backends.base import BackendConfig, BackendContext, BaseBackend
from gage_eval.models.backends.recorded import RecordedTexts, RepeatedKey
from gage_eval.models.client.types import Request, Response, without_surrogates

_REPLICATE = "{replicate}"
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet", ".csv": "csv"}


class ReplayConfig(BackendConfig):
    """Where recorded answers are stored and how they are matched with samples."""

    path: str | None = identity(
        "infer",
        None,
        description="The file, or a glob pattern of several; relative to the config that names it. Without it, "
        "`sample_field` itself holds the answer.",
    )
    format: Literal["jsonl", "json", "parquet", "csv"] | None = semantic(
        "infer", None, description="By default told by the file's suffix (.gz is undone)."
    )
    records_path: str | None = semantic(
        "infer",
        None,
        description="Dotted path of the records in a JSON file; by default the file is the records.",
    )
    match: Literal["id", "field", "row"] = semantic(
        "infer",
        "id",
        description="id: by sample id; field: by `sample_field`; row: by position in the source.",
    )
    id_field: str | None = semantic(
        "infer", None, description="Field of a record that is compared; by default a mapping's keys, or 'id'."
    )
    sample_field: str | None = semantic("infer", None, description="Path of the sample's field, for match: field.")
    answer_field: str | None = semantic(
        "infer",
        None,
        description="Dotted field of a record that holds the answer; by default the record itself. `{replicate}` in it "
        "is the number of the sample's repetition, from 0.",
    )
    replicate_field: str | None = semantic(
        "infer",
        None,
        description="Dotted field of a record that says which replicate of its sample it answers, from 0; without it "
        "one record answers all.",
    )
    on_missing: Literal["error", "skip"] = semantic(
        "infer", "error", description="What happens to a sample without a record."
    )

    @model_validator(mode="after")
    def _whole(self) -> "ReplayConfig":
        if self.path is None and (self.sample_field is None or self.match != "field"):
            raise ValueError("name the file of the answers with 'path', or give match: field and 'sample_field'")
        if self.match == "field" and self.sample_field is None:
            raise ValueError("match: field needs sample_field, the sample's field to compare")
        if self.replicate_field is not None and (self.match == "row" or _REPLICATE in (self.answer_field or "")):
            raise ValueError("'replicate_field' is for records of one replicate each that name their sample: remove it")
        return self


@registry.backends.register("replay", version=2, config=ReplayConfig)
class Replay(BaseBackend[ReplayConfig]):
    """Recorded answers, matched by sample id, by a field, or by row."""

    type = "replay"
    capabilities = frozenset({"chat", "completion", "tools", "images", "schema"})

    def __init__(self, config: ReplayConfig, context: BackendContext) -> None:
        super().__init__(config, context)
        self.lookup_field = config.sample_field if config.match == "field" else None
        # Answers belong to the rows of the whole source in its order; `gage validate` refuses others.
        self.matches_positions = config.match == "row"
        self._answers: RecordedTexts | None = None

    def identity(self) -> dict[str, JsonValue]:
        """The content of the file (of several, in the order they are read), not its name. Without one, the config.

        Raises:
            InputError: the file does not exist.
        """
        known = super().identity()
        if self.config.path is None:
            return known
        digests = [file_digest(file) for file in self._files(self.config.path)]
        if self.config.replicate_field is None:
            # Files without it keep the keys that they had before there was this field.
            known["config"] = {name: value for name, value in known["config"].items() if name != "replicate_field"}
        return {**known, **({"file": digests[0]} if len(digests) == 1 else {"files": [*digests]})}

    def body(self, request: Request) -> dict[str, JsonValue]:
        """The request and whose answer it is: samples that ask the same have been answered each by itself."""
        return {**super().body(request), "record": self._key_of(request)}

    async def open(self, log_folder: Path | None) -> None:
        """Read all answers of the files.

        Raises:
            InputError: the file, a field, or the order of ids is not as the config says.
        """
        if self.config.path is not None:
            self._answers = await asyncio.to_thread(self._read, log_folder, self.config.path)

    async def close(self) -> None:
        """Let go of the answers."""
        if self._answers is not None:
            self._answers.close()

    async def call(self, request: Request, body: bytes) -> Response:
        """The recorded answer of a sample."""
        key = self._key_of(request)
        assert self._answers is not None or self.config.path is None, "the backend is not open"
        answer = request.lookup if self._answers is None else self._answers.get(key)
        if answer is not None:
            return Response("ok", answer=answer, finish_reason=REPLAYED, latency_ms=0.0)
        if self.config.on_missing == "skip":
            return Response("skipped", error_kind=NO_RECORD)
        return Response("error", error_kind=NO_RECORD, errors=[self._no_record(key)])

    def _key_of(self, request: Request) -> str:
        if self.config.match == "row":
            key = str(request.row_index)
        else:
            key = request.sample_id if self.config.match == "id" else request.lookup or ""
        has_replicates = self._holds_all or self.config.replicate_field is not None
        return _of_replicate(key, request.replicate) if has_replicates else key

    @property
    def _holds_all(self) -> bool:
        """Whether a record holds the answers of all replicates."""
        return _REPLICATE in (self.config.answer_field or "")

    def _no_record(self, key: str) -> str:
        if self.config.path is None:
            return f"the sample has no text at '{self.config.sample_field}'"
        return f"{self.config.path} has no record for {self.config.match} '{key}'"

    def _files(self, pattern: str) -> list[Path]:
        """The files that ``path`` names, sorted."""
        path = local_path(pattern, self.context.base_dir)
        files = [path] if path.is_file() else [*map(Path, matching_files(pattern, self.context.base_dir))]
        if not files:
            raise InputError(f"replay: no file '{pattern}' in {self.context.base_dir}. Set config.path.")
        return files

    def _format(self, file: Path) -> str:
        if self.config.format is not None:
            return self.config.format
        suffix = Path(file.name.removesuffix(".gz")).suffix.lower()
        if suffix not in _SUFFIXES:
            raise self._wrong(f"the format of '{suffix}' files is not known; set format to jsonl, json, parquet or csv")
        return _SUFFIXES[suffix]

    def _read(self, folder: Path | None, path: str) -> RecordedTexts:
        """Answers by key; the key of match: row is the record's position."""
        # Next to the run, whose disk has space; temporary folders may be in memory. The run creates it if needed.
        answers = RecordedTexts(next((place for place in _upwards(folder) if place.is_dir()), None))
        without: Any = MISSING
        field = self.config.answer_field
        try:
            for position, (key, record) in enumerate(self._keyed(path)):
                answer = record if field is None else self._answer(record, field)
                if answer is MISSING:
                    without = record
                elif self._holds_all:
                    for number, item in enumerate(answer):
                        answers.add(position, _of_replicate(key, number), self._as_text(item))
                else:
                    answers.add(position, key, self._as_text(answer))
            answers.seal()
        except RepeatedKey as error:
            answers.close()
            raise self._wrong(
                f"records {error.first} and {error.second} (from 0) have the same id '{error.key}'"
            ) from None
        except BaseException:
            answers.close()
            raise
        if not len(answers) and without is not MISSING:
            answers.close()
            raise self._missing("answer_field", field or "", without)
        return answers

    def _answer(self, record: Any, field: str) -> Any:
        """The answer of a record; where the field names replicates, the list of their answers."""
        if not self._holds_all:
            return walk_or_key(record, field)
        numbered = (walk_or_key(record, field.replace(_REPLICATE, str(number))) for number in itertools.count())
        return list(itertools.takewhile(lambda answer: answer is not MISSING, numbered)) or MISSING

    def _keyed(self, path: str) -> Iterator[tuple[str, Any]]:
        position = 0
        for file in self._files(path):
            records = self._records(file)
            id_field = self.config.id_field
            by_key = isinstance(records, Mapping) and self.config.match != "row" and id_field is None
            values = records.values() if isinstance(records, Mapping) else records
            for key, record in zip(records, values, strict=True) if by_key else enumerate(values, position):
                position += 1
                name = str(key) if by_key or self.config.match == "row" else self._id_of(record)
                yield self._with_replicate(name, record), record

    def _with_replicate(self, key: str, record: Any) -> str:
        name = self.config.replicate_field
        if name is None:
            return key
        replicate = walk_or_key(record, name)
        if replicate is MISSING:
            raise self._missing("replicate_field", name, record)
        return _of_replicate(key, replicate)

    def _id_of(self, record: Any) -> str:
        name = self.config.id_field or "id"
        key = walk_or_key(record, name)
        if key is MISSING:
            raise self._missing("id_field", name, record)
        return self._as_text(key)

    def _records(self, file: Path) -> Mapping[str, Any] | Iterable[Any]:
        """The records, as a mapping or an iterable. Only a JSON document is held in memory as a whole."""
        kind = self._format(file)
        if kind == "parquet":
            return self._parquet_rows(file)
        return self._document(file) if kind == "json" else self._rows(file, kind)

    def _rows(self, file: Path, kind: str) -> Iterator[Any]:
        """The records of a table or a line-based file, one by one."""
        try:
            with open_bytes(str(file)) as opened:
                if kind == "jsonl":
                    for number, line in enumerate(lines_of(opened, file.name), 1):
                        if line:
                            yield self._line(file, number, line)
                else:
                    lines = BoundedLines(io.TextIOWrapper(opened, "utf-8-sig", newline=""), file.name)
                    for row in csv.DictReader(lines):
                        lines.end_row()
                        yield row
        except (ValueError, OSError, EOFError, csv.Error) as error:
            raise self._wrong(f"cannot be read as {kind}: {error}", file) from error

    def _parquet_rows(self, file: Path) -> Iterator[dict[str, Any]]:
        import pyarrow.parquet as pq

        try:
            for batch in pq.ParquetFile(file).iter_batches():
                yield from batch.to_pylist()
        except (ValueError, OSError) as error:
            raise self._wrong(f"cannot be read as parquet: {error}", file) from error

    def _document(self, file: Path) -> Mapping[str, Any] | Iterable[Any]:
        try:
            value = decode(document_of(str(file), file.name))
        except ValueError as error:
            raise self._wrong(f"cannot be read as json: {error}", file) from error
        if self.config.records_path is not None:
            records = walk_or_key(value, self.config.records_path)
            if records is MISSING:
                raise self._missing("records_path", self.config.records_path, value)
            value = records
        if not isinstance(value, dict | list):
            raise self._wrong("the records are neither a list nor a mapping by id; set records_path", file)
        return value

    def _line(self, file: Path, number: int, line: bytes) -> Any:
        try:
            return decode(line)
        except ValueError as error:
            raise self._wrong(f"line {number} is not JSON: {error}", file) from error

    def _as_text(self, value: Any) -> str:
        if value is None:
            return ""
        try:
            return without_surrogates(value) if isinstance(value, str) else canonical_text(value)
        except ValueError as error:
            raise self._wrong(str(error)) from error

    def _wrong(self, what: str, file: Path | None = None) -> InputError:
        """A sentence about one of the files, or about what ``path`` names."""
        return InputError(f"replay: {self.config.path if file is None else file.name}: {what.rstrip('.')}.")

    def _missing(self, setting: str, name: str, record: Any) -> InputError:
        known = [str(key) for key in record] if isinstance(record, dict) else []
        there = f" Fields here: {', '.join(known[:20])}.{closest(name, known)}" if known else ""
        return InputError(f"replay: {self.config.path}: {setting}: no '{name}' in the records.{there}")


def _of_replicate(key: str, replicate: object) -> str:
    return f"{key} (replicate {replicate})"


def _upwards(folder: Path | None) -> Iterator[Path]:
    """A folder and its parents."""
    if folder is not None:
        yield folder
        yield from folder.parents
