"""A run inside a flow run that Prefect's engine started, for example in a worker."""

from typing import Any

from prefect import runtime
from prefect.client.schemas import State

from blocks import open_store
from flows.forms import Form, RunForm, options_of
from flows.shown import ShownRun
from flows.states import completed
from gage_eval.errors import InputError
from gage_eval.runs import RunFolder, RunOptions
from gage_eval.runs.names import is_name, slug
from gage_eval.runs.options import Locations, bundle_of
from gage_eval.runs.record import FlowRunRecord, RunRecord


def run_name() -> str:
    """Name of the flow run and of the run: the one of the form, else the name that the flow run has already."""
    asked = RunForm.model_validate(runtime.flow_run.parameters.get("run", {})).name
    name = asked or str(runtime.flow_run.name)
    return name if is_name(name) else slug(name)


def run_in_flow(config: str, text: str = "", **forms: Form) -> State[Any]:
    """Carry out a run inside the current flow run.

    Args:
        config: the config or suite, as in the options of a run.
        text: the text of the config.
        forms: the forms of the flow, by parameter.

    Returns:
        The final state, with the score.

    Raises:
        GageError: what stopped the run; everything computed is kept.
    """
    flow_run = FlowRunRecord(
        flow_run_id=str(runtime.flow_run.id),
        flow_run_name=str(runtime.flow_run.name),
        url=runtime.flow_run.ui_url,
        bundle=bundle_of(config),
    )
    # The worker handles cancellation and the flow run's own state.
    shown = ShownRun(flow_run, owner_at=None)
    try:
        asked = options_of(config, text, **forms)
        options = asked.model_copy(update={"store": open_store(asked.store)})
        return completed(shown.carry_out(_named(options), flow_run))
    finally:
        shown.close()


def _named(options: RunOptions) -> RunOptions:
    """The options with the flow run's name. They resume the run if this flow run has run before (a retry in the UI)."""
    run_id = str(runtime.flow_run.name)
    resume = options.resume
    if not resume:
        record = _record(options, run_id)
        ours = record.prefect if record is not None else None
        resume = ours is not None and ours.flow_run_id == str(runtime.flow_run.id)
    return options.model_copy(update={"run_id": run_id, "resume": resume})


def _record(options: RunOptions, run_id: str) -> RunRecord | None:
    try:
        return RunFolder.open(Locations.at(options.store, options.output_dir), run_id).record()
    except InputError:
        return None
