"""report.html: one page that needs nothing else and stays below 2 MB. Everything from data or models is escaped."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from gage_eval.base.stages import STAGES
from gage_eval.report.charts import Svg
from gage_eval.report.console import count_text, counted, score_text
from gage_eval.report.details import ComparedTask, RunDetails, SliceScore, TaskDetails
from gage_eval.report.messages import Part, pretty, trimmed
from gage_eval.report.model_run import model_title
from gage_eval.report.pages import STYLE_FILE, VERDICT_TONES, page_environment
from gage_eval.report.run_view import RunView, TaskView, run_facts, task_facts, worst_slices
from gage_eval.report.sample_view import SampleView
from gage_eval.report.shares import remarks, share_text
from gage_eval.report.summary import Summary, TaskSummary, arrow_note
from gage_eval.report.trend_chart import trend_chart

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_BYTES = 2_000_000
"""The page is never larger."""

_LEAST_TREND = 2
# About the bytes of a card and of a row, and of all of them that the first try renders.
_CARD_BYTES, _ROW_BYTES, _TRIED_BYTES = 6_000, 1_000, 8_000_000
# Of each task, where there is room for everything.
_METRICS, _SLICES = 200, 500
# Of all media in the page, as data URLs: beyond it, cards name them.
_MEDIA_BYTES = 1_200_000
_LEGEND = "± is half of the 95 % interval; where that is not symmetric, its ends are shown."


@dataclass(frozen=True)
class Room:
    """How much of what the page shows at most: whatever a run holds, a smaller share makes a smaller page."""

    share: float = 1.0

    def of(self, most: int) -> int:
        """How many of something, of which a page with room for everything has ``most``."""
        return int(most * self.share)


@dataclass(frozen=True)
class MatrixCell:
    """One run's score on a task: its text, the run's page, and the change against the first run."""

    text: str
    href: str = ""
    change: ComparedTask | None = None


def matrix_html(
    title: str,
    models: Sequence[str],
    rows: Sequence[tuple[str, str, str, Sequence[MatrixCell]]],
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
        rows: one per task: its name, its metric and the number of samples, empty where there is none, and its cells.
        note: what is in brackets.
        has_changes: whether runs are compared with the first one of their row.
        problems: why runs are not compared.
        figure: SVG that is safe as it is.
    """
    return _rendered(
        "matrix.html", title=title, models=models, rows=rows, note=note, has_changes=has_changes, problems=problems,
        figure=Svg(figure),
    )  # fmt: skip


def report_html(summary: Summary, details: RunDetails | None = None, *, home: str = "") -> str:
    """The run's page: scores with their intervals drawn, what failed and why, samples, how it was run.

    Args:
        summary: of the run.
        details: samples, charts, config, versions and the comparison.
        home: address of the page that links to this one; empty for none.

    Returns:
        At most `MAX_BYTES` in UTF-8. What does not fit is left out, with a sentence that says so.
    """
    details = details or RunDetails()
    cards = sum(len(group.cards) for task in details.tasks.values() for group in task.kinds)
    rows = sum(min(len(task.metrics), _METRICS) + min(len(task.slices), _SLICES) for task in summary.tasks)
    share = min(1.0, _TRIED_BYTES / max(cards * _CARD_BYTES + rows * _ROW_BYTES, 1))
    while True:
        page = _page(summary, details, home, Room(share))
        if (size := len(page.encode())) <= MAX_BYTES:
            return page
        share *= min(0.7, MAX_BYTES / size)


@dataclass(frozen=True)
class _Anchors:
    """The links of the page: to the sample cards of a kind."""

    by_kind: Mapping[tuple[str, str], str]
    by_sample: Mapping[tuple[str, str], str]

    def answers(self, task_id: str, *, q: str = "", metric: str = "", against: str = "") -> str:
        return self.by_kind.get((task_id, q), "")

    def sample(self, task_id: str, sample_id: str) -> str:
        return self.by_sample.get((task_id, sample_id), "")


