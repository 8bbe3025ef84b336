"""Posts events and artifacts to a Prefect API. The client's own methods start a worker that may block at exit."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import uuid4

from prefect.client.orchestration import SyncPrefectClient

from gage_eval.canonical import JsonValue


def post_event(
    client: SyncPrefectClient,
    event: str,
    resource: Mapping[str, JsonValue],
    *,
    related: Sequence[JsonValue] = (),
    payload: Mapping[str, JsonValue] | None = None,
) -> None:
    """Post an event that occurred now.

    Args:
        client: of the server.
        event: its name.
        resource: what it is about.
        related: other things that it is about.
        payload: what else it says.
    """
    body = {
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": event,
        "resource": resource,
        "related": related,
        "payload": payload or {},
    }
    client.request("POST", "/events", json=[body])


def post_artifact(
    client: SyncPrefectClient, flow_run_id: str, key: str, kind: str, data: str, description: str
) -> None:
    """Post an artifact of a flow run.

    Args:
        client: of the server.
        flow_run_id: the flow run whose page shows it.
        key: its name; artifacts of the same key are its versions.
        kind: ``markdown`` or ``table``.
        data: its content.
        description: its title.
    """
    artifact = {"key": key, "type": kind, "data": data, "description": description, "flow_run_id": flow_run_id}
    client.request("POST", "/artifacts/", json=artifact)
