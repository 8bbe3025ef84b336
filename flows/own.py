"""A run that code of this process asks for, such as `gage run` or a night: it has its own options and outcome.

Prefect's engine carries out the flow of `gage run` in a thread of the user's process.

Prefect orchestrates on the client, so a server that dies or hangs does not stop the run. Its engine then waits minutes
for the server: for the last state, and at the exit of the process for each event and log line. The run is complete by
then, so this waits a few seconds and gives up; a later command reports the end (`flows.ended_runs`).
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any

from prefect import Flow
from prefect._internal.concurrency.services import _active_services
from prefect.client.schemas import State
from prefect.client.schemas.objects import FlowRun
from prefect.events.worker import EventsWorker
from prefect.exceptions import Pause
from prefect.flow_engine import run_flow
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

from blocks import PrefectBlocks
from flows.flow_run import LAST_S, FlowRunPage
from flows.states import end_state
from gage_eval.base.errors import RunCancelled
from gage_eval.engine.host import SharedEngines
from gage_eval.observability.observer import Observer
from gage_eval.runs import RunOptions, RunOutcome, RunSession
from gage_eval.runs.inline import carry_out
from gage_eval.runs.record import FlowRunRecord

# A server that has not let the flow begin after this time is given up.
_BEGIN_S = 60.0
# Log lines and events have this time at least to be sent at the exit.
_LEAST_S = 1.0
_WAKE_EVERY_S = 0.5

_log = logging.getLogger(__name__)
_current: ContextVar["OwnRun | None"] = ContextVar("own_run", default=None)


@dataclass
class OwnRun:
    """A run that code of this process asks for.

    Attributes:
        options: what is asked. The parameters of its flow run are for a worker that retries it.
        flow_run: its flow run; None for the one in whose context it is carried out.
        observers: receive the run's events.
        host: keeps engines running for other runs.
        outcome: of the run, when it has completed.
        session: of the run, from its start on.
        page: the page of its flow run, from its start on.
    """

    options: RunOptions
    flow_run: FlowRunRecord | None = None
    observers: Sequence[Observer] = ()
    host: SharedEngines | None = None
    outcome: RunOutcome | None = None
    session: RunSession | None = None
    page: FlowRunPage | None = None
    _error: BaseException | None = None
    _is_cancelled: bool = False
    _begun: threading.Lock = field(default_factory=threading.Lock)
    _ended: threading.Event = field(default_factory=threading.Event)
    _reported: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def current(cls) -> "OwnRun | None":
        """The run of this context; None for a run that a form asked for."""
        return _current.get()

    def opened(self, session: RunSession) -> None:
        """The session of the run is there, and it can be cancelled."""
        self.session = session
        if self._is_cancelled:
            session.cancel()

    def body(self, work: Callable[[], State[Any]]) -> State[Any]:
        """The body of its flow: the work, whose exception becomes the flow run's state."""
        if not self._begun.acquire(blocking=False):
            # The server let the flow begin so late that the run was carried out without it.
            self._ended.wait()
            return end_state(self._error) if self._error is not None else State[Any](type="COMPLETED")
        try:
            return work()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - raised in the thread of the caller
            self._error = error
            return end_state(error)
        except Pause:
            self._error = RunCancelled("the flow run was suspended")
            raise
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._ended.set()

    def carry_out_inside(self, flow: Flow[..., Any], **parameters: Any) -> RunOutcome:
        """Carry out the run as a subflow of the current flow run.

        Args:
            flow: its flow.
            parameters: of the flow, to be seen in the UI.

        Raises:
            GageError: what stopped the run; everything computed is kept.
            RunCancelled: its flow run was cancelled.
        """
        token = _current.set(self)
        try:
            flow(**parameters, return_state=True)
        finally:
            _current.reset(token)
        if self._error is not None:
            raise self._error
        assert self.outcome is not None, "a run that does not complete has an error"
        return self.outcome

    @property
    def is_reported(self) -> bool:
        """Whether the server knows the end of the run."""
        return self._reported.is_set()

    def carry_out(self, flow: Flow[..., Any], parameters: dict[str, Any], flow_run: FlowRun) -> None:
        """Carry out the flow run with Prefect's engine, and wait a few seconds for the server to take its end.

        Raises:
            GageError: what stopped the run; everything computed is kept.
            KeyboardInterrupt: the run was cancelled.
        """
        engine = threading.Thread(
            target=copy_context().run, args=(self._run_flow, flow, parameters, flow_run), name="flow", daemon=True
        )
        engine.start()
        try:
            self._wait(engine)
        except BaseException:
            self._is_cancelled = True
            if self.session is not None:
                self.session.cancel()
            while not self._ended.wait(_WAKE_EVERY_S) and engine.is_alive():
                pass
            raise
        finally:
            self._report_end(engine)
        if self._error is not None:
            raise self._error

    def _report_end(self, engine: threading.Thread) -> None:
        """Wait a few seconds for the server to take the last state, the page and, at the exit, the log lines."""
        deadline = time.monotonic() + (LAST_S if self.page is None else self.page.patience_s)
        engine.join(deadline - time.monotonic())
        if self.page is not None:
            self.page.finish(max(deadline - time.monotonic(), 0.0))
        _bound_the_exit(max(deadline - time.monotonic(), _LEAST_S))

    def _wait(self, engine: threading.Thread) -> None:
        """Wait for the end of the run; carry it out here if the server does not let it begin."""
        deadline = time.monotonic() + _BEGIN_S
        while not self._ended.wait(_WAKE_EVERY_S):
            late = time.monotonic() > deadline or not engine.is_alive()
            if not late or self._begun.locked():
                continue
            if self.is_reported:
                raise RunCancelled("the flow run was ended at the Prefect API before it began")
            self.body(self._without_prefect)

    def _without_prefect(self) -> State[Any]:
        with RunSession(
            self.options, self.observers, blocks=PrefectBlocks(), flow_run=self.flow_run, host=self.host
        ) as session:
            self.opened(session)
            self.outcome = carry_out(session)
        return State[Any](type="COMPLETED")

    def _run_flow(self, flow: Flow[..., Any], parameters: dict[str, Any], flow_run: FlowRun) -> None:
        _current.set(self)
        # The process of a user is not resumed when it is gone, so nothing waits for its heartbeats.
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            try:
                state = run_flow(flow, flow_run=flow_run, parameters=parameters, return_type="state")
            except Pause:
                # The server suspended the run itself. A later command must not report another end.
                self._reported.set()
                return
            except BaseException as error:  # noqa: BLE001 - the run itself has its own result
                _log.debug("Prefect's engine: %r", error)
                return
        if isinstance(state, State) and state.is_final():
            self._reported.set()


def _bound_the_exit(patience_s: float) -> None:
    """Have the process give what Prefect has not sent a few seconds at its exit, then drop it.

    Prefect registers a wait without a limit for each of its services. The newest is called first.
    """
    threading._register_atexit(_drop_what_waits, patience_s)  # type: ignore[attr-defined]


def _drop_what_waits(patience_s: float) -> None:
    def drain() -> None:
        EventsWorker.drain_all()
        APILogWorker.drain_all()

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    thread.join(patience_s)
    for service in list(_active_services):
        service._remove_instance()  # type: ignore[no-untyped-call]
        service._stopped = True
        if service._loop is not None and service._done_event is not None:
            service._loop.call_soon_threadsafe(service._done_event.set)
