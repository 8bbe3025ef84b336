"""The flows that keep a store tidy, for deployments with a schedule."""

from functools import partial
from typing import Annotated, Any

from prefect import flow
from prefect.client.schemas import State
from prefect.logging import get_run_logger
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed
from pydantic import Field

from flows.deleted import deleted_at
from flows.forms import STORAGE, StorageForm
from flows.worker import on_worker
from gage_eval.report.console import counted
from gage_eval.runs.maintenance import DEFAULT_AGE, collect_garbage, verify_store

# Damaged objects in the log of a flow run.
_MOST_LINES = 100

Age = Annotated[str, Field(pattern=r"^\s*\d{1,9}\s*[smhdwSMHDW]\s*$")]


@flow(name="cache-gc", persist_result=False)
@on_worker
def cache_gc(min_age: Age = DEFAULT_AGE, dry_run: bool = False, storage: StorageForm = STORAGE) -> State[Any]:
    """Remove what no run and no baseline needs.

    Args:
        min_age: Keep everything younger than this: 90s, 30m, 12h, 7d, 4w.
        dry_run: Only show what would be removed.
    """
    find_deleted = partial(deleted_at, PREFECT_API_URL.value())
    collected = collect_garbage(storage.places(), min_age=min_age, find_deleted=find_deleted, dry_run=dry_run)
    for line in collected.lines:
        get_run_logger().info(line)
    return Completed(message=" ".join(collected.lines))


@flow(name="cache-verify", persist_result=False)
@on_worker
def cache_verify(remove: bool = False, storage: StorageForm = STORAGE) -> State[Any]:
    """Read everything in the store again. Fails if anything is damaged.

    Args:
        remove: Delete damaged objects; the next run computes them again.
    """
    findings = verify_store(storage.places().store, remove=remove)
    if not findings:
        return Completed(message="Nothing is damaged.")
    for finding in findings[:_MOST_LINES]:
        get_run_logger().error(f"{finding.path}: {finding.problem}")
    damaged = f"{counted(len(findings), 'object')} damaged"
    if remove:
        return Failed(message=f"{damaged} and removed. The next run computes them again.")
    return Failed(message=f"{damaged}; the log names them. Run again with remove to delete them.")
