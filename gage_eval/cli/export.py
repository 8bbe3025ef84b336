"""gage export."""

from pathlib import Path
from typing import Annotated

from gage_eval.base.errors import InputError, closest
from gage_eval.cli.main import app
from gage_eval.cli.options import OutputDir, Store, argument, option
from gage_eval.cli.output import shown_location
from gage_eval.cli.places import located, open_run


@app.command("export")
def export_(
    run_ids: Annotated[list[str], argument("RUN…", "A run that is scored; several for site.")],
    format_: Annotated[
        list[str] | None,
        option(
            "FORMAT",
            "jsonl (default), csv, parquet, lm-eval, inspect, atif, every-eval-ever, eval-results, otel, "
            "per_sample_json, canonical_answers, media (what models made), or site: static pages of one "
            "or several runs. May be repeated.",
            "--format",
        ),
    ] = None,
    task: Annotated[str | None, option("ID", "Only this task.")] = None,
    to: Annotated[Path | None, option("DIR", "The folder to write to; the run's own by default.")] = None,
    store: Store = None,
    output_dir: OutputDir = None,
) -> None:
    """Write a run's samples, responses and scores to a file."""
    from gage_eval.regression.site import run_cells_of, title_of, write_site
    from gage_eval.runs.results.export import KINDS, LocalTarget, Target, export

    formats, known = list(dict.fromkeys(format_ or ["jsonl"])), [*KINDS, "site"]
    for name in formats:
        if name not in known:
            raise InputError(f"--format '{name}' is unknown. Formats: {', '.join(known)}.{closest(name, known)}")
    if formats == ["site"]:
        if to is None or task is not None:
            raise InputError("--format site writes whole runs to a folder: name it with --to DIR, without --task.")
        runs = [open_run(located(store, output_dir), name) for name in dict.fromkeys(run_ids)]
        print(to.absolute() / write_site(title_of(runs), run_cells_of(runs), LocalTarget.made(to)))
        return
    if len(run_ids) > 1 or "site" in formats:
        raise InputError("only --format site takes several runs, and it takes no other format.")
    run_id = run_ids[0]
    reader = open_run(located(store, output_dir), run_id)
    folder = reader.stored.folder
    target: Target = folder if to is None else LocalTarget.made(to)
    tasks = reader.tasks(task)
    if "canonical_answers" in formats and not any(scored.cards for scored in tasks):
        raise InputError(
            f"no task of run {run_id} has an answer type, so there are no canonical answers: set answer_type in the "
            "task, or choose another --format."
        )
    for name in formats:
        written = export(tasks, name, target, reader.stored.record)
        print(shown_location(folder.location(written) if to is None else str(to.absolute() / written)))
