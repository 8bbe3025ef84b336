"""The flow of many tasks."""

from typing import Any

from prefect import flow
from prefect.client.schemas import State

from flows.parameters import CHANGES, DATA, EXECUTION, MODELS, OUTPUT, described, options_of
from flows.runner import run_in_flow, run_name
from gage_eval.runs.options import ChangeOptions, DataOptions, ExecutionOptions, ModelOptions, OutputOptions


@flow(name="suite", flow_run_name=run_name, persist_result=False)
@described
def suite(
    config: str,
    text: str | None = None,
    output: OutputOptions = OUTPUT,
    data: DataOptions = DATA,
    models: ModelOptions = MODELS,
    changes: ChangeOptions = CHANGES,
    execution: ExecutionOptions = EXECUTION,
) -> str | State[Any]:
    """Evaluate all tasks of a config or a built-in suite in parallel. Returns the run's folder."""
    return run_in_flow(options_of(locals()))
