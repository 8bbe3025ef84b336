"""Backends that run a checkpoint: the fields they share, its files by content, the interpreter it runs in."""

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from gage_eval.base.canonical import JsonValue, decode
from gage_eval.base.errors import InputError
from gage_eval.base.files import local_path
from gage_eval.base.hashing import file_digest
from gage_eval.base.marks import identity, scheduling, semantic
from gage_eval.extend.extras import install_engine
from gage_eval.models.backends.base import BackendContext, ThinkingConfig

_HUB = re.compile(r"[\w.-]+/[\w.-]+")
# Files in a model's folder that are not part of the model.
_ASIDE = frozenset({".md", ".png", ".jpg", ".gitattributes", ".gitignore", ".lock"})


class CheckpointConfig(ThinkingConfig):
    """Fields of a backend that runs a checkpoint in its own engine."""

    model_path: str | None = identity("infer", None, description="The model's folder, or its name on the hub.")
    revision: str | None = semantic("infer", None, description="Revision of a model on the hub.")
    max_model_len: int | None = semantic("infer", None, ge=8, description="Tokens of prompt and answer together.")
    lora_path: str | None = identity(
        "infer", None, description="Folder of a LoRA adapter, put onto the model; transformers needs peft for it."
    )
    trust_remote_code: bool = semantic("infer", default=False, description="Run code that comes with the model.")
    add_bos_token: bool = semantic(
        "infer", default=False, description="Begin likelihood contexts with the tokenizer's special tokens."
    )
    prefix_token_id: int | None = semantic(
        "infer", None, ge=0, description="Token that replaces an empty likelihood context; by default BOS, else EOS."
    )
    python: str | None = scheduling(None, description="Interpreter that has the engine; by default this one.")
    start_timeout: float = scheduling(1800.0, gt=0, description="Seconds for loading the model.")
    replicas: int = scheduling(1, ge=1, le=64, description="Engines that are started, each with its own GPUs.")

    @property
    def gpus_each(self) -> int:
        """How many GPUs one engine needs."""
        return 1


def model_identity(config: CheckpointConfig, context: BackendContext, type_: str) -> dict[str, JsonValue]:
    """The checkpoint's identity, and the adapter's where there is one.

    Raises:
        InputError: one of them is not there.
    """
    identities: dict[str, JsonValue] = {}
    for name, path, revision in (("model", config.model_path, config.revision), ("lora", config.lora_path, None)):
        if path is not None:
            setting = f"{type_}: config.{name}_path"
            identities[name] = checkpoint_identity(path, revision, context.base_dir, context.env, setting)
    return identities


def located(path: str, context: BackendContext, setting: str) -> str:
    """The form of a checkpoint for an engine: its absolute path, or its name on the hub.

    Raises:
        InputError: it is neither there nor a hub's name; the message begins with `setting`.
    """
    folder = find_checkpoint(path, context.base_dir, setting)
    return path if folder is None else os.path.abspath(folder)


def adapter(config: CheckpointConfig, context: BackendContext, type_: str) -> str | None:
    """The form of the adapter for an engine, if there is one; raises as `located` does."""
    return None if config.lora_path is None else located(config.lora_path, context, f"{type_}: config.lora_path")


def find_checkpoint(model_path: str, base_dir: Path, setting: str) -> Path | None:
    """The folder or file a model is in; None when the path is the name of a model on a hub.

    Args:
        model_path: as configured.
        base_dir: what relative paths are relative to.
        setting: the field that names it, for the message.

    Raises:
        InputError: it is neither there nor a hub's name.
    """
    path = local_path(model_path, base_dir)
    if path.exists():
        return path
    if _HUB.fullmatch(model_path) and not model_path.startswith("."):
        return None
    raise InputError(f"{setting}: no folder '{model_path}'. Name a model's folder, or one on the hub as org/name.")


