"""The process of the answer: it runs what the model wrote, and in `calls` lets the harness call its functions."""

import builtins
import contextlib
import linecache
import os
import random
import socket
import sys
import traceback
import types
from collections.abc import Mapping
from typing import Any, NoReturn

from gage_eval.box.inside.place import Place, confine
from gage_eval.box.inside.values import dump, load
from gage_eval.box.inside.wire import ANY, LARGEST, LONGEST_TEXT, packed, receive, send

_CHANNEL = 3


def answer(channel: socket.socket, place: Place) -> NoReturn:
    """Wait for the program and run it. This process was forked before any request was read, so it holds no tests."""
    request = receive(channel, ANY)
    channel = _only_channel(channel)
    os.dup2(_input(request["stdin"]), 0)
    confine(place, request["limits"])
    os.environ.clear()
    os.environ.update(place.environment(request["env"]))
    os.chdir(place.work)
    random.seed(0)
    sys.argv = ["main.py"]
    sys.path[:] = [place.work, *(path for path in sys.path if path != os.environ.get("PYTHONPATH"))]
    mode = request["mode"]
    module = types.ModuleType("__main__" if mode == "stdio" else "solution")
    sys.modules[module.__name__] = module
    own = os.getpid()
    send(channel, {"started": True})
    code = _run(module, request["sources"], channel if mode != "stdio" else None)
    if os.getpid() == own and code == 0:
        if mode == "calls":
            _serve(channel, vars(module), own)
        if mode == "script":
            _flush()
            send(channel, {"finished": True})
    _flush()
    os._exit(code)


def _only_channel(channel: socket.socket) -> socket.socket:
    """The channel at a fixed descriptor, with all others closed."""
    os.dup2(channel.detach(), _CHANNEL)
    os.closerange(_CHANNEL + 1, 1024)
    return socket.socket(fileno=_CHANNEL)


def _input(text: str | None) -> int:
    if not text:
        return os.open(os.devnull, os.O_RDONLY)
    # A file, since a pipe holds only 64 KiB. It has no name and counts as written by the program.
    file = os.open(os.environ.get("TMPDIR", "/tmp"), os.O_TMPFILE | os.O_RDWR, 0o600)  # noqa: S108
    with open(file, "wb", closefd=False) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _run(module: types.ModuleType, sources: Mapping[str, str], channel: socket.socket | None) -> int:
    """Run the sources in one module. Returns the exit code; an exception is reported first."""
    try:
        for name, source in sources.items():
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            exec(compile(source, name, "exec"), vars(module))  # noqa: S102
    except SystemExit as end:
        # What a program of `stdio` has printed is compared, whatever its code (LiveCodeBench, `call_method`).
        if channel is not None:
            _flush()
            os._exit((end.code if isinstance(end.code, int) else int(end.code is not None)) & 255)
    except BaseException as error:  # noqa: BLE001
        traceback.print_exc()
        if channel is not None:
            _flush()
            send(channel, {"raised": type(error).__name__, "text": _text(error), "assertion": _is_assertion(error)})
        return 1
    return 0


def _serve(channel: socket.socket, scope: Mapping[str, Any], own: int) -> NoReturn:
    """Answer calls until the harness ends this process."""
    kept: list[Any] = []

    def keep(value: Any) -> int:
        kept.append(value)
        return len(kept) - 1

    send(channel, {"ready": [name for name, value in scope.items() if callable(value)]})
    while True:
        call = receive(channel, ANY)
        reply: dict[str, Any] = {"id": call["id"]}
        try:
            arguments = load(call["arguments"], kept.__getitem__)
            keywords = load(call["keywords"], kept.__getitem__)
            before = packed({"": call["arguments"]})
            reply["value"] = dump(scope[call["name"]](*arguments, **keywords), keep)
            changed = dump(arguments, keep)
            if packed({"": changed}) != before:
                reply["changed"] = changed
            data = packed(reply)
            if len(data) > LARGEST:
                raise ValueError("the value is too large")
        except BaseException as error:  # noqa: BLE001
            data = packed({"id": call["id"], "raised": type(error).__name__, "text": _text(error)})
        if os.getpid() != own:
            # A child that the program forked returned from the call, too.
            os._exit(0)
        channel.sendall(data)


def _is_assertion(error: BaseException) -> bool:
    return isinstance(error, builtins.AssertionError)


def _text(error: BaseException) -> str:
    try:
        return str(error)[:LONGEST_TEXT]
    except BaseException:  # noqa: BLE001
        return ""


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            stream.flush()
