"""The flow of a night: every suite with every model, each measured against its baseline."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo

from prefect import flow, runtime
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas import State
from prefect.client.schemas.actions import ArtifactCreate
from prefect.events import emit_event
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed
from pydantic import Field, StringConstraints

from blocks import PrefectBlocks
from flows.api import api_client
from flows.forms import STORAGE, StorageForm
from flows.guard import allow_own_code
from flows.own import OwnRun
from flows.run import evaluated
from flows.states import REGRESSED, UNMEASURED
from flows.worker import on_worker
from gage_eval.base.errors import GageError
from gage_eval.engine.host import SharedEngines
from gage_eval.local import server
from gage_eval.local.deployments import INNER_FLOW
from gage_eval.regression.nightly import ATTEMPT_PATTERN, Night, NightCell, Nightly, label_of, run_night
from gage_eval.regression.pages import cell_page, night_page, trend_page
from gage_eval.report.console import readable
from gage_eval.runs import RunOptions
from gage_eval.runs.folder import has_run
from gage_eval.runs.names import new_name, slug
from gage_eval.runs.options import Locations
from gage_eval.runs.results.reading import RunReader

DETECTED = "gage.regression.detected"
# All cells of a night have ended, whatever their verdicts.
NIGHT_ENDED = "gage.night.ended"
_EVENTS = {
    "regressed": DETECTED,
    "improved": "gage.regression.improved",
    "inconclusive": "gage.regression.inconclusive",
    "unmeasured": "gage.regression.unmeasured",
}

_log = logging.getLogger("gage_eval")

# A pattern, and not a validator, so that the server refuses a wrong value when the form is sent.
Samples: TypeAlias = Annotated[int, Field(ge=1)]
Attempt: TypeAlias = Annotated[str, StringConstraints(pattern=f"^({ATTEMPT_PATTERN})?$")]


def night_name() -> str:
    """Name of the flow run of a night: that of its file, and the night's label."""
    parameters = runtime.flow_run.parameters
    try:
        runs = Nightly.of_text(parameters["text"], "the file of nightly runs")
    except GageError:
        # The flow run itself fails with the reason.
        return str(runtime.flow_run.name)
    return f"{slug(runs.name)}-{_label(runs, parameters.get('attempt', ''), parameters.get('samples'))}"


@flow(name="nightly", flow_run_name=night_name, persist_result=False)
@on_worker
def nightly(
    *,
    attempt: Attempt = "",
    rows: tuple[str, ...] = (),
    models: tuple[str, ...] = (),
    samples: Samples | None = None,
    text: str,
    configs: dict[str, str],
    storage: StorageForm = STORAGE,
) -> State[Any]:
    """Run all suites with all models of a file of nightly runs, and measure each against its baseline.

    The answers are those of the night that the flow run was scheduled for: it asks every model again. A flow run that
    is started again on the same night resumes it, and asks nothing that has an answer.

    Args:
        attempt: Name of another attempt, such as 2: it asks every model again, on the same night too.
        rows: Run these suites and configs only, by their names in the file.
        models: Run these models only, by their names in the file.
        samples: Run so many samples of each task only. The night then counts as another attempt, such as 100_samples.
        text: The file of nightly runs, as YAML.
        configs: Where each config of the file is: in the store, as it was when the file was deployed; or a path.
        storage: Where results and baselines are stored.
    """
    whole = Nightly.of_text(text, "the file of nightly runs")
    chosen, places = whole.chosen(rows, models, samples), storage.places()
    allow_own_code(configs.values(), places.store)
    night = run_night(
        chosen,
        _label(chosen, attempt, samples),
        configs,
        places,
        runner(places),
        partial(_tell, chosen, places=places),
        blocks=PrefectBlocks(PREFECT_API_URL.value()),
    )
    _publish(night)
    if chosen == whole:
        emit_event(
            NIGHT_ENDED,
            {"prefect.resource.id": night_resource(chosen), "prefect.resource.name": chosen.name},
            payload={"night": night.label, "verdict": night.verdict, "sentence": night.sentence},
        )
    sentence = readable(night.sentence)
    if night.verdict == "regressed":
        return Failed(name=REGRESSED, message=sentence)
    if night.is_bad:
        return Failed(message=sentence)
    if all(cell.verdict == "unmeasured" for cell in night.cells):
        return Completed(name=UNMEASURED, message=sentence)
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


