"""The automations of nightly runs: what happens when a run has regressed."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.events.actions import ActionTypes, CallWebhook, RunDeployment
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from pydantic import SecretStr

from flows.nightly import DETECTED
from gage_eval.base.errors import InputError
from gage_eval.local.deployments import TRIAGE
from gage_eval.regression.nightly import Nightly
from gage_eval.runs.names import slug

_BLOCK = "block:"
# Fields of the webhook's body, from the payload of the event.
_TOLD = ("nightly", "row", "model", "run", "baseline", "alarm", "tasks")
_FIELDS = ", ".join(f'"{name}": {{{{ event.payload.{name} | tojson }}}}' for name in _TOLD)
_BODY = f"{{{_FIELDS}}}"


def check_webhook(client: SyncPrefectClient, asked: Nightly) -> None:
    """Refuse a webhook block that the server does not have.

    Raises:
        InputError: it has none of that name.
    """
    if asked.webhook is not None and asked.webhook.startswith(_BLOCK):
        name = asked.webhook.removeprefix(_BLOCK)
        if _find(client, name) is None:
            raise InputError(f"the Prefect server has no Webhook block '{name}': create it, or give a URL as webhook.")


def regression_automations(
    client: SyncPrefectClient, asked: Nightly, *, dry_run: bool
) -> dict[str, AutomationCore | None]:
    """What follows a regression of a file of nightly runs, by name.

    Args:
        client: of the server.
        asked: the file.
        dry_run: create no webhook block.

    Returns:
        The automations; None for one whose deployment or block a dry run has left out.
    """
    triage = _deployment_id(client)
    actions: dict[str, ActionTypes | None] = {
        "triage": None if triage is None else RunDeployment(deployment_id=triage, parameters=_parameters())
    }
    if asked.webhook is not None:
        block = _webhook(client, asked, dry_run=dry_run)
        actions["webhook"] = None if block is None else CallWebhook(block_document_id=block, payload=_BODY)
    names = {what: f"{slug(asked.name)}: {what} of regressions" for what in actions}
    return {
        names[what]: None if action is None else _automation(names[what], asked, action)
        for what, action in actions.items()
    }


def _deployment_id(client: SyncPrefectClient) -> UUID | None:
    """Id of the deployment `triage`; None before it is deployed, in a dry run."""
    try:
        return client.read_deployment_by_name(f"{TRIAGE.flow}/{TRIAGE.name}").id
    except ObjectNotFound:
        return None


def _automation(name: str, asked: Nightly, action: ActionTypes) -> AutomationCore:
    return AutomationCore(
        name=name,
        description=f"Made by gage deploy --nightly for '{asked.name}'.",
        trigger=EventTrigger(
            expect={DETECTED},
            match={"prefect.resource.id": f"gage_eval.nightly.{slug(asked.name)}.*"},
            posture=Posture.Reactive,
            threshold=1,
            within=timedelta(0),
        ),
        actions=[action],
    )


def _parameters() -> dict[str, Any]:
    """The parameters of a triage, from the payload of the event."""
    return {
        "run": _template("{{ event.payload.run }}"),
        "baseline": _template("{{ event.payload.baseline }}"),
        "gate": _json("{{ event.payload.gate | tojson }}"),
        "storage": _json("{{ event.payload.storage | tojson }}"),
    }


def _template(text: str) -> dict[str, Any]:
    return {"__prefect_kind": "jinja", "template": text}


def _json(text: str) -> dict[str, Any]:
    return {"__prefect_kind": "json", "value": _template(text)}


def _webhook(client: SyncPrefectClient, asked: Nightly, *, dry_run: bool) -> UUID | None:
    """Id of the webhook's block; None if it would be created."""
    assert asked.webhook is not None
    if asked.webhook.startswith(_BLOCK):
        return _find(client, asked.webhook.removeprefix(_BLOCK))
    name = f"gage-{slug(asked.name)}"
    if dry_run:
        return _find(client, name)
    Webhook(method="POST", url=SecretStr(asked.webhook)).save(name, overwrite=True)
    return _find(client, name)


def _find(client: SyncPrefectClient, name: str) -> UUID | None:
    found = client.read_block_documents_by_type("webhook")
    return next((one.id for one in found if one.name == name), None)
