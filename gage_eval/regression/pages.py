"""Nights and triages as Markdown, for the pages of the Prefect UI."""

from base64 import b64encode
from collections.abc import Iterator

from gage_eval.regression.gating import TaskGate
from gage_eval.regression.nightly import Night, NightCell
from gage_eval.regression.triage import Card, Outcome, Triage, TriagedTask
from gage_eval.regression.why import MEANINGS, TaskWhy
from gage_eval.report.console import counted
from gage_eval.report.markdown import bullets, code, link, page, plain, table
from gage_eval.report.messages import trimmed
from gage_eval.report.summary import format_value, p_text, signed_text
from gage_eval.report.trend_chart import trend_chart
from gage_eval.runs.names import slug
from gage_eval.runs.results.reading import RunReader
from gage_eval.stats.sequential import promise

_LONGEST = 600
_OUTCOMES: dict[Outcome | None, str] = {
    "confirmed": "**Confirmed**: the loss is there again.",
    "gone again": "**Gone again**: chance does not explain the loss of this run. It has passed, or it is spread thinly "
    "over all samples.",
    "chance": "**Chance**: such samples score as much without a change.",
    None: "These are too few to tell a change from chance.",
}
_MOST_DIFFERENCES = 15
_MOST_NAMED = 5


def night_page(night: Night) -> str:
    """What a night found, cell by cell."""
    problems = [f"{cell.name}: {cell.problem}" for cell in night.cells if cell.problem]
    anchors = [note for cell in night.cells for note in _of_suite(cell)]
    notes = [
        f"{cell.name}, {task.comparison.task_id}: {note}"
        for cell in night.cells
        if cell.gated is not None
        for task in cell.gated.tasks
        for note in _notes(task)
    ]
    return page(
        f"## {plain(night.nightly.name)} {night.label}: {night.verdict}",
        f"**{plain(night.sentence)}**",
        "\n".join(line for cell in night.cells for line in _verdicts(cell)),
        bullets([*(endpoint.sentence for endpoint in night.endpoints), *problems, *anchors, *notes]),
        f"{_fired(night)} {plain(promise(night.nightly.gate))}",
        "\n".join(_run(cell, cell.run) for cell in night.cells if cell.run is not None),
    )


def trend_page(night: Night) -> str:
    """The trends of a night's cells as pictures."""
    title = f"## {plain(night.nightly.name)}: scores per night with 95 % intervals"
    return page(title, *(trend for cell in night.cells for trend in _trends(cell)))


def cell_page(cell: NightCell) -> str:
    """The verdict on a cell of a night, with the trends of its tasks."""
    result = cell.gated
    assert result is not None
    where = f"baseline {code(result.entry.name)}, entry {result.entry.number}"
    notes = [f"{task.comparison.task_id}: {note}" for task in result.tasks for note in _notes(task)]
    return page(
        f"## {result.verdict.capitalize()} against {where}",
        "\n".join(_verdicts(cell)),
        bullets([*_of_suite(cell), *notes]),
        *_trends(cell),
    )


def triage_key(suite: str) -> str:
    """The key of the artifact that has the page of a suite's triage."""
    return f"{slug(suite)}-triage"


def triage_page(triage: Triage) -> str:
    """What the triage of a regression found."""
    gated = triage.gated
    return page(
        f"## Triage of {code(gated.run_id)}",
        f"{plain(gated.entry.suite)} against baseline {code(gated.entry.name)}, entry {gated.entry.number}: "
        f"**{gated.verdict}**.",
        "No task has regressed." if not triage.tasks else "",
        *(_lost(task, triage.repeats) for task in triage.tasks),
        *map(_moved, triage.moved),
        _differences(triage),
        *(_samples(task) for task in triage.tasks),
        "\n".join(
            (
                "### Next",
                "",
                f"- What changed, and is it chance: `gage compare {gated.entry.runs[0].run_id} {gated.run_id}`",
                f"- What came first behind each score: `gage why {gated.entry.runs[0].run_id} {gated.run_id}`",
                f"- The samples that got worse: `gage view {gated.run_id} --against {gated.entry.runs[0].run_id}`",
                f"- One sample with everything sent: `gage show {gated.run_id} --sample ID`",
                "- If the change is meant and the loss accepted: "
                f"`gage baseline promote {gated.entry.name} {gated.run_id}`",
            )
        ),
    )


def _of_suite(cell: NightCell) -> Iterator[str]:
    yield from (f"{cell.name}: {remark}" for remark in (() if cell.gated is None else cell.gated.remarks))
    if cell.anchor is not None and cell.anchor.verdict != cell.verdict:
        yield f"{cell.name}: against the anchor of the baseline the verdict is {cell.anchor.verdict}."


def _trends(cell: NightCell) -> Iterator[str]:
    """The picture of each task's scores per night, with a title."""
    for task in cell.gated.tasks if cell.gated is not None else ():
        number = (task.comparison.task_id, task.comparison.measure.name)
        own = [point for point in cell.trend if (point.task_id, point.metric) == number]
        title = f"{cell.name}: {task.comparison.task_id} {task.comparison.measure.name}"
        if svg := trend_chart(own, task.decision.evidence.baseline, title):
            yield f"### {plain(title)}\n\n![{plain(title)}]({_as_url(svg)})"


