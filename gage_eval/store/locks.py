"""Locks that avoid double work. No result depends on them: without locks the same artifacts come out.

Locally a lock is a `flock`, which the kernel releases when its holder ends for any reason. Lock files stay, because
deleting one could let two holders in. On S3 a lock is a lease: an object that its holder rewrites every few seconds.
A waiting process takes over a lease that has not changed for its lifetime, so no clocks are compared.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gage_eval.base.canonical import canonical_json
from gage_eval.base.errors import StoreError
from gage_eval.base.files import locked
from gage_eval.base.periodic import Periodic
from gage_eval.store.objects import Objects, explain_os_errors, read_if_there, refuse_write, safe_name

LEASE_S = 30.0
_FREE = b'{"free":true}'


@contextmanager
def hold_lock(
    objects: Objects, key: str, *, check: Callable[[], None] | None = None, lease_s: float = LEASE_S
) -> Iterator[None]:
    """Hold the lock of a key; waits while another holds it.

    Args:
        check: called again and again while it waits. If it raises, the wait ends.
        lease_s: lifetime of a lease on S3; it is renewed three times as often.
    """
    if objects.read_only:
        raise refuse_write(objects.url)
    root = objects.local_root
    if root is not None:
        with _flock(root / "locks" / f"{safe_name(key)}.lock", objects.url, check):
            yield
    else:
        with _lease(Lease(objects, f"locks/{safe_name(key)}.json", lease_s), lease_s / 20, check):
            yield


@contextmanager
def _flock(file: Path, url: str, check: Callable[[], None] | None) -> Iterator[None]:
    with ExitStack() as held:
        with explain_os_errors(url, f"locks/{file.name}"):
            held.enter_context(locked(file, check))
        yield


@contextmanager
def _lease(lease: "Lease", retry_s: float, check: Callable[[], None] | None) -> Iterator[None]:
    while not lease.take():
        if check is not None:
            check()
        time.sleep(retry_s)
    try:
        yield
    finally:
        lease.give_back()


class Lease:
    """A lock object that is rewritten while it is held and released at the end.

    Call `take` repeatedly, and `give_back`.
    """

    def __init__(self, objects: Objects, path: str, lease_s: float) -> None:
        self._objects = objects
        self._path = path
        self._lease_s = lease_s
        self._holder = uuid.uuid4().hex
        self._count = 0
        self._mine = b""
        self._seen, self._since = b"", time.monotonic()
        self._renewing = Periodic(self._renew, lease_s / 3, name="gage-eval-lease")

    def take(self) -> bool:
        """Hold it from now on; False while another process holds it."""
        if self._acquire(self._seen if time.monotonic() - self._since >= self._lease_s else None):
            self._renewing.start()
            return True
        current = self._current()
        if current != self._seen:
            self._seen, self._since = current, time.monotonic()
        return False

    def give_back(self) -> None:
        """Release it. If the store does not answer, it expires."""
        self._renewing.stop()
        # Refused when the lease was taken over: then another holder releases it. The end of a run that fails because
        # of its store has that error to tell.
        with suppress(StoreError):
            self._objects.swap(self._path, _FREE, expected=self._mine)

    def _acquire(self, expired: bytes | None) -> bool:
        """Take a lease without a holder: a missing one, a free one, or ``expired``."""
        mine = self._next()
        for expected in [None, _FREE] if expired is None else [None, _FREE, expired]:
            if self._objects.swap(self._path, mine, expected=expected):
                self._mine = mine
                return True
        return False

    def _next(self) -> bytes:
        self._count += 1
        return canonical_json({"holder": self._holder, "renewal": self._count, "lease_s": self._lease_s})

    def _current(self) -> bytes:
        return read_if_there(self._objects, self._path) or b""

    def _renew(self) -> None:
        renewed = self._next()
        try:
            kept = self._objects.swap(self._path, renewed, expected=self._mine)
        except StoreError:
            return  # the store cannot be reached: the work itself reports that
        if kept:
            self._mine = renewed
        else:
            self._renewing.stop()
