"""The write-ahead log: every answer is on disk before its permit is freed.

A folder holds segments, each written by one writer only. A segment is an 8-byte magic followed by records:

    crc u32 | length u32 | key 32 bytes | payload

little-endian; `length` counts the payload, the CRC-32 covers length, key and payload. A record is written
by one `write`, so a killed process leaves at most one torn record, at the end of its segment.
"""

import errno
import glob
import logging
import os
import secrets
import struct
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader, FileIO
from pathlib import Path

import numpy as np

from gage_eval.base.errors import StoreError

_log = logging.getLogger(__name__)

MAGIC = b"GAGEWAL2"
FIRST_RECORD = len(MAGIC)
SEGMENT_BYTES = 64 * 2**20
_CRC = struct.Struct("<I")
_HEAD = struct.Struct("<I32s")
_HEADER_BYTES = _CRC.size + _HEAD.size
_MAX_PAYLOAD = 2**30
_OFFSET_BITS = 40
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
# With this many bits and a million keys, one in a hundred lookups of an absent key searches for nothing.
_SEEN_BITS = 26
_SEEN_MASK = (1 << _SEEN_BITS) - 1
# So many positions are packed at once.
_LATEST = 1024


class LogWriter:
    """Appends answers to its own segments. Not thread-safe.

    Args:
        folder: folder of the segments; created if missing.
        writer_id: names the segments; by default unique to this writer.
        segment_bytes: a segment of this size is closed, and the next one is opened.
    """

    def __init__(self, folder: Path, writer_id: str | None = None, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self.writer_id = writer_id or f"{os.getpid()}-{secrets.token_hex(6)}"
        self.records = 0
        # Number of the current segment, and where its last whole record ends; another thread may read it.
        self.written = (0, FIRST_RECORD)
        self._segment_bytes = segment_bytes
        self._sequence = 0
        self._file = -1
        self._size = 0
        self._written = _Positions()

    def append(self, key: str, payload: bytes) -> None:
        """Write one record. After the return, it survives a killed process.

        Args:
            key: the response key, 64 hex digits.
            payload: bytes of `Response.to_bytes`.

        Raises:
            StoreError: the record could not be written whole (no space left, …). The log holds no part of it.
            ValueError: the key is not a sha256, or the payload exceeds 1 GiB.
        """
        record = _frame(key, payload)
        try:
            if self._file < 0 or self._size >= self._segment_bytes:
                self._next_segment()
            number, offset = self._sequence - 1, self._size
            self._write(record)
        except OSError as error:
            reason = "no space left" if error.errno in _FULL else f"cannot write ({error.strerror})"
            raise StoreError(
                f"{self.folder}: {reason}; {self.records:,} answers of this run are kept. "
                "Free some space, then resume the run."
            ) from error
        self._written.add(key, number << _OFFSET_BITS | offset)
        self.written = (number, self._size)
        self.records += 1

    def get(self, key: str) -> bytes | None:
        """The payload that this writer appended under a key; None without one, and once the log was removed."""
        for position in self._written.find(key):
            number, offset = divmod(position, 1 << _OFFSET_BITS)
            try:
                record = _record_at(self.segment(number), offset)
            except FileNotFoundError:
                return None
            if record is not None and record[0].hex() == key:
                return record[1]
        return None

    def close(self) -> None:
        """Close the current segment; a later `append` begins a new one."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> "LogWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_segment(self) -> None:
        self.close()
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.segment(self._sequence)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._sequence += 1
        self._size = 0
        try:
            self._write(MAGIC)
        except OSError:
            self.close()
            path.unlink()
            raise

    def segment(self, number: int) -> Path:
        """The file of a segment."""
        return self.folder / f"{self.writer_id}-{number:05d}.log"

    def _write(self, data: bytes) -> None:
        try:
            written = os.write(self._file, data)
            while written < len(data):
                # A short write means a full disk; the next write raises the reason.
                written += os.write(self._file, data[written:])
        except OSError:
            os.ftruncate(self._file, self._size)
            os.lseek(self._file, self._size, os.SEEK_SET)
            raise
        self._size += written


class _Positions:
    """Positions of the records by key: 16 bytes of memory per record, and a bitmap of at most 8 MiB.

    The bitmap settles most absent keys at once. A search through a million positions takes half a millisecond, less
    than a request. The latest records are in a dictionary: packing many at once takes half the time.
    """

    def __init__(self) -> None:
        self._latest: dict[str, int] = {}
        # Pages of it that no record has touched take no memory. A memoryview gives single bytes faster than an array.
        self._seen = np.zeros(1 << _SEEN_BITS - 3, np.uint8).data
        self._prefixes = array("Q")
        self._positions = array("q")

    def add(self, key: str, position: int) -> None:
        self._latest[key] = position
        if len(self._latest) == _LATEST:
            self._pack()

    def find(self, key: str) -> Sequence[int]:
        """Positions of the records whose keys start with the same bytes as this one."""
        latest = self._latest.get(key)
        if latest is not None:
            return [latest]
        prefix = int(key[:16], 16)
        if not self._seen[(prefix & _SEEN_MASK) >> 3] & 1 << (prefix & 7):
            return ()
        hits = np.flatnonzero(np.frombuffer(self._prefixes, dtype=np.uint64) == prefix)
        return [self._positions[hit] for hit in hits]

    def _pack(self) -> None:
        keys = np.frombuffer(bytes.fromhex("".join(self._latest)), dtype=">u8")
        prefixes = keys.reshape(-1, 4)[:, 0].astype(np.uint64)
        bits = np.left_shift(1, prefixes & np.uint64(7), dtype=np.uint64).astype(np.uint8)
        bytes_of = (prefixes & np.uint64(_SEEN_MASK)) >> np.uint64(3)
        np.bitwise_or.at(np.asarray(self._seen), bytes_of, bits)
        self._prefixes.frombytes(prefixes.tobytes())
        self._positions.extend(self._latest.values())
        self._latest.clear()


def segments(folder: Path) -> list[Path]:
    """The segments of a folder, by name; none when the folder does not exist."""
    # Unlike Path.glob, it finds nothing in a folder that is removed at this moment.
    return [folder / name for name in sorted(glob.glob("*.log", root_dir=folder))]


def index_logs(folder: Path) -> "LogIndex":
    """Read a folder's segments once and index the position of each answer."""
    files = segments(folder)
    keys, positions = bytearray(), array("q")
    for number, segment in enumerate(files):
        for key, position, _ in positions_of(segment, number):
            keys += key
            positions.append(position)
    return LogIndex(files, bytes(keys), positions)


def positions_of(segment: Path, number: int, start: int = FIRST_RECORD) -> Iterator[tuple[bytes, int, int]]:
    """(key, position in a `LogIndex`, offset of the next record) of the records of a segment.

    Args:
        segment: the file.
        number: its index among the files of the `LogIndex`.
        start: offset of the record to begin with.
    """
    for offset, key, payload in records(segment, start):
        yield key, number << _OFFSET_BITS | offset, offset + _HEADER_BYTES + len(payload)


class LogIndex(Mapping[str, bytes]):
    """Answers by response key, read from disk on access: 48 bytes of memory per record. Thread-safe.

    If a key was logged twice, the record of the first segment counts.
    """

    def __init__(self, files: list[Path], keys: bytes, positions: "array[int]") -> None:
        words = np.frombuffer(keys, dtype=">u8").reshape(-1, 4)
        order = np.lexsort(words.T[::-1])
        words = words[order]
        first = np.ones(len(words), dtype=bool)
        first[1:] = (words[1:] != words[:-1]).any(axis=1)
        self._words = words[first]
        self._prefix = self._words[:, 0].astype(np.uint64)
        self._positions = np.array(positions, dtype=np.int64)[order][first]
        self._files = files

    def __getitem__(self, key: str) -> bytes:
        position = self._find(key)
        if position is None:
            raise KeyError(key)
        number, offset = divmod(int(self._positions[position]), 1 << _OFFSET_BITS)
        record = _record_at(self._files[number], offset)
        if record is None or record[0].hex() != key:
            raise StoreError(f"{self._files[number]}: the record at byte {offset} changed since it was read.")
        return record[1]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) is not None

    def __iter__(self) -> Iterator[str]:
        return (row.tobytes().hex() for row in self._words)

    def __len__(self) -> int:
        return len(self._words)

    def _find(self, key: str) -> int | None:
        # As in every run that was not killed, where each call looks for its key.
        if not len(self._positions):
            return None
        raw = bytes.fromhex(key)
        prefix = int.from_bytes(raw[:8])
        at = int(np.searchsorted(self._prefix, np.uint64(prefix)))
        while at < len(self._prefix) and int(self._prefix[at]) == prefix:
            if self._words[at].tobytes() == raw:
                return at
            at += 1
        return None


