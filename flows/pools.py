"""Starts groups of shards on work pools, as flow runs of the deployment `generate` there."""

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from prefect import Task
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowFilter, FlowRunFilter, WorkPoolFilter
from prefect.client.schemas.objects import FlowRun, WorkerStatus
from prefect.states import Cancelled, Cancelling, Pending

from flows.api import api_client, is_unanswered
from gage_eval.base.errors import InputError
from gage_eval.config.secrets import scrub
from gage_eval.engine.shard_groups import Launched
from gage_eval.models.backends.placement import Placement
from gage_eval.runs.launchers import Launcher, Launchers, LocalProcesses

_FLOW = "generate"
_REQUEST_S = 10.0
_RETRIES = 3
# How often the API is asked about the flow runs; and about the workers, while no flow run has started.
_LOOK_EVERY_S = 3.0
_WORKERS_EVERY_S = 10.0
# How long flow runs have to end by themselves when their group has ended.
_END_S = 12.0

_log = logging.getLogger(__name__)


def pool_launchers(parent: UUID, api_url: str | None, log_folder: Path | None) -> Launchers:
    """The launchers of a run that is shown at a Prefect API.

    Args:
        parent: its flow run.
        api_url: the API; the configured one by default.
        log_folder: where shards on this machine write their output.
    """

    def launcher(placement: Placement) -> Launcher:
        if placement.work_pool is None:
            return LocalProcesses(log_folder)
        return PoolLauncher(placement.work_pool, parent, api_url)

    return launcher


class PoolLauncher:
    """Starts shards on a work pool.

    Args:
        pool: its name.
        parent: the flow run whose subflows the shards are.
        api_url: the API; the configured one by default.
    """

    def __init__(self, pool: str, parent: UUID, api_url: str | None) -> None:
        self._pool = pool
        self._parent = parent
        self._api_url = api_url

    def launch(self, url: str, shards: int) -> Launched:
        """Create one flow run for each shard.

        Raises:
            InputError: the pool has no deployment of the flow, or the API does not answer.
        """
        try:
            with api_client(self._api_url, timeout_s=_REQUEST_S, retries=_RETRIES) as client:
                deployment = self._deployment(client)
                runs = [self._flow_run(client, deployment, url, number) for number in range(shards)]
        except InputError:
            raise
        except Exception as error:
            problem = (
                "does not answer"
                if is_unanswered(error)
                else f"refused the shards ({scrub(str(error).partition(chr(10))[0])})"
            )
            raise InputError(
                f"the Prefect API {problem}, so that no shard could be started on work pool '{self._pool}'. "
                "Check it, then resume the run."
            ) from error
        return _FlowRuns(runs, self._pool, self._api_url)

    def _deployment(self, client: SyncPrefectClient) -> UUID:
        found = client.read_deployments(
            flow_filter=FlowFilter(name={"any_": [_FLOW]}),
            work_pool_filter=WorkPoolFilter(name={"any_": [self._pool]}),
        )
        if not found:
            raise InputError(
                f"the Prefect server has no deployment of the flow '{_FLOW}' on work pool '{self._pool}'. "
                f"Create it: gage deploy --gpu-pool {self._pool}"
            )
        return found[0].id

    def _flow_run(self, client: SyncPrefectClient, deployment: UUID, url: str, number: int) -> UUID:
        group = url.rpartition("/")[2]
        # What `run_deployment` with as_subflow does; it would need to be called inside of Prefect's engine.
        task: Task[[], None] = Task(fn=lambda: None, name=f"{_FLOW}/{self._pool}")
        parent = client.create_task_run(
            task,
            self._parent,
            dynamic_key=f"{group}-{number}",
            name=f"{_FLOW} on {self._pool}, shard {number}",
            state=Pending(),
        )
        run = client.create_flow_run_from_deployment(
            deployment,
            parameters={"group": url, "shard": number},
            name=f"shard-{group[:8]}-{number}",
            idempotency_key=f"{group}-{number}",
            parent_task_run_id=parent.id,
        )
        return run.id


class _FlowRuns:
    """The flow runs of one group."""

    def __init__(self, runs: Sequence[UUID], pool: str, api_url: str | None) -> None:
        self._ids = list(runs)
        self._pool = pool
        self._api_url = api_url
        self._runs: dict[UUID, FlowRun] = {}
        self._looked = self._workers_looked = time.monotonic()
        self._notice: str | None = None

    def ended(self, number: int) -> str | None:
        """How a flow run ended."""
        self._look()
        run = self._runs.get(self._ids[number])
        if run is None or run.state is None or not run.state.is_final():
            return None
        said = f": {run.state.message.rstrip('.')}" if run.state.message else ""
        return f"its flow run {run.name} is {run.state.name}{said}."

    def notice(self) -> str | None:
        """That no worker takes the flow runs."""
        self._look()
        started = [run for run in self._runs.values() if run.state is not None and not _waits(run)]
        if started or not self._runs:
            self._notice = None
        elif time.monotonic() - self._workers_looked >= _WORKERS_EVERY_S:
            self._workers_looked = time.monotonic()
            self._ask(self._look_at_workers)
        return self._notice

    def close(self) -> None:
        """Wait until the flow runs have ended by themselves; cancel those that do not, or have not started."""
        self._cancel(only_waiting=True)
        deadline = time.monotonic() + _END_S
        while self._open() and time.monotonic() < deadline:
            time.sleep(0.5)
            self._look(at_once=True)
        self._cancel()

    def _open(self) -> list[FlowRun]:
        return [run for run in self._runs.values() if run.state is None or not run.state.is_final()]

    def _cancel(self, *, only_waiting: bool = False) -> None:
        self._look(at_once=True)

        def cancel(client: SyncPrefectClient) -> None:
            for run in self._open():
                if _waits(run):
                    client.set_flow_run_state(run.id, Cancelled(message="The run no longer needs it."))
                elif not only_waiting:
                    client.set_flow_run_state(run.id, Cancelling(message="The run no longer needs it."))

        self._ask(cancel)

    def _look(self, *, at_once: bool = False) -> None:
        if not at_once and time.monotonic() - self._looked < _LOOK_EVERY_S:
            return
        self._looked = time.monotonic()

        def look(client: SyncPrefectClient) -> None:
            wanted = FlowRunFilter(id={"any_": self._ids})
            self._runs = {run.id: run for run in client.read_flow_runs(flow_run_filter=wanted)}

        self._ask(look)

    def _look_at_workers(self, client: SyncPrefectClient) -> None:
        pool = client.read_work_pool(self._pool)
        workers = client.read_workers_for_work_pool(self._pool)
        if pool.is_paused:
            self._notice = f"work pool '{self._pool}' is paused, and the model session waits. Resume it in the UI."
        elif pool.is_push_pool or pool.is_managed_pool or any(one.status == WorkerStatus.ONLINE for one in workers):
            self._notice = None
        else:
            self._notice = (
                f"work pool '{self._pool}' has no worker online, and the model session waits for one. "
                f"Start it: prefect worker start --pool {self._pool}"
            )

    def _ask(self, question: Callable[[SyncPrefectClient], None]) -> None:
        """Ask the API. While it does not answer, what is known stays: the session itself does not need it."""
        try:
            with api_client(self._api_url, timeout_s=_REQUEST_S, retries=0) as client:
                question(client)
        except Exception as error:  # noqa: BLE001 - a failed question must not stop the run
            _log.debug("the Prefect API did not answer about the shards: %r", error)


def _waits(run: FlowRun) -> bool:
    """Whether a flow run has not been started."""
    return run.state is not None and (run.state.is_scheduled() or run.state.is_pending())
