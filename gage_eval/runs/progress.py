"""What a person watching a run sees: bars on a terminal, plain lines elsewhere."""

import logging
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from gage_eval.report.console import clean, counted, padded
from gage_eval.runs.figures import of_task, progress_text, result_text

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from gage_eval.stages import StageResult


# What backends say of the engines they start.
_ENGINES = logging.getLogger("gage_eval.backends")


class ConsoleObserver:
    """Prints a line for every finished stage, and on a terminal a bar for those under way.

    Args:
        quiet: say nothing (the caller prints JSON).
        inline: the run is in this process, without a Prefect API.
    """

    def __init__(self, *, quiet: bool = False, inline: bool = True) -> None:
        self._quiet = quiet
        self._inline = inline
        self._lock = threading.Lock()
        self._bars: dict[tuple[str, str], TaskID] = {}
        self._progress: Progress | None = None
        self._width = 0
        self._again = ""
        self._engines = _Lines(self)

    def __enter__(self) -> "ConsoleObserver":
        if not self._quiet:
            _ENGINES.addHandler(self._engines)
            _ENGINES.setLevel(logging.INFO)
        if not self._quiet and sys.stdout.isatty():
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("  {task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[figures]}"),
                TimeRemainingColumn(compact=True),
                transient=True,
            )
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _ENGINES.removeHandler(self._engines)
        _ENGINES.setLevel(logging.NOTSET)
        if self._progress is not None:
            self._progress.stop()
        if kind is KeyboardInterrupt and self._again:
            self._say(f"To go on: {self._again}")

    def started(self, task_id: str, stage: str) -> None: ...

    def progress(
        self, task_id: str, stage: str, done: int, total: int | None, figures: Mapping[str, int | float]
    ) -> None:
        if self._progress is None:
            return
        with self._lock:
            bar = self._bars.get((task_id, stage))
            if bar is None:
                bar = self._bars[task_id, stage] = self._progress.add_task(
                    self._label(task_id, stage), total=total, figures=""
                )
            self._progress.update(bar, completed=done, total=total, figures=progress_text(figures))

    def finished(self, result: "StageResult") -> None:
        self._drop_bar(result.task_id, result.stage)
        state = "cached" if result.cached else f"{result.seconds:.1f} s"
        text = result_text(result.stage, result.counts, seconds=None if result.cached else result.seconds)
        said = " · ".join(filter(None, (text, of_task(result.task_id)[1])))
        self._say(f"  {self._label(result.task_id, result.stage)} {state:>8}   {said}".rstrip())

    def failed(self, task_id: str, stage: str, error: BaseException) -> None:
        self._drop_bar(task_id, stage)
        self._say(f"  {self._label(task_id, stage)} {'stopped':>8}")

    def note(self, task_id: str | None, kind: str, payload: Mapping[str, Any]) -> None:
        if kind == "run_started":
            tasks = payload["tasks"]
            self._again = payload["again"]
            # The stages of the only task need no name before them.
            self._width = max(cell_len(clean(name)) for name in tasks) + 2 if len(tasks) > 1 else 0
            where = "inline" if self._inline else f"prefect {payload.get('url') or ''}".rstrip()
            self._say(clean(f"{payload['name']} · {counted(len(tasks), 'task')} · {where} · run {payload['run_id']}"))
        elif kind == "warning":
            self._say(clean(f"  note: {payload['message']}"))

    def say(self, text: str) -> None:
        """A line that belongs to no stage: what an engine says that is starting."""
        self._say(clean(f"  {text}"))

    def _label(self, task_id: str, stage: str) -> str:
        task = clean(of_task(task_id)[0]) if self._width else ""
        return f"{padded(task, self._width)}{stage:<11}"

    def _drop_bar(self, task_id: str, stage: str) -> None:
        with self._lock:
            bar = self._bars.pop((task_id, stage), None)
            if bar is not None and self._progress is not None:
                self._progress.remove_task(bar)

    def _say(self, line: str) -> None:
        if self._quiet:
            return
        with self._lock:
            try:
                if self._progress is not None:
                    self._progress.console.print(line, markup=False, highlight=False)
                else:
                    sys.stdout.write(line + "\n")
                    sys.stdout.flush()
            except OSError:
                # The reader went away, or a log's disk is full. The run goes on: its answers are worth more than lines.
                self._quiet = True


class _Lines(logging.Handler):
    """Messages of a logger as lines of the observer."""

    def __init__(self, observer: ConsoleObserver) -> None:
        super().__init__(logging.INFO)
        self._observer = observer

    def emit(self, record: logging.LogRecord) -> None:
        self._observer.say(record.getMessage())
