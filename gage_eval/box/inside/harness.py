"""The first process of a box: holds the tests, runs the answer in a child, and judges.

Its child is forked before the request is read, so that no test is in the memory of the answer. The result is decided
here and is never read from the answer, except in `script`.
"""

import ast
import base64
import builtins
import contextlib
import os
import resource
import select
import shutil
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from gage_eval.box.inside import kernel, place, wire
from gage_eval.box.inside.answer import answer
from gage_eval.box.inside.beside import Beside
from gage_eval.box.inside.place import Place
from gage_eval.box.inside.run import Run, WallOver
from gage_eval.box.inside.values import dump, load
from gage_eval.box.inside.wire import ANY, LONGEST_TEXT, STATUS_OF_END, Channel, NoMessage, packed, receive, send

# Where programs find what `BoxSpec.listens` opens. All ports of a new network are free, and a fixed one keeps
# requests equal that hold the address.
PORT = 4281
HANDED_IN = "/run/outside"
_LARGEST_NAMES = 1 << 20
# Seconds that an answer whose channel broke has to end, so that its exit code is known.
_PATIENCE_S = 0.2
# The tests are trusted, but a value of the answer may make them slow or large.
_TESTS_CPU_S, _TESTS_MB = 60, 1024
_MOST_STDERR = 4000
# An exception of the answer, as its tests see it.
_EXCEPTIONS = {
    name: kind for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
}


class Gone(BaseException):
    """The answer has ended."""


class Tampered(BaseException):
    """The program wrote to the channel, where only the answer's own code may write."""


class Raised(Exception):
    """The program raised an exception that is not built in."""


class NotData(TypeError):
    """The tests pass something to the answer that cannot be written as data."""


def harness(channel: Channel, make_place: Callable[[], Place]) -> NoReturn:
    """Serve one request: the surroundings, then a program with its tests, or commands."""
    here = make_place()
    run, mine = _fork_answer(channel, here)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if here.is_contained:
        kernel.hide_memory()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    request = receive(channel, ANY)
    if here.is_contained:
        if here.is_ours:
            place.set_size(request["limits"])
        kernel.give_up_privileges()
    if request["setup"] is not None:
        # The end of the setup ends all processes but this one.
        run.end()
    failure = _prepare(request, here)
    if failure is None and request["setup"] is not None:
        run, mine = _fork_answer(channel, here)
    if failure is not None:
        send(channel, failure)
    elif request["has_program"]:
        program = receive(channel, ANY)
        send(channel, Judge(run, mine, {**request, **program}, here).judge())
    else:
        run.end()
        _serve_commands(channel, request, here)
    if not here.is_contained:
        shutil.rmtree(here.work, ignore_errors=True)
    os._exit(0)


def _fork_answer(channel: Channel, here: Place) -> tuple[Run, socket.socket]:
    """The answer's process, before the program and its tests are read, and the socket that it listens to."""
    mine, its = socket.socketpair()

    def child() -> NoReturn:
        channel.close()
        mine.close()
        answer(its, here)

    run = Run(child)
    its.close()
    return run, mine


def _prepare(request: Mapping[str, Any], here: Place) -> dict[str, Any] | None:
    """Write the files and run the setup. Returns the result where that failed."""
    try:
        for path, content in request["files"].items():
            place.write_file(here, path, base64.b64decode(content))
    except (OSError, ValueError) as error:
        return {"status": "box_error", "reason": "files", "text": str(error)}
    if request["setup"] is None:
        return None
    setup = command(["/bin/sh", "-c", request["setup"]], b"", request, here)
    if setup.code == 0 and not setup.ended_by:
        return None
    return wire.setup_failure(setup.ended_by, setup.code, setup.streams[1])


def command(
    argv: list[str], stdin: bytes, request: Mapping[str, Any], here: Place, beside: Beside | None = None
) -> Run:
    """Run a command in the work folder to its end."""
    file = os.open(here.temporary, os.O_TMPFILE | os.O_RDWR, 0o600)
    with open(file, "wb", closefd=False) as stream:
        stream.write(stdin)
    os.lseek(file, 0, os.SEEK_SET)

    run = Run(lambda: place.execute(argv, request, here), stdin=file, beside=beside)
    os.close(file)
    run.begin(request["limits"], files=here.temporary if here.is_contained else None)
    with contextlib.suppress(WallOver):
        run.wait()
    run.end()
    return run


