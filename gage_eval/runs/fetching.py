"""The data of a run's pinned origins: where they lie, and the fetch of those that are missing."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gage_eval.base.files import local_path
from gage_eval.data.datasets.fetch import DataCache
from gage_eval.data.datasets.hub_files import HubFiles
from gage_eval.data.datasets.origins import DataOrigin, OriginPath
from gage_eval.observability.events import FetchFinished, FetchProgress, FetchStarted
from gage_eval.observability.observer import Observer
from gage_eval.report.console import counted, size_text
from gage_eval.store import Store

if TYPE_CHECKING:
    from gage_eval.pipeline.specs import Plan


def data_cache(data_dir: str | None = None) -> DataCache:
    """The data cache of this machine.

    Args:
        data_dir: a folder of the user that holds the files; that of the environment unless given.

    Raises:
        InputError: a variable of the environment cannot be read.
    """
    from gage_eval.config.settings import load_settings

    settings = load_settings()
    folder = data_dir or settings.data_dir
    return DataCache(
        Path(settings.data_cache),
        local_path(folder, Path()).absolute() if folder is not None else None,
        settings.data_url,
    )


def fetch_data(
    files: Sequence[OriginPath], data: DataCache, observer: Observer, check: Callable[[], None] = lambda: None
) -> None:
    """Bring the files that are missing into the data cache, and tell what is fetched from where.

    Args:
        files: the files of pinned origins.
        data: the data cache.
        observer: receives the events of the fetch.
        check: called again and again, from several threads. What it raises ends the fetch.

    Raises:
        InputError: a file cannot be fetched or found, or is not the pinned one; the message names ``--data``.
    """
    missing = data.missing(files)
    if not missing:
        return
    began, size = time.monotonic(), sum(origin_path.file.bytes for origin_path in missing)
    if data.user_folder is not None:
        data.take(missing)
        observer.emit(FetchFinished(len(missing), size, time.monotonic() - began, str(data.user_folder)))
        return
    for event in would_fetch(missing):
        observer.emit(event)
    data.fetch(missing, _counted(observer, size, check))
    observer.emit(FetchFinished(len(missing), size, time.monotonic() - began))


def fetch_hub_data(plan: "Plan", store: Store, observer: Observer, check: Callable[[], None] = lambda: None) -> None:
    """Download the data of the Hugging Face hub that tasks read whose records are not stored yet.

    Args:
        plan: the run's plan.
        store: where the records are stored.
        observer: receives the events of the fetch.
        check: called as bytes arrive. What it raises ends the fetch.

    Raises:
        InputError: a commit cannot be found, or a file cannot be fetched.
    """
    # Commands that only read runs import this module too, and need no plan.
    from gage_eval.pipeline.forecast import stored_outputs

    seen: list[HubFiles] = []
    for task in plan.every_task:
        if task.load.loader != "hf_hub":
            continue
        # The material holds the commit, which the hub is asked for.
        if stored_outputs(store, "load", task, {}) is not None:
            continue
        source = task.load.source
        files = source.missing()
        if files is None or files in seen:
            continue
        seen.append(files)
        began, size = time.monotonic(), sum(files.sizes.values())
        observer.emit(_started(files.name, files, list(files.sizes.values())))
        with task.load.naming():
            source.fetch(files, _counted(observer, size, check))
        observer.emit(FetchFinished(len(files.sizes), size, time.monotonic() - began))


def check_keys(plan: "Plan") -> None:
    """Refuse a plan whose endpoints lack their API keys, before data are fetched for it.

    Raises:
        InputError: a variable or block does not hold the key that a config refers to.
    """
    for task in plan.tasks:
        for spec in (task.infer, task.infer.user, task.support, *task.judge.judges):
            reference = None if spec is None else spec.backend_config.get("api_key")
            if spec is not None and isinstance(reference, str):
                spec.context.secret(reference)


def would_fetch(missing: Sequence[OriginPath]) -> list[FetchStarted]:
    """What is to be fetched, one entry for each origin."""
    by_origin: dict[str, list[OriginPath]] = {}
    for origin_path in missing:
        by_origin.setdefault(origin_path.origin.name, []).append(origin_path)
    return [
        _started(name, files[0].origin, [origin_path.file.bytes for origin_path in files])
        for name, files in by_origin.items()
    ]


def _started(name: str, source: DataOrigin | HubFiles, sizes: Sequence[int]) -> FetchStarted:
    return FetchStarted(
        name, source.repository, source.commit, source.licence, source.non_commercial, len(sizes), sum(sizes)
    )


def fetch_line(event: FetchStarted) -> str:
    """What is fetched, from where and under which licence; a licence that forbids commercial use says so."""
    licence = f"licence {event.licence}"
    if event.non_commercial:
        licence = f"{licence}: not for commercial use"
    what = f"{counted(event.files, 'file')}, {size_text(event.size)}"
    return f"fetching {what} of {event.origin} from {event.repository} ({licence})"


def _counted(observer: Observer, total: int, check: Callable[[], None]) -> Callable[[int], None]:
    """Adds up the bytes that several threads receive, unless `check` raises."""
    lock, done = threading.Lock(), 0

    def add(size: int) -> None:
        nonlocal done
        check()
        if size == 0:
            return
        with lock:
            done += size
            event = FetchProgress(done, total)
        observer.emit(event)

    return add
