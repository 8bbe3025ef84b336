"""Has work pools serve engines: each server is a flow run of the deployment `serve` there."""

import logging
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowFilter, WorkPoolFilter
from prefect.client.schemas.objects import FlowRun, WorkerStatus, WorkPool
from prefect.settings import PREFECT_API_URL
from prefect.states import Cancelled
from prefect.workers.process import ProcessWorker

from flows.api import api_client, is_unanswered, patient_client
from gage_eval.base.errors import InputError
from gage_eval.config.secrets import scrub
from gage_eval.store import local_folder
from gage_eval.store.serving import BOX, ServingSpec

_FLOW = "serve"
_NEEDS = "the engine needs {gpus} GPUs (replicas × tensor_parallel_size × data_parallel_size)"
_REQUEST_S = 10.0
# How often the API is asked about the flow run; and about the workers, while it has not started.
_LOOK_EVERY_S = 3.0
_WORKERS_EVERY_S = 10.0

_log = logging.getLogger(__name__)


class ServeLauncher:
    """Starts servers on work pools, at the configured Prefect API. Engines may outlive the settings of a run."""

    def __init__(self) -> None:
        self._api_url = PREFECT_API_URL.value()

    def launch(self, spec: ServingSpec, store: str, server: str) -> "ServeRun":
        """Create the flow run of a server.

        Args:
            spec: the engine.
            store: URL of the store.
            server: the server's name.

        Raises:
            InputError: the pool has no deployment of the flow or too few GPUs, or the API is gone or stays silent.
        """
        folder = local_folder(store)
        parameters = {"store": store if folder is None else folder.as_uri(), "key": spec.key, "server": server}
        try:
            with patient_client(self._api_url, _log.warning) as client:
                deployment = _deployment(client, spec)
                run = client.create_flow_run_from_deployment(
                    deployment,
                    parameters=parameters,
                    job_variables=_job_variables(client.read_work_pool(spec.pool), spec.gpus),
                    name=f"serve-{spec.key[:8]}-{server[:4]}",
                    # A request that is sent again creates no second run.
                    idempotency_key=server,
                )
        except InputError:
            raise
        except Exception as error:
            problem = (
                "does not answer"
                if is_unanswered(error)
                else f"refused the server ({scrub(str(error).partition(chr(10))[0])})"
            )
            raise InputError(
                f"the Prefect API {problem}, so that {spec.what} could not be started on work pool '{spec.pool}'. "
                "Check it, then resume the run."
            ) from error
        return ServeRun(run.id, spec.pool, self._api_url)


def _deployment(client: SyncPrefectClient, spec: ServingSpec) -> UUID:
    """The deployment of the flow on the pool."""
    deployments = client.read_deployments(
        flow_filter=FlowFilter(name={"any_": [_FLOW]}), work_pool_filter=WorkPoolFilter(name={"any_": [spec.pool]})
    )
    if not deployments:
        raise InputError(
            f"the Prefect server has no deployment of the flow '{_FLOW}' on work pool '{spec.pool}'. "
            f"Create it: gage deploy --{'box' if spec.type == BOX else 'gpu'}-pool {spec.pool}"
        )
    return deployments[0].id


def _job_variables(pool: WorkPool, gpus: int) -> dict[str, int]:
    """The variables of the server's job. In a process, the server takes GPUs of its machine itself.

    Raises:
        InputError: the pool's jobs have fewer GPUs than the engine needs, or would share them.
    """
    ids = device_ids(pool)
    if ids is not None:
        if gpus > len(ids):
            raise InputError(
                f"{_NEEDS.format(gpus=gpus)}, and a container of work pool '{pool.name}' gets {len(ids)}: "
                f"{', '.join(ids)}. Use a pool with more 'device_ids'."
            )
        return {}
    variables = _variables(pool)
    if "gpus" in variables:
        return {"gpus": gpus} if gpus else {}
    if gpus > 1 and pool.type != ProcessWorker.type:
        raise InputError(
            f"{_NEEDS.format(gpus=gpus)}, and the template of work pool '{pool.name}' has no variable "
            "'gpus'. Add it, as in deployments/work_pools/*-gpu*.json."
        )
    return {}


