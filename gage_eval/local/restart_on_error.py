"""Keeps a command running: starts it again when it ends with an error.

Usage: `restart_on_error.py SECONDS RECORD COMMAND…`. The record (`background.Process`) of this process's group names
the running command.

Prefect's worker ends with an error when a flow run is retried in the second in which its process ends, because its
`--limit` still counts that process. Without a worker, later runs would wait forever.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from gage_eval.base.processes import born

# The record is there so soon after this process was started.
_RECORDED_WITHIN_S = 10.0


def main() -> int:
    """Run the command until it ends without an error, within the seconds, or because this process was told to stop.

    Returns:
        The exit code of the command; that of a shell (128 and the signal) where a signal ended it.
    """
    at_least_s, record, command = float(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    told: list[int] = []
    # `gage server stop` signals the whole group: the command gets the signal too, and ends in order.
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    while True:
        began = time.monotonic()
        child = subprocess.Popen(command)  # noqa: S603 - our own command
        if told:
            # The signal came before the command was in the group.
            child.terminate()
        _name(child, record)
        status = child.wait()
        # A command that ends so soon has a reason that another start does not remove.
        if told or status == 0 or time.monotonic() - began < at_least_s:
            return status if status >= 0 else 128 - status


def _name(child: "subprocess.Popen[bytes]", record: Path) -> None:
    """Put the command into the record, as soon as that is of this group."""
    deadline = time.monotonic() + _RECORDED_WITHIN_S
    while child.poll() is None and time.monotonic() < deadline:
        try:
            known = json.loads(record.read_bytes())
        except (OSError, ValueError):
            known = {}
        if known.get("group") == os.getpgrp():
            part = record.with_suffix(".part")
            part.write_text(json.dumps({**known, "pid": child.pid, "born": born(child.pid)}), encoding="utf-8")
            part.replace(record)
            return
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
