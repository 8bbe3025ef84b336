"""Records of deployments of nightly runs, in a store's ``deployments/``: gc keeps the files that they need.

A record is removed when its server says that the deployment does not exist any more. Two servers may have the same URL,
so a record also has the id of the deployment's flow, which every server chooses for itself.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from pydantic import ValidationError

from gage_eval.base.canonical import canonical_json, digest
from gage_eval.base.errors import StoreError
from gage_eval.base.strict_model import StrictModel
from gage_eval.store import Store
from gage_eval.store.locks import hold_lock

_FOLDER = "deployments"


class DeploymentRecord(StrictModel):
    """What a deployment at a Prefect server needs from a store.

    Attributes:
        deployment: its name.
        deployment_id: its id at the server.
        flow_id: the id of its flow at the server.
        api: URL of the server's API.
        bundles: names of the bundles that its runs are carried out from.
    """

    deployment: str
    deployment_id: str
    flow_id: str
    api: str
    bundles: tuple[str, ...]


# Which of these deployments do not exist any more. Raises InputError if that cannot be known.
FindDeleted = Callable[[Sequence[DeploymentRecord]], Collection[DeploymentRecord]]


def record_deployment(store: Store, record: DeploymentRecord) -> None:
    """Record in the store what a deployment needs, in place of what it needed before."""
    with hold_lock(store.objects, _FOLDER):
        store.objects.replace(_path(record), _text(record))


def forget_deployment(store: Store, record: DeploymentRecord) -> None:
    """Remove the record of a deployment, unless it was deployed again since the record was read."""
    with hold_lock(store.objects, _FOLDER):
        if store.objects.exists(_path(record)) and store.objects.get(_path(record)) == _text(record):
            store.objects.delete(_path(record))


def recorded_deployments(store: Store) -> Iterator[DeploymentRecord]:
    """All records.

    Raises:
        StoreError: a record cannot be read, so the needs of its deployment are unknown.
    """
    for item in store.objects.list(_FOLDER):
        try:
            yield DeploymentRecord.model_validate_json(store.objects.get(item.path))
        except ValidationError as error:
            raise StoreError(
                f"{item.path} does not say what a deployment needs ({error.errors()[0]['msg']}). Deploy again."
            ) from error


def _path(record: DeploymentRecord) -> str:
    return f"{_FOLDER}/{digest([record.flow_id, record.deployment])}.json"


def _text(record: DeploymentRecord) -> bytes:
    return canonical_json(record.model_dump(mode="json"))
