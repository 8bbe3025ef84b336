"""Groups of shards: processes that serve model sessions one after another, and keep their engine in between.

A process that carries out runs (the holder) starts the shards of a group. The holder's sign of life in the store says
which session they serve now, and whether the group has ended. So one object both gives them work and keeps them alive:

    shards/<id>/holder.json

A single run ends a group with its session. Where several runs follow each other, the group waits for the next one.
"""

import threading
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Protocol

from gage_eval.base.errors import GageError, InputError, StoreError
from gage_eval.models.backends.placement import Placement
from gage_eval.store import Store, local_folder
from gage_eval.store.gc import SHARDS as ROOT
from gage_eval.store.heartbeats import Heartbeat, Watch
from gage_eval.store.objects import safe_name

# Why a group ends that no session needs any more.
NOT_NEEDED = "no later run needs these shards"


class Launched(Protocol):
    """The started shards of one group."""

    def ended(self, number: int) -> str | None:
        """Why a shard does not run any more; None while it may run, or wait for its start."""

    def notice(self) -> str | None:
        """A sentence for the user while shards cannot start; None where nothing is to be said."""

    def close(self) -> None:
        """Stop what still runs or waits; called after the group has ended."""


class GroupFolder:
    """A group's folder in its store.

    Attributes:
        id: the group's name.
        store: the store that holds it.
    """

    def __init__(self, store: Store, id: str) -> None:  # noqa: A002
        self.id = safe_name(id)
        self.store = store
        self._sign = f"{ROOT}/{id}/holder.json"

    @classmethod
    def at(cls, url: str) -> "GroupFolder":
        """The group with this URL.

        Raises:
            InputError: the URL names no group, or the group has ended.
            StoreError: its store cannot be opened.
        """
        store, separator, name = url.rstrip("/").rpartition(f"/{ROOT}/")
        if not separator or not store:
            raise InputError(f"'{url}' does not name a group of shards: it looks like STORE/{ROOT}/ID.")
        folder = cls(Store.open(store), name)
        try:
            folder.store.objects.get(folder._sign)
        except FileNotFoundError as error:
            raise InputError(f"there is no group of shards at {url}: its run has ended.") from error
        return folder

    @property
    def url(self) -> str:
        """The group's URL, for other processes and machines."""
        root = local_folder(self.store.url)
        store = self.store.url.rstrip("/") if root is None else root.as_uri()
        return f"{store}/{ROOT}/{self.id}"

    def holder(self, state: Callable[[], dict[str, Any]]) -> Heartbeat:
        """The holder's sign of life, to be started by the holder."""
        return Heartbeat(self.store.objects, self._sign, state)

    def watch_holder(self) -> Watch:
        """Watches the holder's sign of life."""
        return Watch(self.store.objects, self._sign)

    def remove(self) -> None:
        """Remove the group from the store."""
        self.store.objects.delete(self._sign)


