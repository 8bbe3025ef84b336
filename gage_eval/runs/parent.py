"""The parent of a model session: creates it, has shards serve it, waits for the chunks, ends it."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gage_eval.base.errors import BudgetSpent, EndpointFailed, GageError, RunCancelled, StoreError
from gage_eval.engine.job import missing_chunks
from gage_eval.engine.session import ANSWERED, ModelSession, SessionFolder, SessionStep
from gage_eval.engine.shard_groups import ShardGroup, ShardGroups
from gage_eval.report.timings import Spent
from gage_eval.store import Store
from gage_eval.store.heartbeats import Watch

_LOOK_EVERY_S = 1.0
# The store is listed less often where that takes a request.
_LIST_EVERY_S = 3.0
# Shards tell how they ended within this time.
_END_S = 15.0
# Shards that do not start for so long may wait for the GPUs of others.
_STARTED_S = 60.0


@dataclass
class ParentStep:
    """A step of a session and its progress.

    Attributes:
        step: the step.
        parts: (part index, number of asks) in order.
        progress: called with (done, total, figures).
    """

    step: SessionStep
    parts: Sequence[tuple[int, int]]
    progress: Callable[..., None]

    @property
    def total(self) -> int:
        """Number of asks."""
        return sum(asks for _, asks in self.parts)


class Parent:
    """Has one session served.

    Args:
        store: the store.
        session: what to serve.
        steps: the session's steps.
        groups: has the shards.
        take: takes the group of shards that will serve the session.
        base: the config's folder, for shards on this machine.
        files: files that the session brings, by path.
        check: raises when the run is cancelled.
        warn: called with sentences for the user.
    """

    def __init__(
        self,
        store: Store,
        session: ModelSession,
        steps: Sequence[ParentStep],
        groups: ShardGroups,
        take: Callable[[], ShardGroup],
        base: str | None,
        files: dict[str, bytes],
        *,
        check: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._store = store
        self._session = session
        self._steps = steps
        self._groups = groups
        self._take = take
        self._base = base
        self._files = files
        self._check = check
        self._warn = warn
        self._open = list(steps)
        self._listed = 0.0
        self._committed: dict[str, int] = {}
        self._noticed: str | None = None
        self._shards: list[_Shard] = []

    @property
    def spent(self) -> Spent:
        """What the shards' requests and engines took, as their last signs of life say."""
        return sum((shard.spent for shard in self._shards), Spent())

    def run(self) -> EndpointFailed | BudgetSpent | None:
        """Wait until every chunk is answered. Returns why that did not happen, None if it did.

        Raises:
            RunCancelled: the run or the session was cancelled.
            GageError: the shards cannot be started.
        """
        place = SessionFolder.create(self._store, self._session, self._files)
        try:
            group = self._take()
        except BaseException:
            _remove(place, ())
            raise
        shards = self._shards
        shards += [_Shard(number, place.watch_shard(number), group) for number in range(self._session.workers)]
        reason = "the run failed"
        try:
            group.serve(place.url, self._base)
            error = self._wait(place, group, shards)
            reason = ANSWERED if error is None else str(error)
            return error
        except RunCancelled as cancelled:
            reason = str(cancelled)
            raise
        finally:
            self._end(place, reason, group, shards)
            _remove(place, shards)

    def _wait(
        self, place: SessionFolder, group: ShardGroup, shards: "list[_Shard]"
    ) -> EndpointFailed | BudgetSpent | None:
        while True:
            self._check()
            with suppress(StoreError):  # the next look asks again
                ended = place.ended()
                if ended is not None:
                    raise RunCancelled(f"the model session was ended: {ended}")
            for shard in shards:
                shard.look()
            over = all(shard.is_over for shard in shards)
            self._look_for_chunks(shards, at_once=over)
            if not self._open:
                return None
            if over:
                return _why(shards)
            self._notice(group)
            if any(shard.needs_room for shard in shards):
                self._groups.make_room(group.placement)
            time.sleep(_LOOK_EVERY_S)

    def _look_for_chunks(self, shards: "Sequence[_Shard]", *, at_once: bool) -> None:
        """Find out which steps are answered, and report the progress of the others."""
        now = time.monotonic()
        remote = self._store.objects.local_root is None
        if at_once or not remote or now - self._listed >= _LIST_EVERY_S or any(shard.is_over for shard in shards):
            self._listed = now
            for step in list(self._open):
                wip = self._store.wip(step.step.work_key)
                session = self._session
                missing = missing_chunks(step.parts, session.workers, wip, session.attempt)
                left = sum(chunk.stop - chunk.start for chunk in missing)
                self._committed[step.step.work_key] = step.total - left
                if not missing or self._is_committed(step.step):
                    self._open.remove(step)
        for index, step in enumerate(self._steps):
            figures = [shard.steps[index] for shard in shards if index < len(shard.steps)]
            done, in_flight, _, retried = (sum(column) for column in zip((0, 0, 0, 0), *figures, strict=True))
            done = min(step.total, max(done, self._committed.get(step.step.work_key, 0)))
            step.progress(done, step.total, in_flight=in_flight, retried=retried)

    def _is_committed(self, step: SessionStep) -> bool:
        """Whether another run has committed the action."""
        action = self._store.find_action(step.stage, step.key) if step.reuse else None
        return action is not None and action.complete

    def _notice(self, group: ShardGroup) -> None:
        notice = group.launched.notice()
        if notice is not None and notice != self._noticed:
            self._warn(notice)
        self._noticed = notice

    def _end(self, place: SessionFolder, reason: str, group: ShardGroup, shards: "list[_Shard]") -> None:
        """End the session; return when its shards have stopped serving it, or after a while."""
        for shard in shards:
            shard.look()
        is_kept = self._groups.keeps(group)
        if not is_kept:
            group.end(reason)
        with suppress(StoreError):  # which must not hide how the session ended
            place.end(reason)
        if is_kept:
            # The group gets no other session before its shards are done with this one.
            _until_done(shards)
            self._groups.give_back(group)
        else:
            self._groups.give_back(group)
            _until_done(shards)
        for shard in shards:
            # A shard may have written its last sign between the last look and its end.
            shard.look()


