"""gage show: all runs, one run, its problems, or one of its samples."""

import sys
from typing import TYPE_CHECKING, Annotated

from gage_eval.base.errors import InputError
from gage_eval.base.stages import STAGES
from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson, OutputDir, Store, To, argument, flag, option
from gage_eval.cli.output import fitted, print_json, print_table, say, shown_location
from gage_eval.cli.places import located, open_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gage_eval.runs.options import Locations
    from gage_eval.runs.results.listing import ListedRun, ShownStage
    from gage_eval.runs.results.reading import RunReader
    from gage_eval.runs.results.stored import StoredRun


@app.command()
def show(
    run_id: Annotated[str | None, argument("RUN", "A run; all runs by default.")] = None,
    sample: Annotated[str | None, option("ID", "One sample: requests, answers and scores.")] = None,
    task: Annotated[str | None, option("ID", "Only this task.")] = None,
    wrong: Annotated[bool, flag("Wrong answers, with the reason.", "--wrong")] = False,
    unparsed: Annotated[bool, flag("Answers that the metric could not read.", "--unparsed")] = False,
    truncated: Annotated[bool, flag("Answers cut at the token limit.", "--truncated")] = False,
    looped: Annotated[bool, flag("Answers that ended in a loop.", "--looped")] = False,
    refused: Annotated[bool, flag("Answers that are refusals.", "--refused")] = False,
    error: Annotated[bool, flag("Requests that ended in an error.", "--error")] = False,
    unscored: Annotated[bool, flag("Answers without a score.", "--unscored")] = False,
    rejects: Annotated[bool, flag("Rejected rows, with the reason.", "--rejects")] = False,
    metric: Annotated[
        str | None, option("NAME", "The metric that decides what is wrong; the first by default.")
    ] = None,
    limit: Annotated[
        int | None,
        option("N", "Number of lines: by default 20 runs, or 10 answers of each task.", "--limit", "-n", min=1),
    ] = None,
    to: To = None,
    store: Store = None,
    output_dir: OutputDir = None,
    json: AsJson = False,
) -> None:
    """Look at runs, at wrong answers, and at single samples."""
    from gage_eval.config.settings import unknown_variables
    from gage_eval.local.launch import report_ended_runs
    from gage_eval.report.console import clean
    from gage_eval.runs.results.listing import run_record
    from gage_eval.runs.results.publication import check_formats, of_run

    flags = {
        "wrong": wrong,
        "unparsed": unparsed,
        "truncated": truncated,
        "looped": looped,
        "refused": refused,
        "error": error,
        "unscored": unscored,
    }
    outcomes = [name for name, wanted in flags.items() if wanted]
    for warning in unknown_variables():
        print(f"note: {clean(warning)}", file=sys.stderr)
    locations = located(store, output_dir)
    check_formats(to or ())
    if to and (rejects or sample is not None or outcomes):
        raise InputError("--to writes scores or the list of runs: leave out the options for rows.")
    if rejects and (sample is not None or outcomes or metric is not None):
        raise InputError("--rejects shows rows that were not asked; leave out the other options for rows.")
    if run_id is None and rejects:
        raise InputError("--rejects needs a run: gage show RUN --rejects.")
    if run_id is None:
        if sample is not None or task is not None or outcomes:
            named = "--sample ID" if sample is not None or not outcomes else f"--{outcomes[0]}"
            raise InputError(f"--sample, --task and --wrong need a run: gage show RUN {named}.")
        list_runs(locations, limit or 20, to or (), json=json)
        return
    if sample is not None and outcomes:
        raise InputError(f"--sample and --{outcomes[0]} exclude each other; leave one out.")
    if task is not None and sample is None and not outcomes and not rejects:
        raise InputError(
            f"--task needs a choice of answers: gage show {run_id} --task {task} --wrong (or --sample ID)."
        )
    if metric is not None and not outcomes:
        raise InputError(f"--metric needs --wrong: gage show {run_id} --wrong --metric {metric}")
    reader = open_run(locations, run_id)
    if to:
        of_run(reader.summary).write(to)
    if rejects:
        _show_rejects(reader, task, limit, json=json)
    elif sample is not None:
        from gage_eval.cli.samples import show_sample

        show_sample(reader, sample, task, json=json)
    elif outcomes:
        from gage_eval.cli.wrong import show_outcomes

        show_outcomes(reader, outcomes, task_id=task, metric=metric, limit=limit or 10, json=json)
    elif json:
        print_json(run_record(reader.stored))
    else:
        _show_run(reader)
    report_ended_runs([reader.stored])


