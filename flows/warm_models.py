"""The flow that fetches models before the runs that need them."""

from typing import Annotated, Any

from prefect import flow
from prefect.client.schemas import State
from prefect.logging import get_run_logger
from prefect.states import Completed
from pydantic import Field, StringConstraints

from flows.worker import on_worker
from gage_eval.models.backends.hub_models import fetch_model
from gage_eval.report.console import counted

Model = Annotated[str, StringConstraints(pattern=r"^[\w.-]+/[\w.-]+(@[\w./-]+)?$")]
Models = Annotated[list[Model], Field(min_length=1)]


@flow(name="warm-models", persist_result=False)
@on_worker
def warm_models(models: Models) -> State[Any]:
    """Fetch models into the model cache of a pool, so that engines there start without a download.

    Args:
        models: Names on the hub, as org/name; a revision follows as org/name@revision.
    """
    for model in models:
        name, _, revision = model.partition("@")
        get_run_logger().info(f"fetching {model}")
        get_run_logger().info(f"{model} is in {fetch_model(name, revision or None)}")
    return Completed(message=f"{counted(len(models), 'model')} in the cache.")
