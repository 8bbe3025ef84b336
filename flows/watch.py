"""Watches over a flow run on a worker: its heartbeats, and its end when the worker is gone."""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context

from prefect.context import FlowRunContext
from prefect.events import RelatedResource, emit_event

from flows.lost_runs import HEARTBEAT
from gage_eval.liveness import HEARTBEAT_S

# How often the run looks for its worker; and the time it has to end in order before its process ends at once.
_LOOK_EVERY_S = 1.0
_GRACE_S = 10.0

_log = logging.getLogger("gage_eval")


@contextmanager
def watched() -> Iterator[None]:
    """Send heartbeats of the current flow run, and end this process when its worker is gone.

    Prefect's own heartbeats are at least 30 s apart, and each worker sets how far.

    Cancel in the UI does not reach a run whose worker was killed. It gets SIGTERM, as from a worker that stops:
    Prefect's engine then reports the state Crashed, from which a run is resumed.
    """
    parent, over = os.getppid(), threading.Event()
    # The settings of Prefect, with its API, belong to the context.
    watch = threading.Thread(
        target=copy_context().run, args=(_watch, parent, over), name="gage-eval-watch", daemon=True
    )
    watch.start()
    try:
        yield
    finally:
        over.set()


def _watch(parent: int, over: threading.Event) -> None:
    resource, related = _names()
    due = time.monotonic()
    while os.getppid() == parent:
        if time.monotonic() >= due:
            due = time.monotonic() + HEARTBEAT_S
            emit_event(HEARTBEAT, resource, related=related)
        if over.wait(_LOOK_EVERY_S):
            return
    _log.warning("the worker of this run is gone; the run stops. What was computed is kept.")
    os.kill(os.getpid(), signal.SIGTERM)
    if not over.wait(_GRACE_S):
        # Engines end with the process.
        os._exit(128 + signal.SIGTERM)


def _names() -> tuple[dict[str, str], list[RelatedResource]]:
    """The flow run and its flow, as automations name them."""
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
    return resource, [RelatedResource.model_validate(flow)]
