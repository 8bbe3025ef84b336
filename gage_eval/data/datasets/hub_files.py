"""Files of a dataset on the Hugging Face hub, fetched into the library's cache before the stages of a run start.

Reading the dataset would fetch them too, but without saying what it fetches or how far it is.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

_NOT_STATED = "not stated"


@dataclass(frozen=True)
class HubFiles:
    """Files of a dataset that are not in the cache.

    Attributes:
        name: of the dataset, as ``owner/name``.
        commit: which state of it.
        licence: as its page states it.
        sizes: bytes by path in the repository.
    """

    name: str
    commit: str
    licence: str
    sizes: dict[str, int]

    @property
    def repository(self) -> str:
        """The repository's address for messages."""
        return f"huggingface.co/datasets/{self.name}"

    @property
    def non_commercial(self) -> bool:
        """Whether the name of the licence says that commercial use is forbidden."""
        return "nc" in self.licence.lower().split("-")

    def fetch(self, hub: Any, advance: Callable[[int], None]) -> None:
        """Fetch the files, one after the other.

        Args:
            hub: the library huggingface_hub.
            advance: called with the number of bytes as they arrive.
        """
        bar = _bar(hub, advance)
        for path in self.sizes:
            hub.hf_hub_download(self.name, path, repo_type="dataset", revision=self.commit, tqdm_class=bar)


def missing_files(hub: Any, name: str, commit: str, urls: Iterable[str]) -> HubFiles | None:
    """The files of a dataset that are not in the cache; None where all of them are.

    Args:
        hub: the library huggingface_hub.
        name: of the dataset.
        commit: which state of it.
        urls: addresses of its files, ``hf://datasets/owner/name@commit/path``. Those elsewhere are left out.
    """
    root = f"hf://datasets/{name}@{commit}/"
    absent = {
        path
        for path in (url.removeprefix(root) for url in urls if url.startswith(root))
        if not isinstance(hub.try_to_load_from_cache(name, path, revision=commit, repo_type="dataset"), str)
    }
    if not absent:
        return None
    info = hub.HfApi().dataset_info(name, revision=commit, files_metadata=True)
    sizes = {file.rfilename: file.size or 0 for file in info.siblings if file.rfilename in absent}
    licence = getattr(info.card_data, "license", None)
    return HubFiles(name, commit, licence if isinstance(licence, str) else _NOT_STATED, dict(sorted(sizes.items())))


def _bar(hub: Any, advance: Callable[[int], None]) -> type[Any]:
    """A progress bar for the library that shows nothing and reports the bytes that have arrived."""
    base: type[Any] = hub.utils.tqdm

    class ProgressCounter(base):  # type: ignore[misc]  # known at run time only
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": True})

        def update(self, n: float | None = 1) -> None:
            if n:
                advance(int(n))

    return ProgressCounter
