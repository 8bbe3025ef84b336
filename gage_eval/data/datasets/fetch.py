"""Files of pinned origins on this machine: kept in a cache, verified, and fetched when they are missing."""

import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from functools import partial
from pathlib import Path

from gage_eval.base.errors import InputError
from gage_eval.base.files import local_path, locked
from gage_eval.base.hashing import file_digest
from gage_eval.data.datasets.download import DownloadFailed, download
from gage_eval.data.datasets.origins import GITHUB, DataOrigin, OriginPath

DEFAULT_CACHE = "~/.cache/gage-eval/datasets"

_AT_ONCE = 8
_SHOWN = 5
_DIGITS = 12


class DataCache:
    """Where the files of pinned origins lie: ``<folder>/<origin>/<commit>/<path>``.

    Args:
        folder: the cache.
        given: a folder of the user that holds the files, in any layout; they are copied into the cache.
        base_url: where files are fetched from.
    """

    def __init__(self, folder: Path = Path(DEFAULT_CACHE), given: Path | None = None, base_url: str = GITHUB) -> None:
        self.folder = local_path(str(folder), Path()).absolute()
        self.given = given
        self._base_url = base_url

    def root(self, origin: DataOrigin) -> Path:
        """The folder used as root of an origin's repository."""
        return self.folder / origin.name / origin.commit

    def place(self, wanted: OriginPath) -> Path:
        """The path of a file, which may not exist yet."""
        return self.root(wanted.origin) / wanted.path

    def hub_copy(self, name: str) -> Path | None:
        """The copy of a dataset of the Hugging Face hub in the user's folder, as ``DIR/owner/name`` or ``DIR/name``."""
        if self.given is None or ".." in name.split("/"):
            return None
        places = (self.given / name, self.given / name.rpartition("/")[2])
        # `os.path` says no of a name that no folder can have.
        return next((place for place in places if os.path.isdir(place) and any(place.iterdir())), None)

    def missing(self, wanted: Iterable[OriginPath]) -> list[OriginPath]:
        """The files that are not in the cache as they should be. What is there is verified every time."""
        return [one for one in dict.fromkeys(wanted, None) if not self._is_here(one)]

    def take(self, wanted: Collection[OriginPath]) -> None:
        """Copy files from the user's folder into the cache.

        Raises:
            InputError: the folder lacks some of them, or holds others under their names.
        """
        assert self.given is not None
        if not self.given.is_dir():
            raise InputError(f"--data {self.given}: the folder does not exist.")
        found = _Finder(self.given).find(wanted)
        absent = [one for one in wanted if one not in found]
        if absent:
            raise InputError(
                f"--data {self.given} does not hold {_names(absent)}. Put it there, as {self.given}/"
                f"{absent[0].origin.name}/{absent[0].path}, or leave out --data to fetch it."
            )
        for one, file in found.items():
            with self._writing(one) as place:
                draft = place.with_name(f"{place.name}.{os.getpid()}.{threading.get_ident()}")
                try:
                    shutil.copyfile(file, draft)
                    draft.replace(place)
                finally:
                    draft.unlink(missing_ok=True)

    def fetch(self, wanted: Sequence[OriginPath], advance: Callable[[int], None] = lambda size: None) -> None:
        """Fetch files from their origin into the cache, several at a time.

        Args:
            wanted: those that are `missing`.
            advance: called with the number of bytes as they arrive, and with 0 again and again while another process
                fetches a file. What it raises ends the fetch.

        Raises:
            InputError: one of them cannot be fetched, or is not what was pinned. One sentence names the files and
                ``--data``.
        """
        failed: list[tuple[OriginPath, str]] = []
        stop = threading.Event()

        def counted(size: int) -> None:
            if stop.is_set():
                raise _Stopped
            advance(size)

        def fetch_one(one: OriginPath) -> None:
            if stop.is_set():
                failed.append((one, ""))
                return
            try:
                self._fetch(one, counted)
            except _Stopped:
                failed.append((one, ""))
            except (DownloadFailed, _Different) as error:
                failed.append((one, str(error)))
                stop.set()

        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(wanted))), thread_name_prefix="fetch") as pool:
            try:
                list(pool.map(fetch_one, wanted))
            except BaseException:
                # Ctrl-C or a full disk: running downloads stop with their next bytes.
                stop.set()
                raise
        if failed:
            first, why = next((one, why) for one, why in failed if why)
            url = first.origin.url(first.path, self._base_url)
            raise InputError(
                f"{_names([first, *(one for one, _ in failed if one != first)])} cannot be fetched ({url}: {why}). "
                "Try again, or name a folder that holds the files with --data DIR."
            )

    def _fetch(self, one: OriginPath, advance: Callable[[int], None]) -> None:
        import pooch

        pooch.get_logger().setLevel("ERROR")
        url, file = one.origin.url(one.path, self._base_url), one.file
        lock = _partial(self.folder, file.sha256).with_suffix(".lock")
        with self._writing(one) as place, locked(lock, partial(advance, 0)):
            if self._is_here(one):
                # Another process has fetched it in the meantime.
                advance(file.bytes)
                return
            part = _partial(self.folder, file.sha256)

            def resume(_url: str, target: str, _pooch: object) -> None:
                try:
                    download(url, part, file.bytes, advance)
                except OSError:
                    # A full disk should not stay full of halves.
                    part.unlink(missing_ok=True)
                    raise
                shutil.move(part, target)

            try:
                pooch.retrieve(url, f"sha256:{file.sha256}", fname=place.name, path=place.parent, downloader=resume)
            except ValueError as error:
                # pooch refuses a file by its hash; it has removed it.
                raise _Different("what is there is not the pinned file: its sha256 differs") from error

    @contextmanager
    def _writing(self, one: OriginPath) -> Iterator[Path]:
        """The place of a file, to write it there.

        Raises:
            InputError: the cache cannot be written.
        """
        place = self.place(one)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            yield place
        except OSError as error:
            if error.errno in (ENOSPC, EDQUOT):
                why = f"no space is left for {one.file.bytes:,} bytes"
            else:
                why = error.strerror or str(error)
            raise InputError(
                f"'{one.path}' of '{one.origin.name}' cannot be written to the data cache {self.folder} ({why}). "
                "Make room, or set GAGE_EVAL_DATA_CACHE to another folder."
            ) from error

    def _is_here(self, one: OriginPath) -> bool:
        place = self.place(one)
        try:
            return place.stat().st_size == one.file.bytes and file_digest(place) == one.file.sha256
        except OSError:
            return False


