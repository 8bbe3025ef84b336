"""report.html: one page that needs nothing else. Everything from data or models is escaped."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from gage_eval.report.console import counted, score_text
from gage_eval.report.shares import remarks, share_text
from gage_eval.report.summary import (
    GroupScore,
    GroupSummary,
    MetricSummary,
    Summary,
    TaskSummary,
    arrow_note,
    format_value,
)

_BAR_WIDTH, _BAR_HEIGHT = 160, 14
# With more tasks than this, a table with links to them comes first.
_FEW_TASKS = 3
_HEADS = ("metric", "score", "95 % interval", "", "n", "truncated", "unparsed", "unscored", "error")

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #5b6474; --line: #d9dee7; --page: #ffffff;
  --bar: #9db7dd; --dot: #1f5fae; --warn: #8a4b00; --warnpage: #fff6e6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa4b5; --line: #333b49;
  --page: #14181f; --bar: #3f5f8d; --dot: #8fbcff; --warn: #ffcf8a; --warnpage: #2b2214; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 78rem; padding: 2rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; overflow-wrap: anywhere; }
p { margin: .25rem 0 0; }
.soft { color: var(--soft); overflow-wrap: anywhere; }
.remarks { margin: 1.5rem 0 0; padding: .75rem 1rem .75rem 2rem; background: var(--warnpage); color: var(--warn);
  border-radius: .4rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
th, td { text-align: right; padding: .45rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 500; color: var(--soft); }
th[scope=row] { color: var(--ink); font-weight: 400; }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal;
  min-width: 14rem; overflow-wrap: break-word; }
a { color: inherit; text-decoration-color: var(--soft); text-underline-offset: .2em; }
details { margin: .5rem 0 0; }
section > details:only-child { margin-top: 2.5rem; }
summary { cursor: pointer; color: var(--soft); overflow-wrap: anywhere; }
svg { display: block; }
.plain { width: auto; }
/* The score has its ±, the bar its scale: what a narrow page can spare goes first. */
@media (max-width: 70rem) { .scores :is(th, td):nth-child(3) { display: none; } }
@media (max-width: 48rem) {
  body { padding: 1.25rem .9rem 3rem; }
  th, td { padding: .4rem .45rem; font-size: .9rem; }
  th:first-child, td:first-child { min-width: 8rem; }
  .scores :is(th, td):nth-child(4) { display: none; }
}
.track { stroke: var(--line); } .bar { fill: var(--bar); } .dot { fill: var(--dot); }
"""


def report_html(summary: Summary, began: datetime | None = None) -> str:
    """The run's page: scores with their intervals drawn, what went wrong, counts and timings.

    Args:
        summary: of the run.
        began: when it began, in UTC.
    """
    title = escape(f"{summary.title} · {summary.run.run_id}")
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        # No script can run and nothing can be fetched, whatever a name in the data holds.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>",
        f"<h1>{escape(summary.title)}</h1>",
        f'<p class="soft">{_head_line(summary, began)}</p>',
        f'<p class="soft">{escape(_legend(summary))}</p>',
        _remarks(summary),
        *(_group(group, summary.label) for group in summary.groups),
        _overview(summary),
        *(_task(task, number, summary.label) for number, task in enumerate(summary.tasks, 1)),
        _timings(summary),
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _head_line(summary: Summary, began: datetime | None) -> str:
    facts = [
        f"run {summary.run.run_id}",
        *([] if began is None else [f"{began:%Y-%m-%d %H:%M} UTC"]),
        counted(summary.sample_count, "sample"),
        f"{counted(summary.run.sent, 'request')} sent",
        f"{summary.run.reused:,} reused",
        f"gage-eval {summary.run.gage_eval_version}",
    ]
    return escape(" · ".join(facts))


def _legend(summary: Summary) -> str:
    note = arrow_note(summary)
    text = "± is half of the 95 % interval; where that is not symmetric, its ends are shown."
    return text if note is None else f"{text} {note}."


def _remarks(summary: Summary) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in remarks(summary))
    return f'<ul class="remarks" aria-label="What to look at">{items}</ul>' if items else ""


def _overview(summary: Summary) -> str:
    """The first metric of each task, with the way to the rest of them, where there are many."""
    if len(summary.tasks) <= _FEW_TASKS:
        return ""
    rows = []
    for number, task in enumerate(summary.tasks, 1):
        link = f'<a href="#task-{number}">{escape(task.task_id)}</a>'
        # The metric is shown below the task's name, so that the columns are those of the other tables.
        first = [_metric_row(metric, summary.label) for metric in task.metrics[:1]]
        rows += [[f'{link}<br><span class="soft">{name}</span>', *cells] for name, *cells in first] or [[link]]
    return (
        f"<section>\n<h2>Tasks</h2>\n{_table('The first metric of each task', ('task', *_HEADS[1:]), rows)}\n</section>"
    )


def _task(task: TaskSummary, number: int, label: str) -> str:
    facts = [f"dataset {task.dataset_id}", counted(task.sample_count, "sample")]
    if task.model:
        facts.insert(1, f"model {task.model}")
    facts += [f"{count:,} {status}" for status, count in task.responses.items() if count and status != "ok"]
    if task.rejects:
        facts.append(f"{task.rejects:,} rejected")
    if task.tokens.total is not None:
        facts.append(f"{task.tokens.total:,} tokens")
    description = f"<p>{escape(task.description)}</p>" if task.description else ""
    rows = [_metric_row(metric, label) for metric in task.metrics]
    body = _table(f"Scores of {task.task_id}", _HEADS, rows) if rows else "<p>No metric.</p>"
    body += _slices(task, label) + _rejects(task)
    return (
        f'<section id="task-{number}">\n<h2>{escape(task.task_id)}</h2>\n{description}'
        f'<p class="soft">{escape(" · ".join(facts))}</p>\n{body}\n</section>'
    )


