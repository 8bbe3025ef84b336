"""Files that grow line by line: on a disk they are appended; on S3 a local copy is uploaded regularly."""

import logging
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

from gage_eval.errors import GageError
from gage_eval.store import Objects

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
        """Append whole lines in one write."""
        if not lines:
            return
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.write(self._file, lines)
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
    """A file on S3. Lines go to a local copy, which is uploaded in a separate thread.

    Args:
        objects: the objects of the runs root.
        path: the file's path in it. Lines that it has already stay.
    """

    def __init__(self, objects: Objects, path: str) -> None:
        spool = Path(tempfile.mkdtemp(prefix="gage-eval-events-"))
        super().__init__(spool / Path(path).name, f"{objects.url.rstrip('/')}/{path}")
        self._objects = objects
        self._name = path
        self._uploading: threading.Thread | None = None
        self._due_at = 0.0
        self._grown = False
        # Why the last upload failed; None if it did not.
        self._failed: Exception | None = None

    def append(self, lines: bytes) -> None:
        """Append whole lines to the copy, and upload it when that is due. Call it also without lines."""
        if lines and not self._path.exists():
            self._fetch()
        super().append(lines)
        self._grown = self._grown or bool(lines)
        if self._grown and self._uploading is None and time.monotonic() >= self._due_at:
            self._grown = False
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

    def _fetch(self) -> None:
        try:
            self._path.write_bytes(self._objects.get(self._name))
        except FileNotFoundError:
            self._path.touch()
        except (GageError, OSError) as error:
            self._warn(str(error))

    def _upload(self) -> None:
        began = time.monotonic()
        try:
            self._objects.replace(self._name, self._path.read_bytes())
            self._failed = None
        except (GageError, OSError) as error:
            self._failed = error
        now = time.monotonic()
        self._due_at = now + max(UPLOAD_EVERY_S, (now - began) / _SHARE)
        self._uploading = None
