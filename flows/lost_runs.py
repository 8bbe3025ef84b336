"""The automations for runs whose process is gone: they are marked as crashed, and resumed once.

A run that a night or a triage carries out is a flow run too. It is resumed by its night, so it ends as aborted.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas import State
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.states import AwaitingRetry, Cancelled, Running

from flows.states import ABORTED, CRASHED, END_NAMES, LOST
from gage_eval.base.processes import born
from gage_eval.local.deployments import INNER_FLOW, RESUMED_FLOWS, WATCHED_FLOWS

# Prefect's engine sends them.
_HEARTBEAT = "prefect.flow-run.heartbeat"
# A run is resumed this long after its crash. A worker reports a crash twice, and the second report must not end the
# resumed run.
_SETTLED_S = 10
# What the worker's second report says.
_SECOND_REPORT = "Flow run infrastructure exited"
# The automation has resumed a crashed run by then, unless the server was gone.
_NOT_RESUMED_S = 60
_MOST = 200
_RESUME = "gage-eval: resume crashed runs"
_RESUMED = "Resumed, because it crashed."
# A run that changes into one of these is not lost.
_SIGNS = (*END_NAMES, "Cancelling", "TimedOut", "Suspended", "Paused", "AwaitingRetry", "Scheduled", "Pending")


def lost_run_automations(lost_after_s: int) -> dict[str, AutomationCore | None]:
    """The automations, by name.

    Args:
        lost_after_s: a run that has sent no heartbeat for so long is lost.
    """
    return {automation.name: automation for automation in (_mark(lost_after_s), _abort(lost_after_s), _resume())}


def take_back(client: SyncPrefectClient, run: FlowRun) -> bool:
    """Set a run of this process to Running again if it was marked as lost. Returns whether it was.

    A server that was away for longer than it waits for heartbeats marks the runs that it knew when it is back. They are
    resumed `_SETTLED_S` later. Until then, and until a worker takes the resumed run, the mark can be taken back. So can
    the second report of a crash, which a busy worker sends when the resumed run is running already.
    """
    state = run.state
    if state is None:
        return False
    is_late = (state.message or "").startswith(_SECOND_REPORT)
    is_marked = state.is_crashed() and (state.name in (LOST, ABORTED) or is_late)
    is_resumed = state.is_scheduled() and state.message == _RESUMED
    if not is_marked and not is_resumed:
        return False
    # A crashed run is resumed if it has started once. This must not count as a start, and Prefect does not count that a
    # run goes on after a pause.
    client.update_flow_run(run.id, empirical_policy=run.empirical_policy.model_copy(update={"resuming": True}))
    # A run that was lost has ended: without force the server would keep its state.
    client.set_flow_run_state(run.id, Running(message="It was not lost: its process is alive."), force=True)
    return True


def resume_lost(client: SyncPrefectClient, *, is_local: bool) -> None:
    """Resume the runs that crashed, or whose process is gone, and that no automation has resumed.

    A server that was away does not see an end in time, and Prefect's automations do not look back. As they do, this
    resumes a run once. It resumes none when the automation is switched off.

    Args:
        client: of the server.
        is_local: its workers are on this machine, so that their processes can be looked at.
    """
    if not any(automation.enabled for automation in client.read_automations_by_name(_RESUME)):
        return
    kinds = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING, StateType.CRASHED]
    runs = client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=list(RESUMED_FLOWS))),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=kinds))),
        sort=FlowRunSort.START_TIME_DESC,
        limit=_MOST,
    )
    for run in runs:
        state = run.state
        if state is None or run.deployment_id is None or not _is_over(run, state, is_local=is_local):
            continue
        if state.is_cancelling():
            client.set_flow_run_state(run.id, Cancelled(message="The process of the run is gone."), force=True)
        elif run.run_count <= 1:
            client.set_flow_run_state(run.id, AwaitingRetry(message=_RESUMED), force=True)


def _is_over(run: FlowRun, state: State[Any], *, is_local: bool) -> bool:
    """Whether a run has crashed and is left so, or its process is gone and its end was not reported."""
    if state.is_crashed():
        age = datetime.now(UTC) - state.timestamp
        return run.run_count == 1 and state.name in (CRASHED, LOST) and age > timedelta(seconds=_NOT_RESUMED_S)
    pid = run.infrastructure_pid or ""
    if not is_local or not pid.isdecimal():
        return False
    try:
        # After a restart of the machine, another process may have the number. One that begins has no command yet.
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return command != b"" and b"prefect" not in command
    except OSError:
        return born(int(pid)) == 0


def _mark(lost_after_s: int) -> AutomationCore:
    # The server refuses this state to runs that have ended or are being cancelled.
    state = ChangeFlowRunState(
        state=StateType.CRASHED, name=LOST, message="The run has sent no heartbeat: its machine may be gone."
    )
    return AutomationCore(
        name="gage-eval: lost runs",
        description="Marks a run as crashed when its process has sent no heartbeat for a while: its node is gone.",
        trigger=_silence(lost_after_s, WATCHED_FLOWS),
        actions=[state],
    )


def _abort(lost_after_s: int) -> AutomationCore:
    state = ChangeFlowRunState(
        state=StateType.CRASHED,
        name=ABORTED,
        message="The night that carried out this run is gone. A resumed night resumes it as another flow run.",
    )
    return AutomationCore(
        name="gage-eval: runs of lost nights",
        description="Marks a run of a night as aborted when its heartbeats have stopped. Its night resumes it.",
        trigger=_silence(lost_after_s, (INNER_FLOW,)),
        actions=[state],
    )


def _silence(lost_after_s: int, flows: tuple[str, ...]) -> EventTrigger:
    """Fires for a run of these flows that has not ended and whose heartbeats have stopped."""
    return _missing(flows, {_HEARTBEAT}, {_HEARTBEAT, *map(_event, _SIGNS)}, lost_after_s)


def _resume() -> AutomationCore:
    # A crashed run has ended: without force the server would keep its state.
    state = ChangeFlowRunState(state=StateType.SCHEDULED, name="AwaitingRetry", message=_RESUMED, force=True)
    return AutomationCore(
        name=_RESUME,
        description="Resumes a run that has crashed, once. Finished stages and all answers in the store are kept.",
        trigger=_missing(
            RESUMED_FLOWS,
            {_event(CRASHED), _event(LOST)},
            {_event("AwaitingRetry"), _event("Scheduled"), _event("Pending"), _event("Running")},
            _SETTLED_S,
            {"prefect.run-count": "1"},
        ),
        actions=[state],
    )


def _event(state: str) -> str:
    """The event that a flow run has changed into a state of this name."""
    return f"prefect.flow-run.{state}"


def _missing(
    flows: tuple[str, ...], after: set[str], expect: set[str], within_s: int, labels: dict[str, str] | None = None
) -> EventTrigger:
    """Fires for a run of these flows with these labels that had one of some events, and none of others since."""
    related = {"prefect.resource.role": "flow", "prefect.resource.name": list(flows)}
    return EventTrigger(
        posture=Posture.Proactive,
        match=ResourceSpecification.model_validate({"prefect.resource.id": "prefect.flow-run.*", **(labels or {})}),
        match_related=ResourceSpecification.model_validate(related),
        after=after,
        expect=expect,
        for_each={"prefect.resource.id"},
        threshold=1,
        within=timedelta(seconds=within_s),
    )
