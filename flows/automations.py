"""Brings automations to a Prefect server. What is there already stays untouched."""

from collections.abc import Mapping
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.events.schemas.automations import AutomationCore

from gage_eval.local.deployments import AUTOMATION, DeploymentChange


def ensure_automations(
    client: SyncPrefectClient, wanted: Mapping[str, AutomationCore | None], *, dry_run: bool
) -> list[DeploymentChange]:
    """Create or update automations. One that was switched off in the UI stays off.

    Args:
        client: of the server.
        wanted: what the server shall have, by name; None if a dry run has left out what it refers to.
        dry_run: change nothing.

    Returns:
        What was done with each, or would be.
    """
    return [_ensure(client, name, automation, dry_run=dry_run) for name, automation in wanted.items()]


def rendered(automation: AutomationCore) -> dict[str, Any]:
    """An automation as ``prefect automation create --from-file`` reads it: what it sets, always in the same order."""
    # The types are constants, so they do not count as set.
    values = automation.model_dump(mode="json", exclude_unset=True)
    trigger = {name: sorted(value) if isinstance(value, list) else value for name, value in values["trigger"].items()}
    values["trigger"] = {"type": automation.trigger.type, **trigger}
    values["actions"] = [
        {"type": action.type, **own} for action, own in zip(automation.actions, values["actions"], strict=True)
    ]
    return values


def _ensure(client: SyncPrefectClient, name: str, wanted: AutomationCore | None, *, dry_run: bool) -> DeploymentChange:
    existing = client.read_automations_by_name(name)
    if not existing:
        if wanted is not None and not dry_run:
            client.create_automation(wanted)
        return DeploymentChange(name, AUTOMATION, "created")
    there, *twice = existing
    for automation in twice if not dry_run else ():
        # `prefect automation create` makes another one each time.
        client.delete_automation(automation.id)
    if wanted is not None and _fields(there) == _fields(wanted):
        return DeploymentChange(name, AUTOMATION, "unchanged")
    if wanted is not None and not dry_run:
        client.update_automation(there.id, wanted.model_copy(update={"enabled": there.enabled}))
    return DeploymentChange(name, AUTOMATION, "updated")


def _fields(automation: AutomationCore) -> dict[str, object]:
    return automation.model_dump(include=AutomationCore.model_fields.keys() - {"enabled"})
