"""Actions: small pointers from a key to the artifacts that a stage produced. The first commit wins."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gage_eval.base.canonical import JsonValue, canonical_json, decode
from gage_eval.base.errors import ArtifactDamaged, StoreError
from gage_eval.base.version import __version__
from gage_eval.store.artifacts import Artifact, KnownParts, find_whole
from gage_eval.store.manifest import REMEDY, manifest_path
from gage_eval.store.objects import Objects, is_digest, safe_name

_FORMAT = 1


@dataclass(frozen=True)
class Action:
    """A finished stage.

    Attributes:
        stage: name of the stage.
        key: digest of everything that determines its result, 64 hex digits.
        outputs: artifact id by name of the output.
        complete: False when another run should retry error rows.
        document: the content of the key, to name the field that differs.
        created_by: version of the software that committed it.
        artifacts: by name of the output, whole; empty where a listing gave the action, which looks at none.
    """

    stage: str
    key: str
    outputs: Mapping[str, str]
    complete: bool
    document: JsonValue
    created_by: str
    raw: bytes = field(repr=False, compare=False)
    artifacts: Mapping[str, Artifact] = field(default_factory=dict, repr=False, compare=False)


class Actions:
    """The actions of a store."""

    def __init__(self, objects: Objects, known: KnownParts | None = None) -> None:
        self._objects = objects
        self._known = known

    def find(self, stage: str, key: str, *, renew: bool = False, hashes: bool = False) -> Action | None:
        """The action with that key and its artifacts if these have all their parts, else None.

        Args:
            renew: the caller builds on them, so garbage collection treats them as new.
            hashes: also read every part and compare its hash.

        Raises:
            ArtifactDamaged: its file is not a valid action, or a part does not have the size, or the hash, that
                was committed.
        """
        action = self._current(stage, key)
        return self._whole(action, renew=renew, hashes=hashes) if action is not None else None

    def commit(
        self,
        stage: str,
        key: str,
        outputs: Mapping[str, Artifact],
        *,
        complete: bool = True,
        document: JsonValue,
        replaces: Action | None = None,
    ) -> Action:
        """Record what came out. The first commit stands, with two exceptions: one whose artifacts are gone is replaced,
        and a complete one replaces an incomplete one.

        Args:
            replaces: replace this action if it still stands (a refreshed or retried stage).

        Returns:
            The action that stands afterwards, ours or another's, with its artifacts.

        Raises:
            StoreError: the store cannot be written.
            ArtifactDamaged: the file in place is not a valid action.
        """
        data = canonical_json(
            {
                "format": _FORMAT,
                "stage": stage,
                "key": key,
                "outputs": {name: artifact.id for name, artifact in outputs.items()},
                "complete": complete,
                "document": document,
                "created_by": __version__,
            }
        )
        ours = replace(_parse(data, action_path(stage, key)), artifacts=outputs)
        expected = replaces.raw if replaces is not None else None
        while True:
            if self._objects.swap(action_path(stage, key), data, expected=expected):
                return ours
            current = self._current(stage, key)
            if current is not None:
                if current.outputs == ours.outputs:
                    return replace(current, artifacts=outputs)
                if current.complete >= complete and (whole := self._whole(current)) is not None:
                    return whole
            expected = None if current is None else current.raw

    def all(self, stage: str | None = None) -> Iterator[Action]:
        """Every action, or those of a stage, by key, including those whose artifacts are gone.

        Raises:
            ArtifactDamaged: a file is not a valid action.
        """
        for item in self._objects.list("actions" if stage is None else f"actions/{safe_name(stage)}"):
            try:
                yield self.read(item.path)
            except FileNotFoundError:
                continue  # collected since the listing

    def read(self, path: str) -> Action:
        """Read the action in a file of the store.

        Raises:
            FileNotFoundError: the file does not exist.
            ArtifactDamaged: it holds no action, or that of another key or stage.
        """
        return _parse(self._objects.get(path), path)

    def _current(self, stage: str, key: str) -> Action | None:
        try:
            return self.read(action_path(stage, key))
        except FileNotFoundError:
            return None

    def _whole(self, action: Action, *, renew: bool = False, hashes: bool = False) -> Action | None:
        """The action with its artifacts; None when one of them is gone or lacks a part."""
        artifacts = {}
        for name, id_ in action.outputs.items():
            if renew and not self._objects.renew(manifest_path(id_)):
                return None
            artifact = find_whole(self._objects, id_, hashes=hashes, known=self._known)
            if artifact is None:
                return None
            artifacts[name] = artifact
        return replace(action, artifacts=artifacts)


def action_path(stage: str, key: str) -> str:
    """The path of an action.

    Raises:
        StoreError: the key is not a digest, or the stage name is not plain.
    """
    if not is_digest(key):
        raise StoreError(f"'{key[:80]}' is not an action key: a key has 64 hex digits.")
    return f"actions/{safe_name(stage)}/{key}.json"


def _parse(data: bytes, path: str) -> Action:
    try:
        value = decode(data)
        action = Action(
            str(value["stage"]),
            str(value["key"]),
            {str(name): str(artifact) for name, artifact in value["outputs"].items()},
            value["complete"] is True,
            value["document"],
            str(value["created_by"]),
            data,
        )
        expected = action_path(action.stage, action.key)
        wrong = [artifact for artifact in action.outputs.values() if not is_digest(artifact)]
    except (ValueError, KeyError, TypeError, AttributeError, StoreError) as error:
        raise ArtifactDamaged(f"{path} is not a valid action ({error}); {REMEDY}") from error
    if expected != path:
        raise ArtifactDamaged(f"{path} holds the action of {expected}; {REMEDY}")
    if wrong:
        raise ArtifactDamaged(f"{path} names '{wrong[0][:80]}', which is not an artifact id; {REMEDY}")
    return action
