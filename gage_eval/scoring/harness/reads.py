"""What the harness reads while it loads a task: YAML, Python and other files, and the data that `datasets` gives.

It runs in the process of the harness.
"""

import json
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import digest
from gage_eval.base.git import is_commit

FILE = "harness.json"
CODE = (".yaml", ".yml", ".py")
_WRITES = os.O_WRONLY | os.O_RDWR


class CannotRun(Exception):
    """A task that does not run here, and why: one sentence."""


class Reads:
    """Files and data that are read within `watched`.

    Args:
        pins: the commits of datasets of the hub for which the task names none.
        stored: the data of an earlier reading, by the digest of the call that asked for them, as in `datasets`.
        folder: where the files of ``stored`` are.
    """

    def __init__(self, pins: Mapping[str, str], stored: Mapping[str, Any], folder: Path) -> None:
        self.datasets: dict[str, dict[str, Any]] = {}
        self._opened: set[str] = set()
        self._pins, self._stored, self._folder = pins, stored, folder

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note what is read, and have data loaded as it was stored or pinned."""
        _listen()
        _forget_modules()
        _watching.append(self)
        try:
            yield
        finally:
            _watching.remove(self)

    def files(self, task: Path | None) -> list[str]:
        """The files that the task consists of, sorted: YAML and Python, and whatever else lies in its folder.

        Files of Python, of its packages and of the caches of the hub are left out.

        Args:
            task: the user's file; None for a task of the harness.
        """
        places = (Path(source_from_cache(name) if name.endswith(".pyc") else name) for name in self._opened)
        own = {place.resolve() for place in places if place.is_file()}
        return sorted(str(file) for file in own if _is_own(file) and (file.suffix in CODE or _is_below(file, task)))

    def load_builder(self, inner: Callable[..., Any], path: str, name: Any, options: dict[str, Any]) -> Any:
        """What `datasets.load_dataset_builder` gives, for the pinned or stored data, noted in `datasets`.

        Raises:
            CannotRun: only another commit of the data is at hand.
        """
        revision = options.get("revision")
        arguments = [path, name, *(options.get(key) for key in ("data_dir", "data_files", "revision"))]
        call = digest(json.loads(json.dumps(arguments, default=str)))
        stored = self._stored.get(call, {})
        if "files" in stored:
            files = {split: [str(self._folder / file) for file in own] for split, own in stored["files"].items()}
            path, name, options = stored["path"], None, {**options, "data_files": files, "data_dir": None}
        elif stored.get("commit"):
            options = {**options, "revision": stored["commit"]}
        elif revision in (None, "main") and path in self._pins:
            revision = self._pins[path]
            options = {**options, "revision": revision}
        builder = inner(path, name, **options)
        commit = builder.hash if builder.repo_id and is_commit(str(builder.hash)) else None
        wanted = str(options.get("revision"))
        if builder.repo_id and is_commit(wanted) and commit != wanted:
            raise CannotRun(f"the data '{path}' are not here at commit {wanted}, and the hub was not asked.")
        files = {str(split): [str(file) for file in own] for split, own in (builder.config.data_files or {}).items()}
        self.datasets[call] = {
            "hub": builder.repo_id,
            "revision": str(revision or "main"),
            "commit": commit,
            "path": type(builder).__module__.rpartition(".")[2],
            "files": files,
        }
        return builder


def yaml_files(folder: Path) -> list[Path]:
    """The files among which the harness finds tasks by their names, in its order, without copies next to a `FILE`."""

    def is_left_out(file: Path) -> bool:
        below = file.relative_to(folder)
        copied = any((folder / parent / FILE).is_file() for parent in below.parents)
        return copied or not {"__pycache__", ".ipynb_checkpoints"}.isdisjoint(below.parts) or not file.is_file()

    return sorted((file for file in folder.glob("**/*.yaml") if not is_left_out(file)), key=Path.as_posix)


_watching: list[Reads] = []


@cache
def _listen() -> None:
    """Hear of every file that is opened and of every dataset that is loaded. Python cannot forget the former."""

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and _watching and isinstance(arguments[0], str) and not (arguments[2] or 0) & _WRITES:
            _watching[-1]._opened.add(arguments[0])

    sys.addaudithook(heard)
    library: Any = import_module("datasets.load")
    inner = library.load_dataset_builder

    def load_dataset_builder(path: str, name: Any = None, **options: Any) -> Any:
        if not _watching:
            return inner(path, name, **options)
        return _watching[-1].load_builder(inner, path, name, options)

    library.load_dataset_builder = load_dataset_builder


def _forget_modules() -> None:
    """Have the Python files of tasks read again: Python keeps a module that it has."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        # A virtual environment may be a link, and the folders that are compared have none.
        if isinstance(file, str) and name != "__main__" and _is_own(Path(file).resolve()):
            del sys.modules[name]


@cache
def tasks_folder() -> Path:
    """The folder of the harness's own tasks."""
    return Path(import_module("lm_eval.tasks").__file__ or "").resolve().parent


@cache
def _foreign() -> tuple[Path, ...]:
    """Folders whose files do not belong to tasks."""
    caches = import_module("datasets.config"), import_module("huggingface_hub.constants")
    names = ("HF_CACHE_HOME", "HF_DATASETS_CACHE", "HF_MODULES_CACHE", "HF_HOME", "HF_HUB_CACHE", "HF_XET_CACHE")
    folders = [getattr(module, name, None) for module in caches for name in names]
    python = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    packages = tasks_folder().parent, Path(__file__).parents[2]
    system = [Path("/", name) for name in ("dev", "proc", "sys")]
    return tuple(Path(folder).resolve() for folder in (*folders, *python, *packages, *system) if folder)


def _is_own(file: Path) -> bool:
    """Whether a file may be of a task: of the harness, where modules of its own without YAML are not, or of a user."""
    if file.is_relative_to(tasks_folder()):
        return file.parent != tasks_folder()
    return not any(file.is_relative_to(folder) for folder in _foreign())


def _is_below(file: Path, task: Path | None) -> bool:
    folder = tasks_folder() if task is None else task.parent
    return file.is_relative_to(folder) and not any(part.startswith(".") for part in file.relative_to(folder).parts)