def _verdicts(cell: NightCell) -> Iterator[str]:
    """A line for each verdict. The Prefect UI cuts wide tables off."""
    name = plain(cell.name)
    if cell.gated is None:
        yield f"- **{cell.verdict}**: {name}"
        return
    for task in cell.gated.tasks:
        numbers, changed = task.decision.evidence, task.comparison
        alarm = "rings" if task.alarm.rings else "withheld" if task.alarm.withheld else "quiet"
        p = p_text(task.decision.p) if numbers.test != "none" else "–"
        values = f"{format_value(numbers.baseline)} → {format_value(numbers.current)}"
        change = task.change
        if task.changes is None:
            change += f", at least {signed_text(numbers.bounds and numbers.bounds[0])}"
        what = plain(f"{changed.task_id} {changed.measure.name}")
        tier = f" ({task.tier})" if task.tier else ""
        yield f"- **{task.decision.verdict}**{tier}, alarm {alarm}: {name}, {what} {values} ({change}, p {plain(p)})"


def _run(cell: NightCell, run: RunReader) -> str:
    """A line that leads to the run of a cell, and to its triage once that has ended."""
    flow_run = run.stored.record.prefect
    url = None if flow_run is None else flow_run.url
    line = f"- {plain(cell.name)}: run {link(run.run_id, url)}"
    if cell.verdict != "regressed" or cell.gated is None:
        return line
    site = None if url is None else url.rpartition("/runs/")[0]
    key = triage_key(cell.gated.entry.suite)
    return f"{line}, then its triage {link(key, site and f'{site}/artifacts/key/{key}')}"


def _notes(task: TaskGate) -> Iterator[str]:
    yield from task.remarks
    if task.alarm.rings or task.alarm.withheld is not None or task.decision.verdict == "regressed":
        yield task.alarm_remark


def _fired(night: Night) -> str:
    verdicts = sum(cell.verdict == "regressed" for cell in night.cells)
    alarms = sum(cell.rings for cell in night.cells)
    return (
        f"The nightly verdict is regressed for {counted(verdicts, 'cell')}; the sequential alarm rings for "
        f"{counted(alarms, 'cell')}."
    )


def _lost(task: TriagedTask, repeats: int) -> str:
    verdict, changed = task.gated.decision, task.gated.comparison
    evidence = verdict.evidence
    slices = [x.text for x in task.slices]
    return page(
        f"### {plain(changed.task_id)}",
        f"{plain(changed.measure.name)} fell from {format_value(evidence.baseline)} to "
        f"{format_value(evidence.current)} ({signed_text(evidence.difference)}, p {p_text(verdict.p_worse)}, "
        f"n {evidence.n:,}): {len(changed.worse):,} samples became worse, {len(changed.better):,} better.",
        _asked_again(task, repeats),
        f"Slices that lost more than the rest:\n\n{bullets(slices)}" if slices else "",
    ).rstrip("\n")


def _samples(task: TriagedTask) -> str:
    if not task.cards:
        return ""
    title = f"### Samples of {plain(task.gated.comparison.task_id)} that lost most"
    return page(title, *map(_card, task.cards)).rstrip("\n")


def _asked_again(task: TriagedTask, repeats: int) -> str:
    if task.problem is not None:
        return f"The samples that became worse could not be asked again: {plain(task.problem)}"
    again = task.again
    if again is None or not again.n:
        return "None of the samples that became worse has a new score."
    said = (
        f"{counted(again.n, 'sample')} asked again, {counted(repeats, 'time')} each: {format_value(again.current)}, "
        f"where the runs so far predict {format_value(again.baseline)} of the same model (p {p_text(again.p_worse)})."
    )
    return f"{said} {_OUTCOMES[task.outcome]}"


def _moved(task: TaskWhy) -> str:
    """The causes of a task, each with its first samples."""
    rows = [
        (
            cause.replace("_", " "),
            f"{count:,}",
            MEANINGS[cause],
            ", ".join(flip.sample_id for flip in task.of_cause(cause)[:_MOST_NAMED]),
        )
        for cause, count in task.counts.items()
    ]
    return page(
        f"### Why {plain(task.task_id)} moved: {plain(task.sentence)}",
        table(("cause", "flips", "the first thing that differs", "samples"), rows) if rows else "",
        bullets(task.lacking),
    ).rstrip("\n")


def _differences(triage: Triage) -> str:
    if triage.problem is not None:
        return f"### What differs\n\nNot known: {plain(triage.problem)}"
    if not triage.differences:
        return "### What differs\n\nNothing that is recorded. A model behind an endpoint may have changed there."
    rows = [(x.kind, x.path, *x.shown) for x in triage.differences[:_MOST_DIFFERENCES]]
    more = len(triage.differences) - len(rows)
    return page(
        "### What differs, the likeliest cause first",
        table(("what", "value", "baseline", "now"), rows),
        f"And {more:,} more: `gage diff` lists them." if more else "",
    ).rstrip("\n")


def _card(card: Card) -> str:
    now, before = card.now, card.before
    rows = [
        ("question", _short(now.question)),
        ("expected", _short(now.expected)),
        ("answer before", _short(before.answer if before else None)),
        ("answer now", _short(now.answer)),
        ("read out now", _short(now.extracted)),
        ("why", _short(now.explanation or now.failure)),
    ]
    return f"#### {plain(now.sample_id)}\n\n{bullets(f'{name}: {text}' for name, text in rows if text != '–')}"


def _short(text: str | None) -> str:
    return trimmed(text, _LONGEST) if text else "–"


def _as_url(svg: str) -> str:
    # Outside of HTML, SVG must name its namespace.
    svg = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
