"""Lost runs: automations that `gage deploy` creates mark runs without a heartbeat as crashed, and resume them once."""

from datetime import timedelta

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification

# Two heartbeats of Prefect's default frequency (180 s) and some delay.
_SILENT_S = 400
# Name of the state of a run without heartbeats. A run that its worker reports as crashed has another one.
LOST = "Lost"
_FLOW_RUN = ResourceSpecification.model_validate({"prefect.resource.id": "prefect.flow-run.*"})
_OURS = ResourceSpecification.model_validate(
    {"prefect.resource.role": "flow", "prefect.resource.name": ["suite", "evaluate"]}
)
_ENDS = ("Completed", "Failed", "Cancelled", "Cancelling", "Crashed", LOST, "AwaitingRetry", "Scheduled", "Pending")

AUTOMATIONS = (
    AutomationCore(
        name="gage-eval: lost runs",
        description="Marks a run as crashed when its process has sent no heartbeat for a while: its node is gone.",
        trigger=EventTrigger(
            posture=Posture.Proactive,
            match=_FLOW_RUN,
            match_related=_OURS,
            after={"prefect.flow-run.heartbeat"},
            expect={"prefect.flow-run.heartbeat", *(f"prefect.flow-run.{name}" for name in _ENDS)},
            for_each={"prefect.resource.id"},
            threshold=1,
            within=timedelta(seconds=_SILENT_S),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED, name=LOST, message="The run has sent no heartbeat: its machine may be gone."
            )
        ],
    ),
    AutomationCore(
        name="gage-eval: resume lost runs",
        description="Resumes a run that was lost, once. Finished stages and all answers in the store are kept.",
        trigger=EventTrigger(
            posture=Posture.Reactive,
            match=ResourceSpecification.model_validate(
                {"prefect.resource.id": "prefect.flow-run.*", "prefect.run-count": "1"}
            ),
            match_related=_OURS,
            expect={f"prefect.flow-run.{LOST}"},
            for_each={"prefect.resource.id"},
            threshold=1,
            within=timedelta(0),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.SCHEDULED, name="AwaitingRetry", message="Resumed, because it was lost.", force=True
            )
        ],
    ),
)


def automate(client: SyncPrefectClient) -> None:
    """Create the automations that a server does not have. Those that were changed in the UI stay as they are."""
    for automation in AUTOMATIONS:
        if not client.read_automations_by_name(automation.name):
            client.create_automation(automation)