class _Shard:
    """A shard as the parent sees it: its sign of life, and what is known of its process.

    Attributes:
        serves: whether it has begun to serve the session.
    """

    def __init__(self, number: int, watch: Watch, group: ShardGroup) -> None:
        self.number = number
        self.serves = False
        self.steps: list[list[int]] = []
        self.error: str | None = None
        self.limit: str | None = None
        self.spent = Spent()
        self._watch = watch
        self._group = group
        self._began = time.monotonic()
        self._waits = False
        self._done = False
        self._ended: str | None = None

    def look(self) -> None:
        """Read its sign of life."""
        sign: dict[str, Any] | None = self._watch.look()
        if sign is not None:
            self.serves = True
            self._group.appeared.add(self.number)
            self.steps = sign["steps"] or self.steps
            self._waits = sign["state"] == "waiting"
            self._done = sign["state"] in ("done", "failed")
            self.error = sign["error"] or self.error
            self.limit = sign["limit"] or self.limit
            self.spent = Spent(**sign["spent"])
        if not self._done:
            self._ended = self._group.launched.ended(self.number)
            if self._is_lost:
                self._group.lost.add(self.number)

    @property
    def is_over(self) -> bool:
        """Whether it serves no more: it ended, or it is lost."""
        return self._done or self._ended is not None or self._is_lost

    @property
    def needs_room(self) -> bool:
        """Whether it may wait for GPUs that idle shards hold."""
        is_late = not self.serves and time.monotonic() - self._began >= _STARTED_S
        return not self.is_over and (self._waits or is_late)

    @property
    def is_busy(self) -> bool:
        """Whether it may still write to the session."""
        return self.serves and not self.is_over

    @property
    def _is_lost(self) -> bool:
        """Whether it no longer shows a sign of life. One that served an earlier session begins at once."""
        return self.number in self._group.appeared and self._watch.is_gone

    @property
    def why(self) -> str:
        """Why it is over, one sentence."""
        return self.error or self._ended or "it no longer shows a sign of life."


def _until_done(shards: Sequence[_Shard]) -> None:
    """Return when no shard serves the session, or after a while."""
    deadline = time.monotonic() + _END_S
    while time.monotonic() < deadline:
        for shard in shards:
            shard.look()
        if not any(shard.is_busy for shard in shards):
            return
        time.sleep(_LOOK_EVERY_S / 4)


def _why(shards: Sequence[_Shard]) -> EndpointFailed | BudgetSpent:
    """Why the shards have left chunks without answers. The limits are the run's, so one shard tells for all."""
    limit = next((shard.limit for shard in shards if shard.limit is not None), None)
    if limit is not None:
        return BudgetSpent(limit)
    reasons = {shard.why: shard.number for shard in reversed(shards)}
    told = sorted(reasons.items(), key=lambda item: item[1])
    return EndpointFailed(" ".join(f"shard {number}: {why}" for why, number in told))


def _remove(place: SessionFolder, shards: Sequence[_Shard]) -> None:
    """Remove the session, unless a shard may still write to it: garbage collection does so later."""
    if not any(shard.is_busy for shard in shards):
        with suppress(GageError):  # garbage collection removes what is left
            place.remove()
