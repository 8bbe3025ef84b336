"""The unfinished work of a generate action: finished chunks, its run, and its folder of write-ahead logs.

All of it can be lost without harm: what is missing is asked again.
"""

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from gage_eval.base.canonical import canonical_json, decode, sha256_hex
from gage_eval.base.errors import ArtifactDamaged
from gage_eval.store.objects import Objects, explain_os_errors, refuse_write, safe_name
from gage_eval.store.parquet import UNREADABLE, read_parquet
from gage_eval.store.spool import spool, spooled

ROOT = "wip"
_MAGIC = b"gage-eval chunk 1\n"
_RUN = re.compile(r"wip/[^/]+/runs/([^/]+)")
_CHUNK = re.compile(r"wip/[^/]+/chunks/(\d+)/(\d+)-(\d+)\.chunk")


@dataclass(frozen=True)
class Chunk:
    """Finished rows ``start`` to ``stop`` (exclusive) of a part."""

    part: int
    start: int
    stop: int
    path: str
    _objects: Objects = field(repr=False, compare=False)

    def tables(self) -> dict[str, pa.Table]:
        """The chunk's tables by name.

        Raises:
            FileNotFoundError: it was discarded.
            ArtifactDamaged: it is not as it was written.
        """
        return parse_chunk(self._objects.get(self.path), self.path)


class Wip:
    """The unfinished work of one action."""

    def __init__(self, objects: Objects, key: str) -> None:
        self.key = safe_name(key)
        self._objects = objects
        self._folder = f"{ROOT}/{key}"

    def put_chunk(self, part: int, start: int, stop: int, tables: Mapping[str, bytes]) -> bool:
        """Commit finished rows. False: the same range was committed before and stays as it is.

        Args:
            part: index of the part.
            start: its first row.
            stop: the row after its last one.
            tables: by name, as Parquet (`parquet_bytes`).
        """
        if not 0 <= start <= stop or part < 0:
            raise ValueError(f"not a range of rows: part {part}, {start} to {stop}")
        blobs = sorted(tables.items())
        head = [{"name": name, "bytes": len(blob), "sha256": sha256_hex(blob)} for name, blob in blobs]
        data = b"".join((_MAGIC, canonical_json({"tables": head}), b"\n", *(blob for _, blob in blobs)))
        return self._objects.create(self._path(part, start, stop), data)

    def chunk(self, part: int, start: int, stop: int) -> Chunk:
        """A range's finished chunk without errors. It may not exist yet."""
        return Chunk(part, start, stop, self._path(part, start, stop), self._objects)

    def chunks(self, part: int | None = None) -> list[Chunk]:
        """The finished chunks by part and start. Ranges overlap when workers divided the work differently.

        Args:
            part: only those of this part.
        """
        chunks = []
        for item in self._objects.list(f"{self._folder}/chunks" + ("" if part is None else f"/{part:05d}")):
            match = _CHUNK.fullmatch(item.path)
            if match is not None:
                chunks.append(Chunk(int(match[1]), int(match[2]), int(match[3]), item.path, self._objects))
        return sorted(chunks, key=lambda chunk: (chunk.part, chunk.start, chunk.stop))

    def _path(self, part: int, start: int, stop: int) -> str:
        return f"{self._folder}/chunks/{part:05d}/{start}-{stop}.chunk"

    def begun_by(self, run_id: str) -> None:
        """Note that a run works on it: it is kept as long as that run may be resumed."""
        self._objects.create(f"{self._folder}/runs/{safe_name(run_id)}", b"")

    def discard(self) -> None:
        """Remove everything: the action is committed."""
        for item in list(self._objects.list(self._folder)):
            self._objects.delete(item.path)
        # The logs last: `clear_leftovers` looks for their folder.
        discard_scratch(self._objects, self.key)

    def clear_leftovers(self) -> None:
        """`discard` for a committed action, in case a process of this machine was killed before it did so."""
        if _scratch_path(self._objects, self.key).is_dir():
            self.discard()

    @property
    def is_local(self) -> bool:
        """Whether the store is a folder, which holds the write-ahead logs too."""
        return self._objects.local_root is not None

    def put_log(self, name: str, data: bytes) -> bool:
        """Commit a segment of a write-ahead log, for other machines. False: one of that name exists."""
        return self._objects.create(f"{self._folder}/log/{safe_name(name)}", data)

    def fetch_logs(self) -> None:
        """Bring the segments of other machines' logs into this machine's folder (`scratch`)."""
        if self.is_local:
            return
        folder = self.scratch()
        own = {file.name.rpartition("-")[0] for file in folder.glob("*.log") if not _is_shared(file.name)}
        for item in self._objects.list(f"{self._folder}/log"):
            name = item.path.rpartition("/")[2]
            target = folder / name
            if name.rpartition("-")[0] in own or target.exists():
                continue
            with suppress(FileNotFoundError), explain_os_errors(self._objects.url, f"{self._folder}/log"):
                data = self._objects.get(item.path)
                temporary = target.with_name(f"{name}.part")
                temporary.write_bytes(data)
                temporary.replace(target)

    @property
    def logs(self) -> Path:
        """The folder of this machine's write-ahead logs (`spool`); it may not exist."""
        return _scratch_path(self._objects, self.key)

    def scratch(self) -> Path:
        """The folder of this machine's write-ahead logs, made when it does not exist."""
        if self._objects.read_only:
            raise refuse_write(self._objects.url)
        folder = self.logs
        with explain_os_errors(self._objects.url, f"{self._folder}/log"):
            folder.mkdir(parents=True, exist_ok=True)
        return folder


