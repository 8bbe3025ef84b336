"""Options and arguments that several commands take."""

from typing import Annotated

import typer

Config = Annotated[str, typer.Argument(metavar="CONFIG", help="Path of a config file, or suite:NAME.")]
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
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
SummaryAsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
