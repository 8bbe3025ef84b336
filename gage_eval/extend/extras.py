"""Packages that only some features need: which are missing, and the command that installs them here."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from functools import cache
from importlib import metadata, util
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gage_eval.base.errors import NotInstalled

DISTRIBUTION = "gage-eval"


def missing(what: str, package: str, extra: str) -> NotInstalled:
    """The error that a feature's package is not installed.

    Args:
        what: needs the package, as ``loader hf_hub``.
        package: the distribution.
        extra: of this package, that brings it.
    """
    return NotInstalled(f"{what} needs {package}, which is not installed: {install_extra(extra)}.")


def program_version(what: str, program: str, package: str) -> str:
    """The version of a program that a feature runs: the first line of its ``--version``.

    Args:
        what: needs the program, as ``metric rendered_text``.
        program: its name.
        package: of Debian that has it.

    Raises:
        NotInstalled: it is not installed, or does not run.
    """
    file = shutil.which(program)
    version = None if file is None else _version(file, os.stat(file).st_mtime_ns)
    if not version:
        how = f"install it (Debian: apt-get install {package})"
        raise NotInstalled(f"{what} needs the program {program}, which is not installed: {how}.")
    return version


@cache
def _version(file: str, _changed: int) -> str | None:
    try:
        done = subprocess.run([file, "--version"], capture_output=True, check=True, timeout=60)  # noqa: S603 - of PATH
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter((done.stdout or done.stderr).decode(errors="replace").splitlines()), None)


def install_extra(extra: str) -> str:
    """The command that adds an extra to this installation: the checkout it runs from, or the package it came as."""
    return install(_with_extra(extra))


def install_engine(library: str, python: str) -> str:
    """A sentence that says how to install an engine's library in the interpreter that runs the engine."""
    ours = Path(python).absolute() == Path(sys.executable).absolute()
    if library == "vllm":
        return (
            "Install vllm into a separate environment, and name its interpreter with 'python'."
            if ours
            else f"Install it: {shlex.quote(python)} -m pip install vllm."
        )
    if ours:
        return f"Install it: {install_extra('transformers')}."
    return f"Install it: {shlex.quote(python)} -m pip install transformers torch accelerate peft."


def install(*arguments: str) -> str:
    """The command that installs packages into the environment of this interpreter.

    Args:
        arguments: of ``pip install``.
    """
    return f"{_installer()} {' '.join(map(_quoted, arguments))}"


def _with_extra(extra: str) -> str:
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        # Run from its folder without an installation.
        return _checkout(Path(__file__).resolve().parents[2], extra)
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    url = origin.get("url", "")
    if not url:
        return f"{DISTRIBUTION}[{extra}]"
    if "dir_info" in origin and url.startswith("file:"):
        return _checkout(Path(unquote(urlsplit(url).path)), extra, editable=origin["dir_info"].get("editable", False))
    vcs = origin.get("vcs_info", {})
    kind, commit = (f"{vcs['vcs']}+", f"@{vcs['commit_id']}") if vcs else ("", "")
    return f"{DISTRIBUTION}[{extra}] @ {kind}{url}{commit}"


def _checkout(folder: Path, extra: str, *, editable: bool = True) -> str:
    shown = "." if folder == Path.cwd() else str(folder)
    return f"{'-e ' if editable else ''}{shown}[{extra}]"


def _quoted(argument: str) -> str:
    if argument.startswith("-e "):
        return f"-e {_quoted(argument.removeprefix('-e '))}"
    return f"'{argument}'" if "[" in argument and "'" not in argument else shlex.quote(argument)


def _installer() -> str:
    """``pip install`` or ``uv pip install``, for this environment whichever is active."""
    active = os.environ.get("VIRTUAL_ENV")
    is_active = active is not None and Path(active).resolve() == Path(sys.prefix).resolve()
    if util.find_spec("pip") is None and shutil.which("uv") is not None:
        return "uv pip install" if is_active else f"uv pip install --python {shlex.quote(sys.executable)}"
    return f"{'python' if is_active else shlex.quote(sys.executable)} -m pip install"
