"""The automations of nightly runs: what follows a regression, and the messages about nights and triages."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.responses import DeploymentResponse
from prefect.events.actions import ActionTypes, CallWebhook, RunDeployment, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.utilities.urls import url_for
from pydantic import SecretStr

from flows.deploy import longest_pause, read_deployment
from flows.nightly import DETECTED, NIGHT_ENDED, night_resource
from flows.states import CRASHED, LOST
from flows.triage import TRIAGED
from gage_eval.base.errors import InputError
from gage_eval.local.deployments import AUTOMATION, TRIAGE, DeploymentChange
from gage_eval.regression.nightly import Nightly
from gage_eval.runs.names import slug

_BLOCK = "block:"
_WEBHOOK = "webhook"
# A night may take so much longer than the one before.
_LATE = timedelta(hours=2)
_OF_EVENT = "event.payload.text"


@dataclass(frozen=True)
class _News:
    """A message for people.

    Attributes:
        subject: of the message.
        trigger: when.
        text: Jinja expression of the text.
        fields: further fields of the webhook's body, from the payload of the event.
    """

    subject: str
    trigger: EventTrigger
    text: str
    fields: tuple[str, ...] = ()

    @property
    def body(self) -> str:
        """The webhook's body. Slack, Mattermost and others show its ``text``."""
        values = {"text": self.text, **{name: f"event.payload.{name}" for name in self.fields}}
        fields = ", ".join(f'"{name}": {{{{ {value} | tojson }}}}' for name, value in values.items())
        return f"{{{fields}}}"


def check_addresses(client: SyncPrefectClient, nightly: Nightly) -> None:
    """Refuse a webhook block or a notification block that the server does not have.

    Raises:
        InputError: it has none of that name.
    """
    if nightly.webhook is not None and nightly.webhook.startswith(_BLOCK):
        name = nightly.webhook.removeprefix(_BLOCK)
        if _find(client, _WEBHOOK, name) is None:
            raise InputError(f"the Prefect server has no Webhook block '{name}': create it, or give a URL as webhook.")
    if nightly.notify is not None and _find(client, *nightly.notify.split("/")) is None:
        raise InputError(f"the Prefect server has no block '{nightly.notify}': create it, or leave notify out.")


def night_automations(
    client: SyncPrefectClient, nightly: Nightly, *, dry_run: bool
) -> dict[str, AutomationCore | None]:
    """What follows the nights of a file of nightly runs, by name.

    Args:
        client: of the server.
        nightly: the file.
        dry_run: create no webhook block.

    Returns:
        The automations; None for one whose deployment or block a dry run has left out.
    """
    triage = read_deployment(client, f"{TRIAGE.flow}/{TRIAGE.name}")
    actions: dict[str, tuple[EventTrigger, list[ActionTypes] | None]] = {
        "triage of regressions": (
            _on({DETECTED}, f"{night_resource(nightly)}.*"),
            None if triage is None else [RunDeployment(deployment_id=triage.id, parameters=_parameters())],
        )
    }
    if nightly.webhook is not None or nightly.notify is not None:
        deployment = read_deployment(client, f"nightly/{slug(nightly.name)}")
        for name, news in _news(nightly, deployment).items():
            told = None if deployment is None else _tell(client, nightly, news, dry_run=dry_run)
            actions[f"tell of {name}"] = news.trigger, told
    automations: dict[str, AutomationCore | None] = {}
    for name, (trigger, own) in actions.items():
        title, description = f"{slug(nightly.name)}: {name}", _description(nightly)
        automations[title] = None
        if own is not None:
            automations[title] = AutomationCore(name=title, description=description, trigger=trigger, actions=own)
    return automations


def remove_unwanted(
    client: SyncPrefectClient, nightly: Nightly, wanted: Collection[str], *, dry_run: bool
) -> list[DeploymentChange]:
    """Remove the automations of a file of nightly runs that it asks for no more, as those of an address that it lacks.

    Args:
        client: of the server.
        nightly: the file.
        wanted: names of the automations that the file asks for.
        dry_run: change nothing.
    """
    description = _description(nightly)
    there = [automation for automation in client.read_automations() if automation.description == description]
    unwanted = [automation for automation in there if automation.name not in wanted]
    for automation in unwanted if not dry_run else ():
        client.delete_automation(automation.id)
    return [DeploymentChange(automation.name, AUTOMATION, "removed") for automation in unwanted]


