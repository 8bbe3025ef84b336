"""Options and arguments that several commands take; those of a run have the texts of `RunOptions`."""

from typing import Annotated, Any

import typer

from gage_eval.runs.option_texts import OPTIONS

# Where an option is not called as its field.
_NAMES = {"sample_ids": "--sample-id", "overrides": "--set"}


def _of_run(field: str, metavar: str | None = None) -> Any:
    """The option of a field of `RunOptions`."""
    option = OPTIONS[field]
    if option.flag:
        return typer.Option(_name(field), help=option.description)
    many = " May be repeated." if option.many else ""
    return typer.Option(_name(field), metavar=metavar, min=option.least, help=f"{option.description}{many}")


def _name(field: str) -> str:
    return _NAMES.get(field, f"--{field.replace('_', '-')}")


Config = Annotated[str, typer.Argument(metavar="CONFIG", help=OPTIONS["config"].description)]
Store = Annotated[str | None, _of_run("store", "URL")]
OutputDir = Annotated[str | None, _of_run("output_dir", "URL")]
RunId = Annotated[str | None, _of_run("run_id", "NAME")]
Concurrency = Annotated[int | None, _of_run("concurrency", "N")]
MaxSamples = Annotated[int | None, _of_run("max_samples", "N")]
SampleIds = Annotated[list[str] | None, _of_run("sample_ids", "ID")]
ModelPath = Annotated[str | None, _of_run("model_path", "PATH")]
Overrides = Annotated[list[str] | None, _of_run("overrides", "PATH=VALUE")]
Refresh = Annotated[list[str] | None, _of_run("refresh", "STAGE")]
OnlyErrors = Annotated[bool, _of_run("only_errors")]
Inline = Annotated[bool, typer.Option("--inline", help="Run in this process, whatever Prefect API is configured.")]
Prefect = Annotated[bool, typer.Option("--prefect", help="Insist on a Prefect API.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
SummaryAsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
