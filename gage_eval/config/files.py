"""Read the files of configs. Each failure becomes one sentence."""

import os
from pathlib import Path

from gage_eval.base.errors import InputError
from gage_eval.base.files import closest_file
from gage_eval.config.yaml import lines

_SUFFIXES = (".yaml", ".yml", ".json")
_OF_DATA = (".jsonl", ".csv", ".tsv", ".parquet")


def read_config(file: Path, shown: str | None = None, what: str = "config") -> str:
    """The text of a config file.

    Args:
        file: where it is.
        shown: how messages call it, if not by its path.
        what: what it is to be, for messages.

    Raises:
        InputError: it cannot be read, or is too large for a config.
    """
    return _read(file, str(file) if shown is None else shown, what)


def read_beside(file: Path, shown: str, what: str) -> str:
    """The text of a file that a config names, such as a scoring profile; it may be a stranger's.

    Args:
        file: where it is.
        shown: how messages call it.
        what: what it is to be, for messages.

    Raises:
        InputError: it cannot be read, is a pipe, a device or the like, or is too large.
    """
    if os.path.exists(file) and not os.path.isfile(file):
        raise InputError(f"'{shown}' is not a file; name a {what} file.")
    return _read(file, shown, what)


def _read(file: Path, name: str, what: str) -> str:
    try:
        if file.is_dir():
            raise InputError(f"'{name}' is a folder; name a {what} file in it.")
        if file.suffix in _OF_DATA and file.exists():
            raise InputError(f"'{name}' is data, not a {what}. To write a config for it: gage new --data {name}")
        too_large = file.stat().st_size > lines.MAX_BYTES
        if not too_large:
            with file.open(encoding="utf-8-sig") as stream:
                text = stream.read(lines.MAX_BYTES + 1)
            # A device may have a size of 0 and no end.
            too_large = len(text) > lines.MAX_BYTES
        if too_large:
            raise InputError(f"'{name}' is larger than {lines.MAX_BYTES // 2**20} MiB; that is not a {what}.")
        return text
    except FileNotFoundError as error:
        raise InputError(f"no {what} file '{name}'.{closest_file(file, _SUFFIXES)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"'{name}' is not UTF-8 text (byte {error.start}); save it as UTF-8.") from error
    except OSError as error:
        raise InputError(f"cannot read {what} file '{name}': {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"{name!r} is not a file name: {error}.") from error
