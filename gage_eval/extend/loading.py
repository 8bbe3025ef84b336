"""Code that users bring: loading it, calling it, and saying in one sentence what it did wrong."""

import ast
import asyncio
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder, all_suffixes
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, TypeVar

from gage_eval.base.canonical import digest, sha256_hex
from gage_eval.base.errors import GageError, InputError, closest, visible
from gage_eval.base.files import local_path
from gage_eval.base.interrupts import is_real, raise_if_received
from gage_eval.base.python_syntax import module_tree
from gage_eval.extend.allowed_code import (
    allow_only,
    allowed_entries,
    are_allowed,
    check_file,
    check_module,
    distributions,
)

# Each is called once, before code of others is imported for the first time.
before_foreign_code: list[Callable[[], None]] = []

T = TypeVar("T")

_LONGEST = 300
_COMPILED = tuple(all_suffixes())
_FILE_MODULE = "gage_eval_plugin_"
_lock = RLock()
# Folders of configs, at the end of Python's path: those of the config that was read last, then the others.
_own_folders: list[str] = []
_other_folders: list[str] = []
# Plug-in files by path: the hashes of the texts that were run, its own and those that it imports, and its module.
_files: dict[Path, tuple[dict[Path, str], ModuleType]] = {}
# Files of configs' folders by path: the hash of the text when code was last loaded from it.
_texts: dict[Path, str] = {}
_leave_alone: ContextVar[bool] = ContextVar("leave_alone", default=False)
# What code raised when it was loaded, by module or file: it is not run again for each thing that a config names in it.
_failed: dict[str, BaseException] = {}


class PluginError(InputError):
    """A plug-in cannot be used, or failed. The message names it, the method and the line."""

    kind = "plugin"


class NotImported(PluginError):
    """Code that a config names was left alone (`nothing_imported`)."""


@contextmanager
def nothing_imported() -> Iterator[None]:
    """Have every attempt to load code of others raise `NotImported`, also where it was loaded before."""
    token = _leave_alone.set(True)
    try:
        yield
    finally:
        _leave_alone.reset(token)


def check_allowed(name: str) -> None:
    """Refuse to load or use code where `nothing_imported` holds.

    Raises:
        NotImported: it does.
    """
    if _leave_alone.get():
        raise NotImported(f"the code of '{without_folders(name)}' was not imported.")


@contextmanager
def plugin_errors(what: str) -> Iterator[None]:
    """Convert what a user's code raises to an error of one sentence.

    Args:
        what: the code and its method, as ``rows.py:Rows.records()``.

    Raises:
        PluginError: it raised something, ``SystemExit`` included. What `is_ours` passes unchanged.
    """
    try:
        yield
    except BaseException as error:
        if is_ours(error):
            raise
        raise PluginError(failure(what, error)) from error
    raise_if_received()


def is_ours(error: BaseException) -> bool:
    """Whether an exception from a user's code is one of gage-eval, a Ctrl-C, or the cancellation of its task."""
    if isinstance(error, KeyboardInterrupt):
        return is_real()
    # Code that cancels a thread raises its own exception class in it.
    if type(error) is asyncio.CancelledError:
        return _is_cancelled()
    return isinstance(error, GageError | asyncio.CancelledError)


def _is_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def failure(what: str, error: BaseException) -> str:
    """``rows.py:Rows.records() raised ValueError: boom (rows.py, line 12).``"""
    text = said_by(error)
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{what} raised {reason.rstrip('.')}{_raised_at(error)}."


def said_by(error: BaseException, longest: int = _LONGEST) -> str:
    """The text of an exception on one line, in characters that can be stored and shown; empty without a text."""
    try:
        return visible(" ".join(str(error).split())[:longest])
    except BaseException:  # noqa: BLE001 - even that is the user's code
        raise_if_received()
        return ""


