"""The folder of a run: run.json, events.jsonl, summary.json, report.html and exports.

It refers to artifacts by id and holds none. Only run.json is read to know what the run did.
"""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError, NotFound, StoreError, closest
from gage_eval.runs.appended import LocalFile, UploadedFile
from gage_eval.runs.names import checked, new_name
from gage_eval.runs.options import Locations
from gage_eval.runs.record import RunRecord
from gage_eval.store import Objects, local_folder, open_objects
from gage_eval.store.objects import read_if_there

RUN_FILE = "run.json"
SUMMARY_FILE = "summary.json"
EVENTS_FILE = "events.jsonl"
REPORT_FILE = "report.html"
_NAME_TRIES = 20
# Each failed try of `RunFolder.update` means that another writer succeeded.
_UPDATE_TRIES = 1_000


class RunFolder:
    """One run's folder.

    Attributes:
        run_id: the run's name.
        locations: where the folder and the run's artifacts are.
    """

    def __init__(self, objects: Objects, locations: Locations, run_id: str) -> None:
        self.run_id = run_id
        self.locations = locations
        self._objects = objects
        # What this object wrote last, so that it need not parse it again.
        self._written: tuple[bytes, RunRecord] | None = None

    def stop_waiting(self) -> None:
        """From now on, wait no longer for a store that does not answer, from any thread."""
        self._objects.stop_waiting()

    @classmethod
    def create(cls, locations: Locations, run_id: str | None, record: RunRecord) -> "RunFolder":
        """Create the folder and the run.json of a new run.

        Raises:
            InputError: a run with this id exists already.
        """
        if run_id is not None:
            checked(run_id)
        objects = open_runs(locations.runs)
        for _ in range(_NAME_TRIES if run_id is None else 1):
            name = run_id or new_name()
            folder = cls(objects, locations, name)
            named = record.model_copy(update={"run_id": name})
            if objects.swap(f"{name}/{RUN_FILE}", named.text(), expected=None):
                return folder
        if run_id is None:
            raise InputError(f"{locations.runs} has no free name left: choose one with --run-id.")
        remedy = "Choose" if record.rescored is not None else f"Resume it: {locations.again(run_id)}, or choose"
        raise InputError(f"a run '{run_id}' exists already in {locations.runs}. {remedy} another --run-id.")

    @classmethod
    def open(cls, locations: Locations, run_id: str) -> "RunFolder":
        """The folder of an existing run.

        Raises:
            InputError: it does not exist; the message names the closest one.
        """
        checked(run_id)
        root = locations.runs
        if not is_there(root):
            raise NotFound(
                f"no run '{run_id}': there are no runs at {root}. Name where they are with --store or --output-dir, or "
                "start one: gage run CONFIG"
            )
        objects = open_runs(root, read_only=not _writable(root))
        folder = cls(objects, locations, run_id)
        if not objects.exists(f"{run_id}/{RUN_FILE}"):
            known = list_runs(root)
            here = f" Runs here: {', '.join(known[:8])}." if known else ""
            raise NotFound(f"no run '{run_id}' in {root}.{closest(run_id, known)}{here}")
        return folder

    @property
    def again(self) -> str:
        """The command that resumes the run."""
        return self.locations.again(self.run_id)

    @property
    def url(self) -> str:
        """Path or URL of the folder, for users."""
        return self.location("")

    def location(self, name: str) -> str:
        """Path or URL of a file of the run."""
        root = self._objects.local_root
        if root is not None:
            return str(root / self.run_id / name)
        return f"{self._objects.url.rstrip('/')}/{self.run_id}/{name}".rstrip("/")

    @property
    def local(self) -> Path | None:
        """The folder on this machine, None on S3."""
        root = self._objects.local_root
        return root / self.run_id if root is not None else None

    @property
    def engines(self) -> Path | None:
        """Folder of the logs of engines that the run starts; None on S3."""
        return self.local / "engines" if self.local is not None else None

    def record(self) -> RunRecord:
        """The content of run.json.

        Raises:
            InputError: it is damaged, or was removed.
        """
        return self._read_record(self._current())

    def update(self, change: Callable[[RunRecord], RunRecord]) -> RunRecord:
        """Change run.json by compare-and-swap, with retries if another process changes it too.

        Args:
            change: makes the new record from the current one; called once for each try.

        Raises:
            InputError: run.json is damaged or missing.
            StoreError: it cannot be written.
        """
        path = f"{self.run_id}/{RUN_FILE}"
        for _ in range(_UPDATE_TRIES):
            current = self._current()
            record = change(self._read_record(current)).model_copy(update={"updated": datetime.now(UTC)})
            data = record.text()
            if self._objects.swap(path, data, expected=current):
                self._written = data, record
                return record
        raise StoreError(
            f"{self.location(RUN_FILE)} cannot be written: other processes keep changing it. End the other processes "
            f"of this run, then resume it: {self.again}"
        )

    def _current(self) -> bytes:
        data = self.read(RUN_FILE)
        if data is None:
            raise InputError(f"{self.location(RUN_FILE)} was removed. Start the run again: results are stored.")
        return data

    def _read_record(self, data: bytes) -> RunRecord:
        written = self._written
        return (
            written[1] if written is not None and written[0] == data else RunRecord.read(data, self.location(RUN_FILE))
        )

    def write_json(self, name: str, value: JsonValue) -> None:
        self.write(name, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())

    def write(self, name: str, data: bytes) -> None:
        """Write a file, replacing an existing one."""
        self._objects.replace(f"{self.run_id}/{name}", data)

    def read(self, name: str) -> bytes | None:
        """The content of a file of the run; None if it does not exist."""
        return read_if_there(self._objects, f"{self.run_id}/{name}")

    def appended(self, name: str) -> LocalFile:
        """A file of the run that grows line by line."""
        if self.local is not None:
            return LocalFile(self.local / name)
        return UploadedFile(self._objects, f"{self.run_id}/{name}")


def is_there(root: str) -> bool:
    """Whether a runs root exists; on S3 always true.

    Raises:
        InputError: a file is where a folder has to be.
    """
    folder = local_folder(root)
    if folder is None or folder.is_dir():
        return True
    for place in (folder, *folder.parents):
        if place.is_file():
            raise InputError(f"{place} is a file: give a folder.")
    return False


def has_run(locations: Locations, run_id: str) -> bool:
    """Whether a run of that id exists in these locations."""
    return is_there(locations.runs) and open_runs(locations.runs, read_only=True).exists(f"{run_id}/{RUN_FILE}")


def record_of(locations: Locations, run_id: str) -> RunRecord | None:
    """The content of a run's run.json; None if there is no such run, or its record is damaged."""
    try:
        return RunFolder.open(locations, run_id).record()
    except InputError:
        return None


def open_runs(root: str, *, read_only: bool = False) -> Objects:
    """The objects of a runs root. Its locks folder is hidden, because all other folders are runs."""
    return open_objects(root, read_only=read_only, lock_folder=".locks")


def list_runs(root: str) -> list[str]:
    """Ids of the runs in a runs root, newest first; without those in other folders of it."""
    objects = open_runs(root, read_only=True)
    run_files = [(info.mtime, info.path.split("/")) for info in objects.list() if info.path.endswith(f"/{RUN_FILE}")]
    return [path[0] for _, path in sorted(run_files, reverse=True) if len(path) == 2]


def _writable(root: str) -> bool:
    folder = local_folder(root)
    return folder is None or os.access(folder, os.W_OK)
