"""One child of the harness with all that it starts: its output, what it uses, and how it ends."""

import math
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

from gage_eval.box.inside.beside import Beside
from gage_eval.box.inside.processes import are_alive, kill, kill_rest, pids, used, waited_s

_EVERY_S = 0.02
# A program that writes more than this many times what is kept of its output is ended.
_FLOOD = 256
# The folders in which programs write are files, too.
_OWN_FILES = 4
# Waited for a processor for more than this share of the wall time: it could not run, rather than did not want to.
_STARVED_SHARE = 0.25


class WallOver(BaseException):
    """The wall time is over, while the harness itself was computing."""


class Run:
    """A child process in its session, and what it forks."""

    def __init__(
        self, child: Callable[[], NoReturn], *, stdin: int | None = None, beside: Beside | None = None
    ) -> None:
        self._beside = beside
        reads, writes = zip(os.pipe(), os.pipe(), strict=True)
        self.pid = os.fork()
        if not self.pid:
            try:
                os.setsid()
                os.dup2(writes[0], 1)
                os.dup2(writes[1], 2)
                if stdin is not None:
                    os.dup2(stdin, 0)
                child()
            finally:
                os._exit(120)
        for end in writes:
            os.close(end)
        self._open = list(reads)
        self._texts = {end: bytearray() for end in reads}
        self.streams = tuple(self._texts.values())
        self.code: int | None = None
        self.ended_by = ""
        self.is_cut = False
        self._written = 0
        self.cpu_s = self.wall_s = self.peak_mb = 0.0
        self._start = time.monotonic()
        self._limits: Mapping[str, Any] = {"output_kb": 0, "cpu_s": math.inf}
        self._files: str | None = None
        self._is_watching = False

    def begin(self, limits: Mapping[str, Any], *, files: str | None) -> None:
        """Count from now. ``files`` is a folder of the file system in memory, whose content counts as memory."""
        self._limits, self._files = limits, files
        self._start = time.monotonic()
        signal.signal(signal.SIGALRM, lambda number, frame: self._alarmed())
        signal.setitimer(signal.ITIMER_REAL, _EVERY_S, _EVERY_S)

    def wait(self, channel: socket.socket | None = None) -> bool:
        """Wait until the channel can be read (true) or the child has ended (false)."""
        while True:
            watched = [] if channel is None else [channel.fileno()]
            ready = select.select([*watched, *self._open], [], [], _EVERY_S)[0]
            for end in set(ready) & set(self._open):
                self._take(end)
            if watched and watched[0] in ready:
                return True
            self._reap()
            if self.code is not None:
                # Its last message may have come in between.
                return channel is not None and bool(select.select([channel], [], [], 0)[0])

    def end(self, patience_s: float = 0.0) -> None:
        """End all its processes, and count what they used."""
        until = time.monotonic() + patience_s
        while self.code is None and time.monotonic() < until:
            self._reap()
            time.sleep(0.001)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.wall_s = time.monotonic() - self._start
        if self.code is None:
            # It may have no session of its own yet, and what ends a session would miss it.
            kill(self.pid)
        kill_rest(self.pid, self._spared)
        self._reap(block=True)
        for end in list(self._open):
            os.set_blocking(end, False)
            try:
                while end in self._open:
                    self._take(end)
            except BlockingIOError:
                os.close(end)
        if not self.ended_by and self.cpu_s > self._limits["cpu_s"]:
            self.ended_by = "cpu"

    def _take(self, end: int) -> None:
        data = os.read(end, 1 << 16)
        if not data:
            self._open.remove(end)
            os.close(end)
            return
        text, most = self._texts[end], self._limits["output_kb"] << 10
        text += data[: max(most - len(text), 0)]
        self._written += len(data)
        self.is_cut |= self._written > most
        if self._written > most * _FLOOD:
            self._stop("output")

    def _reap(self, *, block: bool = False) -> None:
        while True:
            spared = self._spared
            try:
                pid, status, usage = os.wait4(-1, 0 if block and not spared else os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                # What is spared may never end.
                if not block or (self.code is not None and not are_alive(pids(self.pid, spared))):
                    return
                time.sleep(0.001)
                continue
            cpu_s = usage.ru_utime + usage.ru_stime
            if self._beside is not None and self._beside.has_taken(pid, status, cpu_s):
                continue
            self.cpu_s += cpu_s
            self.peak_mb = max(self.peak_mb, usage.ru_maxrss / 1024)
            if pid == self.pid:
                self.code = os.waitstatus_to_exitcode(status)

    @property
    def _spared(self) -> Collection[int]:
        return () if self._beside is None else self._beside.running

    def _stop(self, reason: str) -> None:
        self.ended_by = self.ended_by or reason
        kill_rest(self.pid, self._spared)

    def _alarmed(self) -> None:
        # On a busy machine a look takes longer than the time between two; and programs may send alarms.
        if self._is_watching:
            return
        self._is_watching = True
        try:
            self._watch()
        finally:
            self._is_watching = False

    def _watch(self) -> None:
        """End it when its processes together use too much; the kernel's limits count each of them alone."""
        if self._beside is not None:
            self._beside.watch(is_alone=False)
        own = list(pids(self.pid, self._spared))
        files_mb, files = self._written_files()
        most = self._limits["memory_mb"]
        cpu_s, memory_mb = used(own, most - files_mb)
        cpu_s, memory_mb = cpu_s + self.cpu_s, memory_mb + files_mb
        self.peak_mb = max(self.peak_mb, memory_mb)
        if cpu_s > self._limits["cpu_s"]:
            self._stop("cpu")
        elif memory_mb > most:
            self._stop("memory")
        elif files > self._limits["files"] + _OWN_FILES:
            self._stop("files")
        elif time.monotonic() - self._start > self._limits["wall_s"]:
            waited = max(map(waited_s, [os.getpid(), *own]), default=0.0)
            self._stop("starved" if waited > _STARVED_SHARE * self._limits["wall_s"] else "idle")
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise WallOver

    def _written_files(self) -> tuple[float, int]:
        """Megabytes and number of the files in memory. Where a container engine made them, it bounds no number."""
        if self._files is None:
            return 0.0, 0
        usage = os.statvfs(self._files)
        return (usage.f_blocks - usage.f_bfree) * usage.f_frsize / (1 << 20), usage.f_files - usage.f_ffree
