"""The processes of a box: which there are, what they use, and how they are ended."""

import contextlib
import os
import resource
import signal
from collections.abc import Collection, Iterable, Iterator

_PAGE = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")
# A program that forks faster than so many looks find its processes takes all others of the box with it.
_LOOKS = 200


def pids(leader: int, spared: Collection[int] = ()) -> Iterator[int]:
    """All processes of the namespace, except those of spared sessions; without a namespace, those of the leader's
    session.
    """
    own = os.getpid()
    for pid, session in _sessions():
        if pid != own and ((pid not in spared and session not in spared) if own == 1 else session == leader):
            yield pid


def members(sessions: Collection[int]) -> Iterator[int]:
    """The processes of some sessions."""
    return (pid for pid, session in _sessions() if session in sessions)


def are_alive(processes: Iterable[int]) -> bool:
    """Whether one of them has not ended yet."""
    return any(_stat(pid)[:1] not in ([], [b"Z"], [b"X"]) for pid in processes)


def used(processes: Collection[int], most_mb: float) -> tuple[float, float]:
    """Seconds of processor time and megabytes of processes. Only where they are above ``most_mb``, they are exact."""
    cpu_s, pages = 0.0, 0
    for pid in processes:
        if fields := _stat(pid):
            cpu_s += sum(map(int, fields[11:15])) / _TICKS
            pages += int(fields[21])
    memory_mb = pages * _PAGE / (1 << 20)
    # The sum counts what processes share once for each of them; the exact number costs more to read.
    return cpu_s, _exact_mb(processes) if memory_mb > most_mb else memory_mb


def waited_s(pid: int) -> float:
    """The longest time that a thread of a process waited for a processor."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        waits = [_second_field(f"/proc/{pid}/task/{thread}/schedstat") for thread in threads]
    except OSError:
        return 0.0
    return max(waits, default=0) / 1e9


def kill_rest(leader: int, spared: Collection[int] = ()) -> None:
    """End what a child left running. Only pid 1 of a namespace may kill all: elsewhere, that is the whole machine."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpid() != 1:
            os.killpg(leader, signal.SIGKILL)
        elif not spared or not _killed_others(spared):
            os.kill(-1, signal.SIGKILL)


def _killed_others(spared: Collection[int]) -> bool:
    """End all processes that are not of spared sessions. False if there were new ones at each look."""
    killed: set[int] = set()
    for _ in range(_LOOKS):
        new = {*pids(0, spared)} - killed
        if not new:
            return True
        for pid in new:
            kill(pid)
        killed |= new
    return False


def kill(pid: int) -> None:
    """End a process, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _sessions() -> Iterator[tuple[int, int]]:
    """All processes, each with its session."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(ProcessLookupError):
                yield int(name), os.getsid(int(name))


def _stat(pid: int) -> list[bytes]:
    """What the kernel says of a process, from its state on."""
    # As bytes: the import of an encoding may be what an alarm has interrupted.
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _exact_mb(processes: Iterable[int]) -> float:
    """Memory of processes, with what they share counted once, unless they hide it."""
    total = 0
    for pid in processes:
        try:
            with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith(b"Pss:"))
        except (OSError, StopIteration):
            try:
                with open(f"/proc/{pid}/statm", "rb") as file:
                    total += int(file.read().split()[1]) * _PAGE >> 10
            except (OSError, IndexError):
                continue
    return total / 1024


def _second_field(path: str) -> int:
    with open(path, "rb") as file:
        return int(file.read().split()[1])
