"""Posts events to a Prefect API. The client's own method starts a worker for events that may block at exit."""

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
