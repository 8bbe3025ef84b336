"""Artifacts: immutable tables in parts, named by the hash of their content."""

import hashlib
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from gage_eval.base.canonical import sha256_hex
from gage_eval.base.errors import StoreError
from gage_eval.base.tables import TableSchema
from gage_eval.store.content import content_hash
from gage_eval.store.manifest import (
    Manifest,
    PartInfo,
    artifact_id,
    damaged,
    differing,
    folder,
    known_schema,
    manifest_path,
    parse_manifest,
    part_name,
)
from gage_eval.store.objects import STAGING, Objects, explain_os_errors, is_digest, read_if_there, refuse_write
from gage_eval.store.parquet import UNREADABLE, Source, read_parquet, write_parquet
from gage_eval.store.ranges import RangedFile
from gage_eval.store.spool import spool

_UPLOADS = 8
# Arrow keeps the freed memory of earlier tables, up to 30 MiB. To release it after each part would cost 5 % of the time
# of a stage, because the system must provide the memory again.
_RELEASE_AFTER = 16 * 1024 * 1024
# Smaller parts are read whole: one request that compares the hash, instead of several that cannot.
_WHOLE_BYTES = 256 * 1024
# Local files that this process read and found correct: path, sha256, inode, size, time of change.
_checked: set[tuple[Path, str, int, int, int]] = set()
# Index and SHA-256 of parts, and the artifact in whose folder each lies.
KnownParts = MutableMapping[tuple[int, str], str]


