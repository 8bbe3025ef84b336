"""The flow of a night: every suite with every model, each measured against its baseline."""

import logging
from collections.abc import Callable
from datetime import UTC, date, datetime
from functools import partial
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from prefect import flow, runtime
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas import State
from prefect.client.schemas.actions import ArtifactCreate
from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed

from blocks import PrefectBlocks
from flows.api import api_client
from flows.forms import STORAGE, StorageForm
from flows.guard import allow_own_code
from flows.own import OwnRun
from flows.run import evaluated
from flows.worker import on_worker
from gage_eval.base.errors import GageError
from gage_eval.engine.host import EngineHost
from gage_eval.local.deployments import INNER_FLOW
from gage_eval.regression.nightly import Night, NightCell, Nightly, run_night
from gage_eval.regression.pages import cell_page, night_page, trend_page
from gage_eval.report.console import readable
from gage_eval.runs import RunOptions
from gage_eval.runs.folder import has_run
from gage_eval.runs.names import new_name, slug
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader

DETECTED = "gage.regression.detected"
_EVENTS = {
    "regressed": DETECTED,
    "improved": "gage.regression.improved",
    "inconclusive": "gage.regression.inconclusive",
    "unmeasured": "gage.regression.unmeasured",
}

_REQUEST_S, _RETRIES = 5.0, 2

_log = logging.getLogger("gage_eval")


@flow(name="nightly", persist_result=False)
@on_worker
def nightly(text: str, configs: dict[str, str], storage: StorageForm = STORAGE) -> State[Any]:
    """Run all suites with all models of a file of nightly runs, and measure each against its baseline.

    The answers are those of the night that the flow run was scheduled for: it asks every model again. A flow run that
    is started again on the same night resumes it.

    Args:
        text: The file of nightly runs, as YAML.
        configs: Where each config of the file is: in the store, as it was when the file was deployed; or a path.
        storage: Where results and baselines are stored.
    """
    asked = Nightly.of_text(text, "the file of nightly runs")
    places = storage.places()
    allow_own_code(configs.values(), places.store)
    night = run_night(
        asked,
        _date(asked),
        configs,
        places,
        runner(places),
        partial(_tell, asked, places=places),
        blocks=PrefectBlocks(PREFECT_API_URL.value()),
    )
    _publish(night)
    sentence = readable(night.sentence)
    if night.verdict == "regressed":
        return Failed(name="Regressed", message=sentence)
    if night.verdict == "failed":
        return Failed(message=sentence)
    if all(cell.verdict == "unmeasured" for cell in night.cells):
        return Completed(name="Unmeasured", message=sentence)
    return Completed(message=sentence)


@flow(name=INNER_FLOW, flow_run_name="{run}", persist_result=False)
@on_worker
def inner_run(run: str, config: str) -> State[Any]:
    """A run of a night or a triage, as a subflow.

    Args:
        run: Name of the run.
        config: Its config.
    """
    return evaluated()


def runner(places: Locations) -> Callable[[RunOptions, EngineHost], RunReader]:
    """A function that carries out runs in this process, each as a subflow."""

    def run(options: RunOptions, host: EngineHost) -> RunReader:
        there = options.run_id is not None and has_run(places, options.run_id)
        own = OwnRun(options.model_copy(update={"resume": there, "run_id": options.run_id or new_name()}), host=host)
        try:
            outcome = own.carry_out_inside(inner_run, run=str(own.options.run_id), config=options.config)
        except GageError:
            raise
        except Exception as error:
            # The other runs go on.
            _log.exception("the run failed")
            raise GageError(f"{type(error).__name__}: {error}") from error
        return RunReader.open(places, outcome.run_id)

    return run


def _date(asked: Nightly) -> date:
    """The date of the night in its own time zone."""
    scheduled = runtime.flow_run.scheduled_start_time or datetime.now(UTC)
    return scheduled.astimezone(ZoneInfo(asked.schedule.timezone)).date()


def _tell(asked: Nightly, cell: NightCell, places: Locations) -> None:
    """Show a cell's verdict on its flow run's page, and emit its event."""
    if cell.gated is not None and cell.run is not None and (flow_run := cell.run.stored.record.prefect) is not None:
        data, key = cell_page(cell), f"{slug(cell.gated.entry.suite)}-verdict"
        with api_client(timeout_s=_REQUEST_S, retries=_RETRIES) as client:
            try:
                client.create_artifact(
                    ArtifactCreate(
                        key=key,
                        type="markdown",
                        data=data,
                        description=f"Verdict on {cell.run.run_id}",
                        flow_run_id=UUID(flow_run.flow_run_id),
                    )
                )
            except Exception as error:  # noqa: BLE001 - the report and the page of the night show the verdict too
                _log.debug("the verdict on %s could not be shown on its flow run: %r", cell.run.run_id, error)
    _emit(asked, cell, places)


def _emit(asked: Nightly, cell: NightCell, places: Locations) -> None:
    """Emit the event of a cell's verdict, with the parameters that its triage needs."""
    event = _EVENTS.get(cell.verdict)
    if event is None or cell.run is None:
        return
    suite, baseline = cell.run.stored.record.name, cell.model.baseline_name
    emit_event(
        event,
        {
            "prefect.resource.id": f"gage_eval.nightly.{slug(asked.name)}.{slug(suite)}.{baseline}",
            "prefect.resource.name": f"{suite} with {cell.model.name}",
        },
        payload={
            "nightly": asked.name,
            "run": cell.run.run_id,
            "baseline": baseline,
            "row": cell.row.name,
            "model": cell.model.name,
            "alarm": cell.rings,
            "gate": asked.gate.model_dump(mode="json"),
            "storage": {"store": places.store, "runs": places.runs},
            "problem": cell.problem,
            "tasks": [] if cell.gated is None else cell.gated.as_record()["tasks"],
        },
    )


def _publish(night: Night) -> None:
    key = slug(night.asked.name)
    create_markdown_artifact(night_page(night), key=f"{key}-night", description=f"Night of {night.date.isoformat()}")
    if any(cell.trend for cell in night.cells):
        create_markdown_artifact(trend_page(night), key=f"{key}-trend", description="Scores per night")
