"""Datasets of the Hugging Face hub, and folders in the formats of the datasets library."""

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import JsonValue
from gage_eval.base.errors import InputError
from gage_eval.base.files import is_folder, local_path
from gage_eval.base.git import is_commit
from gage_eval.base.hashing import file_digest
from gage_eval.data.datasets.base import Record, check_params, text_param
from gage_eval.data.datasets.cells import row_text
from gage_eval.data.datasets.hub_files import HubFiles, missing_files
from gage_eval.data.datasets.reading import foreign_errors, reading, why
from gage_eval.extend import registry
from gage_eval.extend.extras import missing
from gage_eval.store.media import Keep

_PARAMS = ("hub", "split", "subset", "revision", "streaming")
_BATCH = 512


@registry.loaders.register("hf_hub", version=2, params=_PARAMS, keeps_media=True)
class HubLoader:
    """A split of a dataset of the Hugging Face hub, or of a local folder. Needs the extra ``hf``.

    Rows are read as they are stored: images and recordings are not decoded but stored by their hash. Code in a
    dataset's repository is never run.

    Parameters (``params``, and next to it ``hub`` and ``hub_params``):
        hub: the dataset's name on the hub, as ``openai/gsm8k``; or a folder.
        path: a folder that ``save_to_disk`` wrote, or one of data files.
        split: which split. Default ``test``.
        subset: which configuration of the dataset.
        revision: branch, tag or commit; the commit that it points to is part of the key. Default ``main``.
        streaming: read rows over the network as they are needed, without downloading the set.

    Raises:
        InputError: a parameter is unknown or wrong, or the folder is not there.
    """

    def __init__(self, params: Mapping[str, Any], base_dir: Path) -> None:
        check_params(params, ("path", *_PARAMS), "hf_hub")
        texts = {key: text_param(params, key, "hf_hub") for key in ("path", "hub", "split", "subset", "revision")}
        name, path = texts["hub"], texts["path"]
        if (name is None) == (path is None):
            raise InputError("loader hf_hub needs hub, the name of a dataset, or path, a folder; one of them.")
        self._name: str = path or name or ""
        self._folder = local_path(self._name, base_dir) if is_folder(self._name, base_dir) else None
        if path is not None and self._folder is None:
            raise InputError(f"no folder '{path}'.")
        self._split = texts["split"] or "test"
        self._subset = texts["subset"]
        self._revision = texts["revision"] or "main"
        self._streaming = params.get("streaming") is True

    def identity(self) -> JsonValue:
        """The commit of the revision, or the digests of a folder's files; and the split.

        Raises:
            InputError: the commit cannot be found, or a file of the folder cannot be read.
        """
        chosen = {"split": self._split, "subset": self._subset}
        if self._folder is None:
            return {"commit": self._commit, **chosen}
        try:
            files = sorted(file for file in self._folder.rglob("*") if file.is_file() and not _is_cache(file))
            digests = [[file.relative_to(self._folder).as_posix(), file_digest(file)] for file in files]
        except OSError as error:
            raise InputError(f"a file of '{self._name}' cannot be read: {why(error)} ({error.filename}).") from error
        return {"files": digests, **chosen}

    def records(self, keep: Keep) -> Iterator[Record]:
        """(row from 1, text) of each row.

        Args:
            keep: stores bytes.

        Raises:
            InputError: the library is missing, or cannot read the dataset or its split.
        """
        position = 0
        with reading(self._name, after=lambda: f" after row {position}"):
            for table in _tables(self._open()):
                for row in table.to_pylist():
                    position += 1
                    yield position, row_text(row, keep, self._file)
        if position == 0:
            raise InputError(f"'{self._name}' holds no records in its split '{self._split}'.")

    def missing(self) -> HubFiles | None:
        """What has to be downloaded before reading; None if nothing is missing, or if this is unknown.

        A folder needs nothing, and rows that are streamed are read as they are needed. Whatever goes wrong here goes
        wrong again when the dataset is read, and is reported there.
        """
        if self._folder is not None or self._streaming:
            return None
        with suppress(Exception):
            builder = _import("datasets").load_dataset_builder(self._name, self._subset, revision=self._commit)
            urls = [url for files in (builder.config.data_files or {}).values() for url in files]
            return missing_files(_import("huggingface_hub"), self._name, self._commit, urls)
        return None

    def fetch(self, files: HubFiles, advance: Callable[[int], None]) -> None:
        """Download files into the library's cache.

        Args:
            files: of `missing`.
            advance: called with the number of bytes as they arrive.

        Raises:
            InputError: a file cannot be fetched.
        """
        try:
            files.fetch(_import("huggingface_hub"), advance)
        except InputError:
            raise
        except Exception as error:
            # The hub's client and what it builds on raise their own error classes.
            raise InputError(
                f"the files of '{self._name}' cannot be fetched ({_first_line(error)}) Try again, or give --data DIR "
                f"with a copy in DIR/{self._name}."
            ) from error

    def _file(self, path: str) -> bytes | None:
        """The bytes of a file of the dataset, from its folder or the library's download cache."""
        try:
            file = Path(path).resolve()
            belongs = file.is_file() and any(file.is_relative_to(root) for root in self._roots)
        except (OSError, ValueError):
            # Not a valid path: too long, or with a NUL byte. The value stays as it is and is rejected where it is used.
            return None
        return file.read_bytes() if belongs else None

    @cached_property
    def _roots(self) -> list[Path]:
        if self._folder is not None:
            return [self._folder.resolve()]
        library, hub = _import("datasets"), _import("huggingface_hub")
        return [Path(root).resolve() for root in (library.config.HF_DATASETS_CACHE, hub.constants.HF_HUB_CACHE)]

    def _open(self) -> Any:
        library = _import("datasets")
        try:
            if self._folder is None:
                return library.load_dataset(
                    self._name,
                    self._subset,
                    split=self._split,
                    revision=self._commit,
                    streaming=self._streaming,
                )
            if _saved(self._folder):
                dataset = library.load_from_disk(str(self._folder))
                if not isinstance(dataset, dict):
                    return dataset
                if self._split not in dataset:
                    raise InputError(f"'{self._name}' has no split '{self._split}'. Splits: {', '.join(dataset)}.")
                return dataset[self._split]
            # Streamed, so that local files are not copied.
            return library.load_dataset(str(self._folder), self._subset, split=self._split, streaming=True)
        except InputError:
            raise
        except Exception as error:
            # The library, its parsers and its HTTP client raise their own error classes.
            raise InputError(f"'{self._name}' cannot be loaded: {_first_line(error)}") from error

    @cached_property
    def _commit(self) -> str:
        if is_commit(self._revision):
            return self._revision
        hub = _import("huggingface_hub")
        try:
            return str(hub.HfApi().dataset_info(self._name, revision=self._revision).sha)
        except Exception as error:
            # Any error of the hub's client; without a network the cache may still know the commit.
            cached = self._cached_commit()
            if cached is not None:
                return cached
            raise InputError(
                f"cannot find the commit of '{self._revision}' of '{self._name}' ({_first_line(error)}) Set revision "
                f"to the full commit hash to avoid the request, or give --data DIR with a copy in DIR/{self._name}."
            ) from error

    def _cached_commit(self) -> str | None:
        files, constants = (_import(f"huggingface_hub.{name}") for name in ("file_download", "constants"))
        try:
            folder = files.repo_folder_name(repo_id=self._name, repo_type="dataset")
        except ValueError:
            return None  # no dataset has that name, and the hub's own answer says so
        file = Path(constants.HF_HUB_CACHE) / folder / "refs" / self._revision
        commit = file.read_text().strip() if file.is_file() else ""
        return commit if is_commit(commit) else None


def _tables(rows: Any) -> Iterator[Any]:
    with foreign_errors():
        yield from rows.with_format("arrow").iter(batch_size=_BATCH)


def _import(name: str) -> Any:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise missing("loader hf_hub", name, "hf") from error
    # A user's folder called datasets is a module too, when there is no other.
    if getattr(module, "__file__", None) is None and hasattr(module, "__path__"):
        raise missing("loader hf_hub", name, "hf")
    # Both remove the lock of tqdm if they made it, which fails when two datasets load at once. One that is there stays.
    importlib.import_module("tqdm").tqdm.get_lock()
    return module


def _saved(folder: Path) -> bool:
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def _is_cache(file: Path) -> bool:
    """Whether this file is the library's own, not part of the dataset."""
    return file.name.startswith((".", "cache-", "tmp")) or file.suffix == ".lock"


def _first_line(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
    return f"{text}."
