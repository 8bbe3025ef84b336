"""The flow that looks into a regression."""

from typing import Annotated, Any

from prefect import flow, runtime
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas import State
from prefect.events import emit_event
from prefect.states import Completed
from pydantic import Field

from flows.forms import STORAGE, StorageForm
from flows.guard import allow_own_code
from flows.nightly import links_of, runner
from flows.worker import on_worker
from gage_eval.engine.host import SharedEngines
from gage_eval.regression.baselines import Baselines
from gage_eval.regression.pages import triage_key, triage_page
from gage_eval.regression.policy import GatePolicy
from gage_eval.regression.triage import triage as look_into
from gage_eval.report.console import readable
from gage_eval.runs.results.reading import RunReader
from gage_eval.stats.gate_rule import GateRule

TRIAGED = "gage.regression.triaged"
_GATE = GateRule()


@flow(name="triage", persist_result=False)
@on_worker
def triage(
    run: str,
    baseline: str,
    repeats: Annotated[int, Field(ge=1, le=100)] = 5,
    samples: Annotated[int, Field(ge=1, le=10_000)] = 200,
    gate: GateRule = _GATE,
    policy: GatePolicy | None = None,
    storage: StorageForm = STORAGE,
) -> State[Any]:
    """Find out why a run is worse than its baseline: ask the samples that became worse again, and list what differs.

    Args:
        run: The run that regressed.
        baseline: Name of the baseline it was measured against.
        repeats: How often each sample that became worse is asked again.
        samples: Ask at most this many samples of each task again, those that lost most.
        gate: Tolerance, level and mode of the gate.
        policy: Which numbers decide; that of the baseline by default.
        storage: Where results and baselines are stored.
    """
    places = storage.places()
    reader = RunReader.open(places, run)
    before = reader.stored.record.options
    if before.get("text") is None:
        allow_own_code([before["config"]], places.store, run=run)
    entry = Baselines(reader.store).latest(reader.stored.record.name, baseline)
    with SharedEngines() as host:
        ask = runner(places)
        result = look_into(
            reader,
            entry,
            gate,
            lambda options: ask(places.placed(options), host),
            repeats=repeats,
            most=samples,
            policy=policy,
        )
    create_markdown_artifact(triage_page(result), key=triage_key(entry.suite), description=f"Triage of {run}")
    said = ", ".join(f"{task.gated.comparison.task_id} {task.outcome}" for task in result.tasks if task.outcome)
    message = f"{run}: {result.gated.verdict}" + (f"; {said}" if said else "")
    emit_event(
        TRIAGED,
        {"prefect.resource.id": f"gage_eval.triage.{run}", "prefect.resource.name": f"Triage of {run}"},
        payload={
            "run": run,
            "baseline": baseline,
            "outcomes": {task.gated.comparison.task_id: task.outcome for task in result.tasks},
            "text": f"Triage of {readable(message)}\nTriage: {runtime.flow_run.ui_url}\n{links_of(reader)}",
        },
    )
    return Completed(message=message)