def _serve_commands(channel: Channel, request: Mapping[str, Any], here: Place) -> None:
    """Run commands, write and read files, until the evaluator closes the box."""
    send(channel, {"status": "open"})
    beside = Beside(request, here)
    if request["listens"] or request["starts"]:
        _hand_over(channel, request, here, beside)
    while True:
        try:
            with beside.watched():
                message = receive(channel, ANY)
        except EOFError:
            beside.end()
            return
        try:
            send(channel, _commanded(message, request, here, beside))
        except (OSError, ValueError) as error:
            send(channel, {"error": str(error)})


def _hand_over(channel: Channel, request: Mapping[str, Any], here: Place, beside: Beside) -> None:
    """Let the evaluator accept at 127.0.0.1 of this box, and talk to what is started: nothing else leads out of it."""
    with contextlib.ExitStack() as stack:
        if isinstance(channel, socket.socket):
            outside = channel
        else:
            # Before anything is started that could connect in its place.
            outside = stack.enter_context(socket.socket(socket.AF_UNIX))
            outside.connect(HANDED_IN)
        ends = [stack.enter_context(beside.start(argv)) for argv in request["starts"]]
        if request["listens"]:
            address = ("127.0.0.1", PORT if here.is_contained else 0)
            ends.append(stack.enter_context(socket.create_server(address)))
        socket.send_fds(outside, [b"l"], [end.fileno() for end in ends])


def _commanded(message: Mapping[str, Any], request: Mapping[str, Any], here: Place, beside: Beside) -> dict[str, Any]:
    if "put" in message:
        place.write_file(here, message["put"], base64.b64decode(message["content"]))
        return {"status": "written"}
    if "take" in message:
        content = place.read_file(here, message["take"], message["largest"])
        return {"content": base64.b64encode(content).decode()}
    if "state" in message:
        return beside.state(message["state"])
    bounded = {**request, "limits": message.get("limits", request["limits"])}
    run = command(message["run"], base64.b64decode(message["stdin"]), bounded, here, beside)
    return wire.command_reply(run.code, run.streams, run.ended_by, run.cpu_s, run.wall_s, run.peak_mb)


class Handle:
    """A value of the answer that is not data. Tests can only pass it back."""

    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        self._number = number

    @staticmethod
    def number(value: Any) -> int:
        """What the answer knows it by."""
        if type(value) is not Handle:
            raise NotData(f"a {type(value).__name__} cannot be passed to the answer")
        return value._number