def _slices(task: TaskSummary, label: str) -> str:
    """A folded table for each number and slice field."""
    tables: dict[tuple[str, str], list[list[str]]] = {}
    for metric in task.slices:
        rows = tables.setdefault((metric.marked_name, metric.slice_field or ""), [])
        rows.append(
            [escape("(none)" if metric.slice_value is None else metric.slice_value), *_metric_row(metric, label)[1:]]
        )
    return "".join(
        f"\n<details><summary>{escape(name)} by {escape(field)}</summary>\n"
        f"{_table(f'{name} by {field}', (field, *_HEADS[1:]), rows)}</details>"
        for (name, field), rows in tables.items()
    )


def _rejects(task: TaskSummary) -> str:
    """The first rejected rows, folded."""
    if not task.first_rejects:
        return ""
    items = "".join(f"<li>{escape(reason)}</li>" for reason in task.first_rejects)
    rest = task.rejects - len(task.first_rejects)
    more = f"<p>{rest:,} more: gage show RUN --rejects</p>" if rest > 0 else ""
    return f"\n<details><summary>{task.rejects:,} rejected</summary>\n<ul>{items}</ul>{more}</details>"


def _group(group: GroupSummary, label: str) -> str:
    made_of = "" if group.by is None else f" by {group.by} of"
    member = "task" if group.by is None else "slice"
    facts = (
        f"{group.members_text}{made_of}: {', '.join(group.tasks)}. "
        f"Micro: every sample counts the same. Macro: every {member}."
    )
    description = f"<p>{escape(group.description)}</p>" if group.description else ""
    rows = [
        [
            escape(f"{metric.marked_name}, {kind}"),
            f"<strong>{escape(score_text(score))}</strong>{label}",
            escape(_interval(score)),
            _bar(score),
            f"{metric.n:,}",
        ]
        for metric in group.metrics
        for kind, score in (("micro", metric.micro), ("macro", metric.macro))
    ]
    caption = f"Scores of {group.group_id}"
    heads = ("metric", "score", "95 % interval", "", "n")
    body = _table(caption, heads, rows) if rows else "<p>The tasks have no number in common.</p>"
    return (
        f"<section>\n<h2>{escape(group.group_id)}</h2>\n{description}"
        f'<p class="soft">{escape(facts)}</p>\n{body}\n</section>'
    )


def _interval(score: MetricSummary | GroupScore) -> str:
    if score.ci_low is None or score.ci_high is None:
        return "–"
    return f"{format_value(score.ci_low)} … {format_value(score.ci_high)}"


def _metric_row(metric: MetricSummary, label: str) -> list[str]:
    return [
        escape(metric.marked_name),
        f"<strong>{escape(score_text(metric))}</strong>{label}",
        escape(_interval(metric)),
        _bar(metric),
        f"{metric.n:,}",
        share_text(metric.truncated, metric.all_rows).replace("<", "&lt;"),
        share_text(metric.unparsed, metric.all_rows).replace("<", "&lt;"),
        share_text(metric.unscored, metric.all_rows).replace("<", "&lt;"),
        f"{metric.error:,}",
    ]


def _bar(metric: MetricSummary | GroupScore) -> str:
    """The interval on the metric's scale, the score as a dot; nothing where the scale has no ends.

    A metric that declares no bounds is drawn on 0..1 while its score is in there.
    """
    value, low, high = metric.value, metric.ci_low, metric.ci_high
    first, last = _ends(metric)
    if value is None or not first <= value <= last:
        return ""
    low, high = (value if low is None else max(low, first)), (value if high is None else min(high, last))
    left, right, middle = (_BAR_WIDTH * (x - first) / (last - first) for x in (low, high, value))
    y = _BAR_HEIGHT / 2
    label = escape(f"{format_value(value)} within {format_value(low)} to {format_value(high)}", quote=True)
    return (
        f'<svg width="{_BAR_WIDTH}" height="{_BAR_HEIGHT}" viewBox="-4 0 {_BAR_WIDTH + 8} {_BAR_HEIGHT}" '
        f'role="img" aria-label="{label}"><line class="track" x1="0" x2="{_BAR_WIDTH}" y1="{y}" y2="{y}"/>'
        f'<rect class="bar" x="{left:.1f}" y="{y - 3}" width="{max(right - left, 1):.1f}" height="6" rx="3"/>'
        f'<circle class="dot" cx="{middle:.1f}" cy="{y}" r="3.5"/></svg>'
    )


def _ends(metric: MetricSummary | GroupScore) -> tuple[float, float]:
    if isinstance(metric, GroupScore) or (metric.bound_low is None and metric.bound_high is None):
        return 0.0, 1.0
    if metric.bound_low is None or metric.bound_high is None:
        return math.inf, math.inf
    return metric.bound_low, metric.bound_high


def _timings(summary: Summary) -> str:
    timings = summary.run.timings.model_dump()
    rows = [[escape(name), escape(format_value(value))] for name, value in timings.items() if value is not None]
    table = _table("Seconds and rates of this run", ("name", "value"), rows, kind="plain")
    return f"<section>\n<details><summary>Timings</summary>\n{table}</details>\n</section>"


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, kind: str = "scores") -> str:
    """A table of cells that are HTML already; the first of each row is its heading."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in heads)
    body = "\n".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>' for first, *rest in rows
    )
    return (
        f'<div class="wide"><table class="{kind}">\n<caption>{escape(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )
