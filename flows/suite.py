"""The flow of a suite, with two forms: one is refused without a model."""

from typing import Any

from prefect import flow
from prefect.client.schemas import State

from flows.forms import (
    DATA,
    JUDGE,
    MODEL,
    RUN,
    STORAGE,
    DataForm,
    JudgeForm,
    ModelForm,
    RequiredModelForm,
    RunForm,
    StorageForm,
    SuiteName,
    described,
    options_of,
    suite_config,
)
from flows.run import evaluated, run_name
from flows.worker import on_worker


@flow(name="suite", flow_run_name=run_name, persist_result=False)
@on_worker
@described
def suite(
    suite: SuiteName,
    version: str = "",
    model: ModelForm = MODEL,
    data: DataForm = DATA,
    run: RunForm = RUN,
    judge: JudgeForm = JUDGE,
    storage: StorageForm = STORAGE,
) -> State[Any]:
    """Run a suite: a benchmark with data, prompts and scoring pinned. Returns the run's folder."""
    config = suite_config(suite, version)
    return evaluated(options_of(config, model=model, data=data, run=run, judge=judge, storage=storage))


@flow(name="suite", flow_run_name=run_name, persist_result=False)
@on_worker
@described
def suite_with_model(
    suite: SuiteName,
    model: RequiredModelForm,
    version: str = "",
    data: DataForm = DATA,
    run: RunForm = RUN,
    judge: JudgeForm = JUDGE,
    storage: StorageForm = STORAGE,
) -> State[Any]:
    """Run a suite whose config leaves the model to the form. Returns the run's folder."""
    config = suite_config(suite, version)
    return evaluated(options_of(config, model=model, data=data, run=run, judge=judge, storage=storage))