class _Different(Exception):
    """A file is not the pinned one."""


class _Stopped(Exception):
    """The fetch of another file failed."""


class _Finder:
    """Looks for files of origins in a folder of any layout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, wanted: Collection[OriginPath]) -> dict[OriginPath, Path]:
        """The files that are there.

        Raises:
            InputError: a file exists, but has other content.
        """
        found, elsewhere = {}, []
        for one in wanted:
            for place in (self._folder / one.origin.name / one.path, self._folder / one.path):
                if place.is_file():
                    _check(place, one)
                    found[one] = place
                    break
            else:
                elsewhere.append(one)
        return {**found, **self._by_name(elsewhere)}

    def _by_name(self, wanted: Collection[OriginPath]) -> dict[OriginPath, Path]:
        """Files of the same name and content anywhere below the folder."""
        names = {Path(one.path).name for one in wanted}
        places: dict[str, list[Path]] = {}
        for parent, _, files in os.walk(self._folder) if names else ():
            for name in names.intersection(files):
                places.setdefault(name, []).append(Path(parent, name))
        found = {}
        for one in wanted:
            same_name = places.get(Path(one.path).name, [])
            sized = [place for place in sorted(same_name) if place.stat().st_size == one.file.bytes]
            match = next((place for place in sized if file_digest(place) == one.file.sha256), None)
            if match is not None:
                found[one] = match
            elif len(same_name) == 1:
                _check(same_name[0], one)
        return found


def _check(place: Path, one: OriginPath) -> None:
    try:
        digest = file_digest(place)
    except OSError as error:
        raise InputError(f"--data: '{place}' cannot be read: {error.strerror}.") from error
    if digest != one.file.sha256:
        raise InputError(
            f"--data: '{place}' is not '{one.path}' of {one.origin.repository} at {one.origin.commit[:_DIGITS]}: its "
            f"sha256 is {digest[:_DIGITS]}…, not {one.file.sha256[:_DIGITS]}…."
        )


def _names(files: Sequence[OriginPath]) -> str:
    shown = ", ".join(f"'{one.path}'" for one in files[:_SHOWN])
    more = f" and {len(files) - _SHOWN:,} more files" if len(files) > _SHOWN else ""
    origins = ", ".join(dict.fromkeys(one.origin.name for one in files))
    return f"{shown}{more} of {origins}"


def _partial(cache: Path, sha256: str) -> Path:
    """Where a file is put together, whatever its origin."""
    return cache / ".partial" / sha256
