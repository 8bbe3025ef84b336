"""gage validate, preview, list, schema."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gage_eval.base.errors import ConfigError, InputError, closest
from gage_eval.base.files import write_text
from gage_eval.base.version import __version__
from gage_eval.cli.main import app
from gage_eval.cli.options import OF_MODELS, AsJson, OutputDir, RunFields, Store, argument, flag, option, takes
from gage_eval.cli.output import print_json, print_table, say
from gage_eval.cli.places import located

if TYPE_CHECKING:
    from gage_eval.base.errors import InputError
    from gage_eval.config.document import Origin
    from gage_eval.runs.options import RunOptions


@app.command()
@takes("config", *OF_MODELS, "model_path", "freshness", "overrides")
def validate(
    fields: RunFields,
    no_plugins: Annotated[
        bool,
        flag(
            "Import and start nothing that the config names; list what it would run, read, start and send.",
            "--no-plugins",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Check a config and show all its mistakes."""
    from gage_eval.authoring.validation import validated
    from gage_eval.local.launch import known_blocks
    from gage_eval.runs.options import RunOptions

    options = RunOptions.of(fields)
    try:
        if no_plugins:
            _examine(options, json=json)
            return
        valid = validated(options, blocks=known_blocks())
    except InputError as error:
        if not json:
            raise
        print_json({"valid": False, "problems": _as_records(error)})
        raise typer.Exit(error.exit_code) from error
    if json:
        record = {"name": valid.name, "digest": valid.digest, "warnings": valid.warnings, **valid.names}
        print_json({"valid": True, **record, "origins": _in_words(valid.origins)})
        return
    parts = [f"{_counted(kind, names)} {', '.join(names)}" for kind, names in valid.names.items() if names]
    say(f"{valid.source} is valid: {' · '.join(parts)}")
    for warning in valid.warnings:
        say(f"  note: {warning}")


def _examine(options: "RunOptions", *, json: bool) -> None:
    from gage_eval.runs.effects import examined

    audit = examined(options)
    error = ConfigError(audit.source, audit.problems)
    if json:
        print_json(
            {
                "valid": not audit.problems,
                "problems": _as_records(error),
                "warnings": audit.warnings,
                "would": audit.effects,
                "variables": audit.variables,
                "origins": _in_words(audit.origins),
            }
        )
    else:
        say(f"{audit.source}: no plug-in or program that it names was started.")
        rows = [[effect.act, effect.what, effect.path, effect.note] for effect in audit.effects]
        print_table(["would", "what", "where", "note"], rows)
        for path, names in audit.variables.items():
            say(f"  {path} contains the value of {', '.join(names)}.")
        for warning in audit.warnings:
            say(f"  note: {warning}")
        if audit.problems:
            raise error
        print("The config is valid, as far as this can be checked without its plug-ins.")
    if audit.problems:
        raise typer.Exit(error.exit_code)


def _in_words(origins: "Mapping[str, Origin]") -> dict[str, str]:
    return {path: str(origin) for path, origin in origins.items()}


def _as_records(error: "InputError") -> list[dict[str, Any]]:
    problems: list[dict[str, Any]] = error.as_record().get(
        "problems", [{"path": "", "line": None, "message": str(error)}]
    )
    return problems


def _counted(kind: str, names: list[str]) -> str:
    return f"{len(names)} {kind}" if len(names) != 1 else kind.removesuffix("s")


