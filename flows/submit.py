"""Creates the flow run of a run that this process carries out, or that a worker shall carry out.

The flow run belongs to the deployment that a worker would run: then the UI offers *Cancel* and *Retry*, and a worker
takes the retry. Its config and the files that it names are in the store. The state of a run that this process carries
out is Pending, which workers leave alone.
"""

from typing import Any
from uuid import uuid4

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound
from prefect.states import Pending
from prefect.utilities.importtools import import_object

from flows.forms import parameters_of
from gage_eval.base.errors import InputError
from gage_eval.local.deployments import evaluate_on
from gage_eval.local.entrypoints import entrypoint
from gage_eval.runs import RunOptions
from gage_eval.runs.options import BUNDLE_PREFIX, Locations


def flow_of(options: RunOptions) -> tuple[Flow[..., Any], dict[str, Any]]:
    """(flow, its parameters) for some options with locations that mean the same in any folder (`for_any_folder`)."""
    name, parameters = parameters_of(options)
    flow: Flow[..., Any] = import_object(entrypoint(name))
    return flow, parameters


def create_flow_run(client: SyncPrefectClient, options: RunOptions) -> FlowRun:
    """A Pending flow run for some options, under their deployment; under none if the server has not got it.

    Args:
        client: of the server.
        options: with locations that mean the same in any folder (`for_any_folder`).
    """
    flow, parameters = flow_of(options)
    try:
        deployment = deployment_of(client, options)
    except InputError:
        return client.create_flow_run(flow, name=options.run_id, parameters=parameters, state=Pending())
    return client.create_flow_run_from_deployment(
        # With the key, a request that is sent again after no answer came creates no second run.
        deployment.id,
        name=options.run_id,
        parameters=parameters,
        state=Pending(),
        idempotency_key=str(uuid4()),
    )


def deployment_of(client: SyncPrefectClient, options: RunOptions, pool: str | None = None) -> DeploymentResponse:
    """The deployment whose worker carries out a run.

    Args:
        client: of the server.
        options: of the run.
        pool: the GPU pool that carries out the whole run; None for the deployment of the config or suite.

    Raises:
        InputError: the server does not have it.
    """
    flow, parameters = parameters_of(options)
    name = f"{flow}/{parameters.get('suite', flow)}" if pool is None else f"evaluate/{evaluate_on(pool)}"
    try:
        return client.read_deployment_by_name(name)
    except ObjectNotFound as error:
        which = "" if pool is None else f" --gpu-pool {pool}"
        raise InputError(f"the Prefect server has no deployment '{name}'. Create it: gage deploy{which}") from error


def for_any_folder(options: RunOptions, bundle: str | None, store: str | None = None) -> RunOptions:
    """The options for a worker, which has another folder: with absolute locations, and with the config in the store.

    Args:
        options: what is asked.
        bundle: the bundle of the config and its files; None if the worker reads the config where it is.
        store: the store as the worker shall open it, if it is given by a block.

    Raises:
        InputError: there is no such suite or home folder.
    """
    places = Locations.at(options.store, options.output_dir)
    named = options.model_copy(update={"store": places.store, "output_dir": places.runs})
    own = {name: getattr(options, name) for name in ("run_id", "resume", "only_errors", "judge_only")}
    config = {} if bundle is None else {"config": f"{BUNDLE_PREFIX}{bundle}", "text": None}
    by_block = {} if store is None else {"store": store}
    return RunOptions.of({**named.recorded(), **own, **config, **by_block})