class Judge:
    """One program with its tests."""

    def __init__(self, run: Run, channel: socket.socket, request: Mapping[str, Any], here: Place) -> None:
        self._run, self._channel, self._request, self._here = run, channel, request, here
        self._calls = 0
        self._lost: BaseException | None = None
        self._counts = {True: 0, False: 0}

    def judge(self) -> dict[str, Any]:
        """Run it to its end and say what came of it."""
        request, run, limits = self._request, self._run, self._request["limits"]
        sources = {"prelude.py": request["prelude"], "main.py": request["code"]}
        if request["mode"] == "script":
            sources["tests.py"] = request["tests"]
        message = {name: request[name] for name in ("mode", "stdin", "limits", "env")} | {"sources": sources}
        result: dict[str, Any]
        run.begin(limits, files=self._here.temporary if self._here.is_contained else None)
        megabytes = (limits["memory_mb"] + _TESTS_MB) << 20
        resource.setrlimit(resource.RLIMIT_DATA, (megabytes, megabytes))
        try:
            send(self._channel, message)
            if not self._has_started():
                run.end(_PATIENCE_S)
                return {"status": "box_error", "reason": "answer", "text": f"exit {run.code} before the program"}
            result = {"calls": self._by_calls, "script": self._by_script, "stdio": self._by_exit}[request["mode"]]()
        except (Gone, OSError, EOFError):
            result = {"status": "crashed"}
        except Tampered as error:
            result = {"status": "tampered", "reason": "channel", "text": str(error)}
        except WallOver:
            result = {"status": "timed_out"}
        except (MemoryError, RecursionError) as error:
            # A value of the answer was too much for this process: a verdict, or an answer could ask to be unscored.
            result = {"status": "failed", "reason": "exception", "text": type(error).__name__}
        run.end(_PATIENCE_S if result["status"] == "crashed" else 0.0)
        return self._described(result)

    def _described(self, result: dict[str, Any]) -> dict[str, Any]:
        run, limits = self._run, self._request["limits"]
        if run.ended_by and result["status"] != "tampered":
            result["reason"] = run.ended_by
            result["status"] = STATUS_OF_END[run.ended_by]
        elif result["status"] == "crashed":
            result.setdefault("reason", f"exit {run.code}")
        elif result.get("raised") == "MemoryError":
            result |= {"status": "out_of_memory", "reason": "memory"}
        if result["status"] == "passed" and self._request["mode"] != "calls" and run.code != 0:
            result |= {"status": "crashed", "reason": f"exit {run.code}"}
        stdout, stderr = (bytes(text).decode("utf-8", "replace") for text in run.streams)
        passed = result["status"] == "passed"
        counts = self._counts if any(self._counts.values()) else {True: int(passed), False: int(not passed)}
        return {
            **{name: result.get(name, "") for name in ("status", "reason", "text")},
            "tests_passed": counts[True],
            "tests_failed": counts[False],
            "exit": run.code,
            "cpu_s": round(run.cpu_s, 3),
            "wall_s": round(run.wall_s, 3),
            "peak_mb": round(run.peak_mb, 1),
            "stdout": stdout,
            "stderr": stderr[-_MOST_STDERR:],
            "is_cut": run.is_cut,
            "is_near_limit": run.cpu_s > limits["cpu_s"] / 2 or run.peak_mb > limits["memory_mb"] / 2,
        }

    def _has_started(self) -> bool:
        """Whether the answer's process could be set up. What it sends before the program runs can be trusted."""
        try:
            return self._hear().get("started") is True
        except Gone:
            return False

    def _by_exit(self) -> dict[str, Any]:
        self._run.wait()
        return {"status": "passed"}

    def _by_script(self) -> dict[str, Any]:
        message = self._hear(_LARGEST_NAMES)
        if message.get("finished") is True:
            self._run.wait()
            return {"status": "passed"}
        return _of_exception(message)

    def _by_calls(self) -> dict[str, Any]:
        names = self._hear(_LARGEST_NAMES)
        if "raised" in names:
            return _of_exception(names)
        entry, ready = self._request["entry"], names.get("ready")
        if type(ready) is not list:
            raise Tampered("a message that is not a list of names")
        if entry not in ready:
            return {"status": "failed", "reason": "no entry", "text": f"the program has no function {entry!r}"}
        seconds = int(self._request["limits"]["cpu_s"]) + _TESTS_CPU_S
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        scope: dict[str, Any] = {"__name__": "tests"}
        exec(compile(self._request["prelude"], "prelude.py", "exec"), scope)  # noqa: S102
        # A name of the answer must not take the place of what the tests are written with.
        trusted = {*scope, *vars(builtins)}
        others = {name for name in ready if type(name) is str and name not in trusted and not name.startswith("__")}
        scope.update((name, self._proxy(name)) for name in {*others, entry})
        return self._run_tests(scope)

    def _run_tests(self, scope: dict[str, Any]) -> dict[str, Any]:
        """Run the tests one statement after the other. Those after a failed assertion run, too, to be counted."""
        result: dict[str, Any] = {"status": "passed"}
        source = self._request["tests"]
        for statement in ast.parse(source, "tests.py").body:
            is_test = isinstance(statement, ast.Assert | ast.Expr)
            outcome = _outcome(statement, source, scope)
            if self._lost is not None:
                raise self._lost
            if is_test:
                self._counts[outcome is None] += 1
            if outcome is not None:
                result = outcome if result["status"] == "passed" else result
                if not is_test:
                    break
        if select.select([self._channel], [], [], 0)[0]:
            self._hear_nothing()
        return result

    def _proxy(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if self._lost is not None:
                raise self._lost
            try:
                return self._call(name, arguments, keywords)
            except (Gone, Tampered, WallOver) as error:
                # Tests that handle every exception must not hide it.
                self._lost = error
                raise

        call.__name__ = name
        return call

    def _call(self, name: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        self._calls += 1
        if select.select([self._channel], [], [], 0)[0]:
            self._hear_nothing()
        call = {
            "id": self._calls,
            "name": name,
            "arguments": [dump(value, Handle.number) for value in arguments],
            "keywords": dump(dict(keywords), Handle.number),
        }
        try:
            self._channel.sendall(packed(call))
        except OSError:
            raise Gone from None
        reply = self._hear()
        if reply.get("id") != self._calls:
            raise Tampered("a reply to another call")
        if "raised" in reply:
            raise _exception(reply)
        for old, new in zip(arguments, load(reply.get("changed", []), Handle), strict=False):
            _change(old, new)
        return load(reply.get("value"), Handle)

    def _hear(self, largest: int | None = None) -> dict[str, Any]:
        self._run.wait(self._channel)
        try:
            return receive(self._channel) if largest is None else receive(self._channel, largest)
        except (EOFError, OSError):
            raise Gone from None
        except NoMessage as error:
            raise Tampered(str(error)) from None

    def _hear_nothing(self) -> None:
        """The channel can be read although nothing was sent: the answer has ended, or the program wrote to it."""
        self._hear()
        raise Tampered("a message that nothing had asked for")


def _outcome(statement: ast.stmt, source: str, scope: dict[str, Any]) -> dict[str, Any] | None:
    """What a statement of the tests raised; None where it passed."""
    try:
        exec(compile(ast.Module([statement], []), "tests.py", "exec"), scope)  # noqa: S102
    except (Gone, Tampered, WallOver):
        return {"status": "crashed"}
    except NotData as error:
        return {"status": "refused", "reason": "form", "text": str(error)}
    except AssertionError as error:
        where = _assertion_at(statement, source, error)
        text = ": ".join(filter(None, (where, str(error))))
        return {"status": "failed", "reason": "assertion", "text": text[:LONGEST_TEXT]}
    except BaseException as error:  # noqa: BLE001
        text = f"{type(error).__name__}: {str(error)[:LONGEST_TEXT]}"
        return {"status": "failed", "reason": "exception", "text": text, "raised": type(error).__name__}
    return None


def _assertion_at(statement: ast.stmt, source: str, error: BaseException) -> str:
    """The source of the assertion that failed."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "tests.py":
            line = trace.tb_lineno
        trace = trace.tb_next
    for node in ast.walk(statement):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or node.lineno):
            return ast.get_source_segment(source, node) or ""
    return ""


def _of_exception(message: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a program that reports an exception. It can only report that it failed."""
    name, text = str(message.get("raised"))[:100], str(message.get("text"))[:LONGEST_TEXT]
    reason = "assertion" if message.get("assertion") is True else "exception"
    return {"status": "failed", "reason": reason, "text": f"{name}: {text}", "raised": name}


def _exception(reply: Mapping[str, Any]) -> Exception:
    name, text = str(reply.get("raised")), str(reply.get("text"))
    kind = _EXCEPTIONS.get(name)
    return kind(text) if kind is not None and name not in _OF_SEVERAL else Raised(f"{name}: {text}")


# They cannot be made of a text alone.
_OF_SEVERAL = ("UnicodeDecodeError", "UnicodeEncodeError", "UnicodeTranslateError", "ExceptionGroup")


def _change(old: Any, new: Any) -> None:
    """Give an argument of the tests the content that the answer gave to its copy."""
    if type(old) is type(new) is list:
        old[:] = new
    elif type(old) is type(new) is set or type(old) is type(new) is dict:
        old.clear()
        old.update(new)
