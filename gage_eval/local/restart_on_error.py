"""Keeps a command running: starts it again when it ends with an error. Usage: `restart_on_error.py SECONDS COMMAND…`.

Prefect's worker ends with an error when a flow run is retried in the second in which its process ends, because its
`--limit` still counts that process. Without a worker, later runs would wait forever.
"""

import signal
import subprocess
import sys
import time


def main() -> int:
    """Run the command until it ends without an error, within the seconds, or because this process was told to stop.

    Returns:
        The exit code of the command; that of a shell (128 and the signal) where a signal ended it.
    """
    at_least_s, command = float(sys.argv[1]), sys.argv[2:]
    told: list[int] = []
    # `gage server stop` signals the whole group: the command gets the signal too, and ends in order.
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    while True:
        began = time.monotonic()
        status = subprocess.run(command, check=False).returncode  # noqa: S603 - our own command
        # A command that ends so soon has a reason that another start does not remove.
        if told or status == 0 or time.monotonic() - began < at_least_s:
            return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
