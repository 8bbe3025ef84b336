"""Brings the deployments of `gage_eval.local.deployments` to a Prefect server. What is there stays."""

import asyncio
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.exceptions import ObjectNotFound
from prefect.server.schemas.schedules import CronSchedule as ServerCronSchedule
from prefect.utilities.importtools import import_object
from prefect.variables import Variable
from prefect.workers.process import ProcessWorker

from flows.serving import device_ids
from gage_eval import __version__
from gage_eval.base.canonical import canonical_json
from gage_eval.base.errors import InputError
from gage_eval.local.deployments import (
    GPU_POOL_VARIABLE,
    POOL,
    STORE_VARIABLE,
    Deployment,
    DeploymentChange,
    DeployOptions,
)
from gage_eval.regression.nightly import Nightly, Schedule
from gage_eval.runs.names import slug

# Nights whose dates show how far apart they are: a month of daily ones.
_NIGHTS = 32


def nightly_deployment(nightly: Nightly, text: str, configs: Mapping[str, str]) -> Deployment:
    """The deployment of a file of nightly runs. One night at a time; a second one waits.

    Args:
        nightly: the file.
        text: the same as text.
        configs: where the worker finds each config of the file.
    """
    cells = [f"- {row.name} with {model.name}" for row in nightly.rows for model in nightly.models]
    return Deployment(
        flow="nightly",
        name=slug(nightly.name),
        description="\n".join(("Every night, measured against baselines:", "", *cells)),
        tags=("regression", "nightly"),
        parameters={"text": text, "configs": dict(configs)},
        concurrency=1,
        cron=nightly.schedule.cron,
        timezone=nightly.schedule.timezone,
    )


def deploy_all(
    client: SyncPrefectClient, deployments: Sequence[Deployment], options: DeployOptions
) -> list[DeploymentChange]:
    """Create or update the deployments at a server.

    Args:
        client: of the server.
        deployments: what it shall have.
        options: where they run, and the values that every form has at first.

    Raises:
        InputError: there is no such work pool, or its containers would share GPUs.
    """
    parameters: dict[str, Any] = {"storage": {"store": options.store}}
    if options.gpu_pools:
        parameters["model"] = {"work_pool": options.gpu_pools[0]}
    pools = (options.pool, *(deployment.pool for deployment in deployments if deployment.pool is not None))
    for name in dict.fromkeys(pools):
        _ensure_pool(client, name, options.working_dir, dry_run=options.dry_run)
    if not options.dry_run:
        # `prefect deploy` of the file of deployments reads them.
        Variable.set(STORE_VARIABLE, options.store, overwrite=True)
        Variable.set(GPU_POOL_VARIABLE, next(iter(options.gpu_pools), ""), overwrite=True)
    return [
        _deploy(client, deployment, deployment.pool or options.pool, parameters, dry_run=options.dry_run)
        for deployment in deployments
    ]


def check_schedule(schedule: Schedule) -> None:
    """Refuse a schedule that Prefect cannot read, or by which it would never start a run.

    Raises:
        InputError: it is not a cron expression, or no date fits it.
    """
    try:
        read = ServerCronSchedule(cron=schedule.cron, timezone=schedule.timezone)
    except ValueError as error:
        raise InputError(
            f"schedule.cron: '{schedule.cron}' is not a cron expression: give minute, hour, day of the month, month "
            "and day of the week, such as 0 2 * * *"
        ) from error
    try:
        asyncio.run(read.get_dates(n=1))
    except ValueError as error:
        raise InputError(
            f"schedule.cron: '{schedule.cron}' never comes: Prefect finds no date with that day of the month in that "
            "month; change one of the two, such as 0 2 1 * *"
        ) from error


def longest_pause(schedule: Schedule) -> timedelta:
    """The longest time between two nights, among the next ones."""
    read = ServerCronSchedule(cron=schedule.cron, timezone=schedule.timezone)
    dates = asyncio.run(read.get_dates(n=_NIGHTS))
    return max((after - before for before, after in pairwise(dates)), default=timedelta(days=1))