def _frame(key: str, payload: bytes) -> bytes:
    raw = bytes.fromhex(key)
    if len(raw) != 32:
        raise ValueError(f"a response key has 64 hex digits, not {len(key)}")
    if len(payload) > _MAX_PAYLOAD:
        raise ValueError(f"an answer of {len(payload):,} bytes is too large for the log")
    covered = _HEAD.pack(len(payload), raw) + payload
    return _CRC.pack(zlib.crc32(covered)) + covered


def records(segment: Path, start: int = FIRST_RECORD) -> Iterator[tuple[int, bytes, bytes]]:
    """(offset, key, payload) of the whole records of one segment, from the record at offset ``start`` on.

    An incomplete record at the end is ignored. A damaged record ends the segment and is logged as a warning.
    """
    with segment.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        magic = file.read(len(MAGIC))
        if magic != MAGIC:
            if not MAGIC.startswith(magic):
                _log.warning("%s is not a log of answers and is ignored.", segment)
            return
        offset = start
        file.seek(offset)
        while offset < size:
            record = _next_record(file)
            if record is None:
                if file.tell() < size:
                    _log.warning("%s is damaged at byte %d; the later answers are asked for again.", segment, offset)
                return
            yield offset, *record
            offset = file.tell()


def _record_at(segment: Path, offset: int) -> tuple[bytes, bytes] | None:
    """The record at an offset of a segment; None if it is incomplete."""
    with segment.open("rb", buffering=0) as file:
        file.seek(offset)
        return _next_record(file)


def _next_record(file: BufferedReader | FileIO) -> tuple[bytes, bytes] | None:
    """The record at the file's position; None if it is incomplete or damaged."""
    header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return None
    length, key = _HEAD.unpack_from(header, _CRC.size)
    if length > _MAX_PAYLOAD:
        return None
    payload = file.read(length)
    crc = zlib.crc32(payload, zlib.crc32(header[_CRC.size :]))
    if len(payload) < length or _CRC.pack(crc) != header[: _CRC.size]:
        return None
    return key, payload
