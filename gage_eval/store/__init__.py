"""The artifact store: actions (what was asked), artifacts (what came out) and unfinished work.

    store = Store.open("s3://bucket/evals")
    action = store.actions.find("infer", key)
    if action is None:
        writer = store.writer(RESPONSES)
        ...
        action = store.actions.commit("infer", key, {"responses": writer.commit()}, document=document)
    responses = store.artifact(action.outputs["responses"])

Each object is created once, whole or not at all, and results are named by their content. So any number of processes
and machines may share a store, and killing any of them at any time leaves it intact.
"""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gage_eval.base.errors import InputError, StoreError
from gage_eval.base.files import local_path
from gage_eval.base.tables import TableSchema
from gage_eval.store.actions import Action, Actions
from gage_eval.store.artifacts import Artifact, ArtifactWriter, KnownParts, open_artifact
from gage_eval.store.content import content_hash
from gage_eval.store.gc import UNKNOWN_KEPT_S, ArtifactEntry, GcReport, collect, list_artifacts
from gage_eval.store.locks import hold_lock
from gage_eval.store.manifest import PartInfo
from gage_eval.store.media import Media
from gage_eval.store.objects import LOCKS, LocalObjects, ObjectInfo, Objects, explain_os_errors
from gage_eval.store.parquet import parquet_bytes
from gage_eval.store.responses import Responses
from gage_eval.store.verify import Finding, verify
from gage_eval.store.wip import Chunk, JobIds, Wip, list_wips

__all__ = [
    "Action",
    "Artifact",
    "ArtifactEntry",
    "ArtifactWriter",
    "Chunk",
    "Finding",
    "GcReport",
    "Media",
    "ObjectInfo",
    "Objects",
    "PartInfo",
    "Responses",
    "Store",
    "Wip",
    "content_hash",
    "local_folder",
    "open_objects",
    "parquet_bytes",
]  # fmt: skip


class Store:
    """A store, local or on S3. Open one with `open`.

    Attributes:
        url: as given by the user.
        objects: the basic reads and writes that everything else uses.
        responses: index of which artifact holds the answer to which request.
        media: images and other bytes by digest.
        actions: what each stage made, by its key.
    """

    def __init__(self, objects: Objects, *, locks: bool = True, ranged: bool = False) -> None:
        self.url = objects.url
        self.objects = objects
        self.responses = Responses(objects)
        self.media = Media(objects)
        self._parts: KnownParts = {}
        self.actions = Actions(objects, self._parts)
        self._locks = locks
        self._ranged = ranged

    @classmethod
    def open(cls, url: str, *, locks: bool = True, read_only: bool = False, ranged: bool = False) -> "Store":
        """Open a store; create it when it does not exist.

        Args:
            url: a folder, ``file:///folder``, or ``s3://bucket/prefix``.
            locks: whether `lock` locks. Without locks two runs may do the same work twice, with the same result.
            read_only: refuse every write; the store must exist.
            ranged: read some columns or rows of large parts without the others (`Artifact`): for looking, not for
                computing.

        Raises:
            InputError: not a store URL, a URL with credentials, or no store to read from.
            StoreError: the store cannot be reached, or its server does not honour conditional writes.
        """
        return cls(open_objects(url, read_only=read_only), locks=locks, ranged=ranged)

    def writer(self, schema: TableSchema, wrote: Callable[[PartInfo], None] = lambda part: None) -> ArtifactWriter:
        """Begin an artifact; it is not visible until `ArtifactWriter.commit`.

        Args:
            schema: of its table.
            wrote: called for each part that is written, in the thread that writes it.
        """
        return ArtifactWriter(self.objects, schema, wrote, self._parts)

    def artifact(self, id: str) -> Artifact:  # noqa: A002
        """The artifact with that id.

        Raises:
            StoreError: it is gone.
            ArtifactDamaged: its manifest is not what was committed.
        """
        return open_artifact(self.objects, id, ranged=self._ranged)

    def lock(self, key: str, check: Callable[[], None] | None = None) -> AbstractContextManager[None]:
        """Hold the lock of a key. Locks avoid double work; no result depends on them.

        Args:
            key: the key.
            check: called again and again while another holds the lock. If it raises, the wait ends.
        """
        return hold_lock(self.objects, key, check=check) if self._locks else nullcontext()

    def wip(self, key: str) -> Wip:
        """The unfinished work of a generate action."""
        return Wip(self.objects, key)

    def wips(self) -> list[Wip]:
        """All unfinished work, by key."""
        return list_wips(self.objects)

    def job_ids(self, endpoint: str) -> JobIds:
        """The ids of jobs at an endpoint whose results were not fetched yet."""
        return JobIds(self.objects, endpoint)

    def scratch(self, key: str) -> Path:
        """A folder on this machine for the write-ahead logs of a generate action."""
        return self.wip(key).scratch()

    def ls(self) -> list[ArtifactEntry]:
        """Every artifact with its size and the actions that point to it, oldest first."""
        return list_artifacts(self.objects, self.actions)

    def verify(self, *, remove: bool = False) -> list[Finding]:
        """Read everything again and list what is not as committed; ``remove`` deletes it."""
        return verify(self.objects, remove=remove)

    def gc(
        self,
        roots: Collection[str],
        *,
        unfinished: Collection[str] = (),
        bundles: Collection[str] = (),
        dry_run: bool = False,
        min_age_s: float = UNKNOWN_KEPT_S,
    ) -> GcReport:
        """Remove what is old, not in ``roots`` (artifact ids of runs and baselines), and not work or ``bundles`` of
        ``unfinished`` runs (see `gc.collect`)."""
        return collect(
            self.objects,
            self.actions,
            roots,
            unfinished=unfinished,
            bundles=bundles,
            dry_run=dry_run,
            min_age_s=min_age_s,
        )


