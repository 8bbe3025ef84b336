"""Paths of files that configs and commands name."""

from pathlib import Path

from gage_eval.errors import InputError


def local_path(path: str, base_dir: Path) -> Path:
    """A path as people write it: ``~`` is the home folder, and a relative one starts from ``base_dir``.

    Raises:
        InputError: there is no such home folder.
    """
    try:
        return base_dir / Path(path).expanduser()
    except RuntimeError:
        raise InputError(f"'{path}': there is no home folder '{path.partition('/')[0]}'.") from None
