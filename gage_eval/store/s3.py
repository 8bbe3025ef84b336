"""Objects in an S3 bucket, or in a server that speaks the S3 protocol with conditional writes.

Credentials, region and endpoint come from the environment and the usual AWS files (``AWS_ACCESS_KEY_ID``,
``AWS_PROFILE``, ``AWS_ENDPOINT_URL`` …), never from the store's URL, which is written into records.
"""

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from gage_eval.base import interrupts
from gage_eval.base.errors import InputError, StoreError
from gage_eval.store.objects import ObjectInfo, is_plain, refuse_write, safe_path

T = TypeVar("T")

_log = logging.getLogger(__name__)

# botocore tries this often, with its own pauses, then s3fs does, then we do: the first so many times in any case, later
# while the store has patience.
_CLIENT_ATTEMPTS = 2
_ATTEMPTS = 5
_LONGEST_PAUSE_S = 5.0
_CONNECT_S = 10.0
_READ_S = 60.0
# For so many seconds a store that has answered before is waited for.
PATIENCE = "GAGE_EVAL_STORE_PATIENCE"
_PATIENCE_S = 300.0
# After this time without an answer, a warning says that the store is waited for.
_TELL_AFTER_S = 10.0
# An object younger than this needs no renewal: no sensible garbage collection removes hour-old objects.
_YOUNG_S = 3_600.0
_PROBE = "probe"
_PROBE_TEXT = b"If-None-Match and If-Match are honoured here.\n"
_LOST = frozenset({"PreconditionFailed", "412"})
_GONE = frozenset({"NoSuchKey", "404"})
# 409: another conditional write of the same object is in progress; the retry shows the outcome.
_BUSY = frozenset({"ConditionalRequestConflict", "OperationAborted", "SlowDown", "RequestTimeout", "409", "429"})


def bucket_of(url: str) -> tuple[str, str]:
    """The bucket and the prefix of an ``s3://`` URL.

    Raises:
        InputError: it names no bucket, or carries credentials.
    """
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    if "@" in bucket or ":" in bucket:
        raise InputError(
            "a store URL must not carry credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "and write s3://bucket/prefix."
        )
    if not bucket:
        raise InputError(f"'{url}' names no bucket: write s3://bucket/prefix.")
    return bucket, prefix