def _show_rejects(reader: "RunReader", task_id: str | None, limit: int | None, *, json: bool) -> None:
    from itertools import islice

    from gage_eval.runs.results.rejects import rejects_of

    rejected = (reject for task in reader.tasks(task_id) for reject in rejects_of(task))
    rows = list(islice(rejected, limit))
    if json:
        print_json(rows)
        return
    for reject in rows:
        position = f"line {reject.line}" if reject.line is not None else f"row {reject.row_index}"
        where = " ".join(filter(None, (reject.file, position, f"({reject.sample_id})" if reject.sample_id else "")))
        say(f"{reject.task_id}  {reject.stage}  {where}: {reject.reason}")
    if not rows:
        print("no row was rejected.")


def list_runs(locations: "Locations", limit: int | None, to: "Sequence[Path]" = (), *, json: bool) -> None:
    """Print the newest runs, one row each, or two on a narrow terminal, and write them to files."""
    from gage_eval.local.launch import report_newest_ended_runs
    from gage_eval.report.console import terminal_width
    from gage_eval.runs.results.listing import listed_runs
    from gage_eval.runs.results.publication import of_list

    runs = listed_runs(locations, limit)
    of_list("Runs", [run.as_record() for run in runs]).write(to)
    width = terminal_width(sys.stdout)
    if json:
        print_json([run.as_record() for run in runs])
    elif not runs:
        print(f"no runs in '{locations.runs}'. Start one: gage run CONFIG, or gage suite demo")
    else:
        table = [_RUN_COLUMNS, *map(_run_cells, runs)]
        columns = [place for place, cells in enumerate(zip(*table, strict=True)) if any(cells[1:])]
        # The model, the name and the score can be cut; the id is needed whole.
        blocks = [columns] if width is None or width >= _WIDE else [columns[:3], columns[3:]]
        parts = [
            fitted([[row[place] for place in block] for row in table], width, right=("n", "time", "tokens", "cost"),
                   cut=("model", "score", "name"), indent=2 * number)
            for number, block in enumerate(blocks)
        ]  # fmt: skip
        for lines in zip(*parts, strict=True):
            print("\n".join(lines))
    report_newest_ended_runs(locations)


_WIDE = 100
_RUN_COLUMNS = ("run", "model", "score", "name", "n", "time", "tokens", "cost", "started")


def _run_cells(run: "ListedRun") -> tuple[str, ...]:
    from gage_eval.report.console import clean, count_text, seconds_text

    return (
        run.run,
        clean(run.model or ""),
        run.score or "–" if run.status == "completed" else run.status,
        clean(run.name or ""),
        "" if run.samples is None else f"{run.samples:,}",
        "" if run.seconds is None else seconds_text(run.seconds),
        "" if run.tokens is None else count_text(run.tokens),
        "" if run.cost is None else f"{run.cost:.4g}",
        "" if run.created is None else f"{run.created:%Y-%m-%d %H:%M}",
    )


def _show_run(run: "RunReader") -> None:
    from gage_eval.report.console import clean, folded, metric_rows, plain_lines, print_scores, terminal_width
    from gage_eval.report.model_run import models_line
    from gage_eval.runs.results.listing import run_remarks, scored_metrics

    stored, record = run.stored, run.stored.record
    width = terminal_width(sys.stdout)
    began = record.created.strftime("%Y-%m-%d %H:%M:%S")
    say(f"{record.title} · run {stored.run_id} · {stored.state} · started {began}")
    if stored.status != "completed" and record.models:
        print(folded(clean(models_line(record.models)), width))
    if stored.status == "completed":
        print_scores(stored.summary, report=shown_location(stored.folder.location("report.html")))
        if stored.stages:
            print()
    elif scores := metric_rows(metric for task_id in run.task_ids for metric in scored_metrics(run, task_id)):
        print("\n".join(plain_lines(scores, width)), end="\n\n")
    _print_stages(stored)
    for sentence in run_remarks(stored):
        print(folded(clean(sentence), width))


def _print_stages(stored: "StoredRun") -> None:
    from gage_eval.runs.results.formatting import of_task
    from gage_eval.runs.results.listing import shown_stages

    several = len(stored.record.tasks) > 1
    rows = []
    for stage in shown_stages(stored):
        # The JSON has all outputs.
        main = STAGES[stage.stage].outputs[0]
        id_ = stage.outputs.get(main)
        row = (stage.stage, stage.state, _progress(stage), f"{main} {id_[:8]}" if id_ else "")
        rows.append((of_task(stage.task_id)[0], *row) if several else row)
    if rows:
        header = ("stage", "state", "result", "artifact")
        print_table(("task", *header) if several else header, rows)


def _progress(stage: "ShownStage") -> str:
    """The number of finished rows, with further counts."""
    from gage_eval.runs.results.formatting import of_task, progress_text, result_text

    if stage.state in ("finished", "cached"):
        parts = [result_text(stage.stage, stage.counts)]
    else:
        done = f"{stage.done:,}/{stage.total:,}" if stage.total else f"{stage.done:,}" if stage.done else ""
        parts = [done, progress_text(stage.figures, moving=stage.state == "running")]
    return " · ".join(filter(None, (*parts, of_task(stage.task_id)[1])))
