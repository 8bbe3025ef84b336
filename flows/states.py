"""The final states of flow runs."""

import logging
from typing import Any

from prefect.client.schemas import State
from prefect.exceptions import FailedRun
from prefect.states import Cancelled, Completed, Crashed, Failed

from flows.page import score_line
from gage_eval.base.errors import GageError
from gage_eval.report.console import readable
from gage_eval.report.shares import is_unread
from gage_eval.runs import RunOutcome

# Names of states of the type CRASHED. The first two are resumed by an automation (`flows.lost_runs`). A run in a
# process of the user's own, such as `gage run`, is aborted: the user resumes it, and no worker takes it.
CRASHED = "Crashed"
LOST = "Lost"
ABORTED = "Aborted"
# Of the type FAILED: a night that found a regression.
REGRESSED = "Regressed"
# Of the type COMPLETED: a night without a baseline that fits.
UNMEASURED = "Unmeasured"
# Of the type COMPLETED: a run in which no answer of some task could be read.
UNPARSED = "Unparsed"
# The names of all states in which our flow runs end.
END_NAMES = ("Completed", "Failed", "Cancelled", CRASHED, LOST, ABORTED, REGRESSED, UNMEASURED, UNPARSED)


def completed(outcome: RunOutcome) -> State[Any]:
    """The state of a run that completed: its message is the score, its data the run's folder."""
    name = UNPARSED if is_unread(outcome.summary) else None
    return Completed(name=name, message=score_line(outcome.summary), data=outcome.folder.url)


def aborted(message: str) -> State[Any]:
    """The state of a run whose own process was killed, or ended in the middle of it."""
    return Crashed(name=ABORTED, message=message)


def end_state(error: BaseException) -> State[Any]:
    """The state after an exception, with the exception's text only."""
    match error:
        case KeyboardInterrupt():
            return Cancelled(message="The run was stopped. What was computed is kept.")
        case GageError():
            return Failed(message=readable(str(error)))
        case Exception():
            return Failed(message=readable(f"{type(error).__name__}: {error}"))
        case _:
            return aborted(readable(f"{type(error).__name__}: {error}"))


def without_traceback(state: State[Any]) -> None:
    """Have Prefect's engine log no traceback of a state that says what happened.

    After a flow has returned a failed state, the engine raises an error with its message, and logs it as unexpected.
    """
    if state.is_failed():
        for name in ("prefect.flow_runs", "prefect.engine"):
            logging.getLogger(name).addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], FailedRun))
