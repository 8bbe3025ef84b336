"""The response index: which committed artifact holds the answer to which request.

There is one file per model and artifact, written once: the response keys sorted, with the part and row of each. A
lookup is one binary search for all keys per file. Files of collected artifacts are skipped.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gage_eval.base.canonical import canonical_json, decode, sha256_hex
from gage_eval.base.errors import ArtifactDamaged
from gage_eval.store.manifest import REMEDY, manifest_path
from gage_eval.store.objects import Objects, is_digest

ROOT = "index/responses"
_SUFFIX = ".idx"
_MAGIC = b"gage-eval response index 1\n"
KEY = np.dtype("S32")
_NUMBER = np.dtype("<i4")
_ENTRY = KEY.itemsize + 2 * _NUMBER.itemsize

PackedKeys: TypeAlias = npt.NDArray[np.bytes_]


@dataclass(frozen=True)
class IndexFile:
    """Sorted keys (32 raw bytes each), with the part and row of each."""

    artifact: str
    keys: npt.NDArray[np.bytes_]
    parts: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]


def pack_keys(keys: Sequence[str]) -> PackedKeys:
    """Response keys as 32 bytes each. (NumPy compares such strings padded with zeros, so none is cut.)

    Raises:
        ValueError: a key is not a sha256.
    """
    if any(len(key) != 64 for key in keys):
        raise ValueError("a response key is a sha256 in hex, 64 digits")
    return np.frombuffer(bytes.fromhex("".join(keys)), KEY)


class Responses:
    """The response index of a store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        # Files are immutable, so those of the last model stay loaded.
        self._loaded: dict[str, IndexFile] = {}

    def add(self, model_identity: str, artifact_id: str, keys: PackedKeys, positions: npt.NDArray[np.int32]) -> None:
        """Add the responses of a committed artifact to the index.

        Args:
            model_identity: digest (or any text) that identifies the model.
            keys: response keys, packed (`pack_keys`).
            positions: part, and row within the part, for each key.

        Raises:
            ValueError: keys and positions differ in number.
        """
        if len(keys) != len(positions):
            raise ValueError(f"{len(keys)} keys but {len(positions)} positions")
        order = np.argsort(keys, kind="stable")
        # The file's bytes are made in place: a second copy of all keys would be the largest piece of a run's memory.
        head = _head(artifact_id, len(keys), "0" * 64)
        data = bytearray(len(head) + len(keys) * _ENTRY)
        body = np.frombuffer(data, np.uint8, offset=len(head))
        split = len(keys) * KEY.itemsize
        np.take(keys, order, out=body[:split].view(KEY), mode="clip")
        body[split:].view(_NUMBER).reshape(2, -1)[:] = positions[order].T
        data[: len(head)] = _head(artifact_id, len(keys), hashlib.sha256(body.data).hexdigest())
        self._objects.create(_path(model_identity, artifact_id), data)

    def find(self, model_identity: str, keys: Sequence[str]) -> dict[str, tuple[str, int, int]]:
        """The places of the answers to these keys: artifact id, part, row in the part. Unknown keys are left out.

        Raises:
            ArtifactDamaged: an index file is not as it was written.
        """
        wanted = pack_keys(keys)
        places: dict[str, tuple[str, int, int]] = {}
        open_ = np.arange(len(keys))
        for file in self._files(model_identity):
            if not len(open_):
                break
            if not len(file.keys):
                continue
            nearest = np.minimum(np.searchsorted(file.keys, wanted[open_]), len(file.keys) - 1)
            hit = file.keys[nearest] == wanted[open_]
            if not hit.any() or not self._objects.exists(manifest_path(file.artifact)):
                continue
            rows = nearest[hit]
            for index, part, row in zip(
                open_[hit].tolist(), file.parts[rows].tolist(), file.rows[rows].tolist(), strict=True
            ):
                places[keys[index]] = (file.artifact, part, row)
            open_ = open_[~hit]
        return places

    def holds(self, model_identity: str, artifact_id: str) -> bool:
        """Whether an artifact holds this model's answers."""
        return self._objects.exists(_path(model_identity, artifact_id))

    def _files(self, model_identity: str) -> list[IndexFile]:
        # The newest first: after a refresh its answers count, not the ones that it replaced.
        listed = sorted(self._objects.list(_folder(model_identity)), key=lambda item: item.mtime, reverse=True)
        loaded: dict[str, IndexFile] = {}
        for item in listed:
            with suppress(FileNotFoundError):  # collected since the listing
                loaded[item.path] = self._loaded.get(item.path) or parse_index(self._objects.get(item.path), item.path)
        # Other threads may ask for other models at the same time; each uses its own files.
        self._loaded = loaded
        return list(loaded.values())


def parse_index(data: bytes, path: str) -> IndexFile:
    """Parse an index file into keys and positions, without a copy.

    Raises:
        ArtifactDamaged: it is not as it was written.
    """
    try:
        end = data.index(b"\n", len(_MAGIC))
        head = decode(data[len(_MAGIC) : end])
        body = memoryview(data)[end + 1 :]
        count, artifact = int(head["keys"]), str(head["artifact"])
        actual = hashlib.sha256(body).hexdigest()
        intact = data.startswith(_MAGIC) and actual == head["sha256"] and is_digest(artifact)
    except (ValueError, KeyError, TypeError) as error:
        raise ArtifactDamaged(f"{path} is not a response index ({error}); {REMEDY}") from error
    if not intact or len(body) != count * _ENTRY:
        raise ArtifactDamaged(f"{path} is not the response index that was written; {REMEDY}")
    split = count * KEY.itemsize
    numbers: npt.NDArray[Any] = np.frombuffer(body, _NUMBER, 2 * count, split)
    return IndexFile(artifact, np.frombuffer(body, KEY, count), numbers[:count], numbers[count:])


def _head(artifact_id: str, count: int, sha256: str) -> bytes:
    """The bytes before the entries. Their number does not depend on the digest."""
    return _MAGIC + canonical_json({"artifact": artifact_id, "keys": count, "sha256": sha256}) + b"\n"


def _path(model_identity: str, artifact_id: str) -> str:
    return f"{_folder(model_identity)}/{artifact_id}{_SUFFIX}"


def _folder(model_identity: str) -> str:
    name = model_identity if is_digest(model_identity) else sha256_hex(model_identity.encode())
    return f"{ROOT}/{name}"