class JobIds:
    """The ids of jobs at an endpoint whose results were not fetched yet, by the names of their requests.

    Args:
        objects: of the store.
        endpoint: a key for the endpoint and the model.
    """

    def __init__(self, objects: Objects, endpoint: str) -> None:
        self._objects = objects
        self._folder = f"{ROOT}/{safe_name(endpoint)}/jobs"

    def get(self, request: str) -> str | None:
        """The id of a request's job; None where none was begun."""
        with suppress(FileNotFoundError):
            return self._objects.get(self._path(request)).decode(errors="replace")
        return None

    def put(self, request: str, job: str) -> None:
        """Note the job of a request. One that was noted before stays."""
        self._objects.create(self._path(request), job.encode())

    def drop(self, request: str) -> None:
        """Forget the job of a request: its result was fetched, or there will be none."""
        self._objects.delete(self._path(request))

    def _path(self, request: str) -> str:
        return f"{self._folder}/{safe_name(request)}"


def _is_shared(name: str) -> bool:
    """Whether a segment of a log came from the store."""
    return name.rpartition("-")[2].startswith("s")


def list_wips(objects: Objects) -> list[Wip]:
    """All unfinished work of a store, by key, including logs that only this machine has."""
    keys = {item.path.split("/")[1] for item in (*objects.list(ROOT), *spooled(objects, ROOT))}
    return [Wip(objects, key) for key in sorted(keys)]


def begun_by(path: str) -> str | None:
    """The run that an object of ``wip/`` names (`Wip.begun_by`); None for other objects."""
    match = _RUN.fullmatch(path)
    return match[1] if match else None


def parse_chunk(data: bytes, path: str) -> dict[str, pa.Table]:
    """Parse the tables of a chunk file.

    Raises:
        ArtifactDamaged: it is not as it was written.
    """
    remedy = "`gage cache verify --remove` deletes it, and its rows are asked again."
    try:
        if not data.startswith(_MAGIC):
            raise ValueError("it has no chunk header")
        offset = data.index(b"\n", len(_MAGIC)) + 1
        tables = {}
        for entry in decode(data[len(_MAGIC) : offset])["tables"]:
            blob = data[offset : offset + entry["bytes"]]
            if sha256_hex(blob) != entry["sha256"]:
                raise ValueError(f"table '{entry['name']}' has another sha256")
            tables[str(entry["name"])], _ = read_parquet(blob)
            offset += len(blob)
    except (*UNREADABLE, TypeError) as error:
        raise ArtifactDamaged(f"{path} is not the chunk that was written ({error}); {remedy}") from error
    return tables


def discard_scratch(objects: Objects, key: str) -> None:
    """Remove the logs of an action from this machine."""
    folder = _scratch_path(objects, key)
    with explain_os_errors(objects.url, f"{ROOT}/{key}/log"), suppress(FileNotFoundError):
        shutil.rmtree(folder)
    with suppress(OSError):  # not empty, or gone
        folder.parent.rmdir()


def _scratch_path(objects: Objects, key: str) -> Path:
    return spool(objects, ROOT) / key / "log"
