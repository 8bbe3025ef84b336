"""gage run, suite, resume."""

from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from gage_eval.base.errors import GageError
from gage_eval.cli.main import app
from gage_eval.cli.options import (
    OF_MODELS,
    Inline,
    OnlyErrors,
    OutputDir,
    Prefect,
    Quiet,
    RunFields,
    Store,
    Submit,
    SummaryAsJson,
    Verify,
    argument,
    flag,
    option,
    takes,
)

if TYPE_CHECKING:
    from gage_eval.runs import RunOptions


# Options of every run, in the order of the help text; others stand between them.
_FIRST = (
    *(*OF_MODELS, "store", "run_id", "output_dir", "concurrency"),
    *("max_samples", "quick", "shuffle_seed", "task_ids", "sample_ids"),
)
_LAST = ("freshness", "overrides", "refresh", "verify", "work_pool")


@app.command()
@takes("config", *_FIRST, "model_path", *_LAST)
def run(
    fields: RunFields,
    inline: Inline = False,
    prefect: Prefect = False,
    submit: Submit = False,
    quiet: Quiet = False,
    json: SummaryAsJson = False,
) -> None:
    """Run a config, with Prefect or without it."""
    from gage_eval.runs import RunOptions

    carry_out(RunOptions.of(fields), inline=inline, prefect=prefect, submit=submit, quiet=quiet, json=json)


@app.command()
@takes(*_FIRST, *_LAST)
def suite(
    name: Annotated[
        str,
        argument(
            "SUITE",
            "Name of a built-in suite (gage list suites), or lm-eval:NAME; with --self-test also a config's file.",
        ),
    ],
    version: Annotated[str | None, option("vN", "Version of the suite; the newest by default.")] = None,
    *,
    self_test: Annotated[
        bool,
        flag(
            "Ask no model: run the solutions that the suite brings, empty answers, and programs that try to pass "
            "without solving; --max-samples limits the problems.",
            "--self-test",
        ),
    ] = False,
    fields: RunFields,
    inline: Inline = False,
    prefect: Prefect = False,
    submit: Submit = False,
    quiet: Quiet = False,
    json: SummaryAsJson = False,
) -> None:
    """Run a built-in suite: a benchmark with everything pinned."""
    from gage_eval.scoring.harness.client import PREFIX, shared_process

    if name.startswith(PREFIX):
        # It imports the harness while this process imports what follows.
        shared_process().start()

    from gage_eval.authoring.lm_eval import suite_config
    from gage_eval.runs import RunOptions
    from gage_eval.runs.options import SUITE_PREFIX

    config = suite_config(name, fields["store"], fields["output_dir"])
    if config is None:
        is_file = self_test and name.endswith((".yaml", ".yml"))
        config = name if is_file else f"{SUITE_PREFIX}{name}" + (f"@{version}" if version else "")
    options = RunOptions.of({**fields, "config": config})
    if self_test:
        _self_test(options, json=json)
        return
    carry_out(options, inline=inline, prefect=prefect, submit=submit, quiet=quiet, json=json)


@app.command()
def resume(
    run_id: Annotated[str, argument("RUN", "Name of the run.")],
    store: Store = None,
    output_dir: OutputDir = None,
    only_errors: OnlyErrors = False,
    verify: Verify = False,
    inline: Inline = False,
    prefect: Prefect = False,
    submit: Submit = False,
    quiet: Quiet = False,
    json: SummaryAsJson = False,
) -> None:
    """Resume a run that was stopped or killed, or has failed rows."""
    from gage_eval.runs.resume import resumed

    options = resumed(run_id, store=store, output_dir=output_dir, only_errors=only_errors, verify=verify)
    carry_out(options, inline=inline, prefect=prefect, submit=submit, quiet=quiet, json=json)


def _self_test(options: "RunOptions", *, json: bool) -> None:
    from gage_eval.authoring.self_test import self_test
    from gage_eval.cli.output import print_json
    from gage_eval.report.console import clean
    from gage_eval.runs.progress import ConsoleObserver

    with ConsoleObserver(quiet=json) as console:
        tested = self_test(options, console)
    if json:
        print_json([{**vars(task), "ok": task.is_as_expected} for task in tested])
    else:
        for line in (line for task in tested for line in task.lines()):
            print(clean(line))
    if not all(task.is_as_expected for task in tested):
        raise typer.Exit(1)


def carry_out(options: "RunOptions", *, inline: bool, prefect: bool, submit: bool, quiet: bool, json: bool) -> None:
    """Run the options, and print the scores."""
    from gage_eval.cli.changes import changes_of
    from gage_eval.cli.output import shown_location
    from gage_eval.config.settings import load_settings
    from gage_eval.extend.tuning import tune_process
    from gage_eval.local.launch import launch_run
    from gage_eval.report.console import clean, print_scores
    from gage_eval.runs.scoring import hint

    if submit:
        _submit(options, inline=inline, json=json)
        return
    # Modules that are imported before are never scanned for garbage.
    import_module("gage_eval.runs.inline")
    tune_process()
    outcome = launch_run(options, inline=inline, prefect=prefect, quiet=json or quiet)
    # Exit code 0 always means that the run completed.
    status = outcome.folder.record().status
    if status != "completed":
        raise GageError(f"run {outcome.run_id} is recorded as {status}; resume it: {outcome.folder.again}")
    if json:
        print(outcome.summary.model_dump_json(indent=2))
    else:
        changes, notes = changes_of(outcome)
        if not quiet:
            print()
        report = shown_location(outcome.folder.location("report.html"))
        print_scores(outcome.summary, changes=changes, report=report)
        text = hint(outcome.summary, load_settings().autoeval_workers)
        for note in [*notes, *([] if text is None else [text])]:
            print(clean(note))


def _submit(options: "RunOptions", *, inline: bool, json: bool) -> None:
    from gage_eval.base.errors import InputError
    from gage_eval.cli.output import print_json
    from gage_eval.local.launch import submit_run
    from gage_eval.report.console import clean

    if inline:
        raise InputError("--inline and --submit exclude each other.")
    submitted = submit_run(options, tell=lambda note: typer.echo(f"note: {clean(note)}", err=True))
    if json:
        print_json({"run_id": submitted.run_id, "work_pool": submitted.pool, "url": submitted.url})
    else:
        page = f": {submitted.url}" if submitted.url is not None else "."
        print(f"run {submitted.run_id} waits for a worker of pool '{submitted.pool}'{page}")