def runner(places: Locations) -> Callable[[RunOptions, SharedEngines], RunReader]:
    """A function that carries out runs in this process, each as a subflow."""

    def run(options: RunOptions, host: SharedEngines) -> RunReader:
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


def _label(runs: Nightly, attempt: str, samples: int | None) -> str:
    """The label of the night, whose date is that of its time zone. A limit of samples makes another attempt."""
    attempt = attempt or (f"{samples}_samples" if samples else "")
    scheduled = runtime.flow_run.scheduled_start_time or datetime.now(UTC)
    return label_of(scheduled.astimezone(ZoneInfo(runs.schedule.timezone)).date(), attempt)


def _tell(runs: Nightly, cell: NightCell, places: Locations) -> None:
    """Show a cell's verdict on its flow run's page, and emit its event."""
    if cell.gated is not None and cell.run is not None and (flow_run := cell.run.stored.record.prefect) is not None:
        data, key = cell_page(cell), f"{slug(cell.gated.entry.suite)}-verdict"
        with api_client() as client:
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
    _emit(runs, cell, places)


def _emit(runs: Nightly, cell: NightCell, places: Locations) -> None:
    """Emit the event of a cell's verdict, with the parameters that its triage needs."""
    event = _EVENTS.get(cell.verdict)
    if event is None or cell.run is None:
        return
    suite, baseline = cell.run.stored.record.name, cell.model.baseline_name
    emit_event(
        event,
        {
            "prefect.resource.id": f"{night_resource(runs)}.{slug(suite)}.{baseline}",
            "prefect.resource.name": f"{suite} with {cell.model.name}",
        },
        payload={
            "nightly": runs.name,
            "run": cell.run.run_id,
            "baseline": baseline,
            "row": cell.row.name,
            "model": cell.model.name,
            "alarm": cell.rings,
            "text": _text(cell),
            "gate": runs.gate.model_dump(mode="json"),
            "policy": None if runs.policy is None else runs.policy.model_dump(mode="json"),
            "storage": {"store": places.store, "runs": places.runs},
            "problem": cell.problem,
            "tasks": [] if cell.gated is None else cell.gated.as_record()["tasks"],
        },
    )


def night_resource(runs: Nightly) -> str:
    """The resource of the events of a file of nightly runs; those of its cells have names below it."""
    return f"gage_eval.nightly.{slug(runs.name)}"


def links_of(reader: RunReader) -> str:
    """Where people find a run: its flow run, its samples if a viewer is running, its report."""
    stored = reader.stored
    url = None if stored.record.prefect is None else stored.record.prefect.url
    viewer = server.run_page(PREFECT_API_URL.value(), stored.folder.locations, reader.run_id)
    links = {"Run": url, "Samples": viewer, "Report": stored.folder.location("report.html")}
    return "\n".join(f"{name}: {link}" for name, link in links.items() if link is not None)


def _text(cell: NightCell) -> str:
    """A cell's verdict for people, with links."""
    assert cell.run is not None
    return f"{readable(cell.sentence)}\nNight: {runtime.flow_run.ui_url}\n{links_of(cell.run)}"


def _publish(night: Night) -> None:
    key = slug(night.nightly.name)
    create_markdown_artifact(night_page(night), key=f"{key}-night", description=f"Night of {night.label}")
    if any(cell.trend for cell in night.cells):
        create_markdown_artifact(trend_page(night), key=f"{key}-trend", description="Scores per night")
