"""A run inside a flow run that Prefect's engine started, for example in a worker."""

import logging
from typing import Any

from prefect import runtime
from prefect.client.schemas import State

from flows.shown import ShownRun, end_state
from gage_eval.errors import GageError, InputError
from gage_eval.runs import RunFolder, RunOptions, RunSession
from gage_eval.runs.names import new_name
from gage_eval.runs.options import Locations, OutputOptions
from gage_eval.runs.record import FlowRunRecord, RunRecord

_log = logging.getLogger(__name__)


def run_name() -> str:
    """Name of the flow run and of the run: the given run id, else a new name."""
    asked = OutputOptions.model_validate(runtime.flow_run.parameters.get("output", {}))
    return asked.run_id or new_name()


def run_in_flow(options: RunOptions, *, single: bool = False) -> str | State[Any]:
    """Carry out a run inside the current flow run.

    Args:
        options: the options of the run. The default run id is the flow run's name.
        single: refuse a config of several tasks.

    Returns:
        The run's folder, or the state Failed. A raised exception would be pickled into Prefect's result storage.
    """
    flow_run = FlowRunRecord(
        flow_run_id=str(runtime.flow_run.id),
        flow_run_name=str(runtime.flow_run.name),
        url=runtime.flow_run.ui_url,
    )

    def check(session: RunSession) -> None:
        if single and len(session.plan.tasks) != 1:
            raise InputError(
                f"{options.config} has {len(session.plan.tasks)} tasks; the flow 'evaluate' takes one, 'suite' many."
            )

    # The worker handles cancellation and the flow run's own state.
    shown = ShownRun(flow_run, owner_at=None)
    try:
        return shown.carry_out(_named(options), flow_run, check).folder.url
    except Exception as error:  # noqa: BLE001 - becomes the flow run's state
        if not isinstance(error, GageError):
            _log.exception("the run failed")
        return end_state(error)
    finally:
        shown.close()


def _named(options: RunOptions) -> RunOptions:
    """The options with the flow run's name. They resume the run if this flow run has run before (a retry in the UI)."""
    run_id = options.run_id or str(runtime.flow_run.name)
    resume = options.resume
    if not resume and (runtime.flow_run.run_count or 0) > 1:
        record = _record(options, run_id)
        ours = record.prefect if record is not None else None
        resume = ours is not None and ours.flow_run_id == str(runtime.flow_run.id)
    return options.model_copy(update={"run_id": run_id, "resume": resume})


def _record(options: RunOptions, run_id: str) -> RunRecord | None:
    try:
        return RunFolder.open(Locations.at(options.store, options.output_dir), run_id).record()
    except InputError:
        return None
