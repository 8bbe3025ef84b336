"""gage labels suggest."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gage_eval.base.canonical import canonical_text
from gage_eval.base.errors import InputError
from gage_eval.base.files import write_new
from gage_eval.cli.main import command_group
from gage_eval.cli.options import OutputDir, Store, argument, option
from gage_eval.cli.output import say
from gage_eval.cli.places import located, open_run

if TYPE_CHECKING:
    from gage_eval.runs.results.reading import RunReader

labels_app = command_group("labels", "Draw answers that people label, to see how far a judge is right.")


@labels_app.command()
def suggest(
    run: Annotated[str, argument("RUN", "The run whose answers are labelled.")],
    other: Annotated[str | None, argument("[OTHER]", "A second run: labels then decide between the two.")] = None,
    n: Annotated[int, option("N", "How many answers, of two runs how many of each.", "-n", min=1)] = 100,
    task: Annotated[str | None, option("ID", "The task; needed if the run has several.")] = None,
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="The file of labels to write.", show_default=True)
    ] = Path("labels.jsonl"),
    seed: Annotated[int, option("N", "Equal seeds draw equal answers.")] = 1234,
    store: Store = None,
    output_dir: OutputDir = None,
) -> None:
    """Draw answers at random into a file, where people fill in 'label'. It shows neither the model nor the verdict."""
    from gage_eval.report.console import clean, counted
    from gage_eval.runs.results.label_draw import drawn_answers

    locations = located(store, output_dir)
    reader = open_run(locations, run)
    if other is not None:
        _suggest_pairs(reader, open_run(locations, other), task, n, to, seed)
        return
    of_task = reader.task(task)
    rows = drawn_answers(of_task, reader.plan.task(of_task.task_id).auto_eval.metrics, n, seed=seed)
    _write(to, rows)
    say(f"{to}: {counted(len(rows), 'answer')} to label, in random order; label them from the first one on.")
    say(f"In the browser, with keys: gage view --labels {to}")
    name, place = clean(of_task.task_id), clean(canonical_text(str(to)))
    print(f"Then put labels: {{path: {place}}} into task '{name}' and run the config again: no model is asked.")


def _suggest_pairs(reader: "RunReader", other: "RunReader", task_id: str | None, n: int, to: Path, seed: int) -> None:
    """Draw samples for both runs, and say how many labels would decide between them."""
    from gage_eval.regression.compare import compare
    from gage_eval.report.console import clean, counted
    from gage_eval.runs.results.label_draw import drawn_pairs

    name = reader.task(task_id).task_id
    bound = reader.plan.task(name).auto_eval.metrics
    both = drawn_pairs([reader.task(name), other.task(name)], bound, n, seed=seed)
    judged = next(metric.metric_id for metric in bound if "judgments" in metric.inputs)
    (compared,) = compare(reader, other, task_id=name, metric=judged)
    files = [to.parent / f"{to.stem}-{number}{to.suffix}" for number in (1, 2)]
    for file in files:
        _check_new(file)
    for file, rows in zip(files, both, strict=True):
        _write(file, rows)
    say(f"{files[0]}: {counted(len(both[0]), 'answer')} of {reader.run_id}, in random order.")
    say(f"{files[1]}: {other.run_id}'s answers to the same samples. Label both from the first one on.")
    say(f"In the browser, with keys: gage view --labels {files[0]} --labels {files[1]}")
    print(f"Then put labels: {{path: FILE}} into task '{clean(name)}' and run both configs again: no model is asked.")
    if compared.corrected is None:
        then = f"gage compare {reader.run_id} {other.run_id} --metric {judged}"
        say(f"{then} then says how many more labels would decide.")
    else:
        say(compared.corrected.text)


def _check_new(to: Path) -> None:
    if to.exists():
        raise InputError(f"{to} is there already, perhaps with labels: name another file with --to.")


def _write(to: Path, rows: "Sequence[Mapping[str, Any]]") -> None:
    _check_new(to)
    write_new(to, "".join(f"{canonical_text(row)}\n" for row in rows))
