"""Options and arguments of several commands. Those of a run have the texts of `RunOptions`."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from gage_eval.base.errors import InputError
from gage_eval.base.files import is_folder
from gage_eval.runs.options_dict import LEAST, TEXTS, TYPES

# Options with another name than their field.
_NAMES = {
    "task_ids": "--task",
    "sample_ids": "--sample-id",
    "overrides": "--set",
    "data_dir": "--data",
    "judges": "--judge",
}


# What stands for the value of an option in the help, where it is neither a name nor a number.
_METAVARS = {
    **dict.fromkeys(("store", "output_dir", "endpoint", "judge_endpoint"), "URL"),
    "task_ids": "ID[SUBJECT,…]",
    "sample_ids": "ID",
    "data_dir": "DIR",
    "engine": "TYPE",
    "model_path": "PATH",
    "freshness": "TEXT",
    "overrides": "PATH=VALUE",
    "refresh": "STAGE",
}


def argument(metavar: str, text: str) -> Any:
    """An argument: what stands for it in the help, and what it is."""
    return typer.Argument(metavar=metavar, help=text)


def option(metavar: str, text: str, *names: str, min: float | None = None, max: float | None = None) -> Any:  # noqa: A002
    """An option with a value, named as its parameter is.

    Args:
        metavar: what stands for the value in the help.
        text: what it is.
        names: other names, such as ``--limit`` and ``-n``.
        min, max: of a number.
    """
    return typer.Option(*names, metavar=metavar, help=text, min=min, max=max)


def flag(text: str, *names: str) -> Any:
    """An option without a value, by its names."""
    return typer.Option(*names, help=text)


def _of_run(field: str) -> Any:
    """The option of a field of `RunOptions`."""
    kind = TYPES[field]
    if kind is bool:
        return typer.Option(_name(field), help=TEXTS[field])
    many = " May be repeated." if kind == Sequence[str] else ""
    metavar = "N" if kind == int | None else _METAVARS.get(field, "NAME")
    return typer.Option(_name(field), metavar=metavar, min=LEAST.get(field), help=f"{TEXTS[field]}{many}")


def _name(field: str) -> str:
    return _NAMES.get(field, f"--{field.replace('_', '-')}")


Config = Annotated[str, argument("CONFIG", TEXTS["config"])]
Store = Annotated[str | None, _of_run("store")]
OutputDir = Annotated[str | None, _of_run("output_dir")]
RunId = Annotated[str | None, _of_run("run_id")]
OnlyErrors = Annotated[bool, _of_run("only_errors")]
Verify = Annotated[bool, _of_run("verify")]
Inline = Annotated[bool, flag("Run without Prefect, even if a Prefect API is configured.", "--inline")]
Prefect = Annotated[bool, flag("Require a Prefect API.", "--prefect")]
Quiet = Annotated[bool, flag("Print no progress, only the scores at the end.", "--quiet", "-q")]
Submit = Annotated[
    bool, flag("Hand the run, with its plug-ins and small data, to a worker of the Prefect server.", "--submit")
]
Allow = Annotated[
    list[str] | None, option("KIND", "Let data, prompts or scorer differ. May be repeated.", "--allow-different")
]
AsJson = Annotated[bool, flag("Print JSON.", "--json")]
SummaryAsJson = Annotated[bool, flag("Print the summary as JSON.", "--json")]
To = Annotated[
    list[Path] | None,
    option(
        "FILE",
        "Write it to this file as its name says: .md, .tex (booktabs) or .csv, or a figure, .svg or .png. "
        "May be repeated.",
        "--to",
    ),
]

# The options of a run by the names of their fields, for `RunOptions.of`.
RunFields: TypeAlias = dict[str, Any]

# The options that name the models and the data of a run.
OF_MODELS = (
    *("model", "endpoint", "engine", "api_key_env", "api_key_block", "model_block"),
    *("judges", "judge_endpoint", "judge_api_key_env", "judge_api_key_block", "data_dir"),
)


def takes(*fields: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: the command's parameter ``fields`` becomes one option of the command line for each field.

    Args:
        fields: fields of `RunOptions` in the order of the help; ``config`` is an argument.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**values: Any) -> None:
            run_fields = {field: values.pop(field) for field in fields}
            # A run that is handed to a worker reads the data there.
            if not values.get("submit"):
                _check_folder(run_fields.get("data_dir"))
            command(fields=run_fields, **values)

        parameters: dict[str, inspect.Parameter] = {}
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            taken = [_parameter(field) for field in fields] if name == "fields" else [parameter]
            parameters |= {option.name: option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in taken}
        called.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        called.__annotations__ = {name: option.annotation for name, option in parameters.items()}
        return called

    return decorate


def _check_folder(data: str | None) -> None:
    if data is not None and not is_folder(data, Path.cwd()):
        raise InputError(f"--data: there is no folder '{data}'.")


def _parameter(field: str) -> inspect.Parameter:
    if field == "config":
        return inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, annotation=Config)
    kind: Any = list[str] if TYPES[field] == Sequence[str] else TYPES[field]
    annotation = Annotated[kind | None, _of_run(field)]
    return inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