def absolute_name(name: str, folder: Path) -> str:
    """The name of a plug-in with its file found from a config's folder; names of other forms stay as they are.

    Raises:
        InputError: no file can have that name.
    """
    file, colon, attribute = name.rpartition(":")
    if not colon or not file.endswith(".py"):
        return name
    try:
        return f"{local_path(file, folder).resolve()}:{attribute}"
    except (OSError, ValueError, RuntimeError) as error:
        # Links in a circle.
        raise InputError(f"'{visible(file)}' is not the name of a file ({visible(str(error))}).") from error


def without_folders(name: str) -> str:
    """The name for keys, tables and messages, without folders: a file counts by its content."""
    file, colon, attribute = name.rpartition(":")
    return f"{Path(file).name}:{attribute}" if colon and file.endswith(".py") else name


def is_path(name: str) -> bool:
    """Whether a plug-in is named by where its code is."""
    return ":" in name or ("." in name and not name.startswith("."))


def is_in_file(obj: Any) -> bool:
    """Whether a function or class is in a file that a config names."""
    return str(getattr(obj, "__module__", None)).startswith(_FILE_MODULE)


def location_of(obj: Any, name: str) -> str:
    """The location of a plug-in for messages: its file and its name in it, as ``rows.py:Rows``."""
    module = sys.modules.get(getattr(obj, "__module__", None) or "")
    file, own = getattr(module, "__file__", None), getattr(obj, "__qualname__", None)
    return f"{Path(file).name}:{own}" if file and own else without_folders(name)


def version_of(obj: Any, name: str) -> int:
    """The version that a plug-in says it has, 1 when it says none.

    Raises:
        PluginError: it is not a whole number.
    """
    version = getattr(obj, "version", 1)
    if type(version) is not int:
        raise PluginError(f"{name}: its version is {version!r}, not a whole number.")
    return version


def look_in(folders: Iterable[Path]) -> None:
    """Have code import modules from the folders of a config, after all others of Python's path.

    Where only some code is allowed, the path stays as it is: whatever a library tries to import would come from the
    folder of a user of the server. Then `_AllowedModules` finds those modules that are allowed.
    """
    with _lock:
        if allowed_entries() is not None:
            _own_folders[:] = dict.fromkeys(map(str, folders))
            if not any(isinstance(finder, _AllowedModules) for finder in sys.meta_path):
                sys.meta_path.append(_AllowedModules())
            return
        known = [folder for folder in (*_own_folders, *_other_folders) if folder in sys.path]
        path = [folder for folder in sys.path if folder not in known]
        own = [folder for folder in dict.fromkeys(map(str, folders)) if folder not in path]
        _other_folders[:] = [folder for folder in known if folder not in own]
        _own_folders[:] = own
        sys.path[:] = [*path, *_own_folders, *_other_folders]


def config_folders() -> list[str]:
    """The folders of the configs that were read, the last one first."""
    return [*_own_folders, *_other_folders]


class _AllowedModules:
    """Finds modules of the config's folders whose files are all allowed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if allowed_entries() is None or path is not None:
            return None
        for folder in map(Path, _own_folders):
            files = _named(folder, name, _COMPILED)
            if files and are_allowed(files):
                return PathFinder.find_spec(name, [str(folder)])
        return None


def loading_rules() -> tuple[frozenset[str] | None, list[str]]:
    """The rules with which another process loads the same code (`follow_rules`); it has Python's path already."""
    return allowed_entries(), [*_own_folders]


def follow_rules(allowed: frozenset[str] | None, folders: list[str]) -> None:
    """Load the code in this process that another one may load (`loading_rules`)."""
    if allowed is not None:
        allow_only(allowed)
        look_in(map(Path, folders))


