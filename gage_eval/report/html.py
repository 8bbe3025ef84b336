"""report.html: one page that needs nothing else and stays below 2 MB. Everything from data or models is escaped."""

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import orjson

from gage_eval.base.stages import STAGES, Stage
from gage_eval.report import charts
from gage_eval.report.charts import Svg
from gage_eval.report.console import closing_facts, counted
from gage_eval.report.details import ComparedTask, RunDetails, TaskDetails
from gage_eval.report.messages import pretty, trimmed
from gage_eval.report.model_run import ModelRun, model_title
from gage_eval.report.pages import STYLE_FILE, VERDICT_TONES, change_chip, kind_shares, page_environment
from gage_eval.report.sample_view import KINDS
from gage_eval.report.shares import remarks, share_text
from gage_eval.report.summary import MetricSummary, Summary, TaskSummary, arrow_note, signed_text
from gage_eval.report.trend_chart import trend_chart

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_BYTES = 2_000_000
"""The page is never larger."""

# What each part of the page may take of it. The parts besides these are small.
_REMARKS, _OVERVIEW, _GROUPS, _COMPARED, _CONFIG, _DIGESTS = 60_000, 300_000, 150_000, 150_000, 100_000, 90_000
_TRENDS = 90_000
_TASKS = 1_000_000
# Of a task's share, what its tables may take; samples get the rest.
_SCORES, _SLICES, _REASONS = 0.25, 0.15, 0.1
_SMALLEST_SECTION = 6_000
_LEAST_TREND = 2
_WORST_SLICES, _MOST_SLICES = 12, 500
# Cards of a kind that are not folded.
_OPEN_CARDS = 3
_LEGEND = "± is half of the 95 % interval; where that is not symmetric, its ends are shown."


class Pieces(Svg):
    """Pieces of the page that fit into their share, and a sentence about the others."""

    left_out = Svg()


@dataclass(frozen=True)
class _Slice:
    name: str
    metric: MetricSummary
    change: str
    deficit: float


@dataclass(frozen=True)
class MatrixCell:
    """One run's score on a task: its text, the run's page, and the change against the first run."""

    text: str
    href: str = ""
    change: ComparedTask | None = None


@dataclass(frozen=True)
class MatrixLine:
    """A task's scores; empty names for a line without."""

    name: str
    metric: str
    n: str
    cells: Sequence[MatrixCell]


def matrix_html(
    title: str,
    models: Sequence[str],
    rows: Sequence[MatrixLine],
    *,
    note: str,
    has_changes: bool,
    problems: Sequence[str],
    figure: str,
) -> str:
    """The page of several runs: a table that links to their pages, and a figure.

    Args:
        title: of the page.
        models: the columns.
        rows: one per task.
        note: what is in brackets.
        has_changes: whether runs are compared with the first one of their row.
        problems: why runs are not compared.
        figure: SVG that is safe as it is.
    """
    page: str = (
        _environment()
        .get_template("matrix.html")
        .render(
            **_styled(), title=title, models=models, rows=rows, note=note, has_changes=has_changes, problems=problems,
            figure=Svg(figure),
        )
    )  # fmt: skip
    return page


def report_html(summary: Summary, details: RunDetails | None = None, *, home: str = "") -> str:
    """The run's page: scores with their intervals drawn, what failed and why, samples, how it was run.

    Args:
        summary: of the run.
        details: samples, charts, config, versions and the comparison.
        home: address of the page that links to this one; empty for none.

    Returns:
        At most `MAX_BYTES` in UTF-8. What does not fit is left out, with a sentence that says so.
    """
    return _Page(summary, details or RunDetails(), home).text()


