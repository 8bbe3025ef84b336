"""Which recorded deployments of nightly runs were deleted at their Prefect server."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterId,
    FlowRunFilter,
    FlowRunFilterEndTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import TERMINAL_STATES, StateType
from prefect.exceptions import ObjectNotFound

from flows.api import api_client, is_unanswered
from gage_eval.base.canonical import canonical_json
from gage_eval.base.errors import InputError
from gage_eval.config.secrets import scrub
from gage_eval.runs.deployed import DeploymentRecord
from gage_eval.store.objects import digests_in

_NIGHTLY = "nightly"
_REQUEST_S = 10.0
# A night that ended within this time may be resumed or retried.
_RETRIED_WITHIN = timedelta(days=1)
_PAGE = 200


def deleted_at(api_url: str, records: Sequence[DeploymentRecord]) -> list[DeploymentRecord]:
    """The deployments of a server that no longer exist, and whose files no night of it needs.

    Args:
        api_url: the server's API.
        records: deployments of this server and of others. Those of others are not returned.

    Raises:
        InputError: the server does not answer, or refuses.
    """
    try:
        with api_client(api_url, timeout_s=_REQUEST_S, retries=1) as client:
            return _deleted(client, records)
    except Exception as problem:
        if is_unanswered(problem):
            what, remedy = "does not answer", "Start it"
        else:
            what, remedy = "does not say which deployments exist", "Read its log"
        raise InputError(
            f"the Prefect API at {scrub(api_url)} {what} ({type(problem).__name__}), so nothing was removed. {remedy}, "
            "and try again; without an API (unset PREFECT_API_URL), the files of all nightly deployments are kept."
        ) from problem


def _deleted(client: SyncPrefectClient, records: Sequence[DeploymentRecord]) -> list[DeploymentRecord]:
    try:
        flow_id = client.read_flow_by_name(_NIGHTLY).id
    except ObjectNotFound:
        return []
    absent = [
        record for record in records if record.flow_id == str(flow_id) and not _exists(client, record.deployment_id)
    ]
    if not absent:
        return []
    needed = {name for parameters in _parameters(client, flow_id) for name in digests_in(canonical_json(parameters))}
    return [record for record in absent if needed.isdisjoint(record.bundles)]


def _exists(client: SyncPrefectClient, deployment_id: str) -> bool:
    try:
        client.read_deployment(deployment_id)
    except ObjectNotFound:
        return False
    return True


def _parameters(client: SyncPrefectClient, flow_id: Any) -> Iterator[dict[str, Any]]:
    """The parameters of all deployments of a flow, and of its runs that have not ended or have just ended."""
    nightly = FlowFilter(id=FlowFilterId(any_=[flow_id]))
    unfinished = FlowRunFilterState(
        type=FlowRunFilterStateType(any_=[state for state in StateType if state not in TERMINAL_STATES])
    )
    recent = FlowRunFilterEndTime(after_=datetime.now(UTC) - _RETRIED_WITHIN)
    queries: tuple[Callable[..., Sequence[Any]], ...] = (
        partial(client.read_deployments, flow_filter=nightly),
        partial(client.read_flow_runs, flow_filter=nightly, flow_run_filter=FlowRunFilter(state=unfinished)),
        partial(client.read_flow_runs, flow_filter=nightly, flow_run_filter=FlowRunFilter(end_time=recent)),
    )
    for query in queries:
        for page in count():
            runs = query(limit=_PAGE, offset=page * _PAGE)
            yield from (run.parameters for run in runs)
            if len(runs) < _PAGE:
                break