def load_object(path: str) -> tuple[Any, str]:
    """The object at ``pkg.mod:attr``, ``pkg.mod.attr`` or ``dir/file.py:attr``, and its code's identity.

    A file is run once, and again only when its text changed, or that of a module of its folder that it imports. So the
    identity is that of the code that runs.

    Raises:
        InputError: the module, file or attribute is not there, or the code raised something.
    """
    check_allowed(path)
    if path.endswith(".py"):
        raise PluginError(f"'{path}' is a file; say what in it is meant: {path}:NAME.")
    module_name, _, attribute = path.rpartition(":")
    if not module_name:
        module_name, _, attribute = path.rpartition(".")
    if not module_name or not attribute:
        raise PluginError(f"'{without_folders(path)}' is not a plug-in: write pkg.mod:NAME or file.py:NAME.")
    if module_name.endswith(".py"):
        if os.path.isfile(module_name):
            files = code_files(Path(module_name))
            check_file(without_folders(path), files)
            folder = Path(module_name).resolve().parent
            _forget_namesakes(folder, {file.relative_to(folder).parts[0].removesuffix(".py") for file in files})
            _forget_edited(files)
    else:
        check_module(path, module_name)
        top = module_name.partition(".")[0]
        for own in map(Path, _own_folders):
            _forget_namesakes(own, {top})
            if top not in distributions() and top != __name__.partition(".")[0]:
                _forget_edited(_imported(own.resolve(), {top}))
    about_to_import()
    shown = Path(module_name).name if module_name.endswith(".py") else module_name
    with _lock, plugin_errors(f"cannot load '{without_folders(path)}': {shown}"):
        module = _run_file(Path(module_name), path) if module_name.endswith(".py") else _import(module_name, path)
    with plugin_errors(f"cannot load '{without_folders(path)}': {shown}"):
        try:
            return getattr(module, attribute), origin_of_module(module.__name__)
        except AttributeError:
            names = [name for name in vars(module) if not name.startswith("_")]
            raise PluginError(f"'{shown}' has no '{attribute}'.{closest(attribute, names)}") from None


def _forget_namesakes(folder: Path, names: Iterable[str]) -> None:
    """Forget same-named modules from other configs' folders, because Python keeps one module per name.

    What the other configs imported stays theirs, because their code holds it.

    Args:
        folder: of the code that is to be loaded.
        names: top-level names of the modules that it is made of.
    """
    for name in names:
        loaded = getattr(sys.modules.get(name), "__file__", None)
        own = (folder / f"{name}.py", folder / name / "__init__.py")
        if loaded is None or Path(loaded).resolve() in own or not any(file.is_file() for file in own):
            continue
        if any(Path(loaded).is_relative_to(other) for other in _other_folders):
            for known in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
                del sys.modules[known]


def _forget_edited(files: Iterable[Path]) -> None:
    """Forget modules if one of their files was edited since they were loaded, so that all are imported again."""
    hashes = {file: sha256_hex(file.read_bytes()) for file in files}
    edited = {file for file, text_hash in hashes.items() if _texts.get(file, text_hash) != text_hash}
    for name, module in list(sys.modules.items()) if edited else ():
        file = getattr(module, "__dict__", {}).get("__file__")
        if file is not None and not name.startswith(_FILE_MODULE) and Path(file).resolve() in hashes:
            del sys.modules[name]
    for file in edited:
        # Python takes an edit of the same second and size for the old file.
        with suppress(OSError):
            Path(importlib.util.cache_from_source(str(file))).unlink()
    _texts.update(hashes)


def once(name: str, load: Callable[[], T]) -> T:
    """Call ``load``. If it failed before, raise the same failure again without running it.

    Args:
        name: of the code, as a config names it.
        load: imports or runs it.
    """
    with _lock:
        if name in _failed:
            raise _failed[name]
        try:
            return load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            _failed[name] = error
            raise


def forget_failures() -> None:
    """Have code that failed tried again: another config is read, or the same one was changed."""
    with _lock:
        _failed.clear()


def about_to_import() -> None:
    """Call what waits for the first code of others."""
    while before_foreign_code:
        before_foreign_code.pop()()


def _import(name: str, path: str) -> ModuleType:
    try:
        return once(name, partial(importlib.import_module, name))
    except ModuleNotFoundError as error:
        raise PluginError(f"cannot import '{name}' for plug-in '{path}': {error}.") from error


def _run_file(file: Path, path: str) -> ModuleType:
    if not os.path.isfile(file):
        near = closest(file.name, [other.name for other in file.parent.glob("*.py")])
        raise PluginError(f"no file '{file}' for plug-in '{without_folders(path)}'.{near}")
    code, where = file.read_bytes(), file.resolve()
    texts = {file: sha256_hex(file.read_bytes()) for file in code_files(where)} | {where: sha256_hex(code)}
    known = _files.get(where)
    if known is not None and known[0] == texts:
        return known[1]
    module = once(str(where), partial(_module_of, code, where))
    _files[where] = (texts, module)
    return module