def _page(summary: Summary, details: RunDetails, home: str, room: Room) -> str:
    """The page with as much as there is room for."""
    comparison = details.comparison
    compared = {task.task_id: task for task in comparison.tasks} if comparison else {}
    shown = summary.tasks[: room.of(160)]
    media = _MediaRoom(room.of(_MEDIA_BYTES))
    tasks = [
        _task(task, summary, details.tasks.get(task.task_id), room, media) for task in summary.tasks[: room.of(600)]
    ]
    anchors = {(task.task_id, ""): f"#task-{number}" for number, task in enumerate(shown, 1)}
    samples: dict[tuple[str, str], str] = {}
    for number, task in enumerate(tasks[: len(shown)], 1):
        own = {f"status:{group.kind}": f"#task-{number}-{group.kind}" for group in task.details.kinds if group.cards}
        anchors |= {(task.task_id, q): anchor for q, anchor in own.items()}
        for group in task.details.kinds:
            for place, card in enumerate(group.cards, 1):
                samples.setdefault((task.task_id, card.sample_id), f"#task-{number}-{group.kind}-{place}")
    view = RunView(
        [
            ("run", summary.run.run_id),
            *run_facts(summary.models, summary, commit=details.commit, probes=details.probes),
        ],
        remarks(summary),
        summary.groups,
        tasks,
        _Anchors(anchors, samples),
        summary.label,
    )
    first = sorted(compared.values(), key=lambda task: task.verdict != "regressed")
    return _rendered(
        "page.html",
        view=view,
        summary=summary,
        details=details,
        room=room,
        most_slices=room.of(_SLICES),
        home=home,
        samples=counted(summary.sample_count, "sample"),
        subtitle=_subtitle(summary),
        chips=_chips(summary, list(compared.values())),
        sections=len(shown),
        legend=" ".join(filter(None, (_LEGEND, arrow_note(summary)))),
        comparison=comparison,
        interval=f"{comparison.level:.0%} interval".replace("%", " %") if comparison else "",
        compared=compared,
        regressed_first=first[: room.of(200)],
        trends={task.task_id: _trend(task) for task in first[: room.of(40)]},
        stages=[(stage, STAGES[stage].tone, seconds) for stage, seconds in summary.run.timings.stage_seconds.items()],
        stages_text=_stages_text(summary),
        sampling=trimmed(_sampling(details), room.of(20_000)),
        config=trimmed(details.config_text, room.of(60_000)),
        options=trimmed(pretty(details.options) if details.options else "", room.of(20_000)),
        timings=[item for item in list(summary.run.timings.model_dump().items())[:60] if item[1] is not None],
    )


class _MediaRoom:
    """The characters that media may still take."""

    def __init__(self, left: int) -> None:
        self._left = left

    def within(self, card: SampleView) -> SampleView:
        """The card with its media, or without them where there is no room for them."""
        if card.made is None:
            return card
        size = sum(len(part.text) + len(part.waveform) for part in (card.made, *card.before))
        if size > self._left:
            return replace(card, made=Part("link", ""), before=())
        self._left -= size
        return card


def _task(task: TaskSummary, summary: Summary, details: TaskDetails | None, room: Room, media: _MediaRoom) -> TaskView:
    known = details or TaskDetails()
    kinds = tuple(replace(group, cards=tuple(media.within(card.trimmed()) for card in group.cards[: room.of(10)]))
                  for group in known.kinds)  # fmt: skip
    return TaskView(
        task.task_id,
        task.metrics[: max(room.of(_METRICS), 1)],
        replace(known, kinds=kinds, reasons=known.reasons[: room.of(40)], worst=_worst(task)),
        task,
        task_facts(task, summary.models),
    )


def _worst(task: TaskSummary) -> tuple[SliceScore, ...]:
    """The slices that take most from the task's first number."""
    if not task.metrics:
        return ()
    first = task.metrics[0]
    slices = [
        SliceScore(metric.slice_name or "", score_text(metric), metric.value, metric.n)
        for metric in task.slices
        if metric.key == first.key and metric.value is not None
    ]
    return worst_slices(slices, first.value, higher_is_better=first.higher_is_better)


def _chips(summary: Summary, compared: Sequence[ComparedTask]) -> Sequence[tuple[str, str]]:
    """The verdicts, then the largest shares of failures."""
    verdicts = [task.verdict for task in compared if task.verdict]
    chips = [(VERDICT_TONES.get(word, "plain"), f"{verdicts.count(word)} {word}") for word in dict.fromkeys(verdicts)]
    cards = [card for task in summary.tasks if (card := task.score_card) and card.pass_threshold is not None]
    passed = [card for card in cards if card.passed]
    if cards:
        chips.append(("good" if len(passed) == len(cards) else "warn", f"{len(passed)} of {len(cards)} passed"))
    shares = []
    for task in summary.tasks:
        for metric in task.metrics[:1]:
            shares += [
                (count / metric.all_rows, f"{task.task_id}: {share_text(count, metric.all_rows)} {name}")
                for name in ("error", "unparsed", "truncated", "looped", "refused")
                if metric.all_rows and (count := getattr(metric, name))
            ]
    return chips + [("warn", text) for _, text in sorted(shares, key=lambda share: -share[0])[:4]]


def _subtitle(summary: Summary) -> str:
    return " on ".join(filter(None, (model_title(summary.models), counted(len(summary.tasks), "task"))))


def _trend(task: ComparedTask) -> Svg:
    """The picture of a task's trend; nothing where the run is alone."""
    if len(task.trend) < _LEAST_TREND:
        return Svg()
    title = f"{task.task_id}: {task.metric} of {counted(len(task.trend), 'run')}, the newest at the right"
    return Svg(trend_chart(task.trend, task.numbers.baseline, title))


def _stages_text(summary: Summary) -> str:
    timings, cached = summary.run.timings, summary.run.cached_stages
    seconds = timings.stage_seconds
    parts = [f"{stage} {seconds[stage]:.3g} s" for stage in seconds if stage not in cached]
    if (rate := timings.throughput_inference_samples_per_s) is not None:
        parts.append(f"{count_text(round(rate)) if rate >= 100 else f'{rate:.3g}'} samples/s in infer")
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


def _rendered(template: str, **context: Any) -> str:
    return str(_environment().get_template(template).render(context, **_styled()))


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
    return page_environment(STYLE_FILE.parent)