class ShardGroup:
    """The shards of a group, as their holder sees them.

    Args:
        store: holds the group.
        placement: where the shards run, and how many.
        key: what the sessions of the group have in common; None if it serves only one.
        launch: starts the shards, which get the URL of the group.

    Attributes:
        appeared: numbers of the shards that have shown a sign of life.
        lost: numbers of those that show none any more.

    Raises:
        InputError: the shards cannot be started.
        StoreError: the store cannot be written.
    """

    def __init__(self, store: Store, placement: Placement, key: str | None, launch: Callable[[str], Launched]) -> None:
        self.placement = placement
        self.key = key
        self.appeared: set[int] = set()
        self.lost: set[int] = set()
        self._folder = GroupFolder(store, uuid.uuid4().hex)
        self._state: dict[str, str | None] = {"session": None, "base": None, "ended": None}
        self._beat = self._folder.holder(lambda: dict(self._state))
        self._beat.start()
        try:
            self.launched = launch(self._folder.url)
        except BaseException:
            self._beat.stop()
            self._remove()
            raise

    @property
    def is_whole(self) -> bool:
        """Whether no shard has ended or was lost."""
        return not self.lost and all(self.launched.ended(number) is None for number in range(self.placement.shards))

    def serve(self, session: str, base: str | None) -> None:
        """Have a session served.

        Args:
            session: its URL.
            base: the config's folder, for shards on this machine.

        Raises:
            StoreError: the store cannot be written.
        """
        self._state.update(session=session, base=base)
        self._beat.write()

    def rest(self) -> None:
        """Serve no session until the next call of `serve`."""
        self._tell(session=None, base=None)

    def end(self, reason: str) -> None:
        """Tell the shards to stop, and what they serve now. The first reason stays."""
        self._tell(ended=self._state["ended"] or reason)

    def close(self) -> None:
        """Return when the shards have stopped; `end` comes first."""
        try:
            self.launched.close()
        finally:
            self._beat.stop()
        # Garbage collection removes the sign of a group whose shards may still read it.
        if all(self.launched.ended(number) is not None for number in range(self.placement.shards)):
            self._remove()

    def _tell(self, **changes: str | None) -> None:
        self._state.update(changes)
        # The next renewal tells it, too.
        with suppress(StoreError):
            self._beat.write()

    def _remove(self) -> None:
        with suppress(GageError):
            self._folder.remove()


class ShardGroups:
    """Starts groups of shards, hands them to sessions, and stops them. Any thread may use it.

    Args:
        keep_idle: let a group with a key wait for its next session, until `keep` or `close`.
    """

    def __init__(self, *, keep_idle: bool = False) -> None:
        self._keep_idle = keep_idle
        self._idle: list[ShardGroup] = []
        # They were told to stop.
        self._ending: list[ShardGroup] = []
        self._lock = threading.Lock()

    def take(self, key: str | None, placement: Placement, start: Callable[[], ShardGroup]) -> ShardGroup:
        """An idle group with this key and all its shards; else a new one.

        Before a new one starts, those that wait on its work pool end, unless both say how many GPUs they need: then
        their shards hold only those, and others are free or `make_room` is called.
        Every call needs a `give_back`.

        Raises:
            InputError, StoreError: the shards cannot be started.
        """
        with self._lock:
            found = next((one for one in self._idle if key is not None and one.key == key and one.is_whole), None)
            self._idle = [one for one in self._idle if one is not found]
        if found is None:
            # One with the same key has lost shards.
            self._end(lambda one: one.key == key or _may_clash(one.placement, placement))
            self._close_ending()
        return found or start()

    def give_back(self, group: ShardGroup) -> None:
        """A session does not need its group any more."""
        if self.keeps(group):
            group.rest()
            with self._lock:
                self._idle.append(group)
        else:
            group.end(NOT_NEEDED)
            group.close()

    def make_room(self, placement: Placement) -> None:
        """Tell the groups that wait on a work pool to stop, because others wait for their GPUs."""
        self._end(lambda one: one.placement.work_pool == placement.work_pool)

    def keeps(self, group: ShardGroup) -> bool:
        """Whether a group will wait for another session."""
        return self._keep_idle and group.key is not None and group.is_whole

    def keep(self, keys: Collection[str]) -> None:
        """Stop the groups that wait and whose keys are not among these."""
        self._end(lambda one: one.key not in keys)
        self._close_ending()

    def close(self) -> None:
        """Stop all groups that wait."""
        self.keep(())

    def _end(self, concerns: Callable[[ShardGroup], bool]) -> None:
        """Tell some of the groups that wait to stop."""
        with self._lock:
            gone = [one for one in self._idle if concerns(one)]
            self._idle = [one for one in self._idle if one not in gone]
            self._ending += gone
        for group in gone:
            group.end(NOT_NEEDED)

    def _close_ending(self) -> None:
        """Return when the groups that were told to stop have done so."""
        with self._lock:
            gone, self._ending = self._ending, []
        for group in gone:
            group.close()


def _may_clash(one: Placement, other: Placement) -> bool:
    """Whether shards of both may need the same GPUs, and none would wait for them."""
    return one.work_pool == other.work_pool and not (one.gpus and other.gpus)
