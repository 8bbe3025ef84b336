"""The harness's process as its users see it."""

import atexit
import json
import os
import select
import subprocess
import sys
import threading
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gage_eval.base.errors import InputError
from gage_eval.base.hashing import file_digest
from gage_eval.extend.allowed_code import check_file
from gage_eval.extend.extras import missing

# A task's code that takes longer for one document hangs.
_SECONDS_PER_DOCUMENT = 60.0


class HarnessError(InputError):
    """The harness cannot do what it was asked, or the code of a task failed. The message is one sentence."""


class HarnessLost(InputError):
    """The process of the harness ended or hung, or is no longer that with which documents were written."""


class HarnessProcess:
    """A process of the harness. It starts with the first call, and answers one at a time.

    A process that died or hung is started again by the next call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._loaded: dict[tuple[str, bool], dict[str, str] | None] = {}

    def call(self, function: str, seconds: float | None = None, **arguments: Any) -> Any:
        """The result of a method of `worker.Harness`.

        Args:
            function: its name.
            seconds: how long it may take; as long as it needs unless given.
            arguments: as JSON.

        Raises:
            HarnessError: it failed.
            HarnessLost: it took too long, or the process died.
        """
        request = json.dumps({"call": function, "arguments": arguments, "folder": os.getcwd()})
        with self._lock:
            try:
                line = _exchanged(self._started(), request, seconds)
            except BaseException:
                # An answer that still comes would be taken for that of the next call.
                self._stop()
                raise
            if function == "build":
                self._loaded.clear()
        answer = json.loads(line)
        if "error" in answer:
            raise HarnessError(answer["error"])
        return answer["result"]

    def load(self, name: str, *, is_file: bool) -> dict[str, str] | None:
        """Have the process read a task, for as long as that takes, and say from which `sources` it did.

        Raises:
            HarnessLost: it cannot be read.
        """
        with self._lock:
            self._started()
        if (name, is_file) not in self._loaded:
            files = sources(name) if is_file else None
            try:
                self.call("load", name=name)
            except HarnessError as error:
                raise HarnessLost(str(error)) from error
            self._loaded[name, is_file] = files
            return files
        return self._loaded[name, is_file]

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is not None and self._process.poll() is not None:
            self._stop()
        if self._process is None:
            if find_spec("lm_eval") is None:
                raise missing("a task of the lm-eval harness", "lm-eval", "lm-eval")
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gage_eval.scoring.harness.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                # Ctrl-C is for the caller, who waits for a run that ends in order.
                start_new_session=True,
            )
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        self._loaded.clear()
        if process is not None:
            process.kill()
            process.communicate()


def _exchanged(process: "subprocess.Popen[str]", request: str, seconds: float | None) -> str:
    """The line with which a process answers a request.

    Raises:
        HarnessLost: it took too long, or the process died.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(request + "\n")
        process.stdin.flush()
        answers = select.poll()
        answers.register(process.stdout, select.POLLIN)
        if seconds is not None and not answers.poll(seconds * 1000):
            raise HarnessLost(f"the code of the harness's task took longer than {seconds:.0f} s.")
        line = process.stdout.readline()
    except OSError:
        line = ""
    if not line.endswith("\n"):
        raise HarnessLost("the process of the lm-eval harness died.")
    return line


@cache
def shared_process() -> HarnessProcess:
    """The process that scores for all metrics of this one."""
    process = HarnessProcess()
    atexit.register(process.close)
    return process


def sources(task: str) -> dict[str, str]:
    """The files of a task that is a file, with their hashes: itself, its neighbours in YAML and Python.

    Raises:
        InputError: there is no such file, or the operator of the server did not allow its code.
    """
    file = Path(task)
    if not file.is_file():
        raise InputError(f"there is no file '{task}'.")
    files = sorted(path for path in file.parent.iterdir() if path.suffix in (".yaml", ".yml", ".py"))
    check_file(file.name, files)
    return {path.name: file_digest(path) for path in files}


def score(
    name: str, task: str, document: Any, responses: list[Any], files: dict[str, str] | None
) -> dict[str, dict[str, Any]]:
    """The harness's values of one document, by filter and metric.

    Args:
        name: the task, group or file that was built.
        task: which of its tasks.
        document: of the task.
        responses: as `worker.Harness.score` takes them.
        files: the `sources` with which the documents were written; None for a task of the harness itself.

    Raises:
        HarnessError: the code of the task failed.
        HarnessLost: it took too long, the process died, or the task's files changed.
    """
    _check_files(name, files)
    values: dict[str, dict[str, Any]] = shared_process().call(
        "score", _SECONDS_PER_DOCUMENT, name=name, task=task, document=document, responses=responses
    )
    return values


def aggregate(name: str, task: str, value: str, items: list[Any], files: dict[str, str] | None) -> Any:
    """A number of all documents by the harness's own aggregation.

    Args:
        name: the task, group or file that was built.
        task: which of its tasks.
        value: the number's name.
        items: the documents' values of `score`, in order.
        files: as for `score`.

    Raises:
        HarnessError: the code of the task failed.
        HarnessLost: the process died, or the task's files changed.
    """
    _check_files(name, files)
    try:
        return shared_process().call("aggregate", name=name, task=task, value=value, items=items)
    except HarnessError as error:
        raise HarnessError(f"{value} of task '{task}' over all rows: {error}") from error


def _check_files(name: str, files: dict[str, str] | None) -> None:
    if shared_process().load(name, is_file=files is not None) != files:
        raise HarnessLost(f"the files of '{name}' changed after the documents were written; start the suite again.")
