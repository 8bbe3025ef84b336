"""A model session: an engine and the steps that it serves, as a document in the store.

An engine starts once for all steps of a session, and stays for the next session of the same group of shards
(`gage_eval.engine.shard_groups`). Any number of processes (shards), on any machines, serve a session at a time: each
claims chunks, answers them and commits them to the store. The run that created the session (the parent) opens no
engine. It waits, then assembles the parts.

A session is a folder of the store, named by its URL:

    sessions/<id>/session.json      what to serve
    sessions/<id>/shards/<n>.json   sign of life of a shard, with its progress and its end
    sessions/<id>/end.json          the marker that ends it: both sides stop when they see it

The files of the config's folder that the engine needs are stored as those of bundles (`gage_eval.store.bundles`).
"""

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import canonical_json, canonical_text, decode
from gage_eval.base.errors import InputError
from gage_eval.base.marks import Stage
from gage_eval.store import Store, local_folder
from gage_eval.store.bundles import put_files, write_files
from gage_eval.store.gc import SESSIONS as ROOT
from gage_eval.store.heartbeats import Watch
from gage_eval.store.objects import Objects, safe_name

FORMAT = 5
# The reason of a session's end when nothing is left to do.
ANSWERED = "every chunk is answered"


@dataclass(frozen=True)
class EngineSpec:
    """The engine that answers.

    Attributes:
        type: the backend's type.
        config: its config; secrets in it are references, never values.
        gpus: GPUs of its machine that it needs; 0 for all that are visible.
        files: sha256 of the files that the config names, by path below its folder.
    """

    type: str
    config: Mapping[str, Any]
    gpus: int = 0
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SessionStep:
    """One generate step.

    Attributes:
        task_id: its task.
        stage: support, infer or judge.
        key: key of the stage's action.
        asks: digest of the bindings that are asked, the same on all machines.
        work_key: key of the work in progress.
        requests: how the requests are rendered, as plain values.
        inputs: artifact ids by input.
        earlier: ids of responses and telemetry of the action's incomplete result: only its errors are asked again.
        reuse: take answers from other runs; false for a refresh.
    """

    task_id: str
    stage: Stage
    key: str
    asks: str
    work_key: str
    requests: Mapping[str, Any]
    inputs: Mapping[str, str]
    earlier: tuple[str, str] | None = None
    reuse: bool = True


@dataclass(frozen=True)
class ModelSession:
    """An engine and the steps it serves.

    Attributes:
        engine: the engine that answers.
        workers: number of shards that share the chunks; all cut the same chunks.
        attempt: names this attempt. Chunks with errors belong to it, and a later attempt asks them again.
        steps: in the order of serving.
        limits: what is left of the run's limits (`Budget`).
        budget: names the tokens and cost that shards and parent share; None without such limits.
        concurrency: overrides the backend's own `max_concurrency`.
    """

    engine: EngineSpec
    workers: int
    attempt: str
    steps: tuple[SessionStep, ...]
    limits: Mapping[str, float] = field(default_factory=dict)
    budget: str | None = None
    concurrency: int | None = None

    def to_json(self) -> str:
        """The session as canonical JSON text."""
        return canonical_text({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str | bytes) -> "ModelSession":
        """Read a session from its JSON text.

        Raises:
            InputError: the text is not a session, or has another version.
        """
        try:
            value = decode(text)
            found = value.pop("format")
            if found == FORMAT:
                engine = EngineSpec(**value.pop("engine"))
                steps = tuple(_step(step) for step in value.pop("steps"))
                return cls(engine=engine, steps=steps, **value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"the text is not a model session ({type(error).__name__}: {error}).") from error
        raise InputError(f"the model session has format {found}, and this version reads {FORMAT}: update gage-eval.")


def _step(value: dict[str, Any]) -> SessionStep:
    earlier = value.pop("earlier")
    return SessionStep(earlier=None if earlier is None else (earlier[0], earlier[1]), **value)


class SessionFolder:
    """A session's folder in its store.

    Attributes:
        id: the session's name.
        store: the store that holds it, and everything that its steps read and write.
    """

    def __init__(self, store: Store, id: str) -> None:  # noqa: A002
        self.id = safe_name(id)
        self.store = store
        self._objects: Objects = store.objects
        self._folder = f"{ROOT}/{id}"

    @classmethod
    def create(cls, store: Store, session: ModelSession, files: Mapping[str, bytes] | None = None) -> "SessionFolder":
        """Put a session and the files that it names into a store.

        Args:
            store: the store.
            session: what to serve.
            files: the files' content by path, as in `EngineSpec.files`.
        """
        folder = cls(store, uuid.uuid4().hex)
        put_files(store.media, files or {})
        store.objects.create(f"{folder._folder}/session.json", session.to_json().encode())
        return folder

    @classmethod
    def at(cls, url: str) -> "SessionFolder":
        """The session with this URL.

        Raises:
            InputError: the URL names no session.
            StoreError: its store cannot be opened.
        """
        store, separator, name = url.rstrip("/").rpartition(f"/{ROOT}/")
        if not separator or not store:
            raise InputError(f"'{url}' does not name a model session: it looks like STORE/{ROOT}/ID.")
        return cls(Store.open(store), name)

    @property
    def url(self) -> str:
        """The session's URL, for other processes and machines."""
        root = local_folder(self.store.url)
        store = self.store.url.rstrip("/") if root is None else root.as_uri()
        return f"{store}/{self._folder}"

    def session(self) -> ModelSession:
        """Read the session.

        Raises:
            InputError: it is over and was removed, or is of another version.
        """
        try:
            return ModelSession.from_json(self._objects.get(f"{self._folder}/session.json"))
        except FileNotFoundError as error:
            raise InputError(f"there is no model session at {self.url}: its run has ended.") from error

    def unpack(self, session: ModelSession, folder: Path) -> None:
        """Write the files that the session brings into a folder.

        Raises:
            InputError: a path leads out of the folder, or a file is missing or is not the one that was sent.
        """
        write_files(self.store.media, session.engine.files, folder)

    def end(self, reason: str) -> None:
        """End the session: shards and parent stop when they see it. The first reason stays."""
        self._objects.create(f"{self._folder}/end.json", canonical_json({"reason": reason}))

    def ended(self) -> str | None:
        """Why the session has ended; None while it has not."""
        try:
            return str(decode(self._objects.get(f"{self._folder}/end.json"))["reason"])
        except FileNotFoundError:
            return None

    def shard_path(self, number: int) -> str:
        """The object of a shard's sign of life."""
        return f"{self._folder}/shards/{number}.json"

    def watch_shard(self, number: int) -> Watch:
        """Watches the sign of life of a shard."""
        return Watch(self._objects, self.shard_path(number))

    def remove(self) -> None:
        """Remove the session from the store. The marker of its end goes last, so that late shards still see it."""
        items = sorted(self._objects.list(self._folder), key=lambda item: item.path.endswith("/end.json"))
        for item in items:
            self._objects.delete(item.path)
