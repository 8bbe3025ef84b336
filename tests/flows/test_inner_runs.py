"""A run that a night carries out has its own flow run: it sends heartbeats there until it has ended."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas import State
from prefect.client.schemas.objects import FlowRunPolicy
from prefect.client.schemas.responses import SetStateStatus
from prefect.states import Completed, Crashed, Running

from flows import shown
from flows.lost_runs import INNER_HEARTBEAT
from flows.reporter import Report
from flows.shown import ShownRun
from flows.states import ABORTED
from gage_eval.runs.record import FlowRunRecord


class Api:
    """A Prefect API that may be away, and one flow run there."""

    def __init__(self) -> None:
        self.away = False
        self.state: State[Any] = Running()
        self.events: list[str] = []

    def request(self, _method: str, _path: str, *, json: list[dict[str, Any]]) -> None:
        self.answer()
        self.events += [event["event"] for event in json]

    def read_flow_run(self, _: UUID) -> SimpleNamespace:
        self.answer()
        return SimpleNamespace(state=self.state, empirical_policy=FlowRunPolicy())

    def update_flow_run(self, _: UUID, *, empirical_policy: FlowRunPolicy) -> None:
        self.answer()
        assert empirical_policy.resuming

    def set_flow_run_state(self, _: UUID, state: State[Any], *, force: bool = False) -> SimpleNamespace:
        self.answer()
        self.state = state
        return SimpleNamespace(status=SetStateStatus.ACCEPT)

    def answer(self) -> None:
        if self.away:
            raise ConnectionError("away")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """An API that takes every report at once."""
    api = Api()

    class Reporter:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def send(self, report: Report) -> None:
            report(api)  # type: ignore[arg-type]

    monkeypatch.setattr(shown, "Reporter", Reporter)
    return api


def inner_run() -> ShownRun:
    record = FlowRunRecord(flow_run_id=str(uuid4()), flow_run_name="a-night-s-run")
    return ShownRun(record, owner_at="http://127.0.0.1:9/api", in_flow_run=True)


def look(run: ShownRun, api: Api) -> None:
    run._look(api)  # type: ignore[arg-type]


def test_after_an_outage_a_run_of_a_night_is_shown_as_running_again(api: Api) -> None:
    run = inner_run()
    api.away = True
    with pytest.raises(ConnectionError):  # which the reporter takes as silence of the API
        look(run, api)
    api.away, api.state = False, Crashed(name=ABORTED)
    look(run, api)
    assert api.events == [INNER_HEARTBEAT], "sent as soon as the API answers"
    assert api.state.is_running()


def test_a_run_of_a_night_that_has_ended_stays_as_it_ended(api: Api) -> None:
    run = inner_run()
    api.away = True
    with pytest.raises(ConnectionError):
        look(run, api)
    api.away = False
    run.end(Completed())
    api.state = Crashed(name=ABORTED)
    look(run, api)
    assert api.events == []
    assert api.state.name == ABORTED