def device_ids(pool: WorkPool) -> list[str] | None:
    """The GPUs that each container of a Docker pool gets; None where a job says how many it needs.

    Raises:
        InputError: the pool would run several containers at once, which would share them.
    """
    variable = _variables(pool).get("device_ids")
    if variable is None:
        return None
    ids = [str(gpu) for gpu in variable.get("default") or ()]
    if pool.concurrency_limit != 1:
        raise InputError(
            f"each container of work pool '{pool.name}' gets the GPUs {', '.join(ids)}, and two at once would share "
            f"them. Let one run at a time: prefect work-pool set-concurrency-limit {pool.name} 1"
        )
    return ids


def _variables(pool: WorkPool) -> dict[str, Any]:
    """The job variables of a pool's template, each with its schema."""
    variables: dict[str, Any] = pool.base_job_template.get("variables", {}).get("properties", {})
    return variables


class ServeRun:
    """The flow run of a server.

    Args:
        flow_run_id: its id.
        pool: its work pool.
        api_url: the Prefect API; the configured one by default.
    """

    def __init__(self, flow_run_id: UUID, pool: str, api_url: str | None) -> None:
        self._id = flow_run_id
        self._pool = pool
        self._api_url = api_url
        self._run: FlowRun | None = None
        self._looked = self._workers_looked = time.monotonic()
        self._notice: str | None = None

    def ended(self) -> str | None:
        """How the flow run ended; None while it may run."""
        self._look()
        run = self._run
        if run is None or run.state is None or not run.state.is_final():
            return None
        said = f": {run.state.message.rstrip('.')}" if run.state.message else ""
        return f"its flow run {run.name} is {run.state.name}{said}."

    def notice(self) -> str | None:
        """That no worker takes the flow run."""
        self._look()
        if self._run is not None and not self._waits:
            self._notice = None
        elif time.monotonic() - self._workers_looked >= _WORKERS_EVERY_S:
            self._workers_looked = time.monotonic()
            self._ask(self._look_at_workers)
        return self._notice

    def close(self) -> None:
        """Cancel the flow run if it has not started."""

        def cancel(client: SyncPrefectClient) -> None:
            self._run = client.read_flow_run(self._id)
            if self._waits:
                client.set_flow_run_state(self._id, Cancelled(message="The run no longer needs it."))

        self._ask(cancel)

    @property
    def _waits(self) -> bool:
        """Whether the flow run has not been started."""
        state = None if self._run is None else self._run.state
        return state is not None and (state.is_scheduled() or state.is_pending())

    def _look(self) -> None:
        if time.monotonic() - self._looked < _LOOK_EVERY_S:
            return
        self._looked = time.monotonic()

        def look(client: SyncPrefectClient) -> None:
            self._run = client.read_flow_run(self._id)

        self._ask(look)

    def _look_at_workers(self, client: SyncPrefectClient) -> None:
        pool = client.read_work_pool(self._pool)
        workers = client.read_workers_for_work_pool(self._pool)
        if pool.is_paused:
            self._notice = f"work pool '{self._pool}' is paused. Resume it in the UI."
        elif (
            pool.is_push_pool or pool.is_managed_pool or any(worker.status == WorkerStatus.ONLINE for worker in workers)
        ):
            self._notice = None
        else:
            self._notice = (
                f"work pool '{self._pool}' has no worker online. Start it: prefect worker start --pool {self._pool}"
            )

    def _ask(self, question: Callable[[SyncPrefectClient], None]) -> None:
        """Ask the API. While it does not answer, what is known stays: a server itself does not need it."""
        try:
            with api_client(self._api_url, timeout_s=_REQUEST_S, retries=0) as client:
                question(client)
        except Exception as error:  # noqa: BLE001 - a failed question must not stop the run
            _log.debug("the Prefect API did not answer about a server: %r", error)
