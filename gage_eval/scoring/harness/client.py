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
from gage_eval.extend.extras import missing
from gage_eval.scoring.harness.sources import Sources, found

PREFIX = "lm-eval:"
"""How the name of a task begins in ``gage suite``."""

# A task's code that takes longer hangs: for one document, and for all else, such as loading data.
_SECONDS_PER_DOCUMENT = 60.0
_MOST_SECONDS = 3600.0


class HarnessError(InputError):
    """The harness cannot do what it was asked, or the code of a task failed. The message is one sentence."""


class HarnessLost(InputError):
    """The process of the harness ended or hung, or cannot load the task."""


class HarnessProcess:
    """A process of the harness. It starts with the first call, if not before, and answers one at a time.

    A process that died or hung is started again by the next call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._loaded: set[str] = set()
        # What the process loads while this one does something else.
        self._loading: str | None = None

    def start(self) -> None:
        """Start the process, which imports the harness while this one does something else.

        Raises:
            NotInstalled: the harness is not installed.
        """
        with self._lock:
            self._started()

    def call(self, function: str, seconds: float | None = None, **arguments: Any) -> Any:
        """The result of a method of `worker.Harness`.

        Args:
            function: its name.
            seconds: how long it may take; an hour unless given.
            arguments: as JSON.

        Raises:
            HarnessError: it failed.
            HarnessLost: it took too long, the process died, or what it was to load cannot be loaded.
        """
        with self._lock:
            try:
                process = self._started()
                self._end_loading(process)
                _send(process, function, arguments)
                return _received(process, _MOST_SECONDS if seconds is None else seconds)
            except HarnessError:
                raise
            except BaseException:
                # An answer that still comes would be taken for that of the next call.
                self._stop()
                raise

    def load(self, sources: str, folder: Path | None = None) -> None:
        """Have the process load a task, unless it did. The next call waits for it.

        Args:
            sources: sha256 of the task's ``harness.json``.
            folder: where it is; looked for unless given.

        Raises:
            SourcesChanged: a file of the task is missing or was changed.
            HarnessLost: the process died.
        """
        with self._lock:
            process = self._started()
            if sources in (*self._loaded, self._loading):
                return
            folder = found(sources) if folder is None else folder
            task = Sources.of(folder)
            task.check(folder)
            self._end_loading(process)
            self._loading = sources
            arguments = {"name": task.place(folder), "folder": str(folder.resolve()), "data": task.data}
            _send(process, "load", {"key": sources, **arguments})

    def keep(self, sources: str) -> None:
        """Take what the process built last for the task of these sources."""
        self.call("keep", key=sources)
        self._loaded.add(sources)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _end_loading(self, process: "subprocess.Popen[str]") -> None:
        """Wait until the process has loaded what it was asked to."""
        loading, self._loading = self._loading, None
        if loading is None:
            return
        try:
            _received(process, _MOST_SECONDS)
        except HarnessError as error:
            raise HarnessLost(str(error)) from error
        self._loaded.add(loading)

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
        self._loading = None
        if process is not None:
            process.kill()
            process.communicate()


def _send(process: "subprocess.Popen[str]", function: str, arguments: dict[str, Any]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps({"call": function, "arguments": arguments, "folder": os.getcwd()}) + "\n")
        process.stdin.flush()
    except OSError as error:
        raise HarnessLost("the process of the lm-eval harness died.") from error


def _received(process: "subprocess.Popen[str]", seconds: float) -> Any:
    """What a process answers.

    Raises:
        HarnessError: an error.
        HarnessLost: it took too long, or the process died.
    """
    assert process.stdout is not None
    try:
        answers = select.poll()
        answers.register(process.stdout, select.POLLIN)
        if not answers.poll(seconds * 1000):
            raise HarnessLost(f"the code of the harness's task took longer than {seconds:,.0f} s, data included.")
        line = process.stdout.readline()
    except OSError:
        line = ""
    if not line.endswith("\n"):
        raise HarnessLost("the process of the lm-eval harness died.")
    answer = json.loads(line)
    if "error" in answer:
        raise HarnessError(answer["error"])
    return answer["result"]


@cache
def shared_process() -> HarnessProcess:
    """The process that scores for all metrics of this one."""
    process = HarnessProcess()
    atexit.register(process.close)
    return process


def score(sources: str, task: str, document: Any, responses: list[Any]) -> dict[str, dict[str, Any]]:
    """The harness's values of one document, by filter and metric.

    Args:
        sources: sha256 of the ``harness.json`` with which the documents were written.
        task: which of its tasks.
        document: of the task.
        responses: as `worker.Harness.score` takes them.

    Raises:
        HarnessError: the code of the task failed.
        HarnessLost: it took too long, the process died, or the task cannot be loaded.
        SourcesChanged: a file of the task is missing or was changed.
    """
    shared_process().load(sources)
    values: dict[str, dict[str, Any]] = shared_process().call(
        "score", _SECONDS_PER_DOCUMENT, key=sources, task=task, document=document, responses=responses
    )
    return values


def aggregate(sources: str, task: str, value: str, items: list[Any]) -> Any:
    """A number of all documents by the harness's own aggregation.

    Args:
        sources: as for `score`.
        task: which of its tasks.
        value: the number's name.
        items: the documents' values of `score`, in order.

    Raises:
        HarnessError: the code of the task failed.
        HarnessLost: the process died, or the task cannot be loaded.
        SourcesChanged: a file of the task is missing or was changed.
    """
    shared_process().load(sources)
    try:
        return shared_process().call("aggregate", key=sources, task=task, value=value, items=items)
    except HarnessError as error:
        raise HarnessError(f"{value} of task '{task}' over all rows: {error}") from error
