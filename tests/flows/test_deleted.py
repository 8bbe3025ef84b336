"""A server says which recorded deployments were deleted; what a night may still need does not count as deleted."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.exceptions import ObjectNotFound

from flows import deleted
from flows.deleted import deleted_at
from gage_eval.base.errors import InputError
from gage_eval.base.ports import free_port
from gage_eval.runs.deployed import DeploymentRecord

FLOW, DEPLOYMENT = uuid4(), uuid4()
BUNDLE = "ab" * 32


class Server:
    """The part of the API that is asked. It has the flow of nightly runs and no deployment."""

    def __init__(self) -> None:
        self.flow_id: UUID | None = FLOW
        self.deployments: dict[UUID, dict[str, Any]] = {}
        self.runs: list[dict[str, Any]] = []

    def read_flow_by_name(self, name: str) -> Any:
        if self.flow_id is None:
            raise ObjectNotFound(Exception(name))
        return SimpleNamespace(id=self.flow_id)

    def read_deployment(self, deployment_id: str) -> Any:
        if UUID(deployment_id) not in self.deployments:
            raise ObjectNotFound(Exception(deployment_id))

    def read_deployments(self, *, limit: int, offset: int, **_: Any) -> list[Any]:
        return [SimpleNamespace(parameters=parameters) for parameters in self.deployments.values()][
            offset : offset + limit
        ]

    def read_flow_runs(self, *, flow_run_filter: Any, limit: int, offset: int, **_: Any) -> list[Any]:
        # The same runs answer both questions: which have not ended, and which have just ended.
        return [SimpleNamespace(parameters=parameters) for parameters in self.runs][offset : offset + limit]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    fake = Server()

    @contextmanager
    def client(*_: object, **__: object) -> Iterator[Server]:
        yield fake

    monkeypatch.setattr(deleted, "api_client", client)
    return fake


def record(flow_id: UUID = FLOW) -> DeploymentRecord:
    return DeploymentRecord(
        deployment="nights", deployment_id=str(DEPLOYMENT), flow_id=str(flow_id), api="http://here", bundles=(BUNDLE,)
    )


def parameters(bundle: str) -> dict[str, Any]:
    return {"text": "…", "configs": {"mine.yaml": f"bundle:{bundle}"}}


def test_a_deployment_that_its_server_does_not_have_is_deleted(server: Server) -> None:
    assert deleted_at("http://here", [record()]) == [record()]
    server.deployments[DEPLOYMENT] = parameters(BUNDLE)
    assert deleted_at("http://here", [record()]) == []


def test_another_server_at_the_same_url_says_nothing(server: Server) -> None:
    server.flow_id = uuid4()
    assert deleted_at("http://here", [record()]) == []
    server.flow_id = None
    assert not deleted_at("http://here", [record()])


def test_a_deployment_whose_files_are_needed_is_not_deleted(server: Server) -> None:
    server.runs = [parameters("cd" * 32)] * 250
    assert deleted_at("http://here", [record()]) == [record()]
    server.runs.append(parameters(BUNDLE))
    assert deleted_at("http://here", [record()]) == [], "a night that is under way needs them, on the second page"
    server.runs = []
    server.deployments[uuid4()] = parameters(BUNDLE)
    assert deleted_at("http://here", [record()]) == [], "another deployment of the server needs them"


def test_a_server_that_cannot_say_it_is_an_error_and_what_to_do(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise ValueError(name)

    monkeypatch.setattr(server, "read_flow_by_name", refuse)
    with pytest.raises(InputError, match=r"does not say which .* so nothing was removed\. Read its log"):
        deleted_at("http://here", [record()])


def test_a_server_that_does_not_answer_is_an_error_and_what_to_do() -> None:
    with pytest.raises(InputError, match=r"does not answer \(ConnectError\), so nothing was removed\. Start it"):
        deleted_at(f"http://127.0.0.1:{free_port()}/api", [record()])
