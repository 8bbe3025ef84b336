"""Parts that are installed with this package: the configs and the packages ``flows``, ``tasks`` and ``blocks``."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from threading import RLock
from types import ModuleType

from gage_eval.base.errors import GageError

SIBLINGS = ("flows", "tasks", "blocks")

_FOLDER = Path(__file__).resolve().parents[2]
_lock = RLock()
_kept: dict[str, ModuleType] = {}


def configs_dir() -> Path:
    """The configs that come with the package: a checkout's ``configs/``, else the packaged copy."""
    checkout = _FOLDER / "configs"
    # An installed package has other packages next to it, and one of them may be called `configs`.
    if checkout.is_dir() and (_FOLDER / "pyproject.toml").is_file():
        return checkout
    return Path(__file__).resolve().parents[1] / "_configs"


@contextmanager
def packages_beside() -> Iterator[None]:
    """Make ``import flows``, ``tasks`` and ``blocks`` find the packages next to this one.

    These names are common. A user's package of the same name may come first on the path, or may be loaded already.
    Inside, the names mean ours; afterwards they are free for the user's packages again.

    Raises:
        GageError: one of these packages is missing or was overwritten.
    """
    with _lock:
        theirs = {name: module for name, module in _loaded().items() if not _is_ours(module)}
        _forget(theirs)
        imported_before = bool(_loaded())
        if not imported_before:
            sys.modules.update(_kept)
        finder = _Siblings()
        sys.meta_path.insert(0, finder)
        try:
            yield
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in SIBLINGS:
                raise
            raise GageError(
                f"{_FOLDER} does not hold the packages {', '.join(SIBLINGS)} of gage-eval as they were installed: "
                f"{error}. Install gage-eval again, in an environment without other packages of these names, or run "
                "with --inline."
            ) from error
        finally:
            sys.meta_path.remove(finder)
            if not imported_before:
                _kept.update(_loaded())
                _forget(_kept)
            sys.modules.update(theirs)


class _Siblings:
    """Finds only the packages next to this one."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in SIBLINGS:
            return None
        spec = PathFinder.find_spec(name, [str(_FOLDER)])
        if spec is None:
            raise ModuleNotFoundError(f"there is no package '{name}'", name=name)
        return spec


def _loaded() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in SIBLINGS}


def _forget(modules: dict[str, ModuleType]) -> None:
    for name in modules:
        sys.modules.pop(name, None)


def _is_ours(module: ModuleType) -> bool:
    top = module.__name__.partition(".")[0]
    return Path(getattr(module, "__file__", None) or "").is_relative_to(_FOLDER / top)
