"""gage plan."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gage_eval.cli.main import app
from gage_eval.cli.options import OF_MODELS, AsJson, Given, takes

if TYPE_CHECKING:
    from gage_eval.pipeline.forecast import Forecast
    from gage_eval.runs.options import RunOptions


@app.command()
@takes(
    *("config", *OF_MODELS, "store", "output_dir", "concurrency", "max_samples", "shuffle_seed", "task_ids"),
    *("sample_ids", "model_path", "freshness", "overrides", "work_pool"),
)
def plan(
    given: Given,
    expanded: Annotated[
        bool,
        typer.Option("--expanded", help="Print the whole config instead, and what gave each of its values."),
    ] = False,
    fetch: Annotated[
        bool,
        typer.Option("--fetch", help="Fetch missing data, so that their requests are counted too."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Show what is cached, and what a run would fetch and send."""
    from gage_eval.cli.output import print_json
    from gage_eval.config.settings import load_settings
    from gage_eval.local.launch import known_blocks
    from gage_eval.pipeline.forecast import forecast
    from gage_eval.report.console import clean
    from gage_eval.runs.fetching import fetch_line, would_fetch
    from gage_eval.runs.options import RunOptions
    from gage_eval.runs.planned import planned
    from gage_eval.runs.progress import ConsoleObserver
    from gage_eval.runs.results.stored import uses_of

    options = RunOptions.of(given)
    if expanded:
        _print_expanded(options, json=json)
        return
    asked = planned(options, blocks=known_blocks())
    # A folder of the user is not a download.
    if fetch or asked.data.user_folder is not None:
        with ConsoleObserver(quiet=json) as console:
            asked.fetch_data(console)
    missing = asked.data.missing(asked.plan.origin_files)
    found = forecast(
        asked.store,
        asked.plan,
        uses=lambda: uses_of(asked.locations),
        concurrency=options.concurrency or load_settings().concurrency,
        missing=missing,
    )
    fetched = would_fetch(missing)
    if json:
        stages = [_record(one) for one in found]
        to_fetch = [one.payload() for one in fetched]
        print_json({"name": asked.plan.name, "store": asked.store.url, "fetch": to_fetch, "stages": stages})
        return
    for one in fetched:
        print(clean(f"would start by {fetch_line(one)}"))
    _print(found, [task.task_id for task in asked.plan.tasks])
    if fetched:
        print("Requests are counted once the data are here: --fetch fetches them now.")


def _print_expanded(options: "RunOptions", *, json: bool) -> None:
    from gage_eval.cli.output import print_json
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


def _record(one: "Forecast") -> dict[str, Any]:
    return {
        "task_id": one.task_id,
        "stage": one.stage,
        "key": one.key,
        "state": one.state,
        "why": one.why,
        "outputs": dict(one.outputs),
        "responses": one.responses,
        "to_send": one.to_send,
        "tokens": one.tokens,
        "seconds": one.seconds,
        "metrics": list(one.metrics),
    }


def _print(found: "list[Forecast]", tasks: list[str]) -> None:
    from gage_eval.cli.output import print_table
    from gage_eval.report.console import clean

    for index, task_id in enumerate(tasks):
        if len(tasks) > 1:
            print(f"{chr(10) if index else ''}{clean(task_id)}")
        rows = [
            (one.stage, one.key[:8] if one.key else "–", "" if one.state == "after" else one.state, _why(one))
            for one in found
            if one.task_id == task_id
        ]
        print_table(("stage", "key", "state", "why"), rows)


def _why(one: "Forecast") -> str:
    from gage_eval.report.console import counted
    from gage_eval.runs.results.formatting import duration

    said = [one.why] if one.why else []
    if one.to_send is not None:
        said.append(counted(one.to_send, "request"))
        if one.tokens:
            said[-1] += f", about {one.tokens:,} tokens"
        if one.seconds:
            said[-1] += f", {duration(one.seconds)}"
    return "; ".join(said)
