"""gage gate and gage baseline: has a model become worse?"""

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gage_eval.base.errors import GATE_FAILED, GATE_UNDECIDED, GageError, InputError
from gage_eval.base.files import write_text
from gage_eval.base.stages import ASKING
from gage_eval.cli.main import app, command_group
from gage_eval.cli.options import Allow, AsJson, OutputDir, Store, To, argument, option
from gage_eval.cli.output import print_json, print_table, say, shown_location
from gage_eval.cli.places import located, open_run

if TYPE_CHECKING:
    from gage_eval.regression.baselines import BaselineEntry, Baselines
    from gage_eval.regression.exact import Ask
    from gage_eval.regression.gating import GateResult, TaskGate
    from gage_eval.regression.policy import GatePolicy
    from gage_eval.report.trend_chart import TrendPoint
    from gage_eval.runs.options import RunOptions
    from gage_eval.runs.results.reading import RunReader

_LEAST_BAR, _WIDEST_BAR = 13, 43

baseline_app = command_group("baseline", "Set and show the runs that later runs are measured against.")

Name = Annotated[str, argument("NAME", "The baseline's name.")]
Run = Annotated[str, argument("RUN", "A run that is scored.")]
Suite = Annotated[
    str | None, option("NAME", "The suite or config; needed if several have a baseline of this name.", "--suite")
]
Repeats = Annotated[
    int | None,
    option(
        "R",
        "Ask everything this many times in all; five show the noise between runs, three cost power.",
        "--repeats",
        min=1,
    ),
]

Policy = Annotated[
    Path | None,
    option(
        "FILE",
        "YAML file that says which metrics are critical, supporting and advisory; the baseline's by default.",
        "--policy",
    ),
]


