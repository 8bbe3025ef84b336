"""Creates the flow run of a run that this process carries out.

The flow run belongs to the deployment that a worker would run: then the UI offers *Cancel* and *Retry*, and a worker
takes the retry. Its state is Pending, which workers leave alone.
"""

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound
from prefect.states import Pending
from prefect.utilities.importtools import import_object

from flows.forms import parameters_of
from gage_eval.entrypoints import entrypoint
from gage_eval.runs import RunOptions
from gage_eval.runs.options import Locations


def create_flow_run(client: SyncPrefectClient, options: RunOptions) -> FlowRun:
    """A Pending flow run for some options, under their deployment; under none if the server has not got it.

    Args:
        client: of the server.
        options: with locations that mean the same in any folder (`for_any_folder`).
    """
    flow, parameters = parameters_of(options)
    try:
        deployment = client.read_deployment_by_name(f"{flow}/{parameters.get('suite', flow)}")
    except ObjectNotFound:
        return client.create_flow_run(
            import_object(entrypoint(flow)), name=options.run_id, parameters=parameters, state=Pending()
        )
    return client.create_flow_run_from_deployment(
        deployment.id, name=options.run_id, parameters=parameters, state=Pending()
    )


def for_any_folder(options: RunOptions) -> RunOptions:
    """The options with absolute locations, because a worker retries the run in another folder.

    Raises:
        InputError: there is no such suite or home folder.
    """
    places = Locations.at(options.store, options.output_dir)
    named = options.model_copy(update={"store": places.store, "output_dir": places.runs})
    own = {name: getattr(options, name) for name in ("run_id", "resume", "only_errors")}
    return RunOptions.of({**named.recorded(), **own})
