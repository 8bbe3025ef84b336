"""gage run, suite, resume."""

from typing import TYPE_CHECKING, Annotated

import typer

from gage_eval.cli.main import app

if TYPE_CHECKING:
    from gage_eval.runs import RunOptions

Store = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="Where artifacts live: a folder or s3://bucket/prefix.")
]
OutputDir = Annotated[
    str | None, typer.Option("--output-dir", metavar="URL", help="Where run folders live; <store>/runs by default.")
]
RunId = Annotated[str | None, typer.Option("--run-id", metavar="NAME", help="Name of the run; a fresh one by default.")]
Concurrency = Annotated[int | None, typer.Option("--concurrency", metavar="N", min=1, help="Requests in flight.")]
MaxSamples = Annotated[
    int | None, typer.Option("--max-samples", metavar="N", min=1, help="At most this many rows of each task.")
]
SampleId = Annotated[
    list[str] | None, typer.Option("--sample-id", metavar="ID", help="Only this sample; may be repeated.")
]
ModelPath = Annotated[
    str | None, typer.Option("--model-path", metavar="PATH", help="Checkpoint, for engines that load one.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change the config; may be repeated.")
]
Refresh = Annotated[
    list[str] | None, typer.Option("--refresh", metavar="STAGE", help="Compute a stage again; may be repeated.")
]
Inline = Annotated[bool, typer.Option("--inline", help="Run in this process, whatever Prefect API is configured.")]
Prefect = Annotated[bool, typer.Option("--prefect", help="Insist on a Prefect API.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


@app.command()
def run(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="Path of a config file.")],
    store: Store = None,
    run_id: RunId = None,
    output_dir: OutputDir = None,
    concurrency: Concurrency = None,
    max_samples: MaxSamples = None,
    sample_id: SampleId = None,
    model_path: ModelPath = None,
    set_: Set = None,
    refresh: Refresh = None,
    inline: Inline = False,
    prefect: Prefect = False,
    json: Json = False,
) -> None:
    """Run a config, with Prefect or in this process."""
    from gage_eval.runs import RunOptions

    options = RunOptions(
        config=config,
        store=store,
        run_id=run_id,
        output_dir=output_dir,
        concurrency=concurrency,
        max_samples=max_samples,
        sample_ids=tuple(sample_id or ()),
        model_path=model_path,
        overrides=tuple(set_ or ()),
        refresh=tuple(refresh or ()),
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
    sample_id: SampleId = None,
    set_: Set = None,
    refresh: Refresh = None,
    inline: Inline = False,
    prefect: Prefect = False,
    json: Json = False,
) -> None:
    """Run a built-in suite."""
    from gage_eval.runs import RunOptions

    options = RunOptions(
        config=f"suite:{name}",
        store=store,
        run_id=run_id,
        output_dir=output_dir,
        concurrency=concurrency,
        max_samples=max_samples,
        sample_ids=tuple(sample_id or ()),
        overrides=(
            *([f"backends[0].type={engine}"] if engine else []),
            *([f"backends[0].config.model={model}"] if model else []),
            *(set_ or ()),
        ),
        refresh=tuple(refresh or ()),
    )
    _run(options, inline=inline, prefect=prefect, json=json)


@app.command()
def resume(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run.")],
    store: Store = None,
    output_dir: OutputDir = None,
    only_errors: Annotated[
        bool, typer.Option("--only-errors", help="Ask only for rows that ended in an error.")
    ] = False,
    inline: Inline = False,
    prefect: Prefect = False,
    json: Json = False,
) -> None:
    """Go on with a run that was stopped or killed, or has failed rows."""
    from gage_eval.runs.resume import resumed

    options = resumed(run_id, store=store, output_dir=output_dir, only_errors=only_errors)
    _run(options, inline=inline, prefect=prefect, json=json)


def _run(options: "RunOptions", *, inline: bool, prefect: bool, json: bool) -> None:
    from gage_eval.cli.launch import launch_run
    from gage_eval.cli.lean import be_lean
    from gage_eval.cli.output import shown_place
    from gage_eval.report.console import print_scores

    be_lean()
    outcome = launch_run(options, inline=inline, prefect=prefect, quiet=json)
    if json:
        print(outcome.summary.model_dump_json(indent=2))
    else:
        print()
        print_scores(outcome.summary, report=shown_place(outcome.folder.place("report.html")))
