"""Logs of Inspect: ``.eval`` files and JSON."""

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from gage_eval.base.errors import InputError
from gage_eval.imports.contract import ImportedAnswer, ImportedLog, asked_of, messages_of, reply_of
from gage_eval.imports.values import document, mapping, number, parsed, sequence, text, texts

_NEWEST = 2
_ZSTD = 93
_MOST_BYTES = 64 * 1024 * 1024  # of a member
_MOST_TOTAL = 64 * _MOST_BYTES
_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json\Z", re.DOTALL)
_OURS = {"status", "imported"}
_ATTACHMENT = "attachment://"
# Of a sample: what is imported, and what says nothing about its answer.
_KNOWN = {
    *("id", "epoch", "input", "target", "choices", "output", "scores", "metadata", "error", "messages", "attachments"),
    *("model_usage", "role_usage", "total_time", "working_time", "started_at", "completed_at", "uuid", "turn_count"),
}


def read_inspect(path: Path) -> ImportedLog:
    """Read a log of Inspect.

    Raises:
        InputError: it cannot be read, is damaged, or has a layout of another version.
    """
    if zipfile.is_zipfile(path):
        with _Zipped(path) as log:
            return _read(path.name, log.header(), log.samples())
    tree = mapping(document(path))
    samples = (
        (f"sample {place} of '{path.name}'", sample) for place, sample in enumerate(sequence(tree.get("samples")), 1)
    )
    return _read(path.name, tree, samples)


def _read(name: str, header: dict[str, Any], samples: Iterator[tuple[str, Any]]) -> ImportedLog:
    version = header.get("version")
    if not isinstance(version, int) or not 1 <= version <= _NEWEST:
        raise InputError(f"'{name}' is a log of version {version!r}; logs of Inspect up to version {_NEWEST} are read.")
    spec = mapping(header.get("eval"))
    if spec.get("shards"):
        raise InputError(f"'{name}' is one of several parts of a log; let Inspect write it as one file first.")
    packages = mapping(spec.get("packages"))
    # Our own export is a log of Inspect, with facts of gage-eval in its metadata.
    ours = "gage_eval" in packages
    log = ImportedLog(
        "gage-eval" if ours else "inspect",
        text(packages.get("gage_eval" if ours else "inspect_ai")),
        text(spec.get("task")) or "inspect",
        text(spec.get("model")),
    )
    for where, sample in samples:
        if not isinstance(sample, dict) or not text(sample.get("id")):
            raise InputError(f"{where} has no id.")
        log.answers.append(_answer(sample, log, where, ours=ours))
    return log


def _answer(sample: dict[str, Any], log: ImportedLog, where: str, *, ours: bool) -> ImportedAnswer:
    attachments = mapping(sample.get("attachments"))
    prompt, output = (_resolved(sample.get(name), attachments) for name in ("input", "output"))
    epoch = sample.get("epoch", 1)
    if not isinstance(epoch, int) or not 1 <= epoch <= 10_000:
        raise InputError(f"{where}: epoch {epoch!r} is not a number from 1.")
    error = mapping(sample.get("error")).get("message")
    log.leave_others(sample, _KNOWN)
    return ImportedAnswer(
        str(sample["id"]),
        epoch - 1,
        messages_of(asked_of(_resolved(sample.get("messages"), attachments), log) or prompt, log),
        None if error is not None else _reply(mapping(output), log),
        dict(_scores(sample, log)),
        texts(sample.get("target")) if sample.get("target") != "" else [],
        texts(sample.get("choices")) if sample.get("choices") else [],
        text(error),
        {name: value for name, value in mapping(sample.get("metadata")).items() if not (ours and name in _OURS)},
    )


def _reply(output: dict[str, Any], log: ImportedLog) -> str:
    known = text(output.get("completion"))
    return reply_of(output, log) if known is None else known


def _scores(sample: dict[str, Any], log: ImportedLog) -> Iterator[tuple[str, float]]:
    for name, score in mapping(sample.get("scores")).items():
        value = mapping(score).get("value")
        for key, item in value.items() if isinstance(value, dict) else ((None, value),):
            known = number(item)
            if known is None:
                log.leave(f"scores.{name}")
            else:
                yield name if key is None else f"{name}.{key}", known


def _resolved(value: Any, attachments: dict[str, Any]) -> Any:
    """The value with the long texts that Inspect keeps apart."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if isinstance(value, dict):
        return {name: _resolved(item, attachments) for name, item in value.items()}
    return [_resolved(item, attachments) for item in value] if isinstance(value, list) else value


class _Zipped:
    """The members of an ``.eval`` file, which are read in memory and never written anywhere.

    Python's own reader knows no Zstandard before 3.14, so members are unpacked here.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("rb")
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise self._wrong(str(error)) from error
        self._members = {member.filename: member for member in members}
        if len(self._members) < len(members):
            raise self._wrong("it holds two members of one name")
        if sum(member.file_size for member in members) > _MOST_TOTAL:
            raise self._wrong(f"it unpacks to more than {_MOST_TOTAL >> 30} GiB")
        for name in self._members:
            parts = name.replace("\\", "/").split("/")
            if name.startswith("/") or ".." in parts:
                raise self._wrong(f"its member '{name}' leads out of the log")
            if name.startswith("samples/") and _SAMPLE.match(name) is None:
                raise self._wrong(f"its member '{name}' has a layout that is not known here")

    def __enter__(self) -> "_Zipped":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def header(self) -> dict[str, Any]:
        """The header; of a log whose run did not end, what it began with."""
        for name in ("header.json", "_journal/start.json"):
            if name in self._members:
                return mapping(self._json(name))
        raise self._wrong("it holds no header")

    def samples(self) -> Iterator[tuple[str, Any]]:
        """Every sample with its place for messages."""
        for name in self._members:
            if _SAMPLE.match(name) is not None:
                yield f"'{name}' of '{self._path.name}'", self._json(name)

    def _json(self, name: str) -> Any:
        return parsed(self._bytes(self._members[name]), f"'{name}' of '{self._path.name}'")

    def _bytes(self, member: zipfile.ZipInfo) -> bytes:
        if member.flag_bits & 1:
            raise self._wrong("it is encrypted")
        if member.file_size > _MOST_BYTES:
            raise self._wrong(f"'{member.filename}' unpacks to more than {_MOST_BYTES >> 20} MiB")
        self._file.seek(member.header_offset)
        head = self._file.read(30)
        if len(head) < 30 or head[:4] != b"PK\3\4":
            raise self._wrong(f"'{member.filename}' is damaged")
        self._file.seek(int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little"), 1)
        packed = self._file.read(member.compress_size)
        try:
            # One byte more than declared shows a member that unpacks to more.
            data = _unpacked(packed, member.compress_type, member.file_size + 1)
        except (zlib.error, OSError, pa.ArrowException) as error:
            raise self._wrong(f"'{member.filename}' is damaged: {error}") from error
        if data is None:
            raise self._wrong(f"'{member.filename}' is compressed by a method that is not known here")
        if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
            raise self._wrong(f"'{member.filename}' is damaged")
        return data

    def _wrong(self, reason: str) -> InputError:
        reason = " ".join(reason.split()).rstrip(".")
        return InputError(f"'{self._path.name}' cannot be read as a log of Inspect: {reason}.")


def _unpacked(packed: bytes, method: int, most: int) -> bytes | None:
    """At most so many unpacked bytes; None for an unknown method."""
    if method == zipfile.ZIP_STORED:
        return packed[:most]
    if method == zipfile.ZIP_DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most)
    if method != _ZSTD:
        return None
    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
        data: bytes = stream.read(most)
    return data
