"""What a store holds, and removing what nothing needs any more."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from gage_eval.errors import ArtifactDamaged
from gage_eval.store.actions import Action, Actions
from gage_eval.store.artifacts import Artifact, find_artifact
from gage_eval.store.media import MEDIA_URL, media_path
from gage_eval.store.objects import ObjectInfo, Objects, is_digest
from gage_eval.store.responses import ROOT as RESPONSES
from gage_eval.store.wip import ROOT as WIP
from gage_eval.store.wip import discard_scratch, spooled

DAY_S = 86_400.0


@dataclass(frozen=True)
class Listed:
    """An artifact of a store.

    Attributes:
        id: its id.
        table: name of its table; empty when the manifest is damaged.
        rows, complete: as its manifest says.
        bytes: size of its files.
        mtime: when the last of them was written, seconds since the epoch.
        actions: ``stage/key`` of every action that points to it.
    """

    id: str
    table: str
    rows: int
    complete: bool
    bytes: int
    mtime: float
    actions: tuple[str, ...]


@dataclass(frozen=True)
class GcReport:
    """What a collection removed, or would remove.

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


def list_artifacts(objects: Objects, actions: Actions) -> list[Listed]:
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
                continue  # an unfinished commit
        except ArtifactDamaged:
            artifact = None  # listed all the same: `verify` says what is wrong
        listed.append(
            Listed(
                artifact_id,
                artifact.manifest.table if artifact else "",
                artifact.rows if artifact else 0,
                artifact.complete if artifact else False,
                sum(file.size for file in files),
                max(file.mtime for file in files),
                tuple(sorted(pointers[artifact_id])),
            )
        )
    return sorted(listed, key=lambda entry: (entry.mtime, entry.id))


def artifact_files(objects: Objects) -> dict[str, list[ObjectInfo]]:
    """The files of every artifact, also of those without a manifest, by id."""
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
    dry_run: bool = False,
    min_age_s: float = DAY_S,
) -> GcReport:
    """Remove what is older than ``min_age_s`` and not kept by ``roots``.

    Kept are the artifacts named by ``roots`` and all younger ones, actions with all outputs kept, the
    response index of kept artifacts and the media their rows name. Unfinished work and what killed writers
    left behind is judged by its age alone. Nothing younger than ``min_age_s`` is ever removed; that is what
    protects a run that goes on at the same time, so it should exceed the longest run.

    Args:
        roots: artifact ids that runs and baselines refer to.
        dry_run: only say what would be removed.
    """
    before = time.time() - min_age_s
    artifacts = artifact_files(objects)
    kept = {
        artifact_id
        for artifact_id, files in artifacts.items()
        if artifact_id in roots or max(file.mtime for file in files) >= before
    }
    # Pointers go before what they point to, a manifest before its parts: whatever stops this half way, no
    # reader finds an artifact that lacks a part.
    doomed = [
        *_old(_pointers(objects, actions, kept), before),
        *_old(_index_files(objects, kept), before),
        *(
            file
            for artifact_id, files in artifacts.items()
            if artifact_id not in kept
            for file in _manifest_first(files)
        ),
        *_old(_unnamed_media(objects, kept), before),
        *_abandoned_wip(objects.list(WIP), before),
        *_old(objects.leftovers(), before),
    ]
    logs = list(_abandoned_wip(spooled(objects), before))
    if not dry_run:
        for item in doomed:
            objects.delete(item.path)
        for key in {item.path.split("/")[1] for item in logs}:
            discard_scratch(objects, key)
    removed = [*doomed, *logs]
    return GcReport(
        len(removed),
        sum(item.size for item in removed),
        len(kept),
        tuple(item.path for item in removed),
        dry_run,
    )


def _old(items: Iterator[ObjectInfo], before: float) -> Iterator[ObjectInfo]:
    return (item for item in items if item.mtime < before)


def _manifest_first(files: list[ObjectInfo]) -> list[ObjectInfo]:
    return sorted(files, key=lambda file: (not file.path.endswith("/manifest.json"), file.path))


def _pointers(objects: Objects, actions: Actions, kept: Collection[str]) -> Iterator[ObjectInfo]:
    """Actions that point to an artifact that is not kept."""
    for item in objects.list("actions"):
        action = _action(actions, item)
        if action is not None and not set(action.outputs.values()) <= set(kept):
            yield item


def _action(actions: Actions, item: ObjectInfo) -> Action | None:
    try:
        return actions.read(item.path)
    except (ArtifactDamaged, FileNotFoundError):
        return None  # damage is for `verify` to name; a collection removes only what it understands


def _index_files(objects: Objects, kept: Collection[str]) -> Iterator[ObjectInfo]:
    for item in objects.list(RESPONSES):
        if item.path.rpartition("/")[2].partition(".")[0] not in kept:
            yield item


def _unnamed_media(objects: Objects, kept: Collection[str]) -> Iterator[ObjectInfo]:
    """Media no kept artifact's rows name. Kept artifacts are read only when there are media."""
    media = {item.path: item for item in objects.list("media")}
    if not media:
        return
    for artifact_id in kept:
        artifact = find_artifact(objects, artifact_id)
        for name in _named_media(artifact) if artifact is not None else ():
            media.pop(media_path(name), None)
    yield from media.values()


def _named_media(artifact: Artifact) -> Iterator[str]:
    """Digests of the media that an artifact's rows name, in any text at any depth."""
    for table in artifact.tables():
        for column in table.columns:
            for chunk in column.chunks:
                for buffer in _buffers(chunk):
                    for match in MEDIA_URL.finditer(memoryview(buffer)):
                        yield bytes(match[1]).decode()


def _buffers(array: pa.Array) -> list[pa.Buffer]:
    """The buffers of an array and its children; a URL means the same wherever it stands."""
    return [buffer for buffer in array.buffers() if buffer is not None]


def _abandoned_wip(items: Iterator[ObjectInfo], before: float) -> Iterator[ObjectInfo]:
    """The files of unfinished work of which none changed lately."""
    folders: dict[str, list[ObjectInfo]] = defaultdict(list)
    for item in items:
        folders[item.path.split("/")[1]].append(item)
    for files in folders.values():
        if max(file.mtime for file in files) < before:
            yield from files
