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
    """Folder of the files of pinned origins: ``<folder>/<origin>/<commit>/<path>``.

    Args:
        folder: the cache.
        user_folder: a folder of the user that holds the files, in any layout; they are copied into the cache.
        base_url: where files are fetched from.
    """

    def __init__(
        self, folder: Path = Path(DEFAULT_CACHE), user_folder: Path | None = None, base_url: str = GITHUB
    ) -> None:
        self.folder = local_path(str(folder), Path()).absolute()
        self.user_folder = user_folder
        self._base_url = base_url

    def root(self, origin: DataOrigin) -> Path:
        """The folder used as root of an origin's repository."""
        return self.folder / origin.name / origin.commit

    def place(self, wanted: OriginPath) -> Path:
        """The path of a file, which may not exist yet."""
        return self.root(wanted.origin) / wanted.path

    def hub_copy(self, name: str) -> Path | None:
        """The copy of a dataset of the Hugging Face hub in the user's folder, as ``DIR/owner/name`` or ``DIR/name``."""
        if self.user_folder is None or ".." in name.split("/"):
            return None
        places = (self.user_folder / name, self.user_folder / name.rpartition("/")[2])
        # `os.path` says no of a name that no folder can have.
        return next((place for place in places if os.path.isdir(place) and any(place.iterdir())), None)

    def missing(self, wanted: Iterable[OriginPath]) -> list[OriginPath]:
        """The files that the cache lacks or holds damaged. Cached files are verified at every call."""
        return [pinned for pinned in dict.fromkeys(wanted, None) if not self._is_here(pinned)]

    def take(self, wanted: Collection[OriginPath]) -> None:
        """Copy files from the user's folder into the cache.

        Raises:
            InputError: the folder lacks some of them, or holds others under their names.
        """
        assert self.user_folder is not None
        if not self.user_folder.is_dir():
            raise InputError(f"--data {self.user_folder}: the folder does not exist.")
        copies = _find(self.user_folder, wanted)
        absent = [pinned for pinned in wanted if pinned not in copies]
        if absent:
            raise InputError(
                f"--data {self.user_folder} does not hold {_names(absent)}. Put it there, as {self.user_folder}/"
                f"{absent[0].origin.name}/{absent[0].path}, or leave out --data to fetch it."
            )
        for pinned, file in copies.items():
            with self._writing(pinned) as place:
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

        def fetch_one(pinned: OriginPath) -> None:
            if stop.is_set():
                failed.append((pinned, ""))
                return
            try:
                self._fetch(pinned, counted)
            except _Stopped:
                failed.append((pinned, ""))
            except (DownloadFailed, _WrongFile) as error:
                failed.append((pinned, str(error)))
                stop.set()

        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(wanted))), thread_name_prefix="fetch") as pool:
            try:
                list(pool.map(fetch_one, wanted))
            except BaseException:
                # Ctrl-C or a full disk: running downloads stop with their next bytes.
                stop.set()
                raise
        if failed:
            first, why = next((pinned, why) for pinned, why in failed if why)
            others = [pinned for pinned, _ in failed if pinned != first]
            url = first.origin.url(first.path, self._base_url)
            raise InputError(
                f"{_names([first, *others])} cannot be fetched ({url}: {why}). "
                "Try again, or name a folder that holds the files with --data DIR."
            )

    def _fetch(self, pinned: OriginPath, advance: Callable[[int], None]) -> None:
        import pooch

        pooch.get_logger().setLevel("ERROR")
        url, file = pinned.origin.url(pinned.path, self._base_url), pinned.file
        lock = _partial(self.folder, file.sha256).with_suffix(".lock")
        with self._writing(pinned) as place, locked(lock, partial(advance, 0)):
            if self._is_here(pinned):
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
                raise _WrongFile("what is there is not the pinned file: its sha256 differs") from error

    @contextmanager
    def _writing(self, pinned: OriginPath) -> Iterator[Path]:
        """The place of a file, to write it there.

        Raises:
            InputError: the cache cannot be written.
        """
        place = self.place(pinned)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            yield place
        except OSError as error:
            if error.errno in (ENOSPC, EDQUOT):
                why = f"no space is left for {pinned.file.bytes:,} bytes"
            else:
                why = error.strerror or str(error)
            raise InputError(
                f"'{pinned.path}' of '{pinned.origin.name}' cannot be written to the data cache {self.folder} ({why}). "
                "Make room, or set GAGE_EVAL_DATA_CACHE to another folder."
            ) from error

    def _is_here(self, pinned: OriginPath) -> bool:
        place = self.place(pinned)
        try:
            return place.stat().st_size == pinned.file.bytes and file_digest(place) == pinned.file.sha256
        except OSError:
            return False


class _WrongFile(Exception):
    """A file is not the pinned one."""


class _Stopped(Exception):
    """The fetch of another file failed."""


def _find(folder: Path, wanted: Collection[OriginPath]) -> dict[OriginPath, Path]:
    """Files of origins in a folder of any layout.

    Raises:
        InputError: a file exists, but has other content.
    """
    copies, elsewhere = {}, []
    for pinned in wanted:
        for place in (folder / pinned.origin.name / pinned.path, folder / pinned.path):
            if place.is_file():
                _check(place, pinned)
                copies[pinned] = place
                break
        else:
            elsewhere.append(pinned)
    return {**copies, **_by_name(folder, elsewhere)}


def _by_name(folder: Path, wanted: Collection[OriginPath]) -> dict[OriginPath, Path]:
    """Files of the same name and content anywhere below the folder."""
    names = {Path(pinned.path).name for pinned in wanted}
    places: dict[str, list[Path]] = {}
    for parent, _, files in os.walk(folder) if names else ():
        for name in names.intersection(files):
            places.setdefault(name, []).append(Path(parent, name))
    copies = {}
    for pinned in wanted:
        same_name = places.get(Path(pinned.path).name, [])
        sized = [place for place in sorted(same_name) if place.stat().st_size == pinned.file.bytes]
        match = next((place for place in sized if file_digest(place) == pinned.file.sha256), None)
        if match is not None:
            copies[pinned] = match
        elif len(same_name) == 1:
            _check(same_name[0], pinned)
    return copies


def _check(place: Path, pinned: OriginPath) -> None:
    try:
        digest = file_digest(place)
    except OSError as error:
        raise InputError(f"--data: '{place}' cannot be read: {error.strerror}.") from error
    if digest != pinned.file.sha256:
        raise InputError(
            f"--data: '{place}' is not '{pinned.path}' of {pinned.origin.repository} at "
            f"{pinned.origin.commit[:_DIGITS]}: its sha256 is {digest[:_DIGITS]}…, not {pinned.file.sha256[:_DIGITS]}…."
        )


def _names(files: Sequence[OriginPath]) -> str:
    shown = ", ".join(f"'{pinned.path}'" for pinned in files[:_SHOWN])
    more = f" and {len(files) - _SHOWN:,} more files" if len(files) > _SHOWN else ""
    origins = ", ".join(dict.fromkeys(pinned.origin.name for pinned in files))
    return f"{shown}{more} of {origins}"


def _partial(cache: Path, sha256: str) -> Path:
    """The path at which a file is assembled; it does not depend on the origin."""
    return cache / ".partial" / sha256