def _module_of(code: bytes, where: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{_FILE_MODULE}{digest(str(where))[:12]}", where)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Known by name while it runs: dataclasses look their module up, and so does the origin of what it registers.
    sys.modules[module.__name__] = module
    try:
        # Compiled here: Python's own cache takes an edit of the same second and size for the old file.
        exec(compile(code, str(where), "exec"), module.__dict__)  # noqa: S102  # a plug-in the user names
    except BaseException:
        del sys.modules[module.__name__]
        raise
    return module


def origin_of_module(module_name: str) -> str:
    """Distribution and version of a module's top-level package, else the hash of the code's files.

    The files are those of the package, or of the file and of what it imports from its own folder.
    """
    top = module_name.split(".")[0]
    if top == __name__.split(".")[0] and (own := getattr(sys.modules.get(module_name), "__file__", None)):
        # A built-in function that a config names: its module stands alone.
        return f"sha256:{sha256_hex(Path(own).read_bytes())}"
    owners = distributions().get(top)
    if owners:
        return f"{owners[0]}=={metadata.version(owners[0])}"
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None:
        return f"module:{top}"
    root = Path(file)
    files: set[Path] = set()
    _collect(root, root.parent.parent if root.name == "__init__.py" else root.parent, files)
    listed = sorted((Path(os.path.relpath(file, root.parent)).as_posix(), file) for file in files)
    return "sha256:" + digest([[name, sha256_hex(file.read_bytes())] for name, file in listed])


def code_files(file: Path) -> set[Path]:
    """A file of code, and the modules and packages of its folder that it imports, directly or not."""
    where = file.resolve()
    return {where} | _imported(where.parent, _imported_by(where))


def _imported(folder: Path, names: Iterable[str]) -> set[Path]:
    """The files of the folder's modules and packages with these names, and of everything that they import."""
    imported: set[Path] = set()
    waiting = list(names)
    known: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in known:
            continue
        known.add(name)
        files = _named(folder, name, (".py",))
        waiting += [other for file in files - imported for other in _imported_by(file)]
        imported |= files
    return imported


def _named(folder: Path, name: str, suffixes: tuple[str, ...]) -> set[Path]:
    """The files of a folder that Python may load for a module or package of that name."""
    files = {folder / f"{name}{suffix}" for suffix in suffixes}
    if os.path.isdir(folder / name):
        inside = (file for file in (folder / name).rglob("*") if file.parent.name != "__pycache__")
        files |= {file for file in inside if file.name.endswith(suffixes)}
    return {file for file in files if os.path.isfile(file)}


def _collect(root: Path, folder: Path, files: set[Path]) -> None:
    """Add a module's files, and those of the modules in the same folder that they import."""
    own = set(root.parent.rglob("*.py")) if root.name == "__init__.py" else {root}
    for file in sorted(own - files):
        files.add(file)
        for name in _imported_by(file):
            source = _module_file(name)
            if source is not None and source.is_relative_to(folder) and "site-packages" not in source.parts:
                _collect(source, folder, files)


def _imported_by(file: Path) -> set[str]:
    """Top-level names of the modules that a file imports."""
    try:
        tree = module_tree(file.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in names} - {""} - sys.stdlib_module_names


def _module_file(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def _raised_at(error: BaseException) -> str:
    """The place in the user's code that raised, as `` (rows.py, line 12)``; empty if unknown."""
    if isinstance(error, SyntaxError):
        return ""  # it says so itself
    ours = str(Path(__file__).parents[1])
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
    named = [frame for frame in frames if Path(frame.filename).is_file()]
    users = [frame for frame in named if not frame.filename.startswith((sys.prefix, sys.base_prefix))] or named
    return f" ({Path(users[-1].filename).name}, line {users[-1].lineno})" if users else ""
