"""Read the whole store again and check that every object is as it was committed."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gage_eval.base.errors import ArtifactDamaged, InputError, StoreError
from gage_eval.store.actions import Actions
from gage_eval.store.artifacts import Artifact, find_artifact
from gage_eval.store.bundles import ROOT as BUNDLES
from gage_eval.store.bundles import Bundle
from gage_eval.store.content import content_hash
from gage_eval.store.gc import artifact_files, manifest_first, shared_parts
from gage_eval.store.manifest import PartInfo, manifest_path
from gage_eval.store.media import Media, media_url
from gage_eval.store.objects import Objects, is_digest
from gage_eval.store.responses import ROOT as RESPONSES
from gage_eval.store.responses import parse_index
from gage_eval.store.wip import ROOT as WIP
from gage_eval.store.wip import parse_chunk


@dataclass(frozen=True)
class Finding:
    """One object that is not as it was committed: its path in the store, and what is wrong."""

    path: str
    problem: str


def verify(objects: Objects, *, remove: bool = False) -> list[Finding]:
    """Check every artifact, action, index file, chunk, bundle and medium, one part in memory at a time.

    Args:
        remove: delete what is damaged (an artifact as a whole, with the actions that point to it), so that
            the next run computes it again.

    Returns:
        The findings, by path. Parts without a manifest are an unfinished commit and not a finding; neither are objects
        that a run commits or removes in the meantime.
    """
    problems: dict[tuple[str, PartInfo], str | None] = {}
    artifacts = artifact_files(objects)
    damage = {name: list(_artifact(objects, name, problems)) for name in artifacts}
    damaged = {name for name in damage if damage[name]}
    # One of a part that several artifacts have.
    findings = list({finding.path: finding for findings in damage.values() for finding in findings}.values())
    if remove and damaged:
        shared = shared_parts(objects, artifacts.keys() - damaged)
        listed = [file.path for name in damaged for file in artifacts[name]]
        for path in sorted({*listed, *(item.path for item in findings)} - shared, key=manifest_first):
            objects.delete(path)
    others = [
        *_findings(objects, "actions", partial(_action, objects, damaged)),
        *_findings(objects, RESPONSES, partial(_index, objects, damaged)),
        *_findings(objects, WIP, partial(_chunk, objects)),
        *_findings(objects, BUNDLES, partial(_bundle, objects)),
        *_findings(objects, "media", partial(_media, objects)),
    ]
    if remove:
        for finding in others:
            objects.delete(finding.path)
    return sorted([*findings, *others], key=lambda finding: finding.path)


def _artifact(
    objects: Objects, artifact_id: str, problems: dict[tuple[str, PartInfo], str | None]
) -> Iterator[Finding]:
    """What is wrong with an artifact; ``problems`` are those of the parts that were read, by path."""
    try:
        artifact = find_artifact(objects, artifact_id)
    except ArtifactDamaged as error:
        yield Finding(manifest_path(artifact_id), str(error))
        return
    for part in artifact.manifest.parts if artifact is not None else ():
        assert artifact is not None
        path = part.path(artifact_id)
        expected = path, replace(part, artifact=None)
        if expected not in problems:
            problems[expected] = _part(artifact, part.index, part.content_hash)
        if (problem := problems[expected]) is not None:
            yield Finding(path, problem)


def _part(artifact: Artifact, index: int, expected: str) -> str | None:
    try:
        actual = content_hash(artifact.read(index))
    except ArtifactDamaged as error:
        return str(error)
    return None if actual == expected else f"has content {actual} instead of {expected}"


def _findings(objects: Objects, folder: str, check: Callable[[str], str | None]) -> Iterator[Finding]:
    """What a check says or raises about the objects of a folder. Those collected since the listing are left out."""
    for item in objects.list(folder):
        try:
            problem = check(item.path)
        except FileNotFoundError:
            continue
        except (ArtifactDamaged, InputError) as error:
            problem = str(error)
        except StoreError:
            if objects.exists(item.path):
                raise
            continue
        if problem is not None and objects.exists(item.path):
            yield Finding(item.path, problem)


def _action(objects: Objects, damaged: Collection[str], path: str) -> str | None:
    for name, artifact_id in Actions(objects).read(path).outputs.items():
        # Checked again now: a run may have committed both after the artifacts were listed.
        if artifact_id in damaged or not objects.exists(manifest_path(artifact_id)):
            return f"its {name}, artifact {artifact_id}, is damaged or missing"
    return None


def _index(objects: Objects, damaged: Collection[str], path: str) -> str | None:
    index = parse_index(objects.get(path), path)
    artifact = None if index.artifact in damaged else find_artifact(objects, index.artifact)
    if artifact is None:
        return None  # The artifact is the finding, or was collected: then readers skip its index.
    rows = {part.index: part.rows for part in artifact.parts}
    highest = {part: index.rows[index.parts == part].max() for part in np.unique(index.parts).tolist()}
    beyond = any(row >= rows.get(part, 0) for part, row in highest.items())
    return f"names rows that artifact {index.artifact} does not have" if beyond else None


def _chunk(objects: Objects, path: str) -> None:
    if path.endswith(".chunk"):
        parse_chunk(objects.get(path), path)


def _bundle(objects: Objects, path: str) -> None:
    Bundle.find(objects, path.rpartition("/")[2].removesuffix(".json"))


def _media(objects: Objects, path: str) -> str | None:
    name = path.rpartition("/")[2]
    if not is_digest(name):
        return "has a name that is not a sha256"
    Media(objects).get(media_url(name))
    return None
