"""gage why: the first thing that differs behind each score that moved."""

from typing import TYPE_CHECKING, Annotated

from gage_eval.cli.main import app
from gage_eval.cli.options import AsJson, OutputDir, Store, argument, option
from gage_eval.cli.output import print_json, print_table, say
from gage_eval.cli.places import located, open_run

if TYPE_CHECKING:
    from gage_eval.regression.why import TaskWhy


@app.command()
def why(
    a: Annotated[str, argument("A", "A run.")],
    b: Annotated[str, argument("B", "Another run of the same tasks.")],
    task: Annotated[str | None, option("ID", "Only this task.")] = None,
    metric: Annotated[str | None, option("NAME", "The metric; each task's first by default.")] = None,
    cause: Annotated[str | None, option("NAME", "List the answers of a cause, or all with any.")] = None,
    limit: Annotated[int, option("N", "List at most N answers.", "--limit", "-n", min=0)] = 20,
    store: Store = None,
    output_dir: OutputDir = None,
    json: AsJson = False,
) -> None:
    """Name the first thing that differs behind each score that moved."""
    from gage_eval.base.errors import check_known
    from gage_eval.regression.why import MEANINGS
    from gage_eval.regression.why import why as causes_of

    check_known(cause or "any", ("any", *MEANINGS), "cause")
    locations = located(store, output_dir)
    first, other = open_run(locations, a), open_run(locations, b)
    results = causes_of(first, other, task_id=task, metric=metric)
    if json:
        print_json([result.as_record() for result in results])
        return
    for result in results:
        if cause is None:
            _print_causes(result, locations.command("why", a, b, "--task", result.task_id, "--cause", "any"))
        else:
            _print_flips(result, None if cause == "any" else cause, limit)


def _print_causes(result: "TaskWhy", command: str) -> None:
    from gage_eval.regression.why import MEANINGS

    say(f"{result.task_id} · {result.metric}: {result.sentence}")
    if not result.flips:
        return
    rows = [
        (cause.replace("_", " "), f"{count:,}", *(f"{moved:,}" for moved in result.moved(cause)), MEANINGS[cause])
        for cause, count in result.counts.items()
    ]
    header = ("cause", "flips", "worse", "better", "one-sided", "the first thing that differs")
    print_table(header, rows, right=header[1:5], stack=True)
    for difference in result.also_differing:
        say(f"also different: {difference.kind} {difference.text}")
    for sentence in result.lacking:
        say(sentence)
    # The command is quoted for a shell.
    say(f"see them: {command}")


def _print_flips(result: "TaskWhy", cause: str | None, limit: int) -> None:
    from gage_eval.report.console import counted
    from gage_eval.report.summary import format_value

    flips = result.of_cause(cause)
    say(f"{result.task_id} · {result.metric}: {counted(len(flips), 'flip')}")
    rows = [
        (
            flip.sample_id + (f" ({flip.replicate})" if flip.replicate else ""),
            *map(format_value, (flip.a, flip.b)),
            flip.cause.replace("_", " "),
            flip.detail,
            ", ".join(flip.labels),
        )
        for flip in flips[:limit]
    ]
    if rows:
        print_table(("sample", "before", "now", "cause", "what differs", "also different"), rows, stack=True)
    if len(flips) > len(rows):
        print(f"{len(rows):,} of {len(flips):,} shown; more with -n {len(flips)}")
