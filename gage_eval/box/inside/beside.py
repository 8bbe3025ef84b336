"""Commands that run at the same time as the others of a box, until it ends, such as a server of tools.

Each has a socket as stdin and stdout, whose other end goes to the evaluator. The limits of a command hold for all of
them together, from their start.
"""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from gage_eval.box.inside import kernel, processes
from gage_eval.box.inside.place import Place, execute

_EVERY_S = 0.2
_MOST_SAID = 4096


class Beside:
    """The commands that run until the box ends. Each is a session; what leaves its session ends with a command."""

    def __init__(self, request: Mapping[str, Any], here: Place) -> None:
        self._request, self._here = request, here
        self._leaders: list[int] = []
        self._stderr: list[int] = []
        self._codes: dict[int, int] = {}
        self._cpu_s = self._watched = 0.0
        self._ended_by = ""

    def start(self, argv: Sequence[str]) -> socket.socket:
        """Start a command. Returns the other end of its stdin and stdout."""
        ours, its = socket.socketpair()
        stderr = os.open(self._here.temporary, os.O_TMPFILE | os.O_RDWR | os.O_APPEND, 0o600)
        pid = os.fork()
        if not pid:
            try:
                self._become(argv, its.fileno(), stderr)
            finally:
                os._exit(120)
        its.close()
        self._leaders.append(pid)
        self._stderr.append(stderr)
        return ours

    def _become(self, argv: Sequence[str], end: int, stderr: int) -> NoReturn:
        os.setsid()
        kernel.end_with_parent()
        for standard, descriptor in enumerate((end, end, stderr)):
            os.dup2(descriptor, standard)
        execute(argv, self._request, self._here)

    @property
    def running(self) -> Collection[int]:
        """The sessions whose command has not ended."""
        return self._leaders if not self._codes else [pid for pid in self._leaders if pid not in self._codes]

    def state(self, number: int) -> dict[str, Any]:
        """Whether a command has ended, how, and the end of what it wrote to stderr."""
        self._reap()
        file = self._stderr[number]
        size = os.lseek(file, 0, os.SEEK_END)
        said = os.pread(file, _MOST_SAID, max(size - _MOST_SAID, 0))
        code = self._codes.get(self._leaders[number])
        return {"exit": code, "reason": self._ended_by, "stderr": said.decode("utf-8", "replace")}

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Hold them to their limits while no other command runs."""
        if not self.running:
            yield
            return
        # Each message sets the alarm again.
        if time.monotonic() - self._watched > _EVERY_S:
            self.watch(is_alone=True)
        signal.signal(signal.SIGALRM, lambda number, frame: self.watch(is_alone=True))
        signal.setitimer(signal.ITIMER_REAL, _EVERY_S, _EVERY_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)

    def watch(self, *, is_alone: bool) -> None:
        """End them when they use too much together. Alone in a namespace, all its processes are theirs."""
        self._watched = time.monotonic()
        if is_alone:
            self._reap()
        owns_all = is_alone and os.getpid() == 1
        pids = list(processes.pids(0) if owns_all else processes.members(self.running))
        limits = self._request["limits"]
        cpu_s, memory_mb = processes.used(pids, limits["memory_mb"])
        if self._cpu_s + cpu_s > limits["cpu_s"]:
            self._end(pids, "cpu", all_at_once=owns_all)
        elif memory_mb > limits["memory_mb"]:
            self._end(pids, "memory", all_at_once=owns_all)

    def end(self) -> None:
        """End them all."""
        for pid in list(processes.members(self.running)):
            processes.kill(pid)

    def has_taken(self, pid: int, status: int, cpu_s: float) -> bool:
        """Note the end of a process that was reaped, if it is one of the commands."""
        if pid not in self._leaders:
            return False
        self._codes[pid] = os.waitstatus_to_exitcode(status)
        self._cpu_s += cpu_s
        return True

    def _end(self, pids: Sequence[int], reason: str, *, all_at_once: bool) -> None:
        self._ended_by = self._ended_by or reason
        if all_at_once:
            processes.kill_rest(0)
        for pid in pids:
            processes.kill(pid)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if not pid:
                    return
                cpu_s = usage.ru_utime + usage.ru_stime
                if not self.has_taken(pid, status, cpu_s):
                    self._cpu_s += cpu_s