@app.command()
def gate(
    run_id: Run,
    baseline: Annotated[str, option("NAME", "Measure against this baseline.")],
    tolerance: Annotated[float | None, option("X", "The largest loss that is accepted; 0.02 by default.")] = None,
    alpha: Annotated[float | None, option("P", "Level of the one-sided test; 0.05 by default.")] = None,
    mode: Annotated[
        str | None,
        option("MODE", "significance (default); tolerance: compare without a test; exact: no answer may change."),
    ] = None,
    metric: Annotated[str | None, option("NAME", "The metric that decides; each task's first by default.")] = None,
    allow: Allow = None,
    policy: Policy = None,
    fail_on: Annotated[
        str, option("VERDICT", "regressed (default), or inconclusive: exit with 4 where the gate cannot decide.")
    ] = "regressed",
    junit: Annotated[Path | None, option("FILE", "Write the verdict as JUnit XML to this file.")] = None,
    markdown: Annotated[Path | None, option("FILE", "Write the verdict for a pull request to this file.")] = None,
    store: Store = None,
    output_dir: OutputDir = None,
    json: AsJson = False,
) -> None:
    """Say whether a run is worse than a baseline; if so, exit with 3."""
    from pydantic import ValidationError

    from gage_eval.regression import gate_files
    from gage_eval.regression.gate_report import write_report
    from gage_eval.regression.gating import gate_with_anchor
    from gage_eval.regression.trend import trend_before
    from gage_eval.runs.folder import REPORT_FILE
    from gage_eval.runs.sinks import add_event
    from gage_eval.stats.gate_rule import GateRule

    if fail_on not in ("regressed", "inconclusive"):
        raise InputError(f"--fail-on '{fail_on}' is unknown: regressed or inconclusive.")
    if policy is not None and metric is not None:
        raise InputError("--metric and --policy both say which metrics decide: give one of them.")
    options = {"tolerance": tolerance, "alpha": alpha, "mode": mode}
    try:
        rule = GateRule.model_validate({name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        problem = error.errors()[0]
        raise InputError(f"--{problem['loc'][0]}: {problem['msg']}.") from error
    try:
        run = open_run(located(store, output_dir), run_id)
        declared = _policy(policy)
        gated, anchor = gate_with_anchor(
            run, baseline, rule, metric=metric, policy=declared, allowed=allow or (), ask=_asker(run, quiet=json)
        )
    except GageError as error:
        _write(junit, gate_files.refused_junit(run_id, baseline, str(error)))
        _write(markdown, gate_files.refused_markdown(run_id, baseline, str(error)))
        raise
    _write(junit, gate_files.gate_junit(gated, fail_undecided=fail_on == "inconclusive" or gated.lacks_evidence))
    _write(markdown, gate_files.gate_markdown(gated, anchor))
    add_event(run.stored.folder, gated.event())
    reported = write_report(run, gated, anchor, trend_before(run, gated.entry, gated.metrics))
    if json:
        print_json({**gated.as_record(), "anchor": anchor and anchor.as_record()})
    else:
        _print(gated, anchor, run.stored.record.label)
        if reported:
            print(f"report  {shown_location(run.stored.folder.location(REPORT_FILE))}")
    if gated.verdict == "regressed":
        raise typer.Exit(GATE_FAILED)
    if gated.verdict == fail_on or gated.lacks_evidence:
        raise typer.Exit(GATE_UNDECIDED)


@baseline_app.command("set")
def set_(
    name: Name,
    run_id: Run,
    repeats: Repeats = None,
    policy: Policy = None,
    store: Store = None,
    output_dir: OutputDir = None,
) -> None:
    """Make a run a new baseline."""
    declared = _policy(policy)
    run, baselines = _to_add(run_id, store, output_dir)
    baselines.check_new(run.stored.record.name, name, run_id)
    runs = [run, *_again(run, (repeats or 1) - 1)]
    _tell(baselines.add(name, runs, promote=False, policy=declared), baselines)


@baseline_app.command()
def promote(
    name: Name,
    run_id: Run,
    repeats: Repeats = None,
    policy: Policy = None,
    store: Store = None,
    output_dir: OutputDir = None,
) -> None:
    """Move a baseline to a run: it is asked again first, because a lucky night makes a bad baseline."""
    declared = _policy(policy)
    run, baselines = _to_add(run_id, store, output_dir)
    before = baselines.latest(run.stored.record.name, name)
    runs = _again(run, repeats or len(before.runs))
    _tell(baselines.add(name, runs, promote=True, policy=declared), baselines)


@baseline_app.command("list")
def list_(store: Store = None, output_dir: OutputDir = None, json: AsJson = False) -> None:
    """List all baselines."""
    baselines = _opened(store, output_dir)
    entries = [baselines.latest(suite, name) for suite, name in baselines.names()]
    if json:
        print_json([_record(entry) for entry in entries])
    elif entries:
        rows = [
            (x.suite, x.name, str(x.number), f"{x.created:%Y-%m-%d %H:%M}", x.by, str(len(x.runs)), x.runs[0].run_id)
            for x in entries
        ]
        header = ("suite", "baseline", "entry", "set", "by", "repeats", "run")
        print_table(header, rows, right=("entry", "repeats"), stack=True)
    else:
        print("no baseline yet. To make one: gage baseline set NAME RUN")


@baseline_app.command()
def history(
    name: Name, suite: Suite = None, store: Store = None, output_dir: OutputDir = None, json: AsJson = False
) -> None:
    """Show every state that a baseline had; the first one is its anchor."""
    baselines = _opened(store, output_dir)
    entries = baselines.history(baselines.suite_of(name, suite), name)
    if json:
        print_json([_record(entry) for entry in entries])
        return
    rows = [
        (str(x.number), x.why, f"{x.created:%Y-%m-%d %H:%M}", x.by, ", ".join(run.run_id for run in x.runs))
        for x in entries
    ]
    print_table(("entry", "why", "when", "by", "runs"), rows, right=("entry",))


@baseline_app.command("show")
def show_(
    name: Name, suite: Suite = None, store: Store = None, output_dir: OutputDir = None, json: AsJson = False
) -> None:
    """Show what a baseline holds."""
    baselines = _opened(store, output_dir)
    entry = baselines.latest(baselines.suite_of(name, suite), name)
    scores = baselines.scores(entry)
    if json:
        print_json({**_record(entry), "scores": scores})
        return
    say(f"{entry.suite} · baseline {entry.name} · entry {entry.number} · set {entry.created:%Y-%m-%d %H:%M}")
    rows = [
        (score.run_id, score.task_id, score.metric, "–" if score.value is None else f"{score.value:.3f}")
        for score in scores
    ]
    print_table(("run", "task", "metric", "score"), rows, right=("score",), stack=True)
    _print_floors(entry, baselines)


@baseline_app.command()
def trend(
    name: Name,
    suite: Suite = None,
    to: To = None,
    store: Store = None,
    output_dir: OutputDir = None,
    json: AsJson = False,
) -> None:
    """Show the scores of all runs of the baseline's suite over time."""
    from gage_eval.regression.trend import trend as nights
    from gage_eval.report.console import clean
    from gage_eval.report.figures import trend_figure
    from gage_eval.runs.results.publication import of_list

    baselines = _opened(store, output_dir)
    entry = baselines.latest(baselines.suite_of(name, suite), name)
    points = nights(located(store, output_dir), entry)
    records = [point.as_record() for point in points]
    title = f"{entry.suite}: scores of its runs with 95 % intervals"
    of_list(title, records, lambda: trend_figure(title, points)).write(to or ())
    if json:
        print_json(records)
        return
    for number, ((task_id, metric), own) in enumerate(groupby(points, lambda point: (point.task_id, point.metric))):
        print(f"{'' if number == 0 else chr(10)}{clean(f'{task_id} {metric}')}")
        _print_trend(list(own))


def _print_trend(points: "list[TrendPoint]") -> None:
    """The runs of one task, with a bar for each where the terminal is wide enough."""
    from gage_eval.report.console import column_widths, terminal_width

    cells = [
        (
            f"{point.created:%Y-%m-%d}",
            point.run_id,
            "–" if point.value is None else f"{point.value:.3f}",
            "–" if point.low is None or point.high is None else f"{point.low:.3f} … {point.high:.3f}",
        )
        for point in points
    ]
    header = ("when", "run", "score", "95 % interval")
    taken = sum(width + 2 for width in column_widths([header, *cells]))
    room = (terminal_width(sys.stdout) or taken + _WIDEST_BAR) - taken
    if room < _LEAST_BAR:
        print_table(header, cells, right=("score",))
    else:
        bars = [point.bar(min(room, _WIDEST_BAR)) for point in points]
        rows = [(*row, bar) for row, bar in zip(cells, bars, strict=True)]
        print_table((*header, ""), rows, right=("score",))


def _policy(file: Path | None) -> "GatePolicy | None":
    from gage_eval.regression.policy import GatePolicy

    return None if file is None else GatePolicy.read(file)


def _write(file: Path | None, text: str) -> None:
    if file is not None:
        write_text(file, text)


def _opened(store: str | None, output_dir: str | None, *, read_only: bool = True) -> "Baselines":
    from gage_eval.regression.baselines import Baselines
    from gage_eval.store import Store as Opened

    return Baselines(Opened.open(located(store, output_dir).store, read_only=read_only))


def _to_add(run_id: str, store: str | None, output_dir: str | None) -> "tuple[RunReader, Baselines]":
    """A run that can be a baseline, and the baselines it may be added to."""
    from gage_eval.regression.baselines import check_usable

    run = open_run(located(store, output_dir), run_id)
    check_usable(run)
    return run, _opened(store, output_dir, read_only=False)


def _again(run: "RunReader", times: int) -> "list[RunReader]":
    """Repeat a run several times with new requests. Each repetition is a separate run."""
    from gage_eval.engine.host import SharedEngines
    from gage_eval.local.launch import launch_run
    from gage_eval.runs.planned import options_before

    repetitions = []
    with SharedEngines() as host:
        for number in range(1, times + 1):
            options = options_before(run.stored).model_copy(
                update={"run_id": None, "refresh": ASKING, "resume": False, "only_errors": False}
            )
            print(f"repeat {number} of {times} of run {run.run_id}")
            repetitions.append(open_run(run.stored.folder.locations, launch_run(options, host=host).run_id))
    return repetitions


def _asker(run: "RunReader", *, quiet: bool) -> "Ask":
    """Carries out runs that ask for some rows of a run again."""
    from gage_eval.local.launch import launch_run
    from gage_eval.runs.results.reading import RunReader

    def ask(options: "RunOptions") -> RunReader:
        if not quiet:
            print(f"{len(options.sample_ids)} changed rows of run {run.run_id} are asked again")
        return open_run(run.stored.folder.locations, launch_run(options, quiet=quiet).run_id)

    return ask


def _record(entry: "BaselineEntry") -> dict[str, Any]:
    record = entry.model_dump(mode="json", include={"suite", "name", "number", "created", "by", "why"})
    return {**record, "runs": [run.run_id for run in entry.runs], "tasks": list(entry.runs[0].tasks)}


def _tell(entry: "BaselineEntry", baselines: "Baselines") -> None:
    from gage_eval.report.console import counted
    from gage_eval.stats.evidence import REPEATS_ADVISED

    runs = ", ".join(run.run_id for run in entry.runs)
    repeats = counted(len(entry.runs), "repeat")
    say(f"{entry.suite} · baseline {entry.name} · entry {entry.number} · {repeats}: {runs}")
    _print_floors(entry, baselines)
    if len(entry.runs) < (least := REPEATS_ADVISED):
        print(f"Fewer than {least} repeats hide the noise between runs or cost power: --repeats {least} or more.")


def _print_floors(entry: "BaselineEntry", baselines: "Baselines") -> None:
    """Say how many rows flip between the repeats."""
    for task_id, floor in baselines.noise_floors(entry).items():
        say(f"{task_id}: {floor.text}")


def _print(gated: "GateResult", anchor: "GateResult | None", label: str) -> None:
    from gage_eval.report.console import clean, folded, terminal_width
    from gage_eval.report.summary import signed_text

    entry = gated.entry
    say(f"{gated.verdict.upper()}  run {gated.run_id}{label} against baseline {entry.name}, entry {entry.number}")
    bounds = [task.decision.evidence.bounds for task in gated.tasks]
    rows = [task.cells(signed_text(ends and ends[0])) for task, ends in zip(gated.tasks, bounds, strict=True)]
    header = ("task", "metric", "verdict", "baseline", "run", "better by", "at least", "p", "n")
    print_table(header, rows, right=header[3:], stack=True)
    for note in gated.notes(anchor, _notes):
        print(folded(clean(note), terminal_width(sys.stdout), 2))


def _notes(task: "TaskGate") -> Iterator[str]:
    yield from task.remarks
    if (detectable := task.decision.detectable) is not None:
        yield f"a loss of {detectable:.3f} or more is found with a chance of 80 % (tolerated: {task.rule.tolerance:g})"
    yield from task.alarm_remarks
    if task.decision.verdict == "regressed" and task.comparison.worse:
        yield f"worse: {', '.join(task.comparison.worse[:5])}"
