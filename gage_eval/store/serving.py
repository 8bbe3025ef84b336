"""Messages between runs and the servers of engines on work pools, exchanged through the store.

serving/<key>/spec.json             the engine that a server starts
serving/<key>/wants/<holder>.json   sign of life of a run that needs the engine
serving/<key>/servers/<id>.json     sign of life of a server, with its URLs, tokens and certificates; only its owner may
                                    read it

All signs are signs of life (`gage_eval.store.heartbeats`): they count as long as they change.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from gage_eval.base.canonical import JsonValue, canonical_json, decode, digest
from gage_eval.base.errors import InputError, StoreError
from gage_eval.store.heartbeats import Heartbeat, Watch
from gage_eval.store.objects import Objects, safe_name

ROOT = "serving"
# The type of a spec whose servers run programs.
BOX = "box"
# A sign that has not changed for so long is that of a process that is gone. A server without a run stays as long.
LEASE_S = 20.0
_FORMAT = 1

# What a server says of itself: it waits for GPUs, loads its model, answers, could not start, or ended by an error.
ServerState: TypeAlias = Literal["waiting", "starting", "ready", "failed", "lost"]


@dataclass(frozen=True)
class ServingSpec:
    """An engine on a work pool, or a box for programs (type `BOX`).

    Attributes:
        pool: name of the work pool.
        type: the backend's type.
        config: what the backend starts its servers with.
        gpus: how many GPUs they need together.
        model: identity of the model's files, or of the box, the same on all machines.
        files: sha256 of the files that the config names, by path below its folder.
    """

    pool: str
    type: str
    config: Mapping[str, Any]
    gpus: int
    model: JsonValue
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """A digest of it: runs that need the same engine on the same pool share its servers."""
        return digest(asdict(self))

    @property
    def what(self) -> str:
        """What is served, for messages."""
        return "the box" if self.type == BOX else "the engine"


class ServingFolder:
    """The folder of one engine in the store.

    Attributes:
        key: the engine's key.
    """

    def __init__(self, objects: Objects, key: str) -> None:
        self.key = safe_name(key)
        self._objects = objects
        self._folder = f"{ROOT}/{key}"

    def put_spec(self, spec: ServingSpec) -> None:
        """Say what a server starts."""
        self._objects.replace(f"{self._folder}/spec.json", canonical_json({"format": _FORMAT, **asdict(spec)}))

    def spec(self) -> ServingSpec:
        """The engine that a server starts.

        Raises:
            InputError: no run needs the engine any more, or another version of gage-eval wrote it.
        """
        try:
            value = decode(self._objects.get(f"{self._folder}/spec.json"))
        except FileNotFoundError:
            raise InputError(f"no run needs engine {self.key[:8]} any more: its spec is not in the store.") from None
        if value.pop("format", None) != _FORMAT:
            raise InputError(f"the spec of engine {self.key[:8]} has another format: update gage-eval.")
        return ServingSpec(**value)

    def want(self, holder: str, state: Callable[[], Mapping[str, Any]]) -> Heartbeat:
        """The sign of life of a run that needs the engine, to be started."""
        return Heartbeat(self._objects, f"{self._folder}/wants/{safe_name(holder)}.json", state)

    def server(self, server: str, state: Callable[[], Mapping[str, Any]]) -> Heartbeat:
        """The sign of life of a server, to be started."""
        return Heartbeat(self._objects, f"{self._folder}/servers/{safe_name(server)}.json", state, private=True)

    def wants(self) -> "Signs":
        """The runs that need the engine."""
        return Signs(self._objects, f"{self._folder}/wants")

    def servers(self) -> "Signs":
        """The servers of the engine."""
        return Signs(self._objects, f"{self._folder}/servers")

    def wants_of_others(self) -> "Signs":
        """The runs that need other engines."""
        return Signs(self._objects, ROOT, lambda path: "/wants/" in path and not path.startswith(f"{self._folder}/"))

    def discard(self, sign: Literal["wants", "servers"], name: str) -> None:
        """Remove a sign, and the folder with its last sign."""
        self._objects.delete(f"{self._folder}/{sign}/{safe_name(name)}.json")
        if [item.path for item in self._objects.list(self._folder)] == [f"{self._folder}/spec.json"]:
            self._objects.delete(f"{self._folder}/spec.json")


class Signs:
    """The signs of life below a folder.

    Args:
        objects: where they are kept.
        folder: their folder.
        concerns: which of the objects in it are signs.
    """

    def __init__(self, objects: Objects, folder: str, concerns: Callable[[str], bool] = lambda path: True) -> None:
        self._objects = objects
        self._folder = folder
        self._concerns = concerns
        self._watches: dict[str, Watch] = {}

    def look(self) -> dict[str, dict[str, Any]]:
        """The signs that count now, by name; those of processes that are gone are removed.

        While the store cannot be listed, those that are known stay.
        """
        with suppress(StoreError):
            paths = {item.path for item in self._objects.list(self._folder) if self._concerns(item.path)}
            self._watches = {
                path: self._watches.get(path) or Watch(self._objects, path, gone_s=LEASE_S) for path in paths
            }
        fresh = {}
        for path, watch in self._watches.items():
            state = watch.look()
            if watch.is_gone:
                with suppress(StoreError):
                    self._objects.delete(path)
            elif state is not None:
                fresh[path.rpartition("/")[2].removesuffix(".json")] = state
        return fresh
