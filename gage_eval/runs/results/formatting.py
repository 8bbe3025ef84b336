"""The words for results, progress and durations, the same in all outputs, and how often progress is worth a line."""

import time
from collections.abc import Mapping

from gage_eval.base.stages import STAGES, Stage, StageResult
from gage_eval.observability.events import FetchProgress, StageProgress
from gage_eval.report.console import counted, size_text

# Seconds between two lines of progress of one stage. A stage that takes less has none.
LINE_EVERY_S = 30.0

_WRONG = {"rejects": "rejected", "prepare_rejects": "rejected", "error": "in error"}
_SO_FAR = {"retried": "retried", "reused": "reused", "errors": "in error"}


def result_text(stage: Stage, counts: Mapping[str, int], *, seconds: float | None = None) -> str:
    """The result of a stage in short: ``1,319 rows · 268 reused · 212 requests/s · 2 in error``.

    Args:
        stage: the stage.
        counts: rows by output, and what else it counted.
        seconds: how long this run took to compute it; None if it was cached.
    """
    info = STAGES[stage]
    if info.noun is None:
        return ""
    rows = counts.get(info.counted, 0)
    if info.phase == "judging" and not rows:
        return "–"
    parts = [counted(rows, info.noun)]
    if seconds is not None and "sent" in counts:
        parts += _named(counts, {"reused": "reused", "retried": "retried"})
        if counts["sent"] and seconds > 0:
            parts.append(f"{rate_text(counts['sent'] / seconds)} requests/s")
    return " · ".join(parts + _named(counts, _WRONG))


def stage_text(result: StageResult) -> str:
    """What a stage did, in words: ``1,319 rows · 212 requests/s, in 6.2 s``; ``cached, 1,319 rows``."""
    text = result_text(result.stage, result.counts, seconds=None if result.cached else result.seconds)
    words = ["cached", text] if result.cached else [text, f"in {result.seconds:.1f} s"]
    return ", ".join(filter(None, words))


def of_task(task_id: str) -> tuple[str, str]:
    """The task of a stage's task id, and what the stage works on if not the task's own rows.

    >>> of_task("mmlu"), of_task("mmlu:few_shot")
    (('mmlu', ''), ('mmlu', 'few-shot examples'))
    """
    # No id of a config holds a colon.
    task, _, part = task_id.partition(":")
    return task, "few-shot examples" if part else ""


def progress_text(figures: Mapping[str, int | float], *, moving: bool = True) -> str:
    """The progress of a running stage: ``212 rows/s · 64 in flight · 3 retried``.

    Args:
        figures: the figures of a `StageProgress` event.
        moving: False for a stopped stage, whose rate and requests in flight are not shown.
    """
    parts = [f"{rate_text(figures['rows_per_s'])} rows/s"] if moving and figures.get("rows_per_s") else []
    words = _SO_FAR if not moving else {"in_flight": "in flight", **_SO_FAR}
    return " · ".join(parts + _named(figures, words))


def progress_line(event: StageProgress) -> str:
    """``1,051 of 1,319 · 212 rows/s · 64 in flight · about 1 s left``."""
    rate = event.figures.get("rows_per_s")
    parts = [f"{event.done:,}{'' if event.total is None else f' of {event.total:,}'}", progress_text(event.figures)]
    if rate and event.total is not None and event.total > event.done:
        parts.append(f"{duration((event.total - event.done) / rate)} left")
    return " · ".join(filter(None, parts))


def fetched_line(event: FetchProgress) -> str:
    """``12.0 MiB of 1.2 GiB``."""
    return f"{size_text(event.done)} of {size_text(event.total)}"


class ProgressLines:
    """Tells when the progress of a stage is worth a line: every 30 seconds."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], float] = {}

    def is_due(self, stage_id: tuple[str, str]) -> bool:
        """Whether the stage's last line, or its first progress, is long enough ago. If so, a line is printed now."""
        now = time.monotonic()
        if now - self._last.setdefault(stage_id, now) < LINE_EVERY_S:
            return False
        self._last[stage_id] = now
        return True


def rate_text(rate: float) -> str:
    """A rate as text; small rates have two digits.

    >>> rate_text(1234.5), rate_text(2.55), rate_text(0.127)
    ('1,234', '2.5', '0.13')
    """
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}" if rate >= 1 else f"{rate:.2f}"


def duration(seconds: float) -> str:
    """An approximate duration as text: ``about 8 s``, ``about 12 min``, ``under 1 s``."""
    for unit, name in ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min")):
        if seconds >= 2 * unit:
            return f"about {seconds / unit:.0f} {name}"
    return f"about {seconds:.0f} s" if seconds >= 1 else "under 1 s"


def _named(figures: Mapping[str, int | float], words: Mapping[str, str]) -> list[str]:
    return [f"{figures[name]:,} {word}" for name, word in words.items() if figures.get(name)]