def _ensure_pool(client: SyncPrefectClient, name: str, working_dir: str | None, *, dry_run: bool) -> None:
    template = _process_template(working_dir)
    try:
        there = client.read_work_pool(name)
    except ObjectNotFound as error:
        if name != POOL:
            raise InputError(
                f"the Prefect server has no work pool '{name}'. Create it: prefect work-pool create {name} --type TYPE"
            ) from error
        if not dry_run:
            client.create_work_pool(WorkPoolCreate(name=name, type=ProcessWorker.type, base_job_template=template))
        return
    device_ids(there)
    is_of_this_folder = name == POOL and working_dir is not None
    if is_of_this_folder and there.base_job_template != template and not dry_run:
        # The interpreter of the last start may be gone.
        client.update_work_pool(name, WorkPoolUpdate(base_job_template=template))


def _process_template(working_dir: str | None) -> dict[str, Any]:
    """The base job template of the pool `local`: runs are processes of this interpreter."""
    template: dict[str, Any] = ProcessWorker.get_default_base_job_template()
    variables = template["variables"]["properties"]
    variables["working_dir"]["default"] = working_dir
    # With its default command, the worker would first look for code to copy into the working folder.
    variables["command"]["default"] = shlex.join([sys.executable, "-m", "prefect.engine"])
    return template


def _deploy(
    client: SyncPrefectClient, deployment: Deployment, pool: str, parameters: Mapping[str, Any], *, dry_run: bool
) -> DeploymentChange:
    flow: Flow[..., Any] = import_object(deployment.entrypoint)
    name = f"{flow.name}/{deployment.name}"
    wanted = _fields(flow, deployment, pool, parameters)
    there = read_deployment(client, name)
    if there is not None and _same(there, deployment, wanted):
        return DeploymentChange(name, pool, "unchanged")
    if not dry_run:
        # A deployment of that name is replaced.
        client.create_deployment(
            client.create_flow(flow),
            deployment.name,
            concurrency_limit=deployment.concurrency,
            concurrency_options=_concurrency(deployment),
            schedules=_schedules(deployment, there),
            **wanted,
        )
    return DeploymentChange(name, pool, "created" if there is None else "updated")


def read_deployment(client: SyncPrefectClient, name: str) -> DeploymentResponse | None:
    """A deployment by its name, FLOW/NAME; None where the server has none."""
    try:
        return client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None


def _fields(flow: Flow[..., Any], deployment: Deployment, pool: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the deployment, by their names in both requests and answers of the API."""
    schema = flow.parameters.model_dump_for_openapi()
    # Those that were set in the UI stay, unless the deployment has its own.
    job = {"job_variables": dict(deployment.job_variables)} if deployment.job_variables else {}
    own = {name: value for name, value in parameters.items() if name in schema["properties"]}
    return {
        "version": __version__,
        "description": deployment.description,
        "tags": deployment.all_tags,
        "entrypoint": deployment.entrypoint,
        "work_pool_name": pool,
        "parameters": {**own, **deployment.parameters},
        "parameter_openapi_schema": schema,
        "enforce_parameter_schema": True,
        **job,
    }


def _same(there: DeploymentResponse, deployment: Deployment, fields: dict[str, Any]) -> bool:
    """Whether a deployment of the server is as it is wanted."""
    current = {name: getattr(there, name) for name in fields}
    current["tags"] = sorted(there.tags)
    limit = there.global_concurrency_limit.limit if there.global_concurrency_limit is not None else None
    schedules = [
        (schedule.schedule.cron, schedule.schedule.timezone)
        for schedule in there.schedules
        if isinstance(schedule.schedule, CronSchedule)
    ]
    return (
        canonical_json(current) == canonical_json(fields)
        and limit == deployment.concurrency
        and (deployment.cron is None or schedules == [(deployment.cron, deployment.timezone)])
    )


def _schedules(deployment: Deployment, there: DeploymentResponse | None) -> list[DeploymentScheduleCreate]:
    if deployment.cron is None:
        # Those that were added in the UI stay.
        return [
            DeploymentScheduleCreate(
                schedule=schedule.schedule, active=schedule.active, parameters=schedule.parameters, slug=schedule.slug
            )
            for schedule in (there.schedules if there is not None else [])
        ]
    schedule = CronSchedule(cron=deployment.cron, timezone=deployment.timezone)
    # A schedule that was paused in the UI stays paused.
    active = there is None or all(schedule.active for schedule in there.schedules)
    return [DeploymentScheduleCreate(schedule=schedule, active=active)]


def _concurrency(deployment: Deployment) -> ConcurrencyOptions | None:
    if deployment.concurrency is None:
        return None
    return ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)
