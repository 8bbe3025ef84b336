"""Paths of a template seen from the folder of the config that runs it."""

import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from gage_eval.base.files import is_folder
from gage_eval.base.packaged import configs_dir
from gage_eval.config.problems import Loc
from gage_eval.config.yaml.lines import Node, Scalar, as_written
from gage_eval.config.yaml.nodes import child, text_of, with_scalars

# Fields of backends that name a file or a folder, or else something on the hub.
_MODELS = frozenset({"model", "model_path", "model_name_or_path", "lora_path", "path", "file_path", "python"})

# Where a class path may be written with a dot in place of the colon.
_CLASS_PATHS = (("class_path",), ("implementation",))


def rebased(definition: Node, source: str, old: Path, new: Path) -> Node:
    """A definition whose relative paths start from another folder.

    Args:
        definition: the tree.
        source: the file whose paths are meant; those that another file put in stay as they are.
        old: the folder that its paths start from.
        new: the folder that they shall start from. Files that come with the package keep their whole path.
    """
    if old.resolve() == new.resolve():
        return definition

    def change(loc: Loc, scalar: Scalar) -> Node:
        if scalar.source != source or not isinstance(as_written(scalar), str):
            return scalar
        text = _module_as_file(scalar.text, loc, old) or scalar.text
        if not _is_path(definition, loc, text, old):
            return scalar
        name, colon, attribute = text.rpartition(":") if _is_code(text) else (text, "", "")
        return replace(scalar, text=relative_name(old / name, new) + colon + attribute, plain=False)

    return with_scalars(definition, change)


def relative_name(place: Path, folder: Path) -> str:
    """A path as a config in a folder names it."""
    if place.resolve().is_relative_to(configs_dir()):
        return str(place.resolve())
    return os.path.relpath(place.resolve(), folder.resolve())


def relative_path(definition: Node, loc: Loc, text: str, folder: Path) -> bool:
    """Whether a value of a definition is a path that starts from the definition's folder."""
    return _is_path(definition, loc, text, folder)


def _is_path(definition: Node, loc: Loc, text: str, folder: Path) -> bool:
    if not text or text.startswith(("/", "~", "$")) or "://" in text or "\0" in text:
        return False
    if _is_code(text):
        return True
    match loc:
        case ("datasets", int(at), "params", str(key), *_):
            if text_of(child(child(child(child(definition, "datasets"), at), "params"), "origin")) is not None:
                return False
            return key in ("path", "content_root") or (key.endswith("_path") and key != "records_path")
        case ("datasets", int(), "hub"):
            return is_folder(text, folder)
        case ("backends", int(), "config", str(key)) | ("role_adapters", int(), "backend", "config", str(key)):
            return key in _MODELS and os.path.exists(folder / text)
        case ("tasks", int(), "labels", "path"):
            return True
        case ("tasks", int(), "scoring_profile"):
            return text.endswith((".yaml", ".yml"))
    return False


def _is_code(text: str) -> bool:
    file, colon, attribute = text.rpartition(":")
    return bool(colon) and file.endswith(".py") and attribute.isidentifier() and " " not in file


def _module_as_file(text: str, loc: Loc, folder: Path) -> str | None:
    """A class path whose module is a file of the folder, as that file; None for other texts.

    ``mine:score`` is looked for next to the config that names it. A module of a package keeps its name, because it may
    import its neighbours, and so does one that Python finds elsewhere: the folder comes after all others.
    """
    module, colon, attribute = text.rpartition(":")
    if not colon and loc[-1:] in _CLASS_PATHS:
        module, _, attribute = text.rpartition(".")
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        return None
    file = Path(*module.split(".")).with_suffix(".py")
    if not os.path.isfile(folder / file) or (folder / file).with_name("__init__.py").exists():
        return None
    return None if _is_elsewhere(module.partition(".")[0], folder) else f"{file.as_posix()}:{attribute}"


def _is_elsewhere(name: str, folder: Path) -> bool:
    """Whether Python finds a module of this name outside the folder. A module of Python's own has no file."""
    spec = find_spec(name)
    if spec is None:
        return False
    places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location and spec.origin else ())]
    return not any(Path(place).resolve().is_relative_to(folder.resolve()) for place in places)
