"""Downloads of files whose size is known: resumed where they were cut off, and retried."""

import re
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

ATTEMPTS = 4
CONNECT_S = 10.0
READ_S = 60.0
_PIECE = 64 * 1024
_CONNECTION = re.compile(r"^(<.*?>|HTTPS?Connection(Pool)?\(.*?\)): ")
_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
# What a server may still have to say after its answer to a request for the rest of a file.
_NO_REST = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE


class DownloadFailed(Exception):
    """A file could not be fetched. The message says why, without a full stop.

    Attributes:
        offline: whether no server answered at all.
    """

    def __init__(self, why: str, *, offline: bool = False) -> None:
        super().__init__(why)
        self.offline = offline


def download(url: str, part: Path, size: int, advance: Callable[[int], None], *, pause_s: float = 1.0) -> None:
    """Fetch a file into ``part``. A partial download is continued.

    Args:
        url: the address; redirects are followed.
        part: what was fetched so far, if anything.
        size: of the whole file, in bytes.
        advance: called with the bytes that are there, once for those of an earlier attempt; negative when they are
            dropped.
        pause_s: before the second attempt; it doubles from attempt to attempt.

    Raises:
        DownloadFailed: no server answers, it refuses, it has no such file, or it breaks off again and again.
        OSError: ``part`` cannot be written, as on a full disk.
    """
    import requests
    from urllib3.exceptions import HTTPError

    advance(_size(part))
    failure = DownloadFailed("nothing was fetched")
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(pause_s * 2 ** (attempt - 1))
        try:
            with requests.get(
                url,
                # Packed on the way, a part of a file could not be continued.
                headers={"Accept-Encoding": "identity", "User-Agent": "gage-eval", **_range(_size(part))},
                stream=True,
                timeout=(CONNECT_S, READ_S),
            ) as response:
                _save(response, part, size, advance)
            return
        except DownloadFailed as error:
            raise error
        except requests.exceptions.ConnectionError as error:
            failure = DownloadFailed(_reason(error), offline=failure.offline or _size(part) == 0)
        except (requests.exceptions.Timeout, HTTPError) as error:
            # An error of urllib3 itself: the connection broke while the file came.
            failure = DownloadFailed(_reason(error))
        except _TryAgain as error:
            failure = DownloadFailed(str(error))
        except requests.exceptions.RequestException as error:
            raise DownloadFailed(_reason(error)) from error
    raise failure


class _TryAgain(Exception):
    """An answer after which another attempt may succeed."""


def _save(response: Any, part: Path, size: int, advance: Callable[[int], None]) -> None:
    status = response.status_code
    if status == _NO_REST:
        _drop(part, advance)
        raise _TryAgain("the server does not continue the file")
    if status >= HTTPStatus.BAD_REQUEST:
        why = f"HTTP {status} {response.reason or ''}".rstrip()
        raise _TryAgain(why) if status in _RETRIED else DownloadFailed(why)
    if status != HTTPStatus.PARTIAL_CONTENT:
        _drop(part, advance)
    with part.open("ab") as file:
        # Piece by piece as they come: `iter_content` waits for a full one, and drops it when the connection breaks.
        while piece := response.raw.read1(_PIECE, decode_content=True):
            file.write(piece)
            advance(len(piece))
            if file.tell() > size:
                raise DownloadFailed(f"the file there is longer than {size:,} bytes")
    if _size(part) < size:
        raise _TryAgain(f"the connection was closed after {_size(part):,} of {size:,} bytes")


def _range(start: int) -> dict[str, str]:
    return {"Range": f"bytes={start}-"} if start else {}


def _drop(part: Path, advance: Callable[[int], None]) -> None:
    advance(-_size(part))
    part.unlink(missing_ok=True)


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except FileNotFoundError:
        return 0


def _reason(error: Exception) -> str:
    """The innermost reason of an error of the HTTP library, whose own text repeats addresses and classes."""
    inner: BaseException = error
    while inner.args and isinstance(inner.args[0], BaseException):
        inner = inner.args[0]
    said = " ".join(str(getattr(inner, "reason", None) or inner).split())
    # urllib3 puts the connection before the words: "HTTPSConnection(host='…', port=443): Failed to …".
    return (_CONNECTION.sub("", said) or type(error).__name__).rstrip(".")
