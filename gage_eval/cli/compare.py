"""gage compare and gage diff: two runs side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gage_eval.base.errors import InputError
from gage_eval.base.files import write_text
from gage_eval.cli.main import app
from gage_eval.cli.options import Allow, AsJson, OutputDir, Store, To, argument, flag, option
from gage_eval.cli.output import print_json, print_table, say
from gage_eval.cli.places import located, open_run

if TYPE_CHECKING:
    from gage_eval.regression.compare import TaskComparisonResult
    from gage_eval.regression.score_files import ScoreFields
    from gage_eval.runs.results.reading import RunReader

_LONGEST_PIECE = 60


@app.command()
def compare(
    runs: Annotated[list[str], argument("A B…", "A run, and those to compare with it; files with --id and --score.")],
    task: Annotated[str | None, option("ID", "Only this task.")] = None,
    metric: Annotated[str | None, option("NAME", "The metric that is compared; each task's first by default.")] = None,
    allow: Allow = None,
    limit: Annotated[int, option("N", "Name at most N samples and slices.", "--limit", "-n", min=0)] = 5,
    html: Annotated[
        Path | None, option("FILE", "Write the last run's report with the comparison to this file.")
    ] = None,
    id_: Annotated[
        str | None, option("FIELD", "Compare files by this field: jsonl, json, csv, parquet or xlsx.", "--id")
    ] = None,
    score: Annotated[str | None, option("FIELD", "The field of the files that holds the number.")] = None,
    cluster: Annotated[
        str | None, option("FIELD", "The field of the files that holds the cluster of a sample.")
    ] = None,
    lower_is_better: Annotated[
        bool, flag("A smaller number of the files is a better one.", "--lower-is-better")
    ] = False,
    scores: Annotated[
        bool, flag("List the answers that two metrics of one run, or of A and B, disagree on.", "--scores")
    ] = False,
    to: To = None,
    store: Store = None,
    output_dir: OutputDir = None,
    json: AsJson = False,
) -> None:
    """Compare runs or files of scores: what changed, and is it chance?"""
    from gage_eval.regression.compare import compare as compared
    from gage_eval.regression.report_adapter import publication
    from gage_eval.regression.score_files import ScoreFields
    from gage_eval.runs.results.publication import check_formats

    check_formats(to or ())
    if scores:
        if len(runs) > 2 or id_ or score or cluster or lower_is_better or allow or html or to:
            raise InputError("--scores takes one or two runs, and of the options --task, --metric, --limit and --json.")
        _print_scored_twice(
            [open_run(located(store, output_dir), name) for name in runs], task, metric, limit, json=json
        )
        return
    if len(runs) < 2:
        raise InputError(f"compare needs two runs or more: gage compare {runs[0]} RUN")
    if id_ is not None or score is not None:
        if id_ is None or score is None:
            raise InputError("--id and --score belong together: the fields of the files that hold sample and number.")
        if task or metric or allow or html or to:
            raise InputError("files have no tasks, metrics and reports: leave out the options that name them.")
        _compare_files(runs, ScoreFields(id_, score, cluster), limit, higher=not lower_is_better, json=json)
        return
    if cluster is not None or lower_is_better:
        raise InputError("--cluster and --lower-is-better are for files: name their fields with --id and --score.")
    locations = located(store, output_dir)
    first, *others = [open_run(locations, name) for name in runs]
    records, results = [], []
    for other in others:
        comparisons = compared(first, other, task_id=task, metric=metric, allowed=allow or ())
        results.append((other.run_id, comparisons))
        if json:
            records.append(
                {"baseline": first.run_id, "current": other.run_id, "tasks": [own.as_record() for own in comparisons]}
            )
        else:
            _print(first, other, comparisons, limit)
    publication(first.run_id, results).write(to or ())
    if html is not None:
        _write_html(html, first, others[-1], comparisons)
    if json:
        print_json(records)


@app.command()
def diff(
    a: Annotated[str, argument("A", "A run.")],
    b: Annotated[str, argument("B", "Another run.")],
    task: Annotated[str | None, option("ID", "Only this task.")] = None,
    store: Store = None,
    output_dir: OutputDir = None,
    json: AsJson = False,
) -> None:
    """Show in which recorded values two runs differ."""
    from gage_eval.regression.run_diff import run_differences

    locations = located(store, output_dir)
    first, other = open_run(locations, a), open_run(locations, b)
    differences = run_differences(first, other, task_id=task)
    if json:
        print_json([{"task_id": task_id, **vars(x)} for task_id, x in differences])
        return
    if not differences:
        print(f"{first.run_id} and {other.run_id} do not differ in anything that is recorded.")
        return
    rows = [(task_id, x.kind, x.path, *x.shown) for task_id, x in differences]
    print_table(("task", "what", "value", first.run_id, other.run_id), rows, stack=True)


def _compare_files(files: list[str], fields: "ScoreFields", limit: int, *, higher: bool, json: bool) -> None:
    from gage_eval.regression.report_adapter import evidence_cells
    from gage_eval.regression.score_files import compare_files

    first, *others = files
    results = [compare_files(first, other, fields, higher_is_better=higher) for other in others]
    if json:
        print_json([result.as_record() for result in results])
        return
    rows, said = [], []
    for result in results:
        numbers, (better, worse) = result.evidence, result.pairs.changed
        rows.append((result.current, *evidence_cells(numbers, numbers.p, len(better), len(worse))))
        named = f"{result.current}: " if len(results) > 1 else ""
        said += [f"{named}{result.note}"] if result.note else []
        said += [f"{named}{text}" for text in _changed([*map(str, better)], [*map(str, worse)], limit)]
    header = ("file", first, "its score", "better by", "95 % interval", "p", "n", "changed")
    say(f"{fields.score}, paired by {fields.sample_id}")
    print_table(header, rows, right=("n", header[1], header[2], "better by"), stack=True)
    for sentence in said:
        say(sentence)


def _print_scored_twice(
    runs: "list[RunReader]", task_id: str | None, metric: str | None, limit: int, *, json: bool
) -> None:
    from gage_eval.regression.scored_twice import scored_twice
    from gage_eval.report.console import counted
    from gage_eval.report.summary import format_value

    results = scored_twice(runs[0], runs[-1], task_id=task_id, metric=metric)
    if json:
        print_json([result.as_record(limit) for result in results])
        return
    for result in results:
        first, second = (measure.name for measure in result.measures)
        if first == second:
            first, second = f"{first} of {runs[0].run_id}", f"{second} of {runs[-1].run_id}"
        differing = len(result.disagreements)
        said = f"{first} and {second} disagree on {differing:,} of {counted(result.answers, 'answer')}"
        say(f"{result.task.task_id}: {said}")
        rows = [
            (
                disagreement.sample_id + (f" ({disagreement.replicate})" if disagreement.replicate else ""),
                *map(format_value, (disagreement.theirs, disagreement.ours)),
                *map(_piece, (answer.expected, answer.answer, answer.extracted)),
            )
            for disagreement, answer in result.explained(limit)
        ]
        if rows:
            header = ("sample", first, second, "expected", "answer", f"read by {second}")
            print_table(header, rows, right=header[1:3], stack=True)
        if differing > len(rows):
            print(f"{len(rows):,} of {differing:,} shown; more with -n {differing}")


def _piece(text: str | None) -> str:
    """The end of a text, where an answer usually is, on one line."""
    shown = " ".join((text or "–").split())
    return shown if len(shown) <= _LONGEST_PIECE else f"…{shown[1 - _LONGEST_PIECE :]}"


def _changed(better: list[str], worse: list[str], limit: int) -> list[str]:
    from gage_eval.report.shares import first_names

    moved = (("better", better), ("worse", worse))
    return [f"{word}: {first_names(ids, limit)}" for word, ids in moved if ids and limit]


def _write_html(file: Path, baseline: "RunReader", run: "RunReader", comparisons: "list[TaskComparisonResult]") -> None:
    from gage_eval.regression.report_adapter import comparison
    from gage_eval.regression.why import why
    from gage_eval.runs.results.report_details import stored_report

    moved = [
        result
        for compared in comparisons
        for result in why(baseline, run, task_id=compared.task.task_id, metric=compared.task.measure.name)
    ]
    write_text(file, stored_report(run, comparison(baseline.run_id, comparisons, moved)))


def _print(first: "RunReader", other: "RunReader", comparisons: "list[TaskComparisonResult]", limit: int) -> None:
    from gage_eval.regression.report_adapter import comparison_cells

    before, after = (f"{run.run_id}{run.stored.record.label}" for run in (first, other))
    say(f"{before} → {after}, paired by sample id")
    header = ("task", "metric", before, after, "better by", "95 % interval", "p", "n", "changed")
    rows = map(comparison_cells, comparisons)
    print_table(header, rows, right=("n", header[2], header[3], "better by"), stack=True)
    for compared in comparisons:
        for sentence in _remarks(compared, limit):
            say(f"{compared.task.task_id}: {sentence}" if len(comparisons) > 1 else sentence)
    if any(compared.task.worse or compared.task.better for compared in comparisons):
        say(f"see them: gage view {other.run_id} --against {first.run_id}")
    if len(comparisons) > 1:
        print(f"p is adjusted for {len(comparisons)} comparisons (Holm).")


def _remarks(compared: "TaskComparisonResult", limit: int) -> list[str]:
    said = [f"NOT THE SAME {kind}, as allowed" for kind in compared.allowed]
    said += compared.notes
    said += [own.text for own in (compared.corrected, compared.controlled) if own is not None]
    if compared.detectable is not None:
        said.append(f"a loss of {compared.detectable:.3f} or more would be found with a chance of 80 %")
    slices = [x.text for x in compared.task.slices[:limit] if x.difference]
    if slices:
        said.append(f"slices that moved most: {', '.join(slices)}")
    return said + _changed(compared.task.better, compared.task.worse, limit)
