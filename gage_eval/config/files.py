"""Files of configs, read with a sentence for whatever goes wrong."""

from pathlib import Path

from gage_eval.config import yaml_lines
from gage_eval.errors import InputError
from gage_eval.files import closest_file

_SUFFIXES = (".yaml", ".yml", ".json")
_OF_DATA = (".jsonl", ".csv", ".tsv", ".parquet")


def read_config(file: Path, shown: str | None = None) -> str:
    """The text of a config file.

    Args:
        file: where it is.
        shown: how messages call it, if not by its path.

    Raises:
        InputError: it cannot be read, or is too large for a config.
    """
    name = str(file) if shown is None else shown
    try:
        if file.is_dir():
            raise InputError(f"'{name}' is a folder; name a config file in it.")
        if file.suffix in _OF_DATA and file.exists():
            raise InputError(f"'{name}' is data, not a config. To write a config for it: gage new --data {name}")
        if file.stat().st_size > yaml_lines.MAX_BYTES:
            raise InputError(f"'{name}' is larger than {yaml_lines.MAX_BYTES // 2**20} MiB; that is not a config.")
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"no config file '{name}'.{closest_file(file, _SUFFIXES)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"'{name}' is not UTF-8 text (byte {error.start}); save it as UTF-8.") from error
    except OSError as error:
        raise InputError(f"cannot read config file '{name}': {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"{name!r} is not a file name: {error}.") from error
