"""The runs that pages look at: readers and indexes, opened once and kept while they are used."""

import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from gage_eval.base.canonical import JsonValue, digest
from gage_eval.base.errors import GageError, InputError
from gage_eval.regression.scored_task import ScoredTask
from gage_eval.runs.options import Locations
from gage_eval.runs.results.calls import PendingResponses
from gage_eval.runs.results.reading import RunReader, TaskReader
from gage_eval.runs.results.sql import sentence_of
from gage_eval.runs.results.stored import StoredRun
from gage_eval.store import Store
from gage_eval.viewer.database import IndexDatabase
from gage_eval.viewer.index import INDEX_VERSION, build_index
from gage_eval.viewer.listing import Listing, LruCache
from gage_eval.viewer.matrix import AnswerMatrix, build_matrix
from gage_eval.viewer.pairing import build_pairs

T = TypeVar("T")
Tell: TypeAlias = Callable[[float], None]
Maker: TypeAlias = Callable[[Path, Tell], object]
"""Writes a file, and tells the share of it that is done."""

_log = logging.getLogger(__name__)

MOST_CACHED_BYTES = 20 * 1024**3
MOST_COLUMNS = 8
"""Runs that are shown side by side."""

_MOST_OPEN = MOST_COLUMNS
_MOST_MATRICES = 2
_MOST_READERS = 32
_MOST_RESULTS = 16
WAIT_S = 1.5
# No index takes so long, and no page looks at a running run without making its index again.
_LEFT_KEPT_S = 86_400.0
# How the names of files begin that hold the answers of a running run so far.
_LIVE = "live-"


class StillIndexing(Exception):
    """What a page needs is being made.

    Attributes:
        what: a few words.
        share: of it that is done.
    """

    def __init__(self, what: str, share: float) -> None:
        super().__init__(what)
        self.what, self.share = what, share


@dataclass
class _Work:
    """Something that is made in the background, and the share of it that is done."""

    is_given_up: threading.Event
    future: "Future[Any]" = field(default_factory=Future)
    share: float = 0.0

    def tell(self, share: float) -> None:
        self.share = share
        if self.is_given_up.is_set():
            raise InputError("the viewer ends.")


