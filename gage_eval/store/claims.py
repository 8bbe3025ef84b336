"""Claims on chunks: which of several processes works on which. Claims avoid double work; no result depends on them.

A process never waits for a claim. Locally it is a `flock`, which the kernel releases when its holder ends; on S3 it is
a lease that is renewed. Claims are stored with the action's unfinished work and removed with it.
"""

import os
from errno import ENOLCK, EOPNOTSUPP
from typing import Protocol

from gage_eval.store.locks import LEASE_S, Lease
from gage_eval.store.objects import Objects, explain_os_errors, in_folder, refuse_write, safe_name


class Claims(Protocol):
    """The claims of one process on the chunks of an action."""

    def take(self, name: str) -> bool:
        """Claim a chunk. False: another process has it."""
        ...

    def was_held(self, name: str) -> bool:
        """Whether another process had held a claim before this one took it, and may have logged answers for it."""
        ...

    def release(self, name: str) -> None:
        """Give a claim back; does nothing when it is not held."""
        ...

    def close(self) -> None:
        """Give all back."""
        ...


def open_claims(objects: Objects, key: str, *, lease_s: float = LEASE_S) -> Claims:
    """Open this process's claims on the chunks of an action; the caller closes them."""
    if objects.read_only:
        raise refuse_write(objects.url)
    folder = f"wip/{safe_name(key)}/claims"
    return _Leases(objects, folder, lease_s) if objects.local_root is None else _Flocks(objects, folder)


class _Flocks:
    def __init__(self, objects: Objects, folder: str) -> None:
        assert objects.local_root is not None
        self._folder = objects.local_root / folder
        self._url = objects.url
        self._held: dict[str, int] = {}
        self._found: set[str] = set()

    def take(self, name: str) -> bool:
        import fcntl

        if name in self._held:
            return True
        path = self._folder / f"{safe_name(name)}.lock"
        with explain_os_errors(self._url, f"claims/{path.name}"):
            if path.exists():
                self._found.add(name)
            # Another process may just remove the folder, because the action is committed.
            file = in_folder(self._folder, lambda: os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except OSError as error:
            # A file system without locks (some network mounts): work may be done twice, with no other harm.
            if error.errno not in (ENOLCK, EOPNOTSUPP):
                os.close(file)
                raise
        self._held[name] = file
        return True

    def was_held(self, name: str) -> bool:
        return name in self._found

    def release(self, name: str) -> None:
        file = self._held.pop(name, None)
        if file is not None:
            os.close(file)

    def close(self) -> None:
        for name in list(self._held):
            self.release(name)


class _Leases:
    def __init__(self, objects: Objects, folder: str, lease_s: float) -> None:
        self._objects = objects
        self._folder = folder
        self._lease_s = lease_s
        self._known: dict[str, Lease] = {}
        self._held: set[str] = set()

    def take(self, name: str) -> bool:
        if name in self._held:
            return True
        # Kept between tries: a lease is taken over when it has not changed for its lifetime.
        lease = self._known.get(name) or Lease(self._objects, f"{self._folder}/{safe_name(name)}.json", self._lease_s)
        self._known[name] = lease
        if not lease.take():
            return False
        self._held.add(name)
        return True

    def was_held(self, name: str) -> bool:
        return name in self._known and self._known[name].was_held

    def release(self, name: str) -> None:
        if name in self._held:
            self._held.discard(name)
            self._known.pop(name).give_back()

    def close(self) -> None:
        for name in list(self._held):
            self.release(name)


class NoClaims:
    """Every claim is granted: work may be done twice."""

    def take(self, name: str) -> bool:
        """Always."""
        return True

    def was_held(self, name: str) -> bool:
        """Without claims, this is not known."""
        return False

    def release(self, name: str) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is held."""
