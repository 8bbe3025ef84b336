"""What gc must keep in a store: what baselines, deployments, and runs in all recorded runs roots refer to.

A store records every runs root whose runs use it, in ``runs_roots/``. Its own ``runs`` folder needs no record.
"""

import logging
import shlex
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from gage_eval.base.canonical import canonical_json, decode, digest
from gage_eval.base.errors import InputError, StoreError
from gage_eval.runs.deployed import DeploymentRecord, FindDeleted, recorded_deployments
from gage_eval.runs.folder import is_there
from gage_eval.runs.options import Locations, bundle_of, own_root
from gage_eval.runs.record import RunRecord
from gage_eval.runs.results.stored import StoredRun, stored_runs
from gage_eval.store import Store, local_folder
from gage_eval.store.manifest import manifest_path
from gage_eval.store.objects import digests_in

_log = logging.getLogger(__name__)

_FOLDER = "runs_roots"
# A run with the status running and no sign of life for a day was killed.
_ALIVE_S = 86_400.0


@dataclass(frozen=True)
class Roots:
    """What gc keeps.

    Attributes:
        artifacts: ids that runs and baselines refer to.
        folders: the runs roots that were read.
        runs: number of runs.
        unfinished: runs that may be resumed. Their answers so far are kept.
        bundles: names of the bundles that such runs and deployments refer to.
        under_way: runs that are running now.
        since: start of the oldest running run, in seconds since the epoch; everything younger is kept. None without
            one.
        deleted: deployments that do not exist any more, and whose bundles no unfinished run needs.
        unknown: why nothing is known about deleted deployments, as a sentence; None if it is known.
    """

    artifacts: frozenset[str]
    folders: tuple[str, ...]
    runs: int
    unfinished: frozenset[str]
    bundles: frozenset[str]
    under_way: tuple[str, ...]
    since: float | None
    deleted: tuple[DeploymentRecord, ...]
    unknown: str | None


def record_root(store: Store, locations: Locations) -> None:
    """Record in the store the runs root of a run that uses it."""
    root = _absolute(locations.runs)
    if root == _absolute(own_root(locations.store)):
        return
    path = _record_path(root)
    if store.objects.exists(path):
        return
    try:
        store.objects.create(path, canonical_json({"runs": root, "host": socket.gethostname()}))
    except StoreError as error:
        # A run whose results are all cached needs no writable store.
        _log.info(
            "gage cache gc does not know the runs in %s, because this store could not record them: %s", root, error
        )


def forget_root(store: Store, root: str) -> None:
    """Remove the record of a runs root. Its runs then keep nothing."""
    store.objects.delete(_record_path(_absolute(root)))


def find_roots(
    store: Store, locations: Locations, *, gone: str | None = None, find_deleted: FindDeleted | None = None
) -> Roots:
    """The artifacts that are needed by the store's baselines and by the runs of all its runs roots.

    Args:
        store: the store.
        locations: the same store, and one more runs root to read.
        gone: a recorded runs root that is not read.
        find_deleted: finds recorded deployments that do not exist any more. By default all of them exist.

    Raises:
        InputError: the store has no record of the root that is gone.
        StoreError: a root or a run's record cannot be read, so its needs are unknown.
    """
    folders = list(
        dict.fromkeys([_absolute(own_root(locations.store)), _absolute(locations.runs), *_readable(store, gone)])
    )
    artifacts: set[str] = set()
    unfinished: set[str] = set()
    bundles: set[str] = set()
    under_way: list[str] = []
    began: list[float] = []
    count = 0
    for stored in chain.from_iterable(stored_runs(Locations(locations.store, folder)) for folder in folders):
        count += 1
        try:
            artifacts.update(_of_run(store, stored))
        except InputError as error:
            raise StoreError(f"{error} Nothing was removed.") from error
        if stored.status != "completed":
            unfinished.add(stored.run_id)
            bundles.update(_bundles_of(stored.record))
        if stored.state == "running" or (stored.state == "silent" and stored.silent_s() < _ALIVE_S):
            under_way.append(stored.run_id)
            began.append(stored.record.created.timestamp())
    artifacts.update(_of_baselines(store))
    deployments = list(recorded_deployments(store))
    deleted, unknown = _deleted(deployments, bundles, find_deleted)
    bundles.update(name for record in deployments if record not in deleted for name in record.bundles)
    return Roots(
        frozenset(artifacts),
        tuple(folders),
        count,
        frozenset(unfinished),
        frozenset(bundles),
        tuple(under_way),
        min(began, default=None),
        deleted,
        unknown,
    )