def _news(nightly: Nightly, deployment: DeploymentResponse | None) -> dict[str, _News]:
    name = slug(nightly.name)
    page = None if deployment is None else url_for("deployment", obj_id=deployment.id)
    of_nightly = {} if deployment is None else {"prefect.resource.id": f"prefect.deployment.{deployment.id}"}
    pause = longest_pause(nightly.schedule) + _LATE
    hours = round(pause.total_seconds() / 3600)
    missing = f"{nightly.name}: no night has ended for {hours} hours.\nDeployment: {page}"
    failed = '"The night " ~ flow_run.name ~ " " ~ flow_run.state.name ~ ": " ~ flow_run.state.message'
    return {
        "regressions": _News(
            f"{nightly.name}: regressed",
            _on({DETECTED}, f"{night_resource(nightly)}.*"),
            _OF_EVENT,
            ("nightly", "row", "model", "run", "baseline", "alarm", "tasks"),
        ),
        "triages": _News(
            f"{nightly.name}: triage",
            # A year follows the name of the file in the names of its runs.
            _on({TRIAGED}, f"gage_eval.triage.{name}-2*"),
            _OF_EVENT,
            ("run", "baseline", "outcomes"),
        ),
        "failed nights": _News(
            f"{nightly.name}: a night has failed",
            _on({f"prefect.flow-run.{state}" for state in ("Failed", CRASHED, LOST)}, "prefect.flow-run.*", of_nightly),
            f'({failed} ~ "\\nNight: " ~ (flow_run | ui_url))',
        ),
        "missing nights": _News(
            f"{nightly.name}: no night has ended",
            # Prefect begins to wait when it sees the automation, and again after each night. Without `after` it would
            # count in spans that follow each other: a night at the start of one would hide that the next did not come.
            EventTrigger(
                after={NIGHT_ENDED},
                expect={NIGHT_ENDED},
                match={"prefect.resource.id": night_resource(nightly)},
                posture=Posture.Proactive,
                threshold=1,
                within=pause,
            ),
            json.dumps(missing, ensure_ascii=False),
        ),
    }


def _on(events: set[str], resource: str, related: dict[str, str] | None = None) -> EventTrigger:
    """Fires at each of these events."""
    return EventTrigger(
        expect=events,
        match={"prefect.resource.id": resource},
        match_related=related or {},
        posture=Posture.Reactive,
        threshold=1,
        within=timedelta(0),
    )


def _tell(client: SyncPrefectClient, nightly: Nightly, news: _News, *, dry_run: bool) -> list[ActionTypes] | None:
    """The actions that tell people; None if a dry run has left out the block of the webhook."""
    actions: list[ActionTypes] = []
    if nightly.notify is not None:
        block = _find(client, *nightly.notify.split("/"))
        assert block is not None, "check_addresses has found it"
        actions.append(SendNotification(block_document_id=block, subject=news.subject, body=f"{{{{ {news.text} }}}}"))
    if nightly.webhook is not None:
        block = _webhook(client, nightly, dry_run=dry_run)
        if block is None:
            return None
        actions.append(CallWebhook(block_document_id=block, payload=news.body))
    return actions


def _description(nightly: Nightly) -> str:
    return f"Made by gage deploy --nightly for '{nightly.name}'."


def _parameters() -> dict[str, Any]:
    """The parameters of a triage, from the payload of the event."""
    return {
        "run": _template("{{ event.payload.run }}"),
        "baseline": _template("{{ event.payload.baseline }}"),
        "gate": _json("{{ event.payload.gate | tojson }}"),
        "policy": _json("{{ event.payload.policy | tojson }}"),
        "storage": _json("{{ event.payload.storage | tojson }}"),
    }


def _template(text: str) -> dict[str, Any]:
    return {"__prefect_kind": "jinja", "template": text}


def _json(text: str) -> dict[str, Any]:
    return {"__prefect_kind": "json", "value": _template(text)}


def _webhook(client: SyncPrefectClient, nightly: Nightly, *, dry_run: bool) -> UUID | None:
    """Id of the webhook's block; None if it would be created."""
    assert nightly.webhook is not None
    if nightly.webhook.startswith(_BLOCK):
        return _find(client, _WEBHOOK, nightly.webhook.removeprefix(_BLOCK))
    name = f"gage-{slug(nightly.name)}"
    if not dry_run:
        Webhook(method="POST", url=SecretStr(nightly.webhook)).save(name, overwrite=True)
    return _find(client, _WEBHOOK, name)


def _find(client: SyncPrefectClient, kind: str, name: str) -> UUID | None:
    """Id of a block of a type, by their names."""
    blocks = client.read_block_documents_by_type(kind)
    return next((block.id for block in blocks if block.name == name), None)
