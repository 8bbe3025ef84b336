"""The manifest of an artifact: its parts and their hashes. An artifact exists when its manifest does."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise

import pyarrow as pa

from gage_eval.base.canonical import JsonValue, canonical_json, decode, digest
from gage_eval.base.errors import ArtifactDamaged
from gage_eval.base.tables import ALL, TableSchema
from gage_eval.store.objects import is_digest

_FORMAT = 1
REMEDY = "`gage cache verify --remove` deletes it, and the next run computes it again."


@dataclass(frozen=True, slots=True)
class PartInfo:
    """One part of an artifact.

    Attributes:
        index: position among the parts, from 0.
        rows: number of rows.
        content_hash: `content_hash` of the rows; the artifact's id is made of these.
        bytes: size of the file.
        sha256: digest of the file's bytes; every read is checked against it.
        artifact: id of the artifact in whose folder the file lies; None for its own. So equal parts are stored once:
            the looks of a run that may stop early begin with the same rows.
    """

    index: int
    rows: int
    content_hash: str
    bytes: int
    sha256: str
    artifact: str | None = None

    def path(self, id: str) -> str:  # noqa: A002  (an artifact's id is called id)
        """The path of its file as a part of artifact ``id``."""
        return f"{folder(self.artifact or id)}/{part_name(self.index)}"


@dataclass(frozen=True)
class Manifest:
    """The facts of an artifact that are known without reading its rows."""

    table: str
    schema_version: int
    parts: tuple[PartInfo, ...]
    complete: bool
    counts: Mapping[str, int]

    @property
    def id(self) -> str:
        """The artifact's id: digest of table, schema version and the parts' content hashes."""
        return artifact_id(self.table, self.schema_version, {part.index: part.content_hash for part in self.parts})

    def to_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical_json(
            {
                "format": _FORMAT,
                "table": self.table,
                "schema_version": self.schema_version,
                "parts": [
                    {name: value for name, value in asdict(part).items() if value is not None} for part in self.parts
                ],
                "complete": self.complete,
                "counts": self.counts,
            }
        )


def artifact_id(table: str, schema_version: int, hashes: Mapping[int, str]) -> str:
    """The id of an artifact: a digest of its table and the content hash of every part, by index."""
    return digest({"table": table, "schema_version": schema_version, "parts": sorted(map(list, hashes.items()))})


def parse_manifest(data: bytes, id: str) -> Manifest:  # noqa: A002  (an artifact's id is called id)
    """Parse the manifest of artifact ``id``.

    Raises:
        ArtifactDamaged: not a manifest, or that of another artifact.
    """
    try:
        value = decode(data)
        manifest = Manifest(
            value["table"],
            value["schema_version"],
            tuple(map(_part, value["parts"])),
            value["complete"] is True,
            {name: int(count) for name, count in value["counts"].items()},
        )
        if type(manifest.table) is not str or type(manifest.schema_version) is not int:
            raise ValueError("its table has no name or no version")
        if any(part.index >= other.index for part, other in pairwise(manifest.parts)):
            # The id counts a part once, and the rows would be read twice.
            raise ValueError("its parts are not in order, each once")
        actual = manifest.id
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(id, "manifest.json", f"is not a manifest ({error})") from error
    if actual != id:
        raise damaged(id, "manifest.json", f"describes another artifact, {actual}")
    return manifest


def _part(value: JsonValue) -> PartInfo:
    part = PartInfo(**value)
    numbers = part.index, part.rows, part.bytes
    digests = part.content_hash, part.sha256, *([] if part.artifact is None else [part.artifact])
    if not all(type(number) is int and number >= 0 for number in numbers) or not all(map(is_digest, digests)):
        raise ValueError(f"part {part.index} is not valid")
    return part


def damaged(id: str, file: str, problem: str) -> ArtifactDamaged:  # noqa: A002
    """The error for an artifact that is not as it was committed."""
    return ArtifactDamaged(f"artifact {id}: {file} {problem}; {REMEDY}")


def folder(id: str) -> str:  # noqa: A002
    """The folder of an artifact."""
    return f"artifacts/{id}"


def manifest_path(id: str) -> str:  # noqa: A002
    """The path of an artifact's manifest."""
    return f"{folder(id)}/manifest.json"


def part_name(index: int) -> str:
    """File name of a part."""
    return f"part-{index:05d}.parquet"


def known_schema(table: str, version: int) -> TableSchema | None:
    """The schema that this version of the software writes under that name and version; None when it does not."""
    schema = ALL.get(table)
    return schema if schema is not None and schema.version == version else None


def differing(actual: pa.Schema, expected: pa.Schema) -> str | None:
    """The first difference between two schemas; None when they are equal."""
    if actual.equals(expected, check_metadata=False):
        return None
    if actual.names != expected.names:
        missing = sorted(set(expected.names) - set(actual.names))
        extra = sorted(set(actual.names) - set(expected.names))
        return f"columns missing: {missing}, unexpected: {extra}" if missing or extra else "columns in another order"
    return ", ".join(
        f"column '{mine.name}' is {mine.type} instead of {theirs.type}"
        for mine, theirs in zip(actual, expected, strict=True)
        if not mine.equals(theirs)
    )