def open_objects(url: str, *, read_only: bool = False, lock_folder: str = LOCKS) -> Objects:
    """The objects of a store; arguments and errors as in `Store.open`.

    Args:
        lock_folder: folder for the locks of a local store, inside the store.
    """
    check_url(url)
    root = local_folder(url)
    if root is None:
        from gage_eval.store.s3 import S3Objects

        remote = S3Objects(url, read_only=read_only)
        remote.probe()
        return remote
    try:
        with explain_os_errors(url, ""):
            if root.exists() and not root.is_dir():
                raise InputError(f"store {url} is a file: give a folder.")
            if read_only and not root.exists():
                raise InputError(
                    f"there is no store at {url}: run an evaluation first, or give another one with --store."
                )
            root.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:
        # /proc raises this; elsewhere a parent folder was just removed.
        raise StoreError(f"store {url} cannot be created ({error.strerror}): give another one with --store.") from error
    return LocalObjects(root, url, read_only=read_only, lock_folder=lock_folder)


def check_url(url: str) -> None:
    """Check that a URL can name a store; the store itself is not accessed.

    Raises:
        InputError: the URL is empty, has another scheme, names no bucket or another machine, or carries credentials.
    """
    scheme, separator, _ = url.partition("://")
    if url.startswith("block:"):
        raise InputError(f"'{url}' names a Prefect block, which only a run at a Prefect API can read: give its URL.")
    if not url:
        raise InputError("the store's URL is empty: use a folder, file:///folder or s3://bucket/prefix.")
    if separator and scheme not in ("file", "s3"):
        raise InputError(f"'{scheme}://' is not a kind of store: use a folder, file:///folder or s3://bucket/prefix.")
    if url.startswith(("s3:", "file:")) and not separator:
        raise InputError(f"'{url}' lacks two slashes: use a folder, file:///folder or s3://bucket/prefix.")
    if local_folder(url) is None:
        from gage_eval.store.s3 import bucket_of

        bucket_of(url)


def local_folder(url: str) -> Path | None:
    """The folder that a store's URL names; None for other URLs.

    Raises:
        InputError: a ``file://`` URL names another machine, or the home folder of ``~`` does not exist.
    """
    scheme, separator, _ = url.partition("://")
    if separator and scheme != "file":
        return None
    parts = urlsplit(url)
    if separator and parts.netloc not in ("", "localhost"):
        raise InputError(f"'{url}' names a machine: write file:///folder, with three slashes, or the folder itself.")
    try:
        return local_path(unquote(parts.path) if separator else url, Path()).absolute()
    except InputError as error:
        raise InputError(f"store {error}") from None
