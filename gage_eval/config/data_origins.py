"""Files that pin the origins of data (`gage_eval.data.datasets.origins`)."""

from functools import cache
from pathlib import Path

from gage_eval.base.errors import InputError, closest
from gage_eval.base.packaged import configs_dir
from gage_eval.config.files import read_beside
from gage_eval.config.model_of import model_of
from gage_eval.config.yaml.lines import parse
from gage_eval.data.datasets.origins import DataOrigin

_FOLDER = "origins"


def load_origin(name: str, base_dir: Path | None = None) -> DataOrigin:
    """A pinned origin by its name: from ``origins/`` next to the config, else a built-in one.

    Raises:
        ConfigError: its file is wrong; all mistakes at once.
        InputError: the origin does not exist, or its file cannot be read.
    """
    folders = [*([base_dir / _FOLDER] if base_dir is not None else ()), configs_dir() / _FOLDER]
    # Names are compared with what is there and never joined to a path unseen.
    known = {file.stem: file for folder in reversed(folders) if folder.is_dir() for file in folder.glob("*.yaml")}
    if name not in known:
        raise InputError(f"no origin '{name}'. Origins: {', '.join(sorted(known)) or 'none'}.{closest(name, known)}")
    return _read(known[name], known[name].stat().st_mtime_ns)


@cache
def _read(file: Path, _changed: int) -> DataOrigin:
    node = parse(read_beside(file, str(file), "data origin"), str(file))
    return model_of(node, str(file), DataOrigin, {"name": file.stem})[0]