@app.command()
@takes(
    *("config", *OF_MODELS, "task_ids", "sample_ids", "max_samples", "quick", "shuffle_seed"),
    *("model_path", "freshness", "overrides", "store"),
)
def preview(
    n: Annotated[int, option("N", "Samples of each task.", "-n", min=1)] = 3,
    *,
    fields: RunFields,
    json: AsJson = False,
) -> None:
    """Print the first requests of a config. Nothing is sent."""
    from gage_eval.authoring.preview import preview_requests
    from gage_eval.cli.requests import print_request
    from gage_eval.local.launch import known_blocks
    from gage_eval.runs.options import RunOptions
    from gage_eval.runs.progress import ConsoleObserver

    with ConsoleObserver(quiet=json) as console:
        shown = preview_requests(RunOptions.of(fields), n, console, blocks=known_blocks())
    if json:
        print_json({"requests": [request.as_record() for request in shown.requests], "notes": shown.notes})
        return
    for request in shown.requests:
        print_request(request)
        print()
    for note in shown.notes:
        print(f"note: {note}")
    print(f"{len(shown.requests):,} of {shown.total:,} requests shown; nothing was sent.")


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        argument(
            "KIND",
            "aggregations, backends, datasets, filters, loaders, metrics, preprocessors, prompts, roles, "
            "verdict_parsers, suites or runs; all by default.",
        ),
    ] = None,
    lm_eval: Annotated[
        str | None, option("TEXT", "With suites: those of the lm-eval harness whose names hold it.")
    ] = None,
    store: Store = None,
    output_dir: OutputDir = None,
    json: AsJson = False,
) -> None:
    """List what a config can name, and the runs."""
    if kind == "runs" and lm_eval is None:
        from gage_eval.cli.show import list_runs

        list_runs(located(store, output_dir), None, json=json)
        return
    from gage_eval.authoring.catalog import entries as entries_of
    from gage_eval.authoring.catalog import kinds as config_kinds

    kinds = [*config_kinds(), "runs"]
    if kind is not None and kind not in kinds:
        raise InputError(f"no kind '{kind}' to list. Kinds: {', '.join(kinds)}.{closest(kind, kinds)}")
    if lm_eval is not None:
        from gage_eval.authoring.lm_eval import harness_names
        from gage_eval.scoring.harness.client import PREFIX

        if kind != "suites":
            raise InputError("--lm-eval goes with suites: gage list suites --lm-eval TEXT.")
        named = [{"name": f"{PREFIX}{name}", "kind": sort} for name, sort in harness_names(lm_eval)]
        if json:
            print_json(named)
        else:
            print_table(("suite", "kind"), [(entry["name"], entry["kind"]) for entry in named])
        return
    # Without a kind, runs are left out: `gage show` lists them.
    wanted = [kind] if kind is not None else kinds[:-1]
    listed = {name: entries_of(name) for name in wanted}
    if json:
        print_json(listed[kind] if kind is not None else {"gage_eval": __version__, **listed})
        return
    for index, (name, entries) in enumerate(listed.items()):
        if index:
            print()
        if not entries:
            print(f"no {name}.")
            continue
        if name == "suites":
            _print_suites(entries)
            continue
        columns = [column for column in entries[0] if column != "info"]
        header = [name.removesuffix("s").replace("_", " ") if column == "name" else column for column in columns]
        print_table(header, [[_cell(entry[column]) for column in columns] for entry in entries])


def _print_suites(entries: list[dict[str, Any]]) -> None:
    """The suites with what one wants to know before running one."""
    from gage_eval.report.console import size_text

    rows = []
    for entry in entries:
        size = "" if entry["download_bytes"] is None else size_text(entry["download_bytes"])
        rows.append(
            (
                entry["name"],
                ", ".join(entry["versions"]),
                f"{entry['tasks']:,}",
                "" if entry["rows"] is None else f"{entry['rows']:,}",
                entry["metric"] or "",
                ", ".join(entry["needs"]),
                entry["licence"] or "",
                size if entry["info"].get("pinned", True) else f"{size}, not pinned",
                entry["summary"],
            )
        )
    header = ("suite", "versions", "tasks", "rows", "metric", "needs", "licence", "data", "summary")
    print_table(header, rows, right=("tasks", "rows"), spare=("licence", "versions", "metric", "data"))


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


@app.command()
def schema(
    name: Annotated[str, argument("NAME", "config, run_config, template, summary, sample or outputs.")],
    output: Annotated[Path | None, option("FILE", "Write it to this file.")] = None,
) -> None:
    """Print a JSON Schema for editors and programs."""
    names = ("config", "run_config", "template", "summary", "sample", "outputs")
    if name not in names:
        raise InputError(f"no schema '{name}'. Schemas: {', '.join(names)}.{closest(name, names)}")
    text = _schema(name)
    if output is None:
        print(text)
        return
    write_text(output, text + "\n")


def _schema(name: str) -> str:
    import json

    if name == "summary":
        from gage_eval.report.summary import json_schema

        return json_schema().decode().rstrip()
    if name == "sample":
        from gage_eval.data.sample.model import json_schema as sample_schema

        return json.dumps(sample_schema(), indent=2, ensure_ascii=False)
    if name == "outputs":
        from gage_eval.cli.outputs import json_schema as outputs_schema

        return json.dumps(outputs_schema(), indent=2, ensure_ascii=False)
    from gage_eval.config.schema import config_schema, kind_schema

    kind = {"run_config": "RunConfig", "template": "BuiltinTemplate"}.get(name)
    return json.dumps(config_schema() if kind is None else kind_schema(kind), indent=2, ensure_ascii=False)