class S3Objects:
    """Objects below ``s3://bucket/prefix``."""

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        """Connect. `probe` checks the store.

        Raises:
            InputError: the URL names no bucket or has credentials, or the variable `PATIENCE` is not a time.
        """
        self.url = url
        self.read_only = read_only
        self._patience_s = patience_s()
        self._has_answered = False
        self._stop_waiting = threading.Event()
        self._warned = False
        self._bucket, prefix = bucket_of(url)
        prefix = prefix.strip("/")
        self._prefix = safe_path(prefix) + "/" if prefix else ""

        import s3fs

        self._fs = s3fs.S3FileSystem(
            skip_instance_cache=True,
            use_listings_cache=False,
            config_kwargs={
                "retries": {"mode": "standard", "max_attempts": _CLIENT_ATTEMPTS},
                "connect_timeout": _CONNECT_S,
                "read_timeout": _READ_S,
            },
        )

    @property
    def local_root(self) -> None:
        return None

    def stop_waiting(self) -> None:
        """Stop waiting for a store that does not answer, because its user ends."""
        self._stop_waiting.set()

    def probe(self) -> None:
        """Check that conditional writes work: the store depends on them.

        Raises:
            StoreError: the bucket cannot be reached, or its server overwrites where it must refuse.
        """
        if self.read_only:
            next(self.list(), None)
            return
        # The first process to open the store creates the probe; from then on both writes must be refused.
        honoured = not self.create(_PROBE, _PROBE_TEXT) or not self.create(_PROBE, _PROBE_TEXT)
        if not honoured or self._put(_PROBE, _PROBE_TEXT, IfMatch='"0123456789abcdef0123456789abcdef"'):
            raise StoreError(
                f"the server of {self.url} ignores If-None-Match or If-Match, so two runs could overwrite "
                "each other: use a server with conditional writes (AWS S3, MinIO, Ceph, R2) or a local store."
            )

    def get(self, path: str) -> bytes:
        # One GET: with more than one connection s3fs first asks for the size.
        data: bytes = self._call(path, lambda: self._fs.cat_file(self._address(path), max_concurrency=1))
        return data

    def link(self, path: str, media_type: str, seconds: int) -> str:
        """A URL at which anybody who has it can read one object for so long. Nothing is sent to make it.

        Args:
            path: of the object.
            media_type: which type the server is to say.
            seconds: from now.
        """
        typed = {"ResponseContentType": media_type}
        url: str = self._call(path, lambda: self._fs.sign(self._address(path), expiration=seconds, **typed))
        return url

    def get_range(self, path: str, start: int, stop: int) -> bytes:
        address = self._address(path)
        data: bytes = self._call(path, lambda: self._fs.cat_file(address, start=start, end=stop, max_concurrency=1))
        return data

    def exists(self, path: str) -> bool:
        return self._head(path) is not None

    def info(self, path: str) -> ObjectInfo | None:
        head = self._head(path)
        return None if head is None else ObjectInfo(path, int(head["ContentLength"]), head["LastModified"].timestamp())

    def renew(self, path: str) -> bool:
        self._writable()
        info = self.info(path)
        if info is None or info.mtime > time.time() - _YOUNG_S:
            return info is not None
        # On S3 only a copy onto itself makes an object younger.
        source = {"Bucket": self._bucket, "Key": self._key(path)}
        request = {**source, "CopySource": source, "MetadataDirective": "REPLACE"}
        try:
            self._call(path, lambda: self._fs.call_s3("copy_object", **request))
        except FileNotFoundError:
            return False
        return True

    def create(self, path: str, data: bytes | bytearray) -> bool:
        return self._put(path, data, IfNoneMatch="*")

    def create_file(self, path: str, local: Path) -> bool:
        self._writable()
        if self.exists(path):
            return False
        return self._conditional(path, lambda: self._fs.put_file(str(local), self._address(path), mode="create"))

    def swap(self, path: str, data: bytes, *, expected: bytes | None) -> bool:
        self._writable()
        if expected is None:
            return self.create(path, data) or self._find(path) == data
        while True:
            head = self._head(path)
            if head is None or self._find(path) != expected:
                return False
            # Still refused: another write came between, or our first try succeeded and its answer was lost.
            if self._put(path, data, IfMatch=str(head["ETag"])) or self._find(path) == data:
                return True

    def replace(self, path: str, data: bytes, *, private: bool = False) -> None:
        self._put(path, data)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        below = self._prefix + (safe_path(prefix) + "/" if prefix else "")
        token: dict[str, str] = {}
        while True:
            request = {"Bucket": self._bucket, "Prefix": below, **token}
            page = self._call(prefix, partial(self._fs.call_s3, "list_objects_v2", **request))
            for item in page.get("Contents", ()):
                path = item["Key"].removeprefix(self._prefix)
                if path != _PROBE and not path.startswith("locks/") and is_plain(path):
                    yield ObjectInfo(path, int(item["Size"]), item["LastModified"].timestamp())
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def leftovers(self) -> Iterator[ObjectInfo]:
        """None: an interrupted upload creates no object (lifecycle rules of the bucket remove its parts)."""
        return iter(())

    def delete(self, path: str) -> None:
        self._writable()
        self._call(path, lambda: self._fs.call_s3("delete_object", Bucket=self._bucket, Key=self._key(path)))

    def _find(self, path: str) -> bytes | None:
        try:
            return self.get(path)
        except FileNotFoundError:
            return None

    def _key(self, path: str) -> str:
        return self._prefix + safe_path(path)

    def _address(self, path: str) -> str:
        return f"{self._bucket}/{self._key(path)}"

    def _writable(self) -> None:
        if self.read_only:
            raise refuse_write(self.url)

    def _head(self, path: str) -> Mapping[str, Any] | None:
        try:
            head: Mapping[str, Any] = self._call(
                path, lambda: self._fs.call_s3("head_object", Bucket=self._bucket, Key=self._key(path))
            )
        except FileNotFoundError:
            return None
        return head

    def _put(self, path: str, data: bytes | bytearray, **condition: str) -> bool:
        self._writable()
        request = {"Bucket": self._bucket, "Key": self._key(path), "Body": data, **condition}
        return self._conditional(path, lambda: self._fs.call_s3("put_object", **request))

    def _conditional(self, path: str, write: Callable[[], Any]) -> bool:
        """Whether a conditional write succeeded. After a retry it may be False because our own first try succeeded."""
        try:
            self._call(path, write)
        except _Refused:
            return False
        return True

    def _call(self, path: str, work: Callable[[], T]) -> T:
        """Do the work. Retry while the server or the network fails: for long if the store has answered before.

        Raises:
            _Refused, FileNotFoundError: the server's answer.
            StoreError: a retry cannot help, or the outage took too long.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        began = time.monotonic()
        for attempt in count():
            try:
                done = work()
            except (OSError, BotoCoreError, ClientError) as error:
                self._raise_answer(path, error)
                outage_s = time.monotonic() - began
                if not self._is_worth_a_retry(error, attempt, outage_s):
                    where = f" at '{path}'" if path else ""
                    raise StoreError(
                        f"store {self.url} failed{where}: {_reason(error)[2]}; check the bucket, AWS_ENDPOINT_URL "
                        "and the credentials in the environment."
                    ) from error
                self._warn_of_outage(error, outage_s)
                pause = min(0.2 * 2**attempt, _LONGEST_PAUSE_S) * random.uniform(0.5, 1.0)  # noqa: S311
                self._stop_waiting.wait(pause)
            else:
                self._answered()
                return done
        raise AssertionError("the attempts have no end")

    def _raise_answer(self, path: str, error: Exception) -> None:
        """Raise what a refusal of the server means."""
        code, status, _ = _reason(error)
        if code in _LOST or status == 412 or isinstance(error, FileExistsError):
            self._answered()
            raise _Refused from error
        if code == "NoSuchBucket":
            raise StoreError(f"store {self.url}: bucket '{self._bucket}' does not exist; create it first.") from error
        if code in _GONE or status == 404 or isinstance(error, FileNotFoundError):
            self._answered()
            raise FileNotFoundError(path) from error

    def _is_worth_a_retry(self, error: Exception, attempt: int, outage_s: float) -> bool:
        code, status, _ = _reason(error)
        if status is not None and status < 500 and code not in _BUSY and status not in (409, 429):
            return False
        if _is_setup(error) or (_is_unreachable(error) and not self._has_answered):
            return False
        if attempt < _ATTEMPTS - 1 and not _is_unreachable(error):
            return True
        stops = self._stop_waiting.is_set() or interrupts.received() is not None
        return self._has_answered and not stops and outage_s < self._patience_s

    def _warn_of_outage(self, error: Exception, outage_s: float) -> None:
        if outage_s >= _TELL_AFTER_S and not self._warned:
            self._warned = True
            _log.warning(
                "store %s does not answer (%s). The run waits up to %.0f s for it.",
                self.url, _reason(error)[2], self._patience_s,
            )  # fmt: skip

    def _answered(self) -> None:
        self._has_answered = True
        if self._warned:
            self._warned = False
            _log.warning("store %s answers again.", self.url)


def patience_s() -> float:
    """Seconds to wait for a store that does not answer.

    Raises:
        InputError: the variable is not a time.
    """
    text = os.environ.get(PATIENCE, "")
    try:
        seconds = float(text) if text else _PATIENCE_S
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InputError(f"{PATIENCE}: '{text}' is not a number of seconds, such as 300.")
    return seconds


class _Refused(Exception):
    """A conditional write found other content in place."""


def _is_setup(error: Exception) -> bool:
    """Whether no retry can help: no credentials, or a wrong argument."""
    from botocore import exceptions

    kinds = (exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.ParamValidationError)
    return isinstance(error, kinds)


def _is_unreachable(error: Exception) -> bool:
    """Whether the server or its host cannot be reached: an outage, or a wrong address."""
    from botocore.exceptions import EndpointConnectionError

    return isinstance(error, EndpointConnectionError)


def _reason(error: BaseException) -> tuple[str, int | None, str]:
    """(error code, HTTP status, text) of an error of botocore or s3fs."""
    source: BaseException | None = error
    while source is not None and not hasattr(source, "response"):
        source = source.__cause__
    response = getattr(source, "response", None)
    if not isinstance(response, dict):
        return "", None, str(error) or type(error).__name__
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    details = response.get("Error", {})
    return str(details.get("Code", "")), status, str(details.get("Message") or error)
