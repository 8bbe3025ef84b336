"""What was found out about models, each record by what it holds for: ``<root>/<digest of the identity>.json``."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import AwareDatetime, ValidationError

from gage_eval.base.canonical import JsonValue, decode, digest, encode
from gage_eval.base.errors import InputError
from gage_eval.base.strict_model import StrictModel
from gage_eval.store.objects import Objects


class Identified(StrictModel):
    """A record about a model.

    Attributes:
        identity: what it holds for.
        created: when it was found out.
    """

    identity: dict[str, Any]
    created: AwareDatetime


RecordT = TypeVar("RecordT", bound=Identified)


class ByIdentity(Generic[RecordT]):
    """The records of one kind in a store."""

    def __init__(self, objects: Objects, root: str, kind: type[RecordT]) -> None:
        """Args:
        objects: the store's.
        root: the folder of this kind.
        kind: the class of its records.
        """
        self._objects = objects
        self._root = root
        self._kind = kind

    def any(self) -> bool:
        """Whether there is any record."""
        return any(True for _ in self._objects.list(self._root))

    def find(self, identity: Mapping[str, JsonValue]) -> RecordT | None:
        """The record of exactly this identity; None without one.

        Raises:
            InputError: its file is damaged.
        """
        path = self._path(identity)
        if not self._objects.exists(path):
            return None
        try:
            return self._kind.model_validate(decode(self._objects.get(path)))
        except (ValueError, ValidationError):
            raise InputError(f"{path} in the store is damaged. Delete it, and it is made again.") from None

    def replace(self, record: RecordT) -> None:
        """Keep a record, in place of an older one."""
        self._objects.replace(self._path(record.identity), encode(record.model_dump(mode="json")))

    def keep_first(self, record: RecordT) -> RecordT:
        """Keep a record unless there is one. Returns the one that is there."""
        self._objects.create(self._path(record.identity), encode(record.model_dump(mode="json")))
        return self.find(record.identity) or record

    def _path(self, identity: Mapping[str, JsonValue]) -> str:
        return f"{self._root}/{digest(dict(identity))}.json"