def _deleted(
    deployments: list[DeploymentRecord], needed: set[str], find_deleted: FindDeleted | None
) -> tuple[tuple[DeploymentRecord, ...], str | None]:
    """Deleted deployments without a bundle that unfinished runs need; or why they are not known."""
    if not deployments or find_deleted is None:
        return (), None
    try:
        return tuple(record for record in find_deleted(deployments) if needed.isdisjoint(record.bundles)), None
    except InputError as error:
        return (), str(error)


def _readable(store: Store, gone: str | None) -> Iterator[str]:
    """The recorded roots, except the one that is gone.

    Raises:
        InputError: the one that is gone is not recorded.
        StoreError: one of them cannot be read from this machine.
    """
    records = list(_recorded(store))
    if gone is not None:
        known = [record["runs"] for record in records]
        if _absolute(gone) not in known:
            raise InputError(
                f"--forget-root {gone}: the store has no record of it. Recorded: {', '.join(known) or 'none'}."
            )
        records = [record for record in records if record["runs"] != _absolute(gone)]
    for record in records:
        if not is_there(record["runs"]):
            here = "" if record["host"] == socket.gethostname() else f" on {record['host']}"
            raise StoreError(
                f"runs in {record['runs']}{here} use this store, and that folder cannot be read from here. Nothing was "
                f"removed. Make it readable, or, if its runs are gone for good: gage cache gc --forget-root "
                f"{shlex.quote(record['runs'])}"
            )
        yield record["runs"]


def _recorded(store: Store) -> Iterator[dict[str, str]]:
    for item in store.objects.list(_FOLDER):
        try:
            record = decode(store.objects.get(item.path))
            yield {"runs": str(record["runs"]), "host": str(record["host"])}
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{item.path} is not a record of a runs root ({error}). Remove that file.") from error


def _record_path(root: str) -> str:
    return f"{_FOLDER}/{digest(root)}.json"


def _absolute(root: str) -> str:
    folder = local_folder(root)
    return root if folder is None else str(folder)


def _bundles_of(record: RunRecord) -> Iterator[str]:
    """The bundles that a run is resumed or retried from."""
    name = bundle_of(str(record.options.get("config", "")))
    yield from filter(None, (name, record.prefect and record.prefect.bundle))


def _of_run(store: Store, stored: StoredRun) -> Iterator[str]:
    metrics: set[str] = set()
    for (_, stage), result in stored.stages.items():
        # The key may lead elsewhere by now, to a completed or refreshed result: that is what the next run hits.
        action = store.actions.find(stage, result.key) if result.key is not None else None
        for outputs in (result.outputs, {} if action is None else action.outputs):
            yield from outputs.values()
            if stage == "auto_eval" and (artifact_id := outputs.get("metrics")):
                metrics.add(artifact_id)
    for artifact_id in metrics:
        yield from _scores(store, artifact_id)


def _scores(store: Store, metrics_id: str) -> Iterator[str]:
    """The scores artifacts that a metrics table names; none if the table does not exist any more."""
    if store.objects.exists(manifest_path(metrics_id)):
        yield from filter(None, store.artifact(metrics_id).table(columns=["scores"])["scores"].to_pylist())


def _of_baselines(store: Store) -> Iterator[str]:
    for item in store.objects.list("baselines"):
        if item.path.endswith(".json"):
            yield from digests_in(store.objects.get(item.path))
