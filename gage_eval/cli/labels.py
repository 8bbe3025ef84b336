"""gage labels suggest."""

from pathlib import Path
from typing import Annotated

import typer

from gage_eval.cli.main import app
from gage_eval.cli.options import OutputDir, Store

labels_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Draw answers that people label, to see how far a judge is right."
)
app.add_typer(labels_app, name="labels")


@labels_app.callback()
def _labels() -> None:
    pass


@labels_app.command()
def suggest(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run whose answers are labelled.")],
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="How many answers.")] = 100,
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", help="The task; needed if the run has several.")
    ] = None,
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="The file of labels to write.", show_default=True)
    ] = Path("labels.jsonl"),
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Equal seeds draw equal answers.")] = 1234,
    store: Store = None,
    output_dir: OutputDir = None,
) -> None:
    """Draw answers at random into a file, where people fill in 'label'. It shows neither the model nor the verdict."""
    from gage_eval.base.canonical import canonical_text
    from gage_eval.base.errors import InputError
    from gage_eval.report.console import clean, counted
    from gage_eval.runs.options import Locations
    from gage_eval.runs.results.label_draw import drawn_answers
    from gage_eval.runs.results.reading import RunReader

    reader = RunReader.open(Locations.at(store, output_dir), run)
    of_task = reader.task(task)
    rows = drawn_answers(of_task, reader.plan.task(of_task.task_id).auto_eval.metrics, n, seed=seed)
    try:
        with to.open("x", encoding="utf-8") as file:
            file.writelines(f"{canonical_text(row)}\n" for row in rows)
    except FileExistsError as error:
        raise InputError(f"{to} is there already, perhaps with labels: name another file with --to.") from error
    except OSError as error:
        raise InputError(f"{to} cannot be written: {error.strerror}.") from error
    print(clean(f"{to}: {counted(len(rows), 'answer')} to label, in random order; label them from the first one on."))
    name = clean(of_task.task_id)
    print(f"Then put labels: {{path: {to}}} into task '{name}' and run the config again: no model is asked.")
