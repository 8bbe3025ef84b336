"""The automations of nightly runs: what follows a regression, and the messages about nights and triages."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.responses import DeploymentResponse
from prefect.events.actions import ActionTypes, CallWebhook, RunDeployment, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.exceptions import ObjectNotFound
from prefect.utilities.urls import url_for
from pydantic import SecretStr

from flows.deploy import longest_pause
from flows.nightly import DETECTED, NIGHT_ENDED, night_resource
from flows.states import CRASHED, LOST
from flows.triage import TRIAGED
from gage_eval.base.errors import InputError
from gage_eval.local.deployments import TRIAGE
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


def check_addresses(client: SyncPrefectClient, asked: Nightly) -> None:
    """Refuse a webhook block or a notification block that the server does not have.

    Raises:
        InputError: it has none of that name.
    """
    if asked.webhook is not None and asked.webhook.startswith(_BLOCK):
        name = asked.webhook.removeprefix(_BLOCK)
        if _find(client, _WEBHOOK, name) is None:
            raise InputError(f"the Prefect server has no Webhook block '{name}': create it, or give a URL as webhook.")
    if asked.notify is not None and _find(client, *asked.notify.split("/")) is None:
        raise InputError(f"the Prefect server has no block '{asked.notify}': create it, or leave notify out.")


def night_automations(client: SyncPrefectClient, asked: Nightly, *, dry_run: bool) -> dict[str, AutomationCore | None]:
    """What follows the nights of a file of nightly runs, by name.

    Args:
        client: of the server.
        asked: the file.
        dry_run: create no webhook block.

    Returns:
        The automations; None for one whose deployment or block a dry run has left out.
    """
    triage = _deployment(client, f"{TRIAGE.flow}/{TRIAGE.name}")
    actions: dict[str, tuple[EventTrigger, list[ActionTypes] | None]] = {
        "triage of regressions": (
            _on(DETECTED, f"{night_resource(asked)}.*"),
            None if triage is None else [RunDeployment(deployment_id=triage.id, parameters=_parameters())],
        )
    }
    if asked.webhook is not None or asked.notify is not None:
        nightly = _deployment(client, f"nightly/{slug(asked.name)}")
        for name, news in _news(asked, nightly).items():
            told = None if nightly is None else _tell(client, asked, news, dry_run=dry_run)
            actions[f"tell of {name}"] = news.trigger, told
    return {
        f"{slug(asked.name)}: {name}": None if action is None else _automation(asked, name, trigger, action)
        for name, (trigger, action) in actions.items()
    }


def _news(asked: Nightly, nightly: DeploymentResponse | None) -> dict[str, _News]:
    name = slug(asked.name)
    page = None if nightly is None else url_for("deployment", obj_id=nightly.id)
    of_nightly = {} if nightly is None else {"prefect.resource.id": f"prefect.deployment.{nightly.id}"}
    pause = longest_pause(asked.schedule) + _LATE
    hours = round(pause.total_seconds() / 3600)
    missing = f"{asked.name}: no night has ended for {hours} hours.\nDeployment: {page}"
    failed = '"The night " ~ flow_run.name ~ " " ~ flow_run.state.name ~ ": " ~ flow_run.state.message'
    return {
        "regressions": _News(
            f"{asked.name}: regressed",
            _on(DETECTED, f"{night_resource(asked)}.*"),
            _OF_EVENT,
            ("nightly", "row", "model", "run", "baseline", "alarm", "tasks"),
        ),
        "triages": _News(
            f"{asked.name}: triage",
            # A year follows the name of the file in the names of its runs.
            _on(TRIAGED, f"gage_eval.triage.{name}-2*"),
            _OF_EVENT,
            ("run", "baseline", "outcomes"),
        ),
        "failed nights": _News(
            f"{asked.name}: a night has failed",
            EventTrigger(
                expect={f"prefect.flow-run.{state}" for state in ("Failed", CRASHED, LOST)},
                match={"prefect.resource.id": "prefect.flow-run.*"},
                match_related=of_nightly,
                posture=Posture.Reactive,
                threshold=1,
                within=timedelta(0),
            ),
            f'({failed} ~ "\\nNight: " ~ (flow_run | ui_url))',
        ),
        "missing nights": _News(
            f"{asked.name}: no night has ended",
            EventTrigger(
                expect={NIGHT_ENDED},
                match={"prefect.resource.id": night_resource(asked)},
                posture=Posture.Proactive,
                threshold=1,
                within=pause,
            ),
            json.dumps(missing, ensure_ascii=False),
        ),
    }


def _on(event: str, resource: str) -> EventTrigger:
    return EventTrigger(
        expect={event},
        match={"prefect.resource.id": resource},
        posture=Posture.Reactive,
        threshold=1,
        within=timedelta(0),
    )


def _tell(client: SyncPrefectClient, asked: Nightly, news: _News, *, dry_run: bool) -> list[ActionTypes] | None:
    """The actions that tell people; None if a dry run has left out the block of the webhook."""
    actions: list[ActionTypes] = []
    if asked.notify is not None:
        block = _find(client, *asked.notify.split("/"))
        assert block is not None, "check_addresses has found it"
        actions.append(SendNotification(block_document_id=block, subject=news.subject, body=f"{{{{ {news.text} }}}}"))
    if asked.webhook is not None:
        block = _webhook(client, asked, dry_run=dry_run)
        if block is None:
            return None
        actions.append(CallWebhook(block_document_id=block, payload=news.body))
    return actions


def _deployment(client: SyncPrefectClient, name: str) -> DeploymentResponse | None:
    """A deployment; None before it is deployed, in a dry run."""
    try:
        return client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None


def _automation(asked: Nightly, name: str, trigger: EventTrigger, actions: list[ActionTypes]) -> AutomationCore:
    return AutomationCore(
        name=f"{slug(asked.name)}: {name}",
        description=f"Made by gage deploy --nightly for '{asked.name}'.",
        trigger=trigger,
        actions=actions,
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
        return _find(client, _WEBHOOK, asked.webhook.removeprefix(_BLOCK))
    name = f"gage-{slug(asked.name)}"
    if not dry_run:
        Webhook(method="POST", url=SecretStr(asked.webhook)).save(name, overwrite=True)
    return _find(client, _WEBHOOK, name)


def _find(client: SyncPrefectClient, kind: str, name: str) -> UUID | None:
    """Id of a block of a type, by their names."""
    blocks = client.read_block_documents_by_type(kind)
    return next((block.id for block in blocks if block.name == name), None)