class OpenRuns:
    """Readers and indexes of runs.

    Args:
        locations: where the runs are.
        folder: the cache of indexes.
        texts: index the texts of a store that is not a folder too, which fetches it whole.
        announce: told a sentence when an index was built.

    Attributes:
        store: of the runs, for media.
    """

    def __init__(
        self,
        locations: Locations,
        folder: Path,
        *,
        texts: bool = False,
        announce: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.locations = locations
        self.store = Store.open(locations.store, read_only=True, ranged=True)
        self._folder, self._texts, self._announce = folder, texts, announce
        self._lock = threading.Lock()
        self._readers: LruCache[RunReader] = LruCache(_MOST_READERS)
        self._listings: LruCache[Listing] = LruCache(_MOST_OPEN)
        self._matrices: LruCache[AnswerMatrix] = LruCache(_MOST_MATRICES)
        # Files of running runs, also those that are still being made: by what they are of, the latest ones last.
        self._temporary: dict[str, dict[Path, None]] = {}
        self._work: OrderedDict[tuple[Any, ...], _Work] = OrderedDict()
        self._is_closed = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="index")
        # The first page shall not wait for it.
        self._pool.submit(import_module, "duckdb")

    def close(self) -> None:
        """Close the indexes, and remove those of running runs. One that is being made is given up."""
        self._is_closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        # Cursors of other threads keep an index open until they are done.
        self._listings.clear()
        with self._lock:
            for file in chain.from_iterable(self._temporary.values()):
                file.unlink(missing_ok=True)

    def run(self, run_id: str) -> RunReader:
        """The reader of a run; a new one once its record has changed.

        Raises:
            InputError: there is no such run.
        """
        reader = RunReader(StoredRun.open(self.locations, run_id), self.store)
        state = reader.stored.status, reader.stored.record.updated
        return self._readers.get((run_id, state), lambda: reader)

    def listing(self, task: TaskReader, run: RunReader, against: Path | None = None) -> Listing:
        """The lists of a task's answers, with the pairs of ``against``.

        Raises:
            StillIndexing: it takes longer than a moment.
            InputError: the task has no responses yet.
        """
        file = self.index_file(task, run)
        return self._opened(
            f"the index of {run.run_id}, {task.task_id}",
            (file, against),
            lambda: self._listings.get((file, against), lambda: Listing(IndexDatabase(file, against))),
        )

    def index_file(self, task: TaskReader, run: RunReader) -> Path:
        """The file of a task's index; it is built if it does not exist. Raises as `listing`."""
        if isinstance(task.responses, PendingResponses):
            return self._live(task, run)
        texts = self._texts or run.store.objects.local_root is not None
        file = self._folder / f"index-{digest(_identity(task, texts=texts))[:40]}.duckdb"
        what = f"the index of {run.run_id}, {task.task_id}"
        return self._made(file, what, lambda out, tell: self._build(task, run, out, tell, texts=texts))

    def pairs_file(self, this: tuple[RunReader, TaskReader], other: tuple[RunReader, TaskReader], measure: str) -> Path:
        """The file that pairs a task's answers with those of another run. Raises as `listing`."""
        files = self.index_file(this[1], this[0]), self.index_file(other[1], other[0])
        what = f"pairs of {this[0].run_id} and {other[0].run_id}"
        name = f"{what}, {this[1].task_id}, {measure}"
        return self._joined(
            "pairs", files, measure, name, what, lambda out, tell: build_pairs(files[0], files[1], measure, out)
        )

    def matrix(self, columns: Sequence[tuple[RunReader, Listing]], files: Sequence[Path], measure: str) -> AnswerMatrix:
        """The opened matrix of several runs' answers.

        Args:
            columns: the runs, and the lists of their answers.
            files: their indexes (`index_file`).
            measure: name of the measure; empty where nothing is scored yet.

        Raises:
            StillIndexing: it takes longer than a moment.
            InputError: a run does not have the measure.
        """
        what = f"the answers of {', '.join(run.run_id for run, _ in columns)} side by side"
        file = self._joined("matrix", files, measure, f"{what}, {measure}", what,
                            lambda out, tell: build_matrix(files, measure, out))  # fmt: skip
        lists = [listing for _, listing in columns]
        key = (file, *map(id, lists))
        return self._opened(what, (file,), lambda: self._matrices.get(key, lambda: AnswerMatrix(file, lists)))

    def _opened(self, what: str, files: Sequence[Path | None], get: Callable[[], T]) -> T:
        """What is read from some files; those that cannot be read are removed, so that they are made again."""
        import duckdb

        try:
            return get()
        except (duckdb.Error, InputError, OSError) as error:
            # Cut off by a power failure, or written by a later version of DuckDB.
            for file in filter(None, files):
                self._forget(file)
            raise InputError(f"{what} could not be opened. It is made again: load the page again.") from error

    def _joined(
        self,
        kind: str,
        files: Sequence[Path],
        measure: str,
        name: str,
        what: str,
        make: Maker,
    ) -> Path:
        """A file that is made of several indexes; it is built if it does not exist."""
        state = digest([INDEX_VERSION, kind, *(file.name for file in files), measure])[:40]
        if any(file.name.startswith(_LIVE) for file in files):
            return self._made_for_now(name, state, what, make)
        return self._made(self._folder / f"{kind}-{state}.duckdb", what, make)

    def computed(self, key: tuple[Any, ...], what: str, make: Callable[[Tell], T], *, wait_s: float | None = None) -> T:
        """The result of a long computation, which is made in the background by one thread and remembered.

        Args:
            key: what it is a result of.
            what: a few words.
            make: computes it, and tells the share that is done.
            wait_s: how long to wait for it; `WAIT_S` by default.

        Raises:
            StillIndexing: it takes longer.
        """
        with self._lock:
            work = self._work.get(key)
            if work is None:
                work = _Work(self._is_closed)
                work.future = self._pool.submit(make, work.tell)
                self._work[key] = work
            self._work.move_to_end(key)
            for older in [key for key, known in self._work.items() if known.future.done()][:-_MOST_RESULTS]:
                del self._work[older]
        try:
            result: T = work.future.result(timeout=WAIT_S if wait_s is None else wait_s)
            return result
        except StillRunning:
            raise StillIndexing(what, work.share) from None
        except Exception:
            with self._lock:
                self._work.pop(key, None)
            raise

    def _build(self, task: TaskReader, run: RunReader, file: Path, tell: Tell, *, texts: bool) -> None:
        about = build_index(task, file, slices=_declared_slices(run, task), texts=texts, progress=tell)
        self._announce(f"indexed {run.run_id}, {task.task_id}: {about.answers:,} answers in {about.seconds:.1f} s")

    def _live(self, task: TaskReader, run: RunReader) -> Path:
        """The index of a running run: made again when the run has written its record since."""
        name = f"{run.run_id}/{task.task_id}"
        state = digest([name, str(run.stored.record.updated)])[:24]
        what = f"the answers of {run.run_id} so far"
        return self._made_for_now(name, state, what, lambda out, tell: build_index(task, out, progress=tell))

    def _made_for_now(self, name: str, state: str, what: str, make: Maker) -> Path:
        """As `_made`, for what changes with a running run: the older files of this name are removed."""
        file = self._folder / f"{_LIVE}{os.getpid()}-{state}.duckdb"
        with self._lock:
            files = self._temporary.setdefault(name, {})
            files[file] = None
        made = self._made(file, what, make)
        with self._lock:
            # One that is still being made ends later.
            older = [path for path in files if path != made and path.exists()]
            for path in older:
                del files[path]
        for path in older:
            self._forget(path)
        return made

    def _made(self, file: Path, what: str, make: Maker) -> Path:
        """The file, made in the background; several processes may make it at once."""
        if file.exists():
            with suppress(OSError):
                os.utime(file)
            return file
        return self.computed((file,), what, lambda tell: self._make(file, make, tell))

    def _make(self, file: Path, make: Maker, tell: Tell) -> Path:
        import duckdb

        draft = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)
            make(draft, tell)
            draft.replace(file)
            if self._is_closed.is_set() and file.name.startswith(_LIVE):
                # `close` has removed the others.
                file.unlink(missing_ok=True)
            self._trim(file)
        except GageError:
            raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"the index {file} cannot be written ({reason}). Set GAGE_EVAL_VIEWER_CACHE.") from error
        except Exception as error:
            _log.exception("making %s", file.name)
            if not isinstance(error, duckdb.Error):
                raise
            reason = sentence_of(error).partition(" Possible solutions")[0]
            raise InputError(f"the index {file} cannot be made ({reason}).") from error
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        # The file is remembered by being there: another viewer may remove it.
        with self._lock:
            self._work.pop((file,), None)
        return file

    def _trim(self, newest: Path) -> None:
        """Remove what killed viewers left, and files that were not used for longest until the cache has its size."""
        for left in chain(self._folder.glob(".*.duckdb.*"), self._folder.glob(f"{_LIVE}*.duckdb")):
            with suppress(OSError):
                if left.stat().st_mtime < time.time() - _LEFT_KEPT_S:
                    left.unlink()
        files = []
        for entry in self._folder.glob("*.duckdb"):
            # Another viewer may remove it now.
            with suppress(FileNotFoundError):
                if entry != newest:
                    files.append((entry.stat(), entry))
        total = sum(stat.st_size for stat, _ in files)
        for stat, entry in sorted(files, key=lambda item: item[0].st_mtime):
            if total <= MOST_CACHED_BYTES:
                return
            self._forget(entry)
            total -= stat.st_size

    def _forget(self, file: Path) -> None:
        self._listings.clear(lambda key: file in key)
        with suppress(OSError):
            file.unlink(missing_ok=True)


def _identity(task: TaskReader, *, texts: bool) -> JsonValue:
    """What an index is made of: artifacts are named by their content."""
    measures: list[JsonValue] = [[measure.name, measure.threshold] for measure in task.measures]
    scores: dict[str, JsonValue] = {name: artifact.id for name, artifact in task.scores.items()}
    responses, telemetry = task.artifact("responses"), task.artifact("response_telemetry")
    tables: list[JsonValue] = [task.samples.id, responses.id, telemetry.id]
    return {"version": INDEX_VERSION, "tables": tables, "scores": scores, "measures": measures, "texts": texts}


def _declared_slices(run: RunReader, task: TaskReader) -> list[str]:
    """The slice fields of the task's first metric."""
    if not task.measures:
        return []
    grouping = ScoredTask.of_run(run, task.task_id).grouping(task.measures[0].metric_id)
    return [path.text for path in grouping.slices]
