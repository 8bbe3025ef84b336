"""What must stay in a store: everything that runs and baselines refer to."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gage_eval.errors import InputError, StoreError
from gage_eval.runs.options import Locations
from gage_eval.runs.stored import StoredRun, stored_runs
from gage_eval.store import Store
from gage_eval.store.manifest import manifest_path

_DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
# A run that says it is running and has said nothing for a day was killed.
_ALIVE_S = 86_400.0


@dataclass(frozen=True)
class Roots:
    """What a collection keeps.

    Attributes:
        artifacts: ids that runs and baselines refer to.
        runs: number of runs.
        unfinished: runs that may be gone on with, whose answers so far are kept.
        under_way: runs that go on now.
        since: when the oldest of those began, seconds since the epoch; everything younger stays. None without any.
    """

    artifacts: frozenset[str]
    runs: int
    unfinished: frozenset[str]
    under_way: tuple[str, ...]
    since: float | None


def find_roots(store: Store, locations: Locations) -> Roots:
    """The artifacts that the runs of these locations and the store's baselines need.

    Raises:
        StoreError: a run's record cannot be read, so that nobody knows what it needs.
    """
    artifacts: set[str] = set()
    unfinished: set[str] = set()
    under_way: list[str] = []
    began: list[float] = []
    count = 0
    for stored in stored_runs(locations):
        count += 1
        try:
            artifacts.update(_of_run(store, stored))
        except InputError as error:
            raise StoreError(f"{error} Nothing is collected before that.") from error
        if stored.status != "completed":
            unfinished.add(stored.run_id)
        if stored.standing == "running" or (stored.standing == "silent" and stored.silent_s() < _ALIVE_S):
            under_way.append(stored.run_id)
            began.append(stored.record.created.timestamp())
    artifacts.update(_of_baselines(store))
    return Roots(frozenset(artifacts), count, frozenset(unfinished), tuple(under_way), min(began, default=None))


def _of_run(store: Store, stored: StoredRun) -> Iterator[str]:
    metrics: set[str] = set()
    for (_, stage), outputs in stored.outputs.items():
        yield from outputs.values()
        if stage == "auto_eval":
            metrics.update(outputs.values())
    for (_, stage), result in stored.stages.items():
        # The key may lead elsewhere by now, to a completed or refreshed result: that is what the next run hits.
        action = store.find_action(stage, result.key) if result.key is not None else None
        if action is not None:
            yield from action.outputs.values()
            if stage == "auto_eval":
                metrics.update(action.outputs.values())
    for artifact_id in metrics:
        yield from _scores(store, artifact_id)


def _scores(store: Store, metrics_id: str) -> Iterator[str]:
    """The scores artifacts that a metrics table names; none when the table is gone already."""
    if store.objects.exists(manifest_path(metrics_id)):
        yield from filter(None, store.artifact(metrics_id).table(columns=["scores"])["scores"].to_pylist())


def _of_baselines(store: Store) -> Iterator[str]:
    for item in store.objects.list("baselines"):
        if item.path.endswith(".json"):
            yield from _DIGEST.findall(store.objects.get(item.path).decode(errors="replace"))