class _Page:
    def __init__(self, summary: Summary, details: RunDetails, home: str) -> None:
        self._summary, self._details, self._home = summary, details, home
        self._environment = _environment()
        self._pieces: Any = self._environment.get_template("pieces.html").module
        self._compared = {task.task_id: task for task in details.comparison.tasks} if details.comparison else {}

    def text(self) -> str:
        summary, details = self._summary, self._details
        tasks, with_section = self._tasks()
        compared = list(self._compared.values())
        interval = f"{details.comparison.level:.0%} interval".replace("%", " %") if details.comparison else ""
        page: str = self._environment.get_template("page.html").render(
            summary=summary,
            details=details,
            **_styled(),
            home=self._home,
            facts=self._facts(),
            subtitle=_subtitle(summary),
            chips=self._chips(),
            remarks=_fitting(self._pieces.item, remarks(summary), _REMARKS, "remarks"),
            overview=_fitting(
                partial(self._overview_row, with_section), list(enumerate(summary.tasks, 1)), _OVERVIEW, "tasks"
            ),
            legend=self._legend(),
            groups=_fitting(self._group, summary.groups, _GROUPS, "groups"),
            comparison=details.comparison,
            interval=interval,
            compared=_fitting(partial(self._pieces.compared_row, interval=interval), compared, _COMPARED / 2, "tasks"),
            compared_tasks=self._compared_tasks(compared),
            tasks=tasks,
            stages=_stage_shares(summary),
            stages_text=_stages_text(summary),
            sampling=_bounded(_sampling(details), _CONFIG // 5),
            config=_bounded(details.config_text, _CONFIG * 3 // 5),
            options=_bounded(pretty(details.options) if details.options else "", _CONFIG // 5),
            packages=list(details.packages.items())[:60],
            digests=_fitting(self._pieces.digest_row, details.digests, _DIGESTS, "stages"),
            timings=[item for item in list(summary.run.timings.model_dump().items())[:60] if item[1] is not None],
        )
        return page

    def _compared_tasks(self, compared: Sequence[ComparedTask]) -> Pieces:
        """What moved in each task, with its trend. Those that regressed get the room for trends first."""
        room, trends = float(_TRENDS), dict[str, Svg]()
        for task in sorted(compared, key=lambda task: task.verdict != "regressed"):
            trends[task.task_id] = _trend(task)
            if (size := len(trends[task.task_id].encode())) > room:
                trends[task.task_id] = Svg()
            else:
                room -= size
        items = [(task, trends[task.task_id]) for task in compared]
        return _fitting(self._pieces.compared_task, items, _COMPARED / 2 + _TRENDS - room, "tasks")

    def _facts(self) -> str:
        summary, began = self._summary, self._details.began
        facts = [
            f"run {summary.run.run_id}",
            *([] if began is None else [f"{began:%Y-%m-%d %H:%M} UTC"]),
            *closing_facts(summary),
            counted(summary.sample_count, "sample"),
            f"{counted(summary.run.sent, 'request')} sent",
            f"gage-eval {summary.run.gage_eval_version}",
        ]
        return " · ".join(facts)

    def _chips(self) -> Sequence[tuple[str, str]]:
        """The verdicts, then the largest shares of failures."""
        verdicts = [task.verdict for task in self._compared.values() if task.verdict]
        chips = [
            (VERDICT_TONES.get(word, "plain"), f"{verdicts.count(word)} {word}") for word in dict.fromkeys(verdicts)
        ]
        cards = [card for task in self._summary.tasks if (card := task.score_card) and card.pass_threshold is not None]
        passed = [card for card in cards if card.passed]
        if cards:
            chips.append(("good" if len(passed) == len(cards) else "warn", f"{len(passed)} of {len(cards)} passed"))
        shares = []
        for task in self._summary.tasks:
            for metric in task.metrics[:1]:
                shares += [
                    (count / metric.all_rows, f"{task.task_id}: {share_text(count, metric.all_rows)} {name}")
                    for name in ("error", "unparsed", "truncated", "refused")
                    if metric.all_rows and (count := getattr(metric, name))
                ]
        return chips + [("warn", text) for _, text in sorted(shares, key=lambda share: -share[0])[:4]]

    def _legend(self) -> str:
        note = arrow_note(self._summary)
        return _LEGEND if note is None else f"{_LEGEND} {note}."

    def _overview_row(self, with_section: int, number: int, task: TaskSummary) -> str:
        link = f"task-{number}" if number <= with_section else None
        compared = self._compared.get(task.task_id)
        change = None if self._details.comparison is None else "–" if compared is None else change_chip(compared)
        metric = task.metrics[0] if task.metrics else None
        shares = _shares(task, self._details.tasks.get(task.task_id))
        row: str = self._pieces.overview_row(task, metric, link, self._summary.label, change, shares)
        return row

    def _group(self, group: Any) -> str:
        rows = _fitting(
            partial(self._pieces.group_row, label=self._summary.label), group.metrics, _GROUPS / 2, "numbers"
        )
        return f"<section>{self._pieces.group_table(group, rows)}{rows.left_out}</section>"

    def _tasks(self) -> tuple[Svg, int]:
        """The tasks' sections, and how many tasks have one."""
        tasks, left = self._summary.tasks, float(_TASKS)
        shown = min(len(tasks), int(left) // _SMALLEST_SECTION)
        sections: list[str] = []
        for number, task in enumerate(tasks[:shown], 1):
            section = self._task(task, number, left / (shown - number + 1))
            if (size := len(section.encode())) > left:
                break
            sections.append(section)
            left -= size
        rest = len(tasks) - len(sections)
        note = f'<p class="soft">{rest:,} more tasks have no section here. See gage show RUN.</p>' if rest else ""
        return Svg("\n".join(sections) + note), len(sections)

    def _task(self, task: TaskSummary, number: int, share: float) -> str:
        """A task's section within its share of bytes."""
        details = self._details.tasks.get(task.task_id)
        label, pieces = self._summary.label, self._pieces
        context = {
            "anchor": f"task-{number}",
            "task": task,
            "facts": _task_facts(task, self._summary.models),
            "details": details,
            "scores": _fitting(partial(pieces.score_row, label=label), task.metrics, share * _SCORES, "numbers"),
            "slices": _fitting(pieces.slice_row, _worst_slices(task), share * _SLICES, "of these slices"),
            "all_slices": _fitting(pieces.slice_row, _all_slices(task), share * _SLICES, "slices"),
            "reasons": _fitting(pieces.reason_row, details.reasons if details else (), share * _REASONS, "reasons"),
            "rejects": _fitting(pieces.item, task.first_rejects, share * _REASONS, "rejected rows"),
        }
        template = self._environment.get_template("task.html")
        size = len(template.render(context, samples="", samples_note="").encode())
        samples, note = self._samples(details, number, share - size - 300)
        return template.render(context, samples=samples, samples_note=note)

    def _samples(self, details: TaskDetails | None, number: int, room: float) -> tuple[Svg, str]:
        """Sample cards: one of each kind in turn while they fit."""
        kinds = details.kinds if details else ()
        cards: dict[str, list[str]] = {group.kind: [] for group in kinds}
        room -= 400 * len(kinds)
        wanted = [
            (group, place) for place in range(max((len(group.cards) for group in kinds), default=0)) for group in kinds
        ]
        left_out = 0
        for group, place in wanted:
            if place < len(group.cards):
                card = self._pieces.card(group.cards[place].trimmed(), KINDS)
                if (size := len(card.encode())) <= room:
                    cards[group.kind].append(card)
                    room -= size
                else:
                    left_out += 1
        parts = []
        for group in kinds:
            if cards[group.kind]:
                head = {"kind": group.kind, "count": group.count, "anchor": f"task-{number}-{group.kind}"}
                first, more = cards[group.kind][:_OPEN_CARDS], cards[group.kind][_OPEN_CARDS:]
                parts += [self._pieces.kind_head(head, len(cards[group.kind]), KINDS), *first]
                parts += [self._pieces.more_cards(more)] if more else []
        note = f"{counted(left_out, 'more sample')} would make this page too large. See gage show RUN --wrong."
        return Svg("\n".join(parts)), note if left_out else ""


def _fitting(render: Callable[..., str], items: Sequence[Any], limit: float, noun: str) -> Pieces:
    """The first items, rendered, as many as fit into a number of bytes. The others are not rendered."""
    kept: list[str] = []
    for item in items:
        piece = render(*item) if isinstance(item, tuple) else render(item)
        limit -= len(piece.encode()) + 1
        if limit < 0:
            break
        kept.append(str(piece))
    pieces = Pieces("\n".join(kept))
    if left_out := len(items) - len(kept):
        pieces.left_out = Svg(f'<p class="soft small">{left_out:,} more {noun} are in summary.json.</p>')
    return pieces


def _bounded(text: str, limit: int) -> str:
    """A text that takes at most that many bytes on the page."""
    from markupsafe import escape

    shown = trimmed(text, limit)
    while (size := len(escape(shown).encode())) > limit:
        shown = trimmed(text, max(len(shown) * limit // size - 60, 0))
    return shown


def _subtitle(summary: Summary) -> str:
    model = model_title(summary.models)
    tasks = counted(len(summary.tasks), "task")
    return f"{model} on {tasks}" if model else tasks


def _task_facts(task: TaskSummary, models: Sequence[ModelRun]) -> str:
    facts = [f"dataset {task.dataset_id}", counted(task.sample_count, "sample")]
    if model := model_title(models, task.task_id):
        facts.insert(1, f"model {model}")
    facts += [f"{count:,} {status}" for status, count in task.responses.items() if count and status != "ok"]
    if task.rejects:
        facts.append(f"{task.rejects:,} rejected")
    if task.tokens.total is not None:
        facts.append(f"{task.tokens.total:,} tokens")
    if task.score_card is not None and task.score_card.pass_threshold is not None:
        facts.append("passed" if task.score_card.passed else "not passed")
    return " · ".join(facts)


def _shares(task: TaskSummary, details: TaskDetails | None) -> list[tuple[str, str, float]]:
    """Shares of right, wrong and failed answers; each answer is in one share only."""
    if details is None or not details.answers:
        return []
    return kind_shares({group.kind: group.count for group in details.kinds})


def _shares_text(shares: Sequence[tuple[str, str, float]]) -> str:
    return " · ".join(f"{name} {amount:,.0f}" for name, _, amount in shares if amount)


def _worst_slices(task: TaskSummary) -> list[_Slice]:
    """The slices of the first number that take most from the task's score: points below it, times n."""
    first = task.metrics[0] if task.metrics else None
    if first is None or first.value is None or first.higher_is_better is None:
        return []
    sign = -1.0 if first.higher_is_better is False else 1.0
    mine = [metric for metric in task.slices if metric.key == first.key]
    rows = [_slice_of(metric, first.value, sign) for metric in mine]
    worst = sorted(rows, key=lambda row: (-row.deficit, row.name))
    return [row for row in worst if row.deficit > 0][:_WORST_SLICES]


def _all_slices(task: TaskSummary) -> list[tuple[_Slice, str]]:
    """The slices of all numbers, each with the name of its number."""
    wholes = {metric.key: metric.value for metric in task.metrics}
    return [(_slice_of(metric, wholes.get(metric.key)), metric.marked_name) for metric in task.slices[:_MOST_SLICES]]


def _slice_of(metric: MetricSummary, whole: float | None, sign: float = 1.0) -> _Slice:
    """A slice with its distance from the task's score."""
    change = None if metric.value is None or whole is None else metric.value - whole
    return _Slice(metric.slice_name or "", metric, signed_text(change), -sign * (change or 0.0) * metric.n)


def _problems(metric: MetricSummary) -> str:
    names = ("truncated", "refused", "unparsed", "unscored")
    problems = [f"{share_text(n, metric.all_rows)} {name}" for name in names if (n := getattr(metric, name))]
    if metric.error:
        problems.append(f"{metric.error:,} error")
    return " · ".join(problems)


def _trend(task: ComparedTask) -> Svg:
    """The picture of a task's trend; nothing where the run is alone."""
    if len(task.trend) < _LEAST_TREND:
        return Svg()
    title = f"{task.task_id}: {task.metric} of {counted(len(task.trend), 'run')}, the newest at the right"
    return Svg(trend_chart(task.trend, task.baseline, title))


def _stage_seconds(summary: Summary) -> list[tuple[Stage, float]]:
    timings = summary.run.timings.model_dump()
    by_stage = [(stage, timings.get(f"{stage}_total_s")) for stage in STAGES]
    return [(stage, seconds) for stage, seconds in by_stage if seconds]


def _stage_shares(summary: Summary) -> list[tuple[str, str, float]]:
    return [(stage, STAGES[stage].tone, seconds) for stage, seconds in _stage_seconds(summary)]


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _stages_text(summary: Summary) -> str:
    timings, cached = summary.run.timings, summary.run.cached_stages
    parts = [f"{stage} {seconds:.3g} s" for stage, seconds in _stage_seconds(summary) if stage not in cached]
    if timings.throughput_inference_samples_per_s is not None:
        parts.append(f"{_rate(timings.throughput_inference_samples_per_s)} samples/s in infer")
    if cached:
        parts.append(f"cached: {', '.join(cached)}")
    if summary.run.reused:
        parts.append(f"{summary.run.reused:,} responses reused")
    return " · ".join(parts)


def _sampling(details: RunDetails) -> str:
    """The parameters of requests by task; once where all tasks have the same."""
    by_task = {name: dict(task.sampling) for name, task in details.tasks.items() if task.sampling}
    different = list({orjson.dumps(sampling, default=str): sampling for sampling in by_task.values()}.values())
    return "" if not by_task else pretty(different[0] if len(different) == 1 else by_task)


@cache
def _styled() -> dict[str, Svg]:
    """The stylesheet, and its hash for the page's policy."""
    style = STYLE_FILE.read_text(encoding="utf-8")
    return {
        "style": Svg(style),
        "style_hash": Svg(base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()),
    }


@cache
def _environment() -> "Environment":
    return page_environment(STYLE_FILE.parent, bars=charts.bars, problems=_problems, shares_text=_shares_text)