def checkpoint_identity(
    model_path: str, revision: str | None, base_dir: Path, env: Mapping[str, str], setting: str
) -> JsonValue:
    """Names, sizes and hashes of a checkpoint's files, or name and revision on the hub; never its path.

    Raises:
        InputError: it is not there, or no folder of a model.
    """
    path = find_checkpoint(model_path, base_dir, setting)
    if path is None:
        return {"hub": model_path, "revision": revision}
    if path.is_file():
        return {"file": file_digest(path, env)}
    files = _model_files(path)
    if not any(file.name in {"config.json", "params.json", "adapter_config.json"} for file in files):
        raise InputError(f"{setting}: '{model_path}' holds no config.json, so it is not a model folder.")
    return [
        {"name": file.relative_to(path).as_posix(), "bytes": file.stat().st_size, "sha256": file_digest(file, env)}
        for file in files
    ]


def files_now(base_dir: Path, *paths: str | None) -> JsonValue:
    """Names, sizes and times of the files that an engine would read if it started now; nothing for names on a hub.

    They tell whether a model has changed since an engine was started. Unlike `checkpoint_identity` it opens no file.
    """
    places = [local_path(path, base_dir) for path in paths if path is not None]
    files = [file for place in places for file in ([place] if place.is_file() else _model_files(place))]
    states = [(str(file), file.stat()) for file in files]
    return [[name, state.st_size, state.st_mtime_ns, state.st_ino] for name, state in states]


def _model_files(folder: Path) -> list[Path]:
    """The files of a model's folder, without notes and hidden ones."""
    return [
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.suffix not in _ASIDE and not file.relative_to(folder).parts[0].startswith(".")
    ]


def prefix_token(folder: Path) -> int | None:
    """The token that replaces an empty context: BOS, else EOS; None if the checkpoint names neither."""
    for name in ("config.json", "generation_config.json"):
        file = folder / name
        values = decode(file.read_bytes()) if file.is_file() else None
        if not isinstance(values, dict):
            continue
        texts = values.get("text_config")
        for field in ("bos_token_id", "eos_token_id"):
            for section in (values, texts if isinstance(texts, dict) else {}):
                token = section.get(field)
                token = token[0] if isinstance(token, list) and token else token
                if isinstance(token, int):
                    return token
    return None


def check_engine(library: str, backend: str, python: str | None, base_dir: Path) -> None:
    """Check that an engine's library is where it will run. Nothing is started or imported.

    An environment of another interpreter is looked at only where it takes no packages from elsewhere.

    Raises:
        InputError: the interpreter or the library is not there.
    """
    executable = interpreter(python, base_dir)
    if executable == sys.executable:
        there = importlib.util.find_spec(library) is not None
    else:
        there = _may_hold(Path(executable).parent.parent, library)
    if not there:
        raise InputError(
            f"backend {backend} needs {library}, which is not installed. {install_engine(library, executable)}"
        )


def installed_version(library: str, python: str | None, base_dir: Path) -> str | None:
    """The version of a library where an engine will run; None where that cannot be seen without starting it."""
    executable = interpreter(python, base_dir)
    if executable == sys.executable:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(library)
        return None
    environment = Path(executable).parent.parent
    infos = sorted(environment.glob(f"lib*/python*/site-packages/{library}-*.dist-info"))
    return infos[0].name.removesuffix(".dist-info").removeprefix(f"{library}-") if infos else None


def _may_hold(environment: Path, library: str) -> bool:
    settings = environment / "pyvenv.cfg"
    if not settings.is_file() or "include-system-site-packages = true" in settings.read_text(errors="replace"):
        return True
    # Packages that are installed in place leave a file with their name.
    return any(environment.glob(f"lib*/python*/site-packages/*{library}*"))


def interpreter(python: str | None, base_dir: Path) -> str:
    """The interpreter an engine runs in; by default this one.

    Raises:
        InputError: it is not there.
    """
    if python is None:
        return sys.executable
    if os.sep not in python:
        if shutil.which(python) is None:
            raise InputError(f"python: no '{python}' on the PATH. Name the interpreter of an environment by its path.")
        return python
    # Not resolved: an environment's interpreter is a link, and the link is what makes it the environment's.
    path = Path(os.path.abspath(local_path(python, base_dir)))
    if not path.is_file():
        raise InputError(f"python: no interpreter '{python}'. Name the one of the environment that has the engine.")
    return str(path)
