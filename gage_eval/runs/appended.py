"""Files that grow line by line: on a disk they are appended; on S3 a local copy is uploaded regularly."""

import logging
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

from gage_eval.base.errors import GageError
from gage_eval.store import Objects
from gage_eval.store.objects import read_if_there

# How often a file that grew is uploaded to S3. A large file is uploaded less often: S3 cannot append, so each upload is
# the whole file, and uploads take at most a tenth of the time.
UPLOAD_EVERY_S = 10.0
_SHARE = 0.1

_log = logging.getLogger(__name__)


class LocalFile:
    """A file on a disk. Takes whole lines from one thread.

    If lines cannot be written, one warning is logged, and the run continues.

    Args:
        path: the file; it is created with the first line, and its folder too.
        shown: its path or URL for users; by default the path.
    """

    def __init__(self, path: Path, shown: str | None = None) -> None:
        self._path = path
        self._shown = shown or str(path)
        self._file: int | None = None
        self._warned = False

    def append(self, lines: bytes) -> None:
        """Append whole lines."""
        if not lines:
            return
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            left = memoryview(lines)
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            self._warn(error.strerror or str(error))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _warn(self, why: str) -> None:
        if not self._warned:
            _log.warning("%s: lines are missing from here on (%s).", self._shown, why.rstrip("."))
        self._warned = True


class UploadedFile(LocalFile):
    """A file on S3. Lines go to a local copy, which a separate thread uploads, after the lines that are there already.

    Args:
        objects: the objects of the runs root.
        path: the file's path in it.
    """

    def __init__(self, objects: Objects, path: str) -> None:
        spool = Path(tempfile.mkdtemp(prefix="gage-eval-events-"))
        super().__init__(spool / Path(path).name, f"{objects.url.rstrip('/')}/{path}")
        self._objects = objects
        self._name = path
        # The lines that the file had before; None until they could be read.
        self._before: bytes | None = None
        self._uploading: threading.Thread | None = None
        self._due_at = 0.0
        # Whether lines are here that were not uploaded, and why the last upload failed.
        self._grown = False
        self._failed: Exception | None = None

    def append(self, lines: bytes) -> None:
        """Append whole lines to the copy, and upload it when that is due. Call it also without lines."""
        super().append(lines)
        self._grown = self._grown or bool(lines)
        if self._grown and self._uploading is None and time.monotonic() >= self._due_at:
            self._uploading = threading.Thread(target=self._upload, name="gage-eval-upload", daemon=True)
            self._uploading.start()

    def close(self) -> None:
        """Upload the file and remove the copy. If that fails, the copy stays, and a warning says where."""
        super().close()
        if (running := self._uploading) is not None:
            running.join()
        if self._grown:
            self._upload()
        if self._failed is None:
            shutil.rmtree(self._path.parent, ignore_errors=True)
        else:
            _log.warning("the lines of %s are only in %s: %s", self._shown, self._path, self._failed)

    def _upload(self) -> None:
        began = time.monotonic()
        self._grown = False
        try:
            if self._before is None:
                # Without them nothing is uploaded, because an upload replaces the file.
                self._before = read_if_there(self._objects, self._name) or b""
            own = self._path.read_bytes() if self._path.exists() else b""
            self._objects.replace(self._name, self._before + own)
            self._failed = None
        except (GageError, OSError) as error:
            self._failed = error
            self._grown = True
        now = time.monotonic()
        self._due_at = now + max(UPLOAD_EVERY_S, (now - began) / _SHARE)
        self._uploading = None
