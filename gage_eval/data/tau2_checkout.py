"""Domains of tau²-bench, whose tools and evaluator are code of the user's checkout. It runs in processes of its own."""

import atexit
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gage_eval.base.errors import InputError, NotInstalled

Domain: TypeAlias = Literal["airline", "retail", "telecom"]
Actor: TypeAlias = Literal["assistant", "user"]
VARIABLE = "GAGE_EVAL_TAU2"
_WORKER = Path(__file__).with_name("tau2_worker.py")
_NOT_READ = ("voice", "audio")
_INSTALL = (
    " Install what the checkout needs as its README says (`uv sync`), or into this environment: loguru, "
    "docstring-parser, addict, deepdiff, toml, python-dotenv and pandas."
)


class SessionLost(Exception):
    """The process of a session ended: a call took too long, or killed it. The message is one sentence."""


class Session:
    """A process with a domain: the environment of one episode, or what scores several.

    Args:
        domain: its name.

    Raises:
        NotInstalled: no checkout is named.
    """

    def __init__(self, domain: str) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(_control(checkout(), domain), [b"s"], [theirs.fileno()])
        self._lines = self._socket.makefile("rwb")
        self._lock = threading.Lock()
        self._domain = domain

    def ask(self, method: str, **arguments: Any) -> Any:
        """The result of a method of `tau2_worker.Domain`.

        Raises:
            SessionLost: the process ended.
            InputError: the domain cannot be loaded, or does not do it.
        """
        with self._lock:
            try:
                self._lines.write(json.dumps([method, arguments]).encode() + b"\n")
                self._lines.flush()
                line = self._lines.readline()
            except (OSError, ValueError):
                line = b""
        if not line:
            raise SessionLost(f"the process of tau2-bench's domain {self._domain} ended, or took longer than 30 s")
        answer = json.loads(line)
        if "problem" in answer:
            raise InputError(
                f"tau2-bench: the domain {self._domain} of {checkout()} failed ({answer['problem']})."
                f"{_INSTALL if answer['is_import'] else ''}"
            )
        return answer["value"]

    def close(self) -> None:
        """End the process."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def checkout() -> Path:
    """The user's checkout of tau²-bench.

    Raises:
        NotInstalled: none is named, or it is not one.
    """
    named = os.environ.get(VARIABLE)
    folder = Path(named or "").expanduser().resolve()
    if not named or not (folder / "src" / "tau2" / "domains").is_dir():
        raise NotInstalled(
            f"the domains airline, retail and telecom are code of tau2-bench: clone "
            f"https://github.com/sierra-research/tau2-bench and set {VARIABLE} to the folder"
            f"{f', which {folder} is not' if named else ''}."
        )
    return folder


def identity(domain: str) -> str:
    """sha256 of the checkout's code, and of the domain's data.

    Raises:
        NotInstalled: no checkout is named.
    """
    return _identity(checkout(), domain)


@cache
def described(domain: str, split: str = "base") -> Mapping[str, Any]:
    """``policy``, ``assistant`` and ``user`` (definitions of tools), and ``tasks`` of a domain.

    Raises:
        InputError: there is no checkout, or it does not run.
    """
    session = Session(domain)
    try:
        made: Mapping[str, Any] = session.ask("describe", split=split)
        return made
    except SessionLost as error:
        raise InputError(f"{error}.") from None
    finally:
        session.close()


def rewards(domain: str, task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> Mapping[str, float]:
    """The rewards of the parts of a task's basis, by the published evaluator.

    Raises:
        SessionLost: it took too long.
        InputError: there is no checkout, or it does not run.
    """
    with _scoring:
        session = _scorers.setdefault(domain, None) or Session(domain)
        _scorers[domain] = session
        try:
            made: Mapping[str, float] = session.ask("rewards", task=task, messages=messages)
            return made
        except SessionLost:
            _scorers[domain] = None
            raise


_scoring = threading.Lock()
_scorers: dict[str, Session | None] = {}


@cache
def _control(folder: Path, domain: str) -> socket.socket:
    """The socket of the process that has loaded a domain, which takes sockets of sessions."""
    ours, theirs = socket.socketpair()
    own = folder / ".venv" / "bin" / "python"
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - of the checkout that the user names
            [own if own.exists() else sys.executable, "-I", _WORKER, str(theirs.fileno()), folder, domain],
            pass_fds=[theirs.fileno()],
            cwd=folder,
            # No keys of the user's.
            env={name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    atexit.register(process.kill)
    return ours


@cache
def _identity(folder: Path, domain: str) -> str:
    data = folder / "data" / "tau2" / "domains" / domain
    files = [*(folder / "src" / "tau2").rglob("*.py"), *(file for file in data.rglob("*") if file.is_file())]
    digest = hashlib.sha256()
    for name, file in sorted((file.relative_to(folder).as_posix(), file) for file in files):
        if not any(word in name for word in _NOT_READ):
            digest.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
