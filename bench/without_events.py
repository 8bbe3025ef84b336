"""``gage`` without an event log: what the case ``events`` compares a run with. The arguments are those of ``gage``."""

import sys
from collections.abc import Sequence

from gage_eval.cli.main import main
from gage_eval.observability.events import Event
from gage_eval.observability.writer import Sink
from gage_eval.runs import session


class NoWriter:
    """Stands in for the `gage_eval.observability.writer.EventWriter`, and writes nothing."""

    def __init__(self, run_id: str, sinks: Sequence[Sink]) -> None:
        for sink in sinks:
            sink.close()

    def emit(self, event: Event) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


if __name__ == "__main__":
    session.EventWriter = NoWriter  # type: ignore[assignment,misc]
    main(sys.argv[1:])
