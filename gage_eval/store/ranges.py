"""An object as a file that is read by ranges, so that some columns of a part come from S3 without the others."""

import io

from gage_eval.store.objects import Objects


class RangedFile(io.RawIOBase):
    """An object as a file; every read asks the store for just these bytes.

    Args:
        objects: of the store.
        path: of the object.
        size: its size in bytes, as it was committed.
    """

    def __init__(self, objects: Objects, path: str, size: int) -> None:
        self._objects, self._path, self._size = objects, path, size
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes.

        Raises:
            OSError: the object is shorter than it was when it was committed.
        """
        stop = self._size if size is None or size < 0 else min(self._place + size, self._size)
        if stop <= self._place:
            return b""
        data = self._objects.get_range(self._path, self._place, stop)
        if len(data) != stop - self._place:
            raise OSError(f"it ends before byte {stop}")
        self._place = stop
        return data
