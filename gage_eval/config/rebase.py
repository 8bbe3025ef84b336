"""Paths of a template seen from the folder of the config that runs it."""

import os
from dataclasses import replace
from pathlib import Path

from gage_eval.config.nodes import child, text_of, with_scalars
from gage_eval.config.problems import Loc
from gage_eval.config.yaml_lines import Node, Scalar, as_written
from gage_eval.packaged import configs_dir

# Fields of backends that name a file or a folder, or else something on the hub.
_MODELS = frozenset({"model", "model_path", "model_name_or_path", "lora_path", "path", "file_path", "python"})


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
        if (
            scalar.source != source
            or not isinstance(as_written(scalar), str)
            or not _is_path(definition, loc, scalar.text, old)
        ):
            return scalar
        name, colon, attribute = scalar.text.rpartition(":") if _is_code(scalar.text) else (scalar.text, "", "")
        return replace(scalar, text=seen_from(old / name, new) + colon + attribute, plain=False)

    return with_scalars(definition, change)


def seen_from(place: Path, folder: Path) -> str:
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
            return (folder / text).is_dir()
        case ("backends", int(), "config", str(key)) | ("role_adapters", int(), "backend", "config", str(key)):
            return key in _MODELS and (folder / text).exists()
        case ("tasks", int(), "scoring_profile"):
            return text.endswith((".yaml", ".yml"))
    return False


def _is_code(text: str) -> bool:
    file, colon, attribute = text.rpartition(":")
    return bool(colon) and file.endswith(".py") and attribute.isidentifier() and " " not in file
