"""The foreign code that this process may load. A worker of a Prefect server loads only what its operator allowed.

By default any code may be loaded: a user's own process runs the user's own config.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from gage_eval.base.canonical import digest, sha256_hex
from gage_eval.base.errors import InputError

ANY = "*"
# The plug-ins of installed distributions, and code in files of the worker's folder that its configs name. The worker
# finds out which these are (`flows.guard`).
OWN = "."
VARIABLE = "GAGE_EVAL_PLUGINS"
# Our functions that configs name by their module.
_CONVERTERS = "gage_eval.data.standardize.converters"
# Arguments and variables of engines that name code.
_CODE_ARGUMENT = re.compile(r"_cls$|_class$|plugin|processors?$|middleware|trust_remote_code|hf_overrides|code_rev")
_CODE_VARIABLE = re.compile(r"PYTHON|LD_|PATH$|PLUGIN|CLS", re.IGNORECASE)
_SCRIPT = ("file_path", "module_path", "class_name")
_ENGINE = "engine:"


class CodeRefused(InputError):
    """The operator of the server did not allow the code."""

    kind = "code_refused"


class _Allowed:
    names: frozenset[str] | None = None


def allow_only(entries: Iterable[str] | None) -> None:
    """Allow this process to load only this foreign code from now on.

    Args:
        entries: ``sha256:HEX`` of a file, the name of a distribution, the absolute path of an interpreter, an
            `engine_entry`, ``.`` for the plug-ins of all installed distributions, or ``*`` for any code. None lifts
            the limit.
    """
    names = None if entries is None else frozenset(_plain(entry.strip()) for entry in entries if entry.strip())
    _Allowed.names = None if names is None or ANY in names else names


def allowed_entries() -> frozenset[str] | None:
    """The entries of `allow_only`, for another process; None if any code may be loaded."""
    return _Allowed.names


def are_allowed(files: Iterable[Path]) -> bool:
    """Whether code may be loaded from all of these files."""
    allowed = _Allowed.names
    return allowed is None or all(f"sha256:{sha256_hex(file.read_bytes())}" in allowed for file in files)


def check_file(name: str, files: Collection[Path]) -> None:
    """Refuse a plug-in in a file, unless the file and all that it imports from its folder are allowed.

    Raises:
        CodeRefused: one of them is not.
    """
    allowed = _Allowed.names
    if allowed is None:
        return
    hashes = {file: f"sha256:{sha256_hex(file.read_bytes())}" for file in sorted(files)}
    missing = [entry for entry in hashes.values() if entry not in allowed]
    if missing:
        raise _refused(f"the plug-in '{name}'", ",".join(missing))


def check_module(name: str, module: str) -> None:
    """Refuse a plug-in that is named by its module, unless its distribution is allowed.

    Raises:
        CodeRefused: it is not.
    """
    if _Allowed.names is None or module == _CONVERTERS:
        return
    owners = distributions().get(module.partition(".")[0], ())
    if not any(_plain(owner) in _Allowed.names for owner in owners):
        raise _refused(f"the plug-in '{name}'", next(iter(owners), "DISTRIBUTION"))


def check_distribution(name: str, distribution: str | None) -> None:
    """Refuse a plug-in that an installed distribution registered, unless that is allowed.

    Raises:
        CodeRefused: it is not.
    """
    allowed = _Allowed.names
    if allowed is None or OWN in allowed:
        return
    if distribution is None or _plain(distribution) not in allowed:
        raise _refused(f"the plug-in '{name}'", distribution or "DISTRIBUTION")


def check_engine(type_: str, config: Mapping[str, Any]) -> None:
    """Refuse a built-in backend whose config makes it run code of others.

    Args:
        type_: the backend's type.
        config: its config, with its undeclared fields.

    Raises:
        CodeRefused: it names a script, an interpreter, or a setting of an engine that loads code.
    """
    allowed = _Allowed.names
    if allowed is None or engine_entry(type_, config) in allowed:
        return
    code = _code_of(type_, config)
    python = code.pop("python", None)
    if type_ == "custom_script":
        raise _refused("a backend 'custom_script'", ANY)
    if python is not None and python not in allowed:
        raise _refused(f"backend '{type_}': the interpreter '{python}'", str(python))
    if code:
        raise _refused(f"backend '{type_}': {next(iter(code))}, which can load code,", ANY)


def engine_entry(type_: str, config: Mapping[str, Any]) -> str | None:
    """The entry that allows a built-in backend with the code that its config names; None if it names none."""
    code = _code_of(type_, config)
    if not code:
        return None
    # A setting such as `trust_remote_code` runs the code of the model.
    return f"{_ENGINE}{digest([type_, code, None if list(code) == ['python'] else str(config.get('model_path'))])}"


def _code_of(type_: str, config: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a backend's config that name code, or make an engine load some, with their values as text."""
    own = _SCRIPT if type_ == "custom_script" else ("python",)
    code = {name: config[name] for name in own if config.get(name) is not None}
    code |= {name: value for name, value in config.items() if value and _CODE_ARGUMENT.search(name)}
    if isinstance(variables := config.get("env"), Mapping):
        code |= {f"env.{name}": value for name, value in variables.items() if _CODE_VARIABLE.search(name)}
    return {name: str(value) for name, value in code.items()}


def _refused(what: str, entry: str) -> CodeRefused:
    return CodeRefused(f"{what} is not allowed on this server. Its operator can allow it: {VARIABLE}={entry}")


def _plain(name: str) -> str:
    """A distribution's name in its one form; other entries unchanged."""
    return name if name.startswith(("sha256:", _ENGINE, "/", OWN)) else re.sub(r"[-_.]+", "-", name).lower()


@cache
def distributions() -> Mapping[str, list[str]]:
    """Distributions by top-level package; asked once, it reads the records of all that is installed."""
    return metadata.packages_distributions()
