"""Console output of a run: bars on a terminal, plain lines elsewhere."""

import logging
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from rich.cells import cell_len

from gage_eval.observability.events import (
    Event,
    FetchFinished,
    FetchProgress,
    FetchStarted,
    RunStarted,
    RunWarning,
    StageFailed,
    StageFinished,
    StageProgress,
)
from gage_eval.report.console import clean, counted, padded, size_text
from gage_eval.runs.fetching import fetch_line
from gage_eval.runs.results.formatting import (
    ProgressLines,
    fetched_line,
    of_task,
    progress_line,
    progress_text,
    result_text,
)

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from gage_eval.base.stages import StageResult


# The place of the fetch among the stages.
_FETCH = ("", "fetch")
# Loggers of backends that start engines.
_ENGINES = logging.getLogger("gage_eval.models.backends")


class ConsoleObserver:
    """Prints a line for every finished stage, and the progress of running ones.

    On a terminal every running stage has a bar; elsewhere it has a line every 30 seconds.

    Args:
        quiet: print nothing (the caller prints JSON).
        inline: the run is in this process, without a Prefect API.
    """

    def __init__(self, *, quiet: bool = False, inline: bool = True) -> None:
        self._quiet = quiet
        self._inline = inline
        self._lock = threading.Lock()
        self._bars: dict[tuple[str, str], TaskID] = {}
        self._progress: Progress | None = None
        self._lines = ProgressLines()
        self._width = 0
        self._resume_command = ""
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
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self._resume_command:
            self._say(f"Resume it: {self._resume_command}")

    def emit(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._run_started(event)
            case StageProgress():
                self._show_progress(event)
            case StageFinished(result):
                self._drop_bar(result.task_id, result.stage)
                self._say(self._result_line(result))
            case StageFailed(task_id, stage):
                self._drop_bar(task_id, stage)
                self._say(f"  {self._label(task_id, stage)} {'stopped':>8}")
            case FetchStarted():
                self._say(clean(f"  {fetch_line(event)}"))
            case FetchProgress():
                self._show_fetch(event)
            case FetchFinished(files, size, seconds, source):
                self._drop_bar(*_FETCH)
                where = f" from {source}" if source is not None else f" in {seconds:.1f} s"
                self._say(clean(f"  data: {counted(files, 'file')}, {size_text(size)}{where}"))
            case RunWarning(message):
                self._say(clean(f"  note: {message}"))

    def _run_started(self, event: RunStarted) -> None:
        self._resume_command = event.resume_command
        # With one task, stages are shown without the task's name.
        self._width = max(cell_len(clean(name)) for name in event.tasks) + 2 if len(event.tasks) > 1 else 0
        where = "inline" if self._inline else f"prefect {event.url or ''}".rstrip()
        self._say(clean(f"{event.config_name} · {counted(len(event.tasks), 'task')} · {where} · run {event.run_id}"))

    def _show_progress(self, event: StageProgress) -> None:
        stage_id = event.task_id, event.stage
        label = self._label(*stage_id)
        if self._progress is not None:
            self._move_bar(stage_id, label, event, progress_text(event.figures))
        elif self._lines.is_due(stage_id):
            self._say(f"  {label} {'':>8}   {progress_line(event)}")

    def _show_fetch(self, event: FetchProgress) -> None:
        if self._progress is not None:
            self._move_bar(_FETCH, "data, bytes", event)
        elif self._lines.is_due(_FETCH):
            self._say(f"  {'data':<11} {'':>8}   {fetched_line(event)}")

    def _move_bar(
        self, key: tuple[str, str], label: str, event: StageProgress | FetchProgress, figures: str = ""
    ) -> None:
        assert self._progress is not None
        with self._lock:
            if key not in self._bars:
                self._bars[key] = self._progress.add_task(label, total=event.total, figures="")
            self._progress.update(self._bars[key], completed=event.done, total=event.total, figures=figures)

    def _result_line(self, result: "StageResult") -> str:
        state = "cached" if result.cached else f"{result.seconds:.1f} s"
        text = result_text(result.stage, result.counts, seconds=None if result.cached else result.seconds)
        text = " · ".join(filter(None, (text, of_task(result.task_id)[1])))
        return f"  {self._label(result.task_id, result.stage)} {state:>8}   {text}".rstrip()

    def say(self, text: str) -> None:
        """Print a line that belongs to no stage, such as a message of a starting engine."""
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
                # The output is closed or its disk is full. The run continues, because its answers matter more than its
                # output.
                self._quiet = True


class _Lines(logging.Handler):
    """Shows log messages as lines of the observer."""

    def __init__(self, observer: ConsoleObserver) -> None:
        super().__init__(logging.INFO)
        self._observer = observer
        # Python shows warnings itself.
        self.addFilter(lambda record: record.levelno < logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        self._observer.say(record.getMessage())
