"""List the contents of a store, and remove what is no longer needed."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa

from gage_eval.base.errors import ArtifactDamaged
from gage_eval.store.actions import Action, Actions
from gage_eval.store.artifacts import Artifact, find_artifact
from gage_eval.store.bundles import ROOT as BUNDLES
from gage_eval.store.bundles import bundle_path
from gage_eval.store.manifest import manifest_path
from gage_eval.store.media import MEDIA_URL, media_path
from gage_eval.store.objects import STAGING, ObjectInfo, Objects, digests_in, is_digest
from gage_eval.store.responses import ROOT as RESPONSES
from gage_eval.store.serving import ROOT as SERVING
from gage_eval.store.spool import discard_spooled, spooled
from gage_eval.store.wip import ROOT as WIP
from gage_eval.store.wip import Wip, begun_by

# Everything that no known run refers to stays this long, because its run may be unknown to this store.
UNKNOWN_KEPT_S = 30 * 86_400.0
# Signs of life of runs that share an endpoint.
LIMITS = "limits"
_READERS = 8


@dataclass(frozen=True)
class ArtifactEntry:
    """An artifact of a store.

    Attributes:
        id: its id.
        table: name of its table; empty when the manifest is damaged.
        rows, complete: as in its manifest.
        bytes: size of its files.
        written: when the last of them was written.
        actions: ``stage/key`` of every action that points to it.
    """

    id: str
    table: str
    rows: int
    complete: bool
    bytes: int
    written: datetime
    actions: tuple[str, ...]


@dataclass(frozen=True)
class GcReport:
    """What a garbage collection removed, or would remove.

    Attributes:
        objects: number of objects (files) removed.
        bytes: their size.
        kept: number of artifacts that stay.
        paths: the objects, by path below the store.
        dry_run: nothing was removed.
    """

    objects: int
    bytes: int
    kept: int
    paths: tuple[str, ...]
    dry_run: bool


def list_artifacts(objects: Objects, actions: Actions) -> list[ArtifactEntry]:
    """Every artifact, oldest first."""
    pointers: dict[str, list[str]] = defaultdict(list)
    for action in actions.all():
        for artifact_id in action.outputs.values():
            pointers[artifact_id].append(f"{action.stage}/{action.key}")
    listed = []
    for artifact_id, files in artifact_files(objects).items():
        try:
            artifact = find_artifact(objects, artifact_id)
            if artifact is None:
                continue  # an unfinished commit, or parts of other artifacts
        except ArtifactDamaged:
            artifact = None  # listed anyway: `verify` reports what is wrong
        listed.append(
            ArtifactEntry(
                artifact_id,
                artifact.manifest.table if artifact else "",
                artifact.rows if artifact else 0,
                artifact.complete if artifact else False,
                sum(file.size for file in files),
                datetime.fromtimestamp(max(file.mtime for file in files), UTC),
                tuple(sorted(pointers[artifact_id])),
            )
        )
    return sorted(listed, key=lambda entry: (entry.written, entry.id))


def artifact_files(objects: Objects) -> dict[str, list[ObjectInfo]]:
    """The files of every artifact by id, including those without a manifest."""
    files: dict[str, list[ObjectInfo]] = defaultdict(list)
    for item in objects.list("artifacts"):
        artifact_id = item.path.split("/")[1]
        if is_digest(artifact_id):
            files[artifact_id].append(item)
    return dict(files)


def collect(
    objects: Objects,
    actions: Actions,
    roots: Collection[str],
    *,
    unfinished: Collection[str] = (),
    bundles: Collection[str] = (),
    dry_run: bool = False,
    min_age_s: float = UNKNOWN_KEPT_S,
) -> GcReport:
    """Remove what is older than ``min_age_s`` and not kept by ``roots``.

    These stay: artifacts named by ``roots`` and all younger ones, actions whose outputs all stay, the response index of
    the artifacts that stay and the media that their rows name, the work of ``unfinished`` runs, ``bundles`` with their
    files, and recent leftovers of killed writers. A run renews what it finds and uses, and everything is checked once
    more before it is removed. So a run at the same time loses nothing that it used within ``min_age_s``, which should
    be longer than the longest run.

    Args:
        roots: artifact ids that runs and baselines refer to.
        unfinished: ids of runs that may be resumed: their answers are kept.
        bundles: names of the bundles of such runs.
        dry_run: only report what would be removed.
    """
    before = time.time() - min_age_s
    removal = _Removal(objects, before, dry_run=dry_run)
    artifacts = artifact_files(objects)
    kept = {
        artifact_id
        for artifact_id, files in artifacts.items()
        if artifact_id in roots or max(file.mtime for file in files) >= before
    }
    # Pointers are removed before what they point to, and a manifest before its parts. So after an interruption no
    # reader finds an artifact that lacks a part.
    for item, gone in _pointers(objects, actions, kept):
        removal.of(item, unless_young=map(manifest_path, gone))
    for item, artifact_id in _index_files(objects, kept):
        removal.of(item, unless_young=[manifest_path(artifact_id)])
    parts = defaultdict(list)
    for artifact_id in sorted(artifacts.keys() - kept):
        for file in artifacts[artifact_id]:
            if file.path != manifest_path(artifact_id):
                parts[artifact_id].append(file)
            elif not removal.of(file):
                kept.add(artifact_id)
    # Only now it is known which manifests stay. What a newer one names was renewed before.
    shared = shared_parts(objects, kept) if parts else frozenset()
    for artifact_id in sorted(parts.keys() - kept):
        files = [file for file in parts[artifact_id] if file.path not in shared]
        if not all(removal.of(file, unless_young=[manifest_path(artifact_id)]) for file in files):
            kept.add(artifact_id)
    spared = set(map(bundle_path, bundles))
    for item in objects.list(BUNDLES):
        if item.path in spared or not removal.of(item):
            spared.add(item.path)
    for item in _unnamed_media(objects, kept, spared):
        removal.of(item)
    for files in _abandoned(objects.leftovers(), before).values():
        removal.of_all(files)
    for name, files in _abandoned(spooled(objects, STAGING), before).items():
        removal.of_all(files, by=partial(discard_spooled, objects, STAGING, name))
    signs = [item for root in (SERVING, LIMITS) for item in objects.list(root)]
    for files in _abandoned(signs, before).values():
        removal.of_all(files)
    for key, files in _abandoned([*objects.list(WIP), *spooled(objects, WIP)], before, unfinished).items():
        # Looked at once more: a run may have begun on it after the listing.
        if all(item.mtime < before for item in objects.list(f"{WIP}/{key}")):
            removal.of_all(files, by=Wip(objects, key).discard)
    return GcReport(
        len(removal.removed),
        sum(item.size for item in removal.removed),
        len(kept),
        tuple(item.path for item in removal.removed),
        dry_run,
    )


class _Removal:
    """Removes objects, or only lists them in a dry run."""

    def __init__(self, objects: Objects, before: float, *, dry_run: bool) -> None:
        self.removed: list[ObjectInfo] = []
        self._objects = objects
        self._before = before
        self._dry_run = dry_run

    def of(self, item: ObjectInfo, *, unless_young: Iterable[str] = ()) -> bool:
        """Remove an old object, unless it or one of the others was renewed after the listing."""
        if item.mtime >= self._before:
            return False
        if not self._dry_run:
            if any(map(self._is_young, {item.path, *unless_young})):
                return False
            self._objects.delete(item.path)
        self.removed.append(item)
        return True

    def of_all(self, items: Collection[ObjectInfo], *, by: Callable[[], None] | None = None) -> None:
        """Remove objects that were judged together: one by one, or by calling ``by``."""
        self.removed += items
        if self._dry_run:
            return
        if by is not None:
            by()
            return
        for item in items:
            self._objects.delete(item.path)

    def _is_young(self, path: str) -> bool:
        info = self._objects.info(path)
        return info is not None and info.mtime >= self._before


def _abandoned(
    items: Iterable[ObjectInfo], before: float, unfinished: Collection[str] = ()
) -> dict[str, list[ObjectInfo]]:
    """Folders that no process uses, with their files, and stray files, by name."""
    folders: dict[str, list[ObjectInfo]] = defaultdict(list)
    for item in items:
        top, _, rest = item.path.partition("/")
        folders[rest.partition("/")[0] if top in (STAGING, WIP, SERVING, LIMITS) else item.path].append(item)
    return {
        name: files
        for name, files in folders.items()
        if max(file.mtime for file in files) < before and not any(begun_by(file.path) in unfinished for file in files)
    }


def manifest_first(path: str) -> tuple[bool, str]:
    """A sort key: manifests come before parts, because an artifact is gone with its manifest."""
    return not path.endswith("/manifest.json"), path


def shared_parts(objects: Objects, kept: Iterable[str]) -> Set[str]:
    """Paths of parts that artifacts have in folders of other artifacts. These stay, with or without their manifests."""
    with ThreadPoolExecutor(_READERS) as pool:
        manifests = list(pool.map(lambda artifact_id: _intact(objects, artifact_id), kept))
    artifacts = [artifact for artifact in manifests if artifact is not None]
    return {part.path(item.id) for item in artifacts for part in item.parts if part.artifact is not None}


def _intact(objects: Objects, artifact_id: str) -> Artifact | None:
    try:
        return find_artifact(objects, artifact_id)
    except ArtifactDamaged:
        return None  # `verify` reports it


def _pointers(
    objects: Objects, actions: Actions, kept: Collection[str]
) -> Iterator[tuple[ObjectInfo, Collection[str]]]:
    """Actions that point to artifacts that are not kept, each with those."""
    for item in objects.list("actions"):
        action = _action(actions, item)
        if action is not None and (gone := set(action.outputs.values()) - set(kept)):
            yield item, gone


def _action(actions: Actions, item: ObjectInfo) -> Action | None:
    try:
        return actions.read(item.path)
    except (ArtifactDamaged, FileNotFoundError):
        return None  # damage is for `verify` to name; a collection removes only what it understands


def _index_files(objects: Objects, kept: Collection[str]) -> Iterator[tuple[ObjectInfo, str]]:
    """Index files of artifacts that are not kept, each with its artifact."""
    for item in objects.list(RESPONSES):
        artifact_id = item.path.rpartition("/")[2].partition(".")[0]
        if artifact_id not in kept:
            yield item, artifact_id


def _unnamed_media(objects: Objects, kept: Collection[str], bundles: Collection[str]) -> Iterator[ObjectInfo]:
    """Media that neither rows of kept artifacts nor bundles name. They are read only when there are media.

    Args:
        objects: of the store.
        kept: ids of artifacts.
        bundles: paths of bundles.
    """
    media = {item.path: item for item in objects.list("media")}
    if not media:
        return
    for artifact_id in kept:
        artifact = find_artifact(objects, artifact_id)
        for name in _named_media(artifact) if artifact is not None else ():
            media.pop(media_path(name), None)
    for path in bundles:
        for name in _files_of(objects, path):
            media.pop(media_path(name), None)
    yield from media.values()


def _files_of(objects: Objects, bundle: str) -> Iterator[str]:
    """Digests of the files of a bundle."""
    with suppress(FileNotFoundError):  # removed by another collection
        yield from digests_in(objects.get(bundle))


def _named_media(artifact: Artifact) -> Iterator[str]:
    """Digests of the media that an artifact's rows name, in any text at any depth."""
    for table in artifact.tables():
        for column in table.columns:
            for chunk in column.chunks:
                for buffer in _buffers(chunk):
                    for match in MEDIA_URL.finditer(memoryview(buffer)):
                        yield bytes(match[1]).decode()


def _buffers(array: pa.Array) -> list[pa.Buffer]:
    """The buffers of an array and its children; a URL has the same meaning in all of them."""
    return [buffer for buffer in array.buffers() if buffer is not None]
