"""What all flows do around their body."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec
from uuid import UUID

from prefect import runtime
from prefect.client.schemas import State
from prefect.logging import get_run_logger

from flows.api import api_client
from flows.forms import in_words_of_forms, without_secrets
from flows.guard import load_only_what_is_allowed
from flows.own import OwnRun
from flows.states import end_state, without_traceback
from flows.watch import watched
from gage_eval.base.errors import GageError, RunCancelled
from gage_eval.extend.tuning import tune_process

P = ParamSpec("P")


def on_worker(function: Callable[P, State[Any]]) -> Callable[P, State[Any]]:
    """The function of a flow, as a worker carries it out, or code of this process (`OwnRun`).

    On a worker it has its own process, which is tuned as the command line's is, loads only code that the operator of
    the worker allowed, and ends when the worker is gone. An exception becomes the final state of the flow run: a raised
    one would be pickled into Prefect's result storage. The log has the traceback of an unexpected one.
    """

    @wraps(function)
    def carry_out(*args: P.args, **kwargs: P.kwargs) -> State[Any]:
        own = OwnRun.current()
        if own is not None:
            return own.body(partial(function, *args, **kwargs))
        with watched():
            try:
                tune_process()
                load_only_what_is_allowed()
                state = function(*args, **kwargs)
            except RunCancelled as error:
                state = end_state(error)
            except GageError as error:
                _remove_secrets()
                state = end_state(GageError(in_words_of_forms(str(error))))
            except Exception as error:  # noqa: BLE001 - becomes the flow run's state
                get_run_logger().error("an unexpected error", exc_info=error)
                state = end_state(error)
        without_traceback(state)
        return state

    return carry_out


def _remove_secrets() -> None:
    """Remove the literal secrets that the run was refused for from its parameters at the server."""
    try:
        with api_client() as client:
            flow_run_id = UUID(str(runtime.flow_run.id))
            there = client.read_flow_run(flow_run_id).parameters
            kept = without_secrets(there)
            if kept != there:
                client.update_flow_run(flow_run_id, parameters=kept)
                get_run_logger().warning("a literal secret was removed from the parameters of this flow run.")
    except Exception as error:  # noqa: BLE001 - the run has its own error to report
        get_run_logger().debug("the parameters could not be read: %r", error)
