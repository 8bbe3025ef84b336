"""Promises of the automations of nights: people are told in words, and what goes on is left alone."""

import json
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.events.actions import CallWebhook, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.server.utilities.user_templates import render_user_template_sync

from flows import states
from flows.automations import ensure_automations
from flows.deploy import longest_pause
from flows.lost_runs import lost_run_automations
from flows.night_automations import check_addresses, night_automations, remove_unwanted
from flows.nightly import NIGHT_ENDED
from gage_eval.base.errors import InputError
from gage_eval.regression.nightly import Nightly, Schedule
from tests.support.nights import two_models

HOOK, SLACK = uuid4(), uuid4()


class Server:
    """What a Prefect server is asked for."""

    def __init__(self) -> None:
        self.automations: dict[UUID, Any] = {}

    def read_deployment_by_name(self, name: str) -> Any:
        return SimpleNamespace(id=UUID(int=len(name)))

    def read_block_documents_by_type(self, kind: str) -> list[Any]:
        blocks = {"webhook": ("hook", HOOK), "slack-webhook": ("team", SLACK)}
        return [SimpleNamespace(name=name, id=block) for name, block in [blocks[kind]]]

    def create_automation(self, automation: AutomationCore) -> None:
        self.automations[uuid4()] = automation

    def read_automations_by_name(self, name: str) -> list[Any]:
        return [
            automation.model_copy(update={"id": key})
            for key, automation in self.automations.items()
            if automation.name == name
        ]

    def read_automations(self) -> list[Any]:
        return [automation.model_copy(update={"id": key}) for key, automation in self.automations.items()]

    def delete_automation(self, key: UUID) -> None:
        del self.automations[key]


@pytest.fixture
def nightly(tmp_path: Path) -> Nightly:
    return two_models(tmp_path).model_copy(update={"webhook": "block:hook", "notify": "slack-webhook/team"})


def automations_of(nightly: Nightly) -> dict[str, AutomationCore]:
    made = night_automations(Server(), nightly, dry_run=False)  # type: ignore[arg-type]
    return {name.partition(": ")[2]: automation for name, automation in made.items() if automation is not None}


def test_people_are_told_of_regressions_triages_and_nights_that_failed_or_did_not_come(nightly: Nightly) -> None:
    made = automations_of(nightly)
    told = {name: automation for name, automation in made.items() if name.startswith("tell of ")}
    assert list(told) == [f"tell of {name}" for name in ("regressions", "triages", "failed nights", "missing nights")]
    flow_run = SimpleNamespace(name="every-night-2026-03-01", state=SimpleNamespace(name="Crashed", message="gone"))
    context = {
        "event": SimpleNamespace(payload=defaultdict(str, text='fell "by" 0.1')),
        "flow_run": flow_run,
    }
    texts = []
    for automation in told.values():
        notification, webhook = automation.actions
        assert isinstance(notification, SendNotification)
        assert isinstance(webhook, CallWebhook)
        assert (notification.block_document_id, webhook.block_document_id) == (SLACK, HOOK)
        payload = str(webhook.payload)
        text = render_user_template_sync(notification.body.replace("| ui_url", ".name"), context)
        body = json.loads(render_user_template_sync(payload.replace("| ui_url", ".name"), context))
        assert body["text"] == text
        texts.append(text)
    assert texts[:2] == ['fell "by" 0.1'] * 2
    assert texts[2].startswith("The night every-night-2026-03-01 Crashed: gone\nNight: ")
    assert "no night has ended for 26 hours" in texts[3]


def test_a_night_that_does_not_come_is_a_proactive_trigger(nightly: Nightly) -> None:
    trigger = automations_of(nightly)["tell of missing nights"].trigger
    assert isinstance(trigger, EventTrigger)
    assert (trigger.posture, trigger.within) == (Posture.Proactive, timedelta(hours=26))
    assert trigger.after == {NIGHT_ENDED}, "the time runs from the end of the last night"
    assert not trigger.for_each, "so it runs from the beginning, too: Prefect waits for no first night"


@pytest.mark.parametrize(("cron", "hours"), [("0 2 * * *", 24), ("0 2 * * MON-FRI", 72), ("0 2 * * SUN", 168)])
def test_the_longest_pause_between_two_nights(cron: str, hours: int) -> None:
    assert longest_pause(Schedule(cron=cron)) == timedelta(hours=hours)


def test_a_file_without_addresses_has_the_triage_only(tmp_path: Path) -> None:
    assert list(automations_of(two_models(tmp_path))) == ["triage of regressions"]


def test_a_deployment_removes_the_automations_of_an_address_that_the_file_lacks_now(
    nightly: Nightly, tmp_path: Path
) -> None:
    server: Any = Server()
    of_others = automations_of(nightly)["tell of triages"].model_copy(update={"description": "Ours."})
    for automation in (*automations_of(nightly).values(), of_others):
        server.create_automation(automation)
    quiet = two_models(tmp_path)
    wanted = night_automations(server, quiet, dry_run=False)
    for dry_run, left in ((True, 6), (False, 2)):
        removed = remove_unwanted(server, quiet, wanted, dry_run=dry_run)
        assert [change.change for change in removed] == ["removed"] * 4
        assert len(server.automations) == left
    assert sorted(automation.description == "Ours." for automation in server.automations.values()) == [False, True]
    assert remove_unwanted(server, quiet, wanted, dry_run=False) == []


def test_a_block_that_is_not_there_is_refused(nightly: Nightly) -> None:
    for changed in ({"webhook": "block:other"}, {"notify": "slack-webhook/other"}):
        with pytest.raises(InputError, match="other"):
            check_addresses(Server(), nightly.model_copy(update=changed))  # type: ignore[arg-type]


def test_no_run_is_marked_as_lost_after_its_end() -> None:
    """Every name that a state of ours may end with stands among the signs of life."""
    constants = {value for name, value in vars(states).items() if name.isupper() and isinstance(value, str)}
    for automation in lost_run_automations(120).values():
        assert automation is not None
        assert isinstance(automation.trigger, EventTrigger)
        if automation.trigger.posture == Posture.Proactive and "prefect.flow-run.heartbeat" in automation.trigger.after:
            assert {f"prefect.flow-run.{name}" for name in constants} <= automation.trigger.expect


def test_an_automation_that_is_there_twice_is_there_once_after_a_deployment() -> None:
    server, wanted = Server(), lost_run_automations(120)
    for _ in range(2):
        for automation in wanted.values():
            assert automation is not None
            server.create_automation(automation)
    ensure_automations(server, wanted, dry_run=True)  # type: ignore[arg-type]
    assert len(server.automations) == 2 * len(wanted), "a dry run changes nothing"
    ensure_automations(server, wanted, dry_run=False)  # type: ignore[arg-type]
    assert sorted(automation.name for automation in server.automations.values()) == sorted(wanted)
