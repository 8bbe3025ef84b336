"""What report.html shows besides the summary: samples, distributions, the config, and the comparison. Plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gage_eval.report.sample_view import Kind, SampleView
from gage_eval.report.trend_chart import TrendPoint


@dataclass(frozen=True)
class KindOfAnswer:
    """Answers of one kind.

    Attributes:
        kind: which.
        count: how many there are among the answers that were looked at.
        cards: the first of them.
    """

    kind: Kind
    count: int
    cards: tuple[SampleView, ...] = ()


@dataclass(frozen=True)
class Bin:
    """One bar of a chart: its label, how many answers it holds, and their mean score."""

    label: str
    count: int
    mean: float | None = None


@dataclass(frozen=True)
class TaskDetails:
    """What the report shows of a task's answers.

    Attributes:
        measure: name of the number that decides about right and wrong; None without scores.
        answers: how many answers were looked at.
        complete: whether these are all answers of the task.
        kinds: the kinds that occur, failures first.
        distribution: answers by score.
        lengths: answers by length, with the mean score of each bin.
        length_unit: ``tokens`` or ``characters``.
        reasons: why rows failed: where, the reason, how often.
        sampling: request parameters besides the messages.
    """

    measure: str | None
    answers: int
    complete: bool = True
    kinds: tuple[KindOfAnswer, ...] = ()
    distribution: tuple[Bin, ...] = ()
    lengths: tuple[Bin, ...] = ()
    length_unit: str = "tokens"
    reasons: tuple[tuple[str, str, int], ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)

    def count(self, kind: Kind) -> int:
        """How many answers are of a kind."""
        return next((group.count for group in self.kinds if group.kind == kind), 0)


@dataclass(frozen=True)
class ComparedSlice:
    """How a slice moved."""

    name: str
    n: int
    difference: float


@dataclass(frozen=True)
class ComparedTask:
    """One number of a task against the baseline.

    Attributes:
        task_id, metric: which number.
        baseline, current: the scores.
        difference: how much better this run is; negative for a loss, also where lower scores are better.
        low, high: ends of the interval of the difference.
        p: p value.
        verdict: a word such as ``regressed``; empty without a gate.
        n, test: pairs of samples, and the test's name.
        better, worse: ids of the samples that moved.
        slices: those that moved most.
        notes: what else a reader must know.
        trend: the number in this run and in those before it, oldest first.
    """

    task_id: str
    metric: str
    n: int
    baseline: float | None
    current: float | None
    difference: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    test: str = ""
    verdict: str = ""
    better: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    slices: tuple[ComparedSlice, ...] = ()
    notes: tuple[str, ...] = ()
    trend: tuple[TrendPoint, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A run against a baseline.

    Attributes:
        baseline: its name.
        tasks: one number of each task.
        level: of the intervals of the differences.
        notes: what a reader must know about all tasks.
    """

    baseline: str
    tasks: tuple[ComparedTask, ...]
    level: float = 0.95
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunDetails:
    """What the report shows of the run besides its numbers.

    Attributes:
        began: when it began, in UTC.
        config_source, config_digest, config_text: the config as written; references to secrets are not replaced.
        options: the run's options.
        packages: versions by package.
        digests: task, stage, key and artifact ids of each stage.
        tasks: details by task id.
        comparison: with a baseline.
    """

    began: datetime | None = None
    config_source: str = ""
    config_digest: str = ""
    config_text: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    digests: tuple[tuple[str, str, str], ...] = ()
    tasks: Mapping[str, TaskDetails] = field(default_factory=dict)
    comparison: Comparison | None = None
