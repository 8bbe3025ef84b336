"""gage import."""

import shutil
from pathlib import Path
from typing import Annotated

from gage_eval.base.errors import InputError
from gage_eval.cli.main import app
from gage_eval.cli.options import OutputDir, Quiet, RunId, Store, argument, option
from gage_eval.cli.output import say


@app.command("import")
def import_(
    file: Annotated[Path, argument("FILE", "A log of one of these tools, the output of a batch, or records.")],
    format_: Annotated[
        str | None,
        option(
            "FORMAT",
            "inspect, lm-eval, evalscope, helm, promptfoo, atif, batch or records; told by the content.",
            "--format",
        ),
    ] = None,
    requests: Annotated[Path | None, option("FILE", "The input of a batch, which holds the prompts.")] = None,
    field: Annotated[
        list[str] | None,
        option(
            "PART=FIELD",
            "The field of plain records that holds the id, question, answer, reference, score or model. May be "
            "repeated.",
        ),
    ] = None,
    task: Annotated[str | None, option("NAME", "Name the task; runs are compared by tasks of one name.")] = None,
    to: Annotated[Path | None, option("DIR", "The folder for samples, answers and config.")] = None,
    run_id: RunId = None,
    store: Store = None,
    output_dir: OutputDir = None,
    quiet: Quiet = False,
) -> None:
    """Make a run of another tool's log."""
    from gage_eval.imports.folder import default_folder, provenance, write_import
    from gage_eval.imports.read import read_log
    from gage_eval.local.launch import launch_run
    from gage_eval.report.console import counted, print_scores
    from gage_eval.runs import RunOptions

    fields = dict(text.partition("=")[::2] for text in field or ())
    for part, name in fields.items():
        if not name:
            raise InputError(f"--field '{part}' names no field: write --field {part or 'answer'}=FIELD.")
    log = read_log(file, format_=format_, requests=requests, fields=fields)
    log.task = task or log.task
    config = write_import(log, file, to or default_folder(log, file))
    facts = provenance(log, file)
    if not quiet:
        tool = " ".join(filter(None, (log.tool, log.version)))
        say(f"{counted(facts['answers'], 'answer')} of {tool} read from {file}, written to {config.parent}")
        for name, count in facts["unmapped"].items():
            say(f"not imported: {name} ({counted(count, 'row')})")
        for name in facts["lower_is_better"]:
            say(f"not compared: {name}, of which less is better")
    options = {"config": str(config), "run_id": run_id, "store": store, "output_dir": output_dir}
    try:
        outcome = launch_run(RunOptions.of(options), inline=True, quiet=True)
    except InputError:
        # No run began, so nothing is left of the import.
        shutil.rmtree(config.parent, ignore_errors=True)
        raise
    print_scores(outcome.summary)
    print(f"run {outcome.run_id}")
