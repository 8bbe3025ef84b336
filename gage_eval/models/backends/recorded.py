"""Recorded answers by key, on disk: each takes only a few bytes of memory."""

import os
import struct
import tempfile
from array import array
from bisect import bisect_left
from hashlib import blake2b
from pathlib import Path

import numpy as np

_HEAD = struct.Struct("<II")
_BUFFER = 2**20
# Most records are no longer than this and are read at once.
_GUESS = 1024


class RepeatedKey(Exception):
    """Two texts were added under one key.

    Attributes:
        key: theirs.
        first, second: the positions they were added with.
    """

    def __init__(self, key: str, first: int, second: int) -> None:
        super().__init__(key)
        self.key, self.first, self.second = key, first, second


class RecordedTexts:
    """Texts that are added first and looked up afterwards, 20 bytes of memory each.

    They lie in a file without a name, which the system removes with the process.

    Args:
        folder: where the file is made; by default where temporary files go.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=_BUFFER)  # noqa: SIM115 - open as long as this is
        self._codes = array("Q")
        self._offsets = array("q")
        self._positions = array("I")
        self._end = 0

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, position: int, key: str, text: str) -> None:
        """Keep a text. ``position`` names its source if a key occurs twice."""
        name, content = _bytes(key), _bytes(text)
        self._codes.append(_code(name))
        self._offsets.append(self._end)
        self._positions.append(position)
        self._end += self._file.write(_HEAD.pack(len(name), len(content)) + name + content)

    def seal(self) -> None:
        """Make the texts ready to be looked up.

        Raises:
            RepeatedKey: a key was added twice.
        """
        self._file.flush()
        codes = np.array(self._codes, np.uint64)
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        self._codes = array("Q", codes.tobytes())
        self._offsets = array("q", np.array(self._offsets, np.int64)[order].tobytes())
        for second in (np.flatnonzero(codes[1:] == codes[:-1]) + 1).tolist():
            key, _ = self._read(second)
            if key == self._read(second - 1)[0]:
                first, again = (self._positions[order[index]] for index in (second - 1, second))
                raise RepeatedKey(key.decode(errors="replace"), first, again)
        self._positions = array("I")

    def get(self, key: str) -> str | None:
        """The text of a key, None without one."""
        name = _bytes(key)
        code = _code(name)
        index = bisect_left(self._codes, code)
        while index < len(self._codes) and self._codes[index] == code:
            stored_key, text = self._read(index)
            if stored_key == name:
                return text.decode(errors="surrogatepass")
            index += 1
        return None

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def _read(self, index: int) -> tuple[bytes, bytes]:
        offset = self._offsets[index]
        data = os.pread(self._file.fileno(), _GUESS, offset)
        key_bytes, text_bytes = _HEAD.unpack_from(data)
        text = _HEAD.size + key_bytes
        if len(data) < text + text_bytes:
            data = os.pread(self._file.fileno(), text + text_bytes, offset)
        return data[_HEAD.size : text], data[text : text + text_bytes]


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _code(name: bytes) -> int:
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "little")