class Artifact:
    """A committed table, read one part at a time. Every part is checked when it is read.

    Args:
        objects: of the store.
        manifest: of the artifact.
        ranged: read large parts of a store that is not a folder by ranges where only some columns or rows are wanted.
            Then the part's hash cannot be compared: what is checked is its size, the checksums of the pages that are
            read, its number of rows and its columns.
    """

    def __init__(self, objects: Objects, manifest: Manifest, *, ranged: bool = False) -> None:
        self._ranged = ranged
        self.id = manifest.id
        self.manifest = manifest
        self._objects = objects

    def __repr__(self) -> str:
        return f"<Artifact {self.manifest.table} {self.id[:12]} rows={self.rows}>"

    @property
    def parts(self) -> list[PartInfo]:
        """The parts, by index."""
        return list(self.manifest.parts)

    @property
    def rows(self) -> int:
        """Number of rows of all parts."""
        return sum(part.rows for part in self.manifest.parts)

    @property
    def complete(self) -> bool:
        """False when rows are in error that another run may still answer."""
        return self.manifest.complete

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows by status, as counted at the commit."""
        return self.manifest.counts

    @cached_property
    def schema(self) -> TableSchema:
        """Name, version and columns. A table written by another version of the software describes itself."""
        name, version = self.manifest.table, self.manifest.schema_version
        known = known_schema(name, version)
        if known is not None:
            return known
        if not self.manifest.parts:
            return TableSchema(name, version, pa.schema([]))
        return TableSchema(name, version, self._load(self.manifest.parts[0], None).schema)

    def read(
        self, part_index: int, columns: Sequence[str] | None = None, *, rows: Collection[int] | None = None
    ) -> pa.Table:
        """Read the rows of a part.

        Args:
            part_index: index of the part.
            columns: the wanted columns; all by default.
            rows: the wanted row indexes, of a table with a column ``row_index``. Their neighbours may come too.

        Raises:
            ArtifactDamaged: the part is missing, or not what was committed.
            StoreError: the artifact has no such part.
        """
        for part in self.manifest.parts:
            if part.index == part_index:
                return self._load(part, columns, rows)
        raise StoreError(f"artifact {self.id} has no part {part_index}: it has {len(self.manifest.parts)} parts.")

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The parts one after the other; one is in memory at a time."""
        for part in self.manifest.parts:
            yield self._load(part, columns)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows in one table."""
        parts = list(self.tables(columns))
        if parts:
            return pa.concat_tables(parts)
        empty = self.schema.empty()
        return empty if columns is None else empty.select(list(columns))

    def check(self, part: PartInfo) -> None:
        """Read the bytes of a part and compare their hash.

        Raises:
            ArtifactDamaged: the part is missing, or not what was committed.
        """
        try:
            self._verified(part, self._objects.get(part.path(self.id)))
        except FileNotFoundError:
            raise damaged(self.id, part_name(part.index), "is missing") from None

    def _load(self, part: PartInfo, columns: Sequence[str] | None, rows: Collection[int] | None = None) -> pa.Table:
        name = part_name(part.index)
        path = part.path(self.id)
        known = known_schema(self.manifest.table, self.manifest.schema_version)
        try:
            source = self._source(part, path, whole=columns is None and rows is None)
            table, count = read_parquet(source, columns, rows)
        except FileNotFoundError:
            raise damaged(self.id, name, "is missing") from None
        except UNREADABLE as error:
            if isinstance(error, KeyError) and known is None:
                raise StoreError(
                    f"artifact {self.id} is a '{self.manifest.table}' table of version {self.manifest.schema_version}, "
                    f"written by another version of the software, and lacks a column that is needed ({error.args[0]}): "
                    "run the evaluation again."
                ) from error
            raise damaged(self.id, name, f"cannot be read ({error})") from error
        if count != part.rows:
            raise damaged(self.id, name, f"has {count} rows instead of {part.rows}")
        if known is not None:
            expected = known.arrow if columns is None else pa.schema([known.arrow.field(name) for name in columns])
            difference = differing(table.schema, expected)
            if difference is not None:
                raise damaged(self.id, name, f"is not a {known.name} table: {difference}")
        return table

    def _source(self, part: PartInfo, path: str, *, whole: bool) -> Source:
        """The source of a part: bytes that were just checked, a local file unchanged since its check, or ranges."""
        root = self._objects.local_root
        if root is None:
            if self._ranged and not whole and part.bytes > _WHOLE_BYTES:
                return RangedFile(self._objects, path, part.bytes)
            return self._verified(part, self._objects.get(path))
        file = root / path
        stat = file.stat()
        state = (file, part.sha256, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if state in _checked:
            return file
        data = self._verified(part, self._objects.get(path))
        _checked.add(state)
        return data

    def _verified(self, part: PartInfo, data: bytes) -> bytes:
        name = part_name(part.index)
        if len(data) != part.bytes:
            raise damaged(self.id, name, f"has {len(data)} bytes instead of {part.bytes}")
        actual = sha256_hex(data)
        if actual != part.sha256:
            raise damaged(self.id, name, f"has sha256 {actual} instead of {part.sha256}")
        return data


@dataclass(frozen=True, slots=True)
class _StagedPart:
    info: PartInfo
    file: Path


class ArtifactWriter:
    """Collects the parts of an artifact in private until `commit`.

    As a context manager it aborts when the block is left without a commit.

    Args:
        objects: where the artifact goes.
        schema: of its table.
        wrote: called for each part that is written, in the thread that writes it.
        known: parts that this process has stored or found. They are not stored again.
    """

    def __init__(
        self,
        objects: Objects,
        schema: TableSchema,
        wrote: Callable[[PartInfo], None] = lambda part: None,
        known: KnownParts | None = None,
    ) -> None:
        if objects.read_only:
            raise refuse_write(objects.url)
        self._wrote = wrote
        self._known = {} if known is None else known
        self._objects = objects
        self._schema = schema
        self._staged: dict[int, _StagedPart] = {}
        self._unreleased = 0
        self._folder = spool(objects, STAGING) / uuid.uuid4().hex
        with explain_os_errors(objects.url, STAGING):
            self._folder.mkdir(parents=True)

    def __enter__(self) -> "ArtifactWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def write(self, part_index: int, table: pa.Table, parquet: bytes | None = None) -> PartInfo:
        """Stage the rows of a part. Parts come in any order, each index once.

        Args:
            part_index: index of the part.
            table: its rows.
            parquet: the same rows as `parquet_bytes`, where the caller has made them for another purpose.

        Raises:
            ValueError: the index was written before, or the columns are not those of the schema.
            StoreError: no space is left for staging.
        """
        if part_index < 0 or part_index in self._staged:
            raise ValueError(f"part {part_index} of '{self._schema.name}' was written before or has a negative index")
        difference = differing(table.schema, self._schema.arrow)
        if difference is not None:
            raise ValueError(f"part {part_index} is not a '{self._schema.name}' table: {difference}")
        info = self._stage(part_index, table.cast(self._schema.arrow), parquet)
        self._wrote(info)
        return info

    def revise(self, change: Callable[[int, pa.Table], pa.Table]) -> None:
        """Change every part that was written, one after another.

        Args:
            change: receives the index of a part and its rows. Returns as many rows with the same columns.

        Raises:
            StoreError: no space is left for staging.
        """
        for index, staged in self._staged.items():
            with self._being_there():
                table, _ = read_parquet(staged.file)
            self._stage(index, change(index, table).cast(self._schema.arrow))

    def _stage(self, part_index: int, table: pa.Table, parquet: bytes | None = None) -> PartInfo:
        file = self._folder / part_name(part_index)
        with self._being_there(), explain_os_errors(self._objects.url, file.name):
            if parquet is None:
                write_parquet(table, file)
            else:
                file.write_bytes(parquet)
            size, sha256 = file.stat().st_size, _file_sha256(file)
        info = PartInfo(part_index, table.num_rows, content_hash(table), size, sha256)
        self._staged[part_index] = _StagedPart(info, file)
        self._unreleased += table.nbytes
        if self._unreleased >= _RELEASE_AFTER:
            pa.default_memory_pool().release_unused()
            self._unreleased = 0
        return info

    def commit(self, *, complete: bool = True, counts: Mapping[str, int] | None = None) -> Artifact:
        """Create the artifact, or find that it exists: equal content has one id and one manifest.

        Args:
            complete: False when rows are in error that another run may retry.
            counts: rows by status.

        Raises:
            ArtifactDamaged: the store holds a part of the same artifact with other content.
            StoreError: the store cannot be written.
        """
        try:
            staged = [self._staged[index] for index in sorted(self._staged)]
            identity = artifact_id(
                self._schema.name,
                self._schema.version,
                {item.info.index: item.info.content_hash for item in staged},
            )
            while True:
                existing = find_artifact(self._objects, identity)
                with self._being_there():
                    parts = self._move_parts(identity, staged, existing)
                # Otherwise another process has just committed it, or gc has removed it: look again.
                if existing is not None:
                    if self._objects.renew(manifest_path(identity)):
                        return existing
                    continue
                manifest = Manifest(self._schema.name, self._schema.version, tuple(parts), complete, dict(counts or {}))
                if self._objects.create(manifest_path(identity), manifest.to_bytes()):
                    return Artifact(self._objects, manifest)
        finally:
            self.abort()

    def abort(self) -> None:
        """Discard what was staged. Does nothing after a commit."""
        self._staged.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def _being_there(self) -> Iterator[None]:
        """Say in a sentence that the store, or the folder of what is staged, was removed."""
        try:
            yield
        except FileNotFoundError as error:
            raise StoreError(
                f"store {self._objects.url}: files that the run was writing were removed. Run it again, and leave the "
                "store alone while it runs."
            ) from error

    def _move_parts(self, identity: str, staged: Sequence[_StagedPart], existing: Artifact | None) -> list[PartInfo]:
        places = [None] * len(staged) if existing is None else existing.parts
        if self._objects.local_root is not None:
            return [self._move_part(identity, item, place) for item, place in zip(staged, places, strict=True)]
        with ThreadPoolExecutor(_UPLOADS) as pool:
            return list(pool.map(partial(self._move_part, identity), staged, places))

    def _move_part(self, identity: str, item: _StagedPart, existing: PartInfo | None) -> PartInfo:
        """Move a part to its place, or take the one already there, or in another artifact, with the same rows."""
        key = _key(item.info)
        artifact = identity if existing is None else existing.artifact or identity
        shared = replace(item.info, artifact=self._known.get(key, identity))
        # The manifest of that artifact may be gone: garbage collection keeps the part.
        if existing is None and shared.artifact != identity and self._objects.renew(shared.path(identity)):
            return shared
        path = item.info.path(artifact)
        while not self._objects.create_file(path, item.file):
            # Renewed before it is relied on: a garbage collection may be about to remove it.
            if self._objects.renew(path):
                break
        else:
            self._known[key] = artifact
            return existing or item.info
        if existing is not None:
            return existing  # Its manifest vouches for the part; a read checks it.
        data = self._objects.get(path)
        sha256 = sha256_hex(data)
        if sha256 == item.info.sha256:
            self._known[key] = artifact
            return item.info
        # Another version of the Parquet library wrote it: compare the rows.
        name = part_name(item.info.index)
        try:
            actual = content_hash(read_parquet(data)[0])
        except UNREADABLE as error:
            raise damaged(identity, name, f"cannot be read ({error})") from error
        if actual != item.info.content_hash:
            raise damaged(identity, name, f"has content {actual} instead of {item.info.content_hash}")
        return PartInfo(item.info.index, item.info.rows, actual, len(data), sha256)


def find_artifact(objects: Objects, id: str) -> Artifact | None:  # noqa: A002
    """The artifact with that id, None when the store does not have it.

    Raises:
        ArtifactDamaged: its manifest is not what was committed.
    """
    if not is_digest(id):
        raise StoreError(f"'{id[:80]}' is not an artifact id: an id has 64 hex digits.")
    data = read_if_there(objects, manifest_path(id))
    return None if data is None else Artifact(objects, parse_manifest(data, id))


def find_whole(
    objects: Objects,
    id: str,  # noqa: A002
    *,
    hashes: bool = False,
    known: KnownParts | None = None,
) -> Artifact | None:
    """The artifact, if every part is there with its committed size.

    Args:
        objects: of the store.
        id: of the artifact.
        hashes: also read every part and compare its hash; otherwise no contents are read.
        known: parts that this process has stored or found, which are not looked for again in other artifacts; those of
            this artifact are added.

    Raises:
        ArtifactDamaged: its manifest is not what was committed, or a part has another size or hash.
    """
    artifact = find_artifact(objects, id)
    if artifact is None:
        return None
    known = {} if known is None else known
    parts = [part for part in artifact.parts if part.artifact is None or hashes or _key(part) not in known]
    folders = sorted({folder(id), *(folder(part.artifact or id) for part in parts)})
    sizes = {item.path: item.size for name in folders for item in objects.list(name)}
    for part in parts:
        size = sizes.get(part.path(id))
        if size is None:
            return None
        if size != part.bytes:
            raise damaged(id, part_name(part.index), f"has {size} bytes instead of {part.bytes}")
        if hashes:
            artifact.check(part)
        known.setdefault(_key(part), part.artifact or id)
    return artifact


def open_artifact(objects: Objects, id: str, *, ranged: bool = False) -> Artifact:  # noqa: A002
    """The artifact with that id; ``ranged`` as in `Artifact`.

    Raises:
        StoreError: the store does not have it.
        ArtifactDamaged: its manifest is not what was committed.
    """
    artifact = find_artifact(objects, id)
    if artifact is None:
        raise StoreError(f"artifact {id} is gone from store {objects.url}: the next run computes it again.")
    return Artifact(objects, artifact.manifest, ranged=True) if ranged else artifact


def _file_sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _key(part: PartInfo) -> tuple[int, str]:
    return part.index, part.sha256
