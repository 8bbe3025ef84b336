"""gage run, suite, resume."""

from typing import TYPE_CHECKING, Annotated

import typer

from gage_eval.cli.main import app
from gage_eval.cli.options import (
    Concurrency,
    Config,
    Inline,
    MaxSamples,
    ModelPath,
    OnlyErrors,
    OutputDir,
    Overrides,
    Prefect,
    Refresh,
    RunId,
    SampleIds,
    Store,
    SummaryAsJson,
)
from gage_eval.errors import GageError

if TYPE_CHECKING:
    from gage_eval.runs import RunOptions


@app.command()
def run(
    config: Config,
    store: Store = None,
    run_id: RunId = None,
    output_dir: OutputDir = None,
    concurrency: Concurrency = None,
    max_samples: MaxSamples = None,
    sample_ids: SampleIds = None,
    model_path: ModelPath = None,
    overrides: Overrides = None,
    refresh: Refresh = None,
    inline: Inline = False,
    prefect: Prefect = False,
    json: SummaryAsJson = False,
) -> None:
    """Run a config, with Prefect or in this process."""
    from gage_eval.runs import RunOptions

    options = RunOptions.of(
        {
            "config": config,
            "store": store,
            "run_id": run_id,
            "output_dir": output_dir,
            "concurrency": concurrency,
            "max_samples": max_samples,
            "sample_ids": sample_ids,
            "model_path": model_path,
            "overrides": overrides,
            "refresh": refresh,
        }
    )
    _run(options, inline=inline, prefect=prefect, json=json)


@app.command()
def suite(
    name: Annotated[
        str, typer.Argument(metavar="SUITE", help="Name of a built-in suite; gage list suites shows them.")
    ],
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Model name or path for the suite's backend.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="TYPE", help="Backend type for the suite's backend.")
    ] = None,
    store: Store = None,
    run_id: RunId = None,
    output_dir: OutputDir = None,
    concurrency: Concurrency = None,
    max_samples: MaxSamples = None,
    sample_ids: SampleIds = None,
    overrides: Overrides = None,
    refresh: Refresh = None,
    inline: Inline = False,
    prefect: Prefect = False,
    json: SummaryAsJson = False,
) -> None:
    """Run a built-in suite."""
    from gage_eval.runs import RunOptions

    options = RunOptions.of(
        {
            "config": f"suite:{name}",
            "store": store,
            "run_id": run_id,
            "output_dir": output_dir,
            "concurrency": concurrency,
            "max_samples": max_samples,
            "sample_ids": sample_ids,
            "overrides": (
                *([f"backends[0].type={engine}"] if engine else []),
                *([f"backends[0].config.model={model}"] if model else []),
                *(overrides or ()),
            ),
            "refresh": refresh,
        }
    )
    _run(options, inline=inline, prefect=prefect, json=json)


@app.command()
def resume(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run.")],
    store: Store = None,
    output_dir: OutputDir = None,
    only_errors: OnlyErrors = False,
    inline: Inline = False,
    prefect: Prefect = False,
    json: SummaryAsJson = False,
) -> None:
    """Resume a run that was stopped or killed, or has failed rows."""
    from gage_eval.runs.resume import resumed

    options = resumed(run_id, store=store, output_dir=output_dir, only_errors=only_errors)
    _run(options, inline=inline, prefect=prefect, json=json)


def _run(options: "RunOptions", *, inline: bool, prefect: bool, json: bool) -> None:
    from gage_eval.cli.lean import be_lean
    from gage_eval.cli.output import shown_place
    from gage_eval.launch import launch_run
    from gage_eval.report.console import print_scores

    be_lean()
    outcome = launch_run(options, inline=inline, prefect=prefect, quiet=json)
    # Whatever happened on the way, exit code 0 says that the run completed.
    status = outcome.folder.record().status
    if status != "completed":
        raise GageError(f"run {outcome.run_id} is recorded as {status}; to go on: {outcome.folder.again}")
    if json:
        print(outcome.summary.model_dump_json(indent=2))
    else:
        print()
        print_scores(outcome.summary, report=shown_place(outcome.folder.place("report.html")))
