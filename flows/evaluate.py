"""The flow of any config."""

from typing import Any

from prefect import flow
from prefect.client.schemas import State

from flows.forms import (
    DATA,
    JUDGE,
    MODEL,
    RUN,
    STORAGE,
    ConfigText,
    DataForm,
    JudgeForm,
    ModelForm,
    RunForm,
    StorageForm,
    described,
    options_of,
)
from flows.guard import allow_own_code
from flows.run import evaluated, run_name
from flows.worker import on_worker


@flow(name="evaluate", flow_run_name=run_name, persist_result=False)
@on_worker
@described
def evaluate(
    config: str,
    text: ConfigText = "",
    model: ModelForm = MODEL,
    data: DataForm = DATA,
    run: RunForm = RUN,
    judge: JudgeForm = JUDGE,
    storage: StorageForm = STORAGE,
) -> State[Any]:
    """Evaluate all tasks of a config. Returns the run's folder."""
    if not text:
        allow_own_code([config], storage.places().store)
    return evaluated(options_of(config, text, model=model, data=data, run=run, judge=judge, storage=storage))
