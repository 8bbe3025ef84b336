"""Actions: what was asked, and which artifacts came out. A small pointer each, first come."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import gage_eval
from gage_eval.canonical import JsonValue, canonical_json, decode
from gage_eval.errors import ArtifactDamaged, StoreError
from gage_eval.store.artifacts import is_whole
from gage_eval.store.manifest import REMEDY, manifest_path
from gage_eval.store.objects import Objects, is_digest, safe_name

_FORMAT = 1


@dataclass(frozen=True)
class Action:
    """A finished stage.

    Attributes:
        stage: name of the stage.
        key: digest of all that determines its result, 64 hex digits.
        outputs: artifact id by name of the output.
        complete: False when another run should mend error rows.
        document: what the key was made of, to name the field that differs.
        created_by: version of the software that committed it.
    """

    stage: str
    key: str
    outputs: Mapping[str, str]
    complete: bool
    document: JsonValue
    created_by: str
    raw: bytes = field(repr=False, compare=False)


class Actions:
    """The pointers of a store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def find(self, stage: str, key: str, *, renew: bool = False) -> Action | None:
        """The action of that key whose artifacts are all there with every part, else None.

        Args:
            renew: something is built on them: a collection takes them for as young as if they were made now.

        Raises:
            ArtifactDamaged: its file is not an action, or a part has another size than was committed.
        """
        action = self._standing(stage, key)
        return action if action is not None and self._usable(action, renew=renew) else None

    def commit(
        self,
        stage: str,
        key: str,
        outputs: Mapping[str, str],
        *,
        complete: bool = True,
        document: JsonValue,
        replaces: Action | None = None,
    ) -> Action:
        """Record what came out. The first to come stands; one whose artifacts are gone gives way, and an incomplete one
        to a complete one.

        Args:
            replaces: put ours in the place of this one, if it still stands (a refreshed or mended stage).

        Returns:
            The action that stands afterwards, ours or another's.

        Raises:
            StoreError: the store cannot be written.
            ArtifactDamaged: the standing file is no action.
        """
        data = canonical_json(
            {
                "format": _FORMAT,
                "stage": stage,
                "key": key,
                "outputs": outputs,
                "complete": complete,
                "document": document,
                "created_by": gage_eval.__version__,
            }
        )
        ours = _parse(data, action_path(stage, key))
        expected = replaces.raw if replaces is not None else None
        while True:
            if self._objects.swap(action_path(stage, key), data, expected=expected):
                return ours
            standing = self._standing(stage, key)
            if standing is None:
                expected = None
            elif standing.outputs == ours.outputs or (self._usable(standing) and standing.complete >= complete):
                return standing
            else:
                expected = standing.raw

    def all(self, stage: str | None = None) -> Iterator[Action]:
        """Every action, or those of a stage, by key; also those whose artifacts are gone.

        Raises:
            ArtifactDamaged: a file is no action.
        """
        for item in self._objects.list("actions" if stage is None else f"actions/{safe_name(stage)}"):
            try:
                yield self.read(item.path)
            except FileNotFoundError:
                continue  # collected since the listing

    def read(self, path: str) -> Action:
        """The action in a file of the store.

        Raises:
            FileNotFoundError: there is no such file.
            ArtifactDamaged: it holds no action, or that of another place.
        """
        return _parse(self._objects.get(path), path)

    def _standing(self, stage: str, key: str) -> Action | None:
        try:
            return self.read(action_path(stage, key))
        except FileNotFoundError:
            return None

    def _usable(self, action: Action, *, renew: bool = False) -> bool:
        return all(
            (not renew or self._objects.renew(manifest_path(artifact))) and is_whole(self._objects, artifact)
            for artifact in action.outputs.values()
        )


def action_path(stage: str, key: str) -> str:
    """Where an action lies.

    Raises:
        StoreError: the key is no digest, or the stage no plain name.
    """
    if not is_digest(key):
        raise StoreError(f"'{key[:80]}' is no action key: a key has 64 hex digits.")
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
        place = action_path(action.stage, action.key)
        wrong = [artifact for artifact in action.outputs.values() if not is_digest(artifact)]
    except (ValueError, KeyError, TypeError, AttributeError, StoreError) as error:
        raise ArtifactDamaged(f"{path} is no action ({error}); {REMEDY}") from error
    if place != path:
        raise ArtifactDamaged(f"{path} holds the action of {place}; {REMEDY}")
    if wrong:
        raise ArtifactDamaged(f"{path} names '{wrong[0][:80]}', which is no artifact id; {REMEDY}")
    return action
