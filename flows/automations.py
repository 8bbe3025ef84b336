"""Brings the automations of nightly runs to a Prefect server: what happens when a run has regressed."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.events.actions import ActionTypes, CallWebhook, RunDeployment
from prefect.events.schemas.automations import Automation, AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from pydantic import SecretStr

from flows.nightly import DETECTED
from gage_eval.canonical import canonical_json
from gage_eval.deployments import AUTOMATION, TRIAGE, Deployed
from gage_eval.errors import InputError
from gage_eval.regression.nightly import Nightly
from gage_eval.runs.names import slug

_BLOCK = "block:"
# Fields of the webhook's body, from the payload of the event.
_TOLD = ("nightly", "row", "model", "run", "baseline", "alarm", "tasks")
_FIELDS = ", ".join(f'"{name}": {{{{ event.payload.{name} | tojson }}}}' for name in _TOLD)
_BODY = f"{{{_FIELDS}}}"


def ensure_automations(client: SyncPrefectClient, asked: Nightly, *, dry_run: bool) -> list[Deployed]:
    """Create or update what follows a regression of a file of nightly runs.

    Args:
        client: of the server.
        asked: the file.
        dry_run: change nothing.

    Returns:
        What was done with each, or would be.

    Raises:
        InputError: the file names a webhook block that the server has not got.
    """
    triage = _deployment_id(client)
    actions: dict[str, ActionTypes | None] = {
        "triage": None if triage is None else RunDeployment(deployment_id=triage, parameters=_parameters())
    }
    if asked.webhook is not None:
        block = _webhook(client, asked, dry_run=dry_run)
        actions["webhook"] = None if block is None else CallWebhook(block_document_id=block, payload=_BODY)
    return [_ensure(client, _name(asked, what), asked, action, dry_run=dry_run) for what, action in actions.items()]


def _ensure(
    client: SyncPrefectClient, name: str, asked: Nightly, action: ActionTypes | None, *, dry_run: bool
) -> Deployed:
    """Create or update one automation. There is an action unless a dry run has left out what it refers to."""
    if action is None:
        return Deployed(name, AUTOMATION, "created")
    wanted = _automation(name, asked, action)
    there = client.read_automations_by_name(name)
    if there and _same(there[0], wanted):
        return Deployed(name, AUTOMATION, "unchanged")
    if not dry_run:
        if there:
            client.update_automation(there[0].id, wanted)
        else:
            client.create_automation(wanted)
    return Deployed(name, AUTOMATION, "updated" if there else "created")


def _deployment_id(client: SyncPrefectClient) -> UUID | None:
    """Id of the deployment `triage`; None before it is deployed, in a dry run."""
    try:
        return client.read_deployment_by_name(f"{TRIAGE.flow}/{TRIAGE.name}").id
    except ObjectNotFound:
        return None


def _name(asked: Nightly, what: str) -> str:
    return f"{slug(asked.name)}: {what} of regressions"


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
        name = asked.webhook.removeprefix(_BLOCK)
        found = _find(client, name)
        if found is None:
            raise InputError(f"the Prefect server has no Webhook block '{name}': create it, or give a URL as webhook.")
        return found
    name = f"gage-{slug(asked.name)}"
    if dry_run:
        return _find(client, name)
    Webhook(method="POST", url=SecretStr(asked.webhook)).save(name, overwrite=True)
    return _find(client, name)


def _find(client: SyncPrefectClient, name: str) -> UUID | None:
    found = client.read_block_documents_by_type("webhook")
    return next((one.id for one in found if one.name == name), None)


def _same(there: Automation, wanted: AutomationCore) -> bool:
    fields = set(AutomationCore.model_fields) - {"enabled"}
    return canonical_json(there.model_dump(mode="json", include=fields)) == canonical_json(
        wanted.model_dump(mode="json", include=fields)
    )
