"""gage plan."""

from typing import TYPE_CHECKING, Annotated, Any

from gage_eval.base.errors import GageError
from gage_eval.cli.main import app
from gage_eval.cli.options import OF_MODELS, AsJson, RunFields, flag, takes
from gage_eval.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from gage_eval.pipeline.forecast import Forecast
    from gage_eval.runs.options import RunOptions
    from gage_eval.runs.planned import PlannedRun


@app.command()
@takes(
    *("config", *OF_MODELS, "store", "output_dir", "concurrency", "max_samples", "quick", "shuffle_seed"),
    *("task_ids", "sample_ids", "model_path", "freshness", "overrides", "work_pool"),
)
def plan(
    fields: RunFields,
    expanded: Annotated[
        bool, flag("Print the whole config instead, and what gave each of its values.", "--expanded")
    ] = False,
    fetch: Annotated[bool, flag("Fetch missing data, so that their requests are counted too.", "--fetch")] = False,
    json: AsJson = False,
) -> None:
    """Show what is cached, and what a run would fetch and send."""
    from gage_eval.config.settings import load_settings
    from gage_eval.local.launch import known_blocks
    from gage_eval.pipeline.forecast import forecast
    from gage_eval.runs.fetching import fetch_line, would_fetch
    from gage_eval.runs.lengths import short_limits
    from gage_eval.runs.options import RunOptions
    from gage_eval.runs.planned import planned
    from gage_eval.runs.progress import ConsoleObserver
    from gage_eval.runs.results.stored import uses_of

    options = RunOptions.of(fields)
    if expanded:
        _print_expanded(options, json=json)
        return
    planned_run = planned(options, blocks=known_blocks())
    # A folder of the user is not a download.
    if fetch or planned_run.data.user_folder is not None:
        with ConsoleObserver(quiet=json) as console:
            planned_run.fetch_data(console)
    missing = planned_run.data.missing(planned_run.plan.origin_files)
    forecasts = forecast(
        planned_run.store,
        planned_run.plan,
        uses=lambda: uses_of(planned_run.locations),
        concurrency=options.concurrency or load_settings().concurrency,
        missing=missing,
    )
    fetched = would_fetch(missing)
    short = short_limits(planned_run.plan, planned_run.locations)
    if json:
        print_json(
            {
                "name": planned_run.plan.name,
                "store": planned_run.store.url,
                "fetch": [origin.payload() for origin in fetched],
                "stages": forecasts,
                "power": _power(planned_run)[0],
                "short_limits": short,
                "notes": planned_run.notes,
            }
        )
        return
    for origin in fetched:
        say(f"would start by {fetch_line(origin)}")
    _print(forecasts, [task.task_id for task in planned_run.plan.tasks])
    _print_users(forecasts)
    _print_stops(planned_run, forecasts)
    _print_probes(planned_run)
    for note in planned_run.notes:
        say(f"note: {note}")
    for sentence in (*[limit.sentence for limit in short], *_power(planned_run)[1]):
        say(sentence)
    if fetched:
        print("Requests are counted once the data are here: --fetch fetches them now.")


def _print_expanded(options: "RunOptions", *, json: bool) -> None:
    from gage_eval.config.effective import written_out, written_out_text
    from gage_eval.local.launch import known_blocks
    from gage_eval.models.backends.base import BackendContext
    from gage_eval.report.console import readable
    from gage_eval.runs.options import load

    loaded = load(options, context=BackendContext(blocks=known_blocks()))
    if json:
        origins = {path: str(origin) for path, origin in loaded.origins.items()}
        print_json({"config": written_out(loaded), "origins": origins, "digest": loaded.digest})
    else:
        print(readable(written_out_text(loaded)), end="")


def _print(forecasts: "list[Forecast]", tasks: list[str]) -> None:
    from gage_eval.report.console import clean

    for index, task_id in enumerate(tasks):
        if len(tasks) > 1:
            print(f"{chr(10) if index else ''}{clean(task_id)}")
        rows = [
            (
                stage.stage,
                stage.key[:8] if stage.key else "–",
                "" if stage.state == "after" else stage.state,
                _why(stage),
            )
            for stage in forecasts
            if stage.task_id == task_id
        ]
        print_table(("stage", "key", "state", "why"), rows)


def _print_stops(planned_run: "PlannedRun", forecasts: "list[Forecast]") -> None:
    """Say of each task that may stop early how many samples it asks at most."""
    samples = {stage.task_id: stage.outputs["samples"] for stage in forecasts if "samples" in stage.outputs}
    for task in planned_run.plan.tasks:
        if task.stop is not None:
            artifact = samples.get(task.task_id)
            most = "all samples" if artifact is None else f"{planned_run.store.artifact(artifact).rows:,} samples"
            say(f"{task.task_id}: at most {most}; stop_when ends it at {task.stop.text}")


def _print_probes(planned_run: "PlannedRun") -> None:
    """Say whether the models repeat their answers, where that was measured."""
    from gage_eval.runs.probes import probes, unproven

    plan = planned_run.plan
    known = [probed.record for probed in probes(plan, planned_run.store, planned_run.options.concurrency)]
    for text in (*(probe.text for probe in known), *unproven(plan, known)):
        say(text)


def _power(planned_run: "PlannedRun") -> tuple[list[dict[str, Any]], list[str]]:
    """What the gate could find, as records and in sentences. A damaged baseline leaves the rest of the plan."""
    from gage_eval.regression.power import plan_power

    try:
        powers = plan_power(planned_run.plan, planned_run.store, planned_run.locations)
    except GageError as error:
        return [], [f"what the gate could find is not known: {error}"]
    return [power.as_record() for power in powers], [power.sentence for power in powers]


def _why(stage: "Forecast") -> str:
    from gage_eval.report.console import counted
    from gage_eval.runs.results.formatting import duration

    said = [stage.why] if stage.why else []
    if stage.to_send is not None:
        said.append(counted(stage.to_send, "request"))
        said[-1] += _used(stage.tokens, stage.cost)
        if stage.seconds:
            said[-1] += f", {duration(stage.seconds)}"
    if stage.at_most != stage.to_send:
        said.append(f"at most {counted(stage.at_most or 0, 'request')}")
    return "; ".join(said)


def _used(tokens: int | None, cost: float | None) -> str:
    """What requests use, as the end of a sentence."""
    said = f", about {tokens:,} tokens" if tokens else ""
    return said if cost is None else f"{said}, cost {cost:.4g}"


def _print_users(forecasts: "list[Forecast]") -> None:
    """Say how often simulated users speak at most."""
    from gage_eval.report.console import counted

    for stage in forecasts:
        if (user := stage.user) is not None:
            most = "" if user.at_most == user.turns else f", {counted(user.at_most, 'request')}"
            say(
                f"{stage.task_id}: at most {counted(user.turns, 'turn')} of the simulated user {user.adapter_id} "
                f"({user.model}) for {counted(user.episodes, 'episode')}{most}{_used(user.tokens, user.cost)}"
            )
