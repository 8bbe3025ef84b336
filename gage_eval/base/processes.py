"""Whether a recorded process still runs, and the identity of this one."""

import os
import sys
from getpass import getuser
from pathlib import Path


def born(pid: int) -> int:
    """Start of a process in clock ticks since boot, 0 when there is none or it has ended.

    Together with the pid it names a process: pids are used again, starts are not. Where there is no ``/proc`` (macOS)
    a living pid has to do, and 1 is returned for it.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return 0
        return int(_exists(pid))
    return 0 if fields[0] in "ZX" else int(fields[19])


def alive(pid: int, born_at: int) -> bool:
    """Whether the process with this start time still runs. A start time of 0 means that it had already ended."""
    return born_at != 0 and born(pid) == born_at


def user_name() -> str:
    """Name of the user of this process; ``uid 1000`` for a user without a name, as containers often have."""
    try:
        return getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def refuse_in_new_process() -> None:
    """End this process with a sentence if it is a new one that only imports the script of its parent.

    A process that Python's `multiprocessing` starts imports the script of its parent. Without a guard, the script would
    start its run once more there, and wait for its parent, which waits for it.
    """
    module = sys.modules.get("multiprocessing.process")
    # What `multiprocessing` itself asks before it starts a process. There is no public name for it.
    if module is not None and getattr(module.current_process(), "_inheriting", False):
        raise SystemExit(
            'a new process imports this script, which starts a run: put what starts it under if __name__ == "__main__":'
        )


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
