"""Boxes: which executor makes them, and the surroundings that a sample sets."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from gage_eval.base.canonical import JsonValue, digest, sha256_hex
from gage_eval.base.errors import InputError
from gage_eval.box.executors import ExecutorSettings, open_executor
from gage_eval.box.types import BoxError, BoxSpec, Executor, Limits
from gage_eval.data.prepare.media import MediaRules, file_content, files_identity
from gage_eval.data.sample.record import RecordRejected
from gage_eval.data.sample.rules import inside
from gage_eval.data.sample.table import rows_of
from gage_eval.models.backends.boxed import BoxBackend
from gage_eval.models.backends.pooled_boxes import PoolExecutor
from gage_eval.models.backends.pools import Pools
from gage_eval.models.client.episode_limits import EpisodeLimits
from gage_eval.store import Artifact

_REFERENCES = ("env:", "block:")
# Of memory, and of the seconds of an agent and of tests.
_LIMITS = ("memory_mb", "agent_s", "tests_s")
# With less, not even a shell starts.
_LEAST_MB = 16
_FORM = {
    **dict.fromkeys(("files", "env", "limits"), (Mapping, "object")),
    **dict.fromkeys(("image", "setup"), (str, "text")),
}
# That this process has found, by `Boxes.key`.
_backends: dict[str, BoxBackend] = {}


class CannotRun(BoxError):
    """A sample has not what it takes to run its program; a sentence says what is missing."""


@dataclass(frozen=True)
class Boxes:
    """The boxes of one executor."""

    settings: ExecutorSettings
    _images: dict[str, str | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def key(self) -> str:
        """Equal where one executor is shared."""
        settings = {**asdict(self.settings), "roots": {name: str(root) for name, root in self.settings.roots.items()}}
        return digest(["box", settings])

    def backend(self, pools: Pools | None = None) -> BoxBackend:
        """A new executor behind a backend. It starts nothing before its first program.

        Args:
            pools: has work pools start boxes; needed where programs run on one.

        Raises:
            BoxUnavailable: this machine has no such executor.
        """
        if self.settings.work_pool is not None:
            return BoxBackend(PoolExecutor(self.settings, pools))
        return BoxBackend(open_executor(self.settings))

    @property
    def identity(self) -> JsonValue:
        """What of the executor can change a result. To find an executor takes a trial, one for all tasks.

        Raises:
            BoxUnavailable: this machine has no such executor.
        """
        return self._found.identity()

    def image(self, name: str) -> str | None:
        """The name of an image with the hash of its content on this machine; asked for once.

        Raises:
            BoxUnavailable: this machine has no such executor.
        """
        if name not in self._images:
            self._images[name] = self._found.executor.resolve(name)[1]
        return self._images[name]

    @property
    def _found(self) -> BoxBackend:
        if self.key not in _backends:
            _backends[self.key] = self.backend()
        return _backends[self.key]


@dataclass(frozen=True)
class AgentBoxes:
    """The boxes of an adapter's episodes: `gage_eval.engine.tools.box.AgentBox`.

    Attributes:
        boxes: of which executor.
        limits: of a command, where its sample sets no lower ones.
        image: for samples that name none.
        media: where the files of samples are.
        artifacts: the files that are taken at the end of an episode, besides those that its sample names.
        starts: the commands of MCP servers, which run in each box.
        files: those that the servers need, by their paths in a box.
    """

    boxes: Boxes
    limits: Limits
    image: str | None = None
    media: MediaRules = field(default_factory=MediaRules)
    artifacts: Sequence[str] = ()
    starts: Sequence[Sequence[str]] = ()
    files: Mapping[str, Path] = field(default_factory=dict)

    @cached_property
    def _contents(self) -> Mapping[str, bytes]:
        return contents_of(self.files, "mcp_servers.files")

    @cached_property
    def identity(self) -> JsonValue:
        """The executor, the limits, the image, the files that are taken, and the servers."""
        own: dict[str, JsonValue] = {"artifacts": list(self.artifacts)} if self.artifacts else {}
        if self.starts:
            own["starts"] = [list(argv) for argv in self.starts]
            own["files"] = {path: sha256_hex(content) for path, content in self._contents.items()}
        image = None if self.image is None else self.boxes.image(self.image)
        return {"executor": self.boxes.identity, "limits": asdict(self.limits), "image": image, **own}

    def spec(self, sample: Mapping[str, Any]) -> BoxSpec:
        """The surroundings that a sample sets, with the MCP servers that run there.

        Raises:
            CannotRun: they cannot be made.
        """
        own = surroundings(sample, lambda address: file_content(address, self.media), self.image)
        return replace(own, files={**own.files, **self._contents}, starts=self.starts)

    def executor(self) -> Executor:
        """A new executor, for boxes outside of a run."""
        return self.boxes.backend().executor

    def limits_of(self, sample: Mapping[str, Any]) -> Limits:
        """What one command may use: at most what the sample allows.

        Raises:
            CannotRun: the sample says it in another form.
        """
        return limited(self.limits, sample, "agent_s")

    def artifacts_of(self, sample: Mapping[str, Any]) -> Sequence[str]:
        """The files that are taken at the end of an episode of a sample.

        Raises:
            CannotRun: the sample names them in another form.
        """
        return [*self.artifacts, *(sandbox_of(sample).get("artifacts") or ())]

    def files_identity(self, sample: Mapping[str, Any]) -> JsonValue:
        """The content of the files and the image that a sample brings; None where it brings none."""
        return sandbox_identity([sample], self.media, self.boxes)


def contents_of(files: Mapping[str, Path], what: str) -> Mapping[str, bytes]:
    """The content of files of this machine, by their paths in a box.

    Args:
        files: the files.
        what: names the field of a config that names them.

    Raises:
        InputError: one of them cannot be read.
    """

    def content(file: Path) -> bytes:
        try:
            return file.read_bytes()
        except OSError as error:
            raise InputError(f"{what}: '{file}' cannot be read: {error.strerror}.") from None

    return {path: content(file) for path, file in files.items()}


def sandbox_identity(
    samples: Iterable[Mapping[str, Any]], media: MediaRules, boxes: Boxes, image: str | None = None
) -> JsonValue:
    """The content of the files and images that samples put into their boxes; None where they put in none.

    Args:
        samples: the samples.
        media: where the files are.
        boxes: know the images.
        image: of samples that name none.
    """
    addresses, images = set(), {image}
    for sample in samples:
        # A sample whose surroundings have another form costs its row.
        with suppress(CannotRun):
            own = sandbox_of(sample)
            addresses |= {str(address) for address in (own.get("files") or {}).values()}
            images.add(own.get("image") or image)
    files = files_identity([("file", address) for address in sorted(addresses)], media)
    named = {name: boxes.image(name) for name in sorted(filter(None, images))}
    return {"files": files, "images": named} if named else files


def sandboxes(samples: Artifact) -> Iterator[Mapping[str, Any]]:
    """What the samples of an artifact say of their surroundings."""
    for table in samples.tables(columns=["sandbox", "metadata"]):
        yield from rows_of(table)


def sandbox_of(sample: Mapping[str, Any]) -> Mapping[str, Any]:
    """The surroundings that a sample sets; those of ``metadata.execution`` where it sets none.

    Raises:
        CannotRun: they have another form.
    """
    own = sample.get("sandbox")
    if not own:
        metadata = sample.get("metadata")
        own = metadata.get("execution") if isinstance(metadata, Mapping) else None
    if not isinstance(own, Mapping):
        return {}
    for name, (kind, what) in _FORM.items():
        if own.get(name) and not isinstance(own[name], kind):
            raise CannotRun(f"metadata.execution.{name} is no {what}.")
    for name, most in (own.get("limits") or {}).items():
        is_number = isinstance(most, int | float) and not isinstance(most, bool) and 0 < most < math.inf
        if name not in _LIMITS or not is_number:
            raise CannotRun(f"metadata.execution.limits.{name} is none of {', '.join(_LIMITS)} with a number above 0.")
    artifacts = own.get("artifacts") or []
    if not isinstance(artifacts, list) or not all(isinstance(path, str) and inside(path) for path in artifacts):
        raise CannotRun("metadata.execution.artifacts is not a list of paths below the working folder.")
    return own


def limited(limits: Limits, sample: Mapping[str, Any], seconds: Literal["agent_s", "tests_s"]) -> Limits:
    """The limits of a sample's programs: its own where they are lower.

    Args:
        limits: of the run.
        sample: the sample.
        seconds: which of its own limits bounds the wall time.

    Raises:
        CannotRun: they have another form.
    """
    own = sandbox_of(sample).get("limits")
    if not own:
        return limits
    memory_mb = min(limits.memory_mb, max(int(own.get("memory_mb", limits.memory_mb)), _LEAST_MB))
    return replace(limits, memory_mb=memory_mb, wall_s=min(limits.wall, own.get(seconds, limits.wall)))


def episode_limits(limits: EpisodeLimits | None, sample: Mapping[str, Any]) -> EpisodeLimits | None:
    """The limits of a sample's episodes, with the seconds of its agent where it bounds them."""
    # A sample whose surroundings have another form fails when its box is made.
    with suppress(CannotRun):
        own = sandbox_of(sample).get("limits") or {}
        if "agent_s" in own:
            return replace(limits or EpisodeLimits(), task_s=own["agent_s"])
    return limits


def surroundings(sample: Mapping[str, Any], read: Callable[[str], bytes], image: str | None) -> BoxSpec:
    """The surroundings of a sample's programs.

    Args:
        sample: the sample.
        read: gives the content behind the address of a file, or raises RecordRejected.
        image: for a sample that names none.

    Raises:
        CannotRun: they cannot be made.
    """
    sandbox = sandbox_of(sample)
    env = {name: str(value) for name, value in (sandbox.get("env") or {}).items()}
    for name, value in env.items():
        if value.startswith(_REFERENCES):
            raise CannotRun(f"sandbox.env.{name} refers to a secret ({value}), and no secret enters a box.")
    files: dict[str, bytes] = {}
    for path, address in (sandbox.get("files") or {}).items():
        if not inside(path):
            raise CannotRun(f"sandbox.files.{path} leads out of the working folder.")
        try:
            files[path] = read(str(address))
        except RecordRejected as error:
            raise CannotRun(f"sandbox.files.{path}: {error.reason}") from None
    image, writable = sandbox.get("image") or image, sandbox.get("writable") is True
    return BoxSpec(image, files, sandbox.get("setup") or None, env, writable=writable)
