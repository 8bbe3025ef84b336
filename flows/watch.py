"""Watches over a flow run on a worker: its heartbeats, and its end when the worker is gone."""

import logging
import os
import select
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.context import FlowRunContext

from flows.api import api_client
from flows.events import post_event
from flows.lost_runs import HEARTBEAT, take_back
from flows.reporter import Report
from gage_eval.liveness import HEARTBEAT_S

# How often the run looks for its worker, and how long a heartbeat may take.
_LOOK_EVERY_S = 1.0
_REQUEST_S = 3.0
# An API that is back marks runs whose heartbeats it has missed within this time.
_MARKS_WITHIN_S = 60.0
# Time that the run has to end in order when its worker is gone, before its process ends at once.
_GRACE_S = 8.0

_log = logging.getLogger("gage_eval")


@contextmanager
def watched() -> Iterator[None]:
    """Send heartbeats of the current flow run, and end this process when its worker is gone.

    Prefect's own heartbeats are at least 30 s apart, and each worker sets how far.

    Cancel in the UI does not reach a run whose worker was killed. It gets SIGTERM, as from a worker that stops:
    Prefect's engine then reports the state Crashed, from which a run is resumed.
    """
    over = threading.Event()
    # The settings of Prefect, with its API, belong to the context.
    arguments = (_watch, os.getppid(), _pulse(), over)
    threading.Thread(target=copy_context().run, args=arguments, name="gage-eval-watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(worker: int, pulse: "Pulse", over: threading.Event) -> None:
    # Prefect needs seconds to start a flow. A worker that was killed in that time is no longer the parent.
    gone = _is_output_unread()
    with api_client(timeout_s=_REQUEST_S, retries=0) as client:
        while not gone:
            pulse.beat(client)
            if over.wait(_LOOK_EVERY_S):
                return
            gone = os.getppid() != worker
    _let_go_of_pipes()
    _log.warning("the worker of this run is gone; the run stops. What was computed is kept.")
    os.kill(os.getpid(), signal.SIGTERM)
    if not over.wait(_GRACE_S):
        # Engines end with the process.
        os._exit(128 + signal.SIGTERM)


def _is_output_unread() -> bool:
    """Whether the output goes into a pipe that is closed at its other end. A worker reads the output of its runs."""
    ends = select.poll()
    for stream in (1, 2):
        if stat.S_ISFIFO(os.fstat(stream).st_mode):
            # Errors are reported without being asked for.
            ends.register(stream, 0)
    return bool(ends.poll(0))


def _let_go_of_pipes() -> None:
    """Point output that went through the worker nowhere: at a broken pipe, the console of Prefect raises SystemExit."""
    with open(os.devnull, "wb") as nothing:
        for stream in (1, 2):
            if stat.S_ISFIFO(os.fstat(stream).st_mode):
                os.dup2(nothing.fileno(), stream)


class Pulse:
    """Sends the heartbeats of a flow run. After an outage of the API it takes back that the run is lost.

    Args:
        flow_run_id: the flow run.
        heartbeat: posts one heartbeat.
        now: a monotonic clock in seconds.
    """

    def __init__(self, flow_run_id: UUID, heartbeat: Report, now: Callable[[], float] = time.monotonic) -> None:
        self._id = flow_run_id
        self._heartbeat = heartbeat
        self._now = now
        self._due = now()
        # Until then the API may mark the run as lost.
        self._in_doubt_until = now()

    def beat(self, client: SyncPrefectClient) -> None:
        """Send a heartbeat if one is due. Call it every second."""
        try:
            if self._now() >= self._due:
                self._heartbeat(client)
                self._due = self._now() + HEARTBEAT_S
            if self._now() < self._in_doubt_until and take_back(client, self._id):
                _log.warning("the Prefect server had marked the run as lost; it is shown as running again.")
        except Exception as error:  # noqa: BLE001 - an API that does not answer must not end the run
            _log.debug("the Prefect API did not take a heartbeat: %r", error)
            self._in_doubt_until = self._now() + _MARKS_WITHIN_S


def _pulse() -> Pulse:
    """The heartbeats of the current flow run. They name the flow, by which automations find them."""
    context = FlowRunContext.get()
    assert context is not None, "only flows on a worker are watched"
    assert context.flow is not None
    assert context.flow_run is not None
    run = context.flow_run
    resource = {"prefect.resource.id": f"prefect.flow-run.{run.id}", "prefect.resource.name": run.name}
    flow = {
        "prefect.resource.id": f"prefect.flow.{run.flow_id}",
        "prefect.resource.role": "flow",
        "prefect.resource.name": context.flow.name,
    }
    return Pulse(run.id, partial(post_event, event=HEARTBEAT, resource=resource, related=[flow]))
