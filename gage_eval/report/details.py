"""What pages of runs show besides the summary: samples, distributions, the config, and the comparison. Plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gage_eval.report.sample_view import SampleView
from gage_eval.report.summary import signed_ends, signed_text
from gage_eval.report.trend_chart import TrendPoint
from gage_eval.stats.evidence import Evidence


@dataclass(frozen=True)
class KindOfAnswer:
    """Answers of one kind.

    Attributes:
        kind: which.
        count: how many there are among the answers that were looked at.
        cards: the first of them.
    """

    kind: str
    count: int
    cards: tuple[SampleView, ...] = ()


@dataclass(frozen=True)
class Reason:
    """Why rows failed: where, the reason in words, how often, and the search term that lists them, if there is one."""

    where: str
    text: str
    count: int
    term: str = ""


@dataclass(frozen=True)
class SliceScore:
    """A slice by the first number of its task.

    Attributes:
        name: as it is shown: ``topic = algebra``.
        score: with its interval, where that is known.
        term: the search term that lists its answers; empty where there is none.
        change: the distance from the task's number.
    """

    name: str
    score: str
    value: float
    n: int
    term: str = ""
    change: str = ""


@dataclass(frozen=True)
class Bin:
    """One bar of a chart: its label, how many answers it holds, and their mean score."""

    label: str
    count: int
    mean: float | None = None


@dataclass(frozen=True)
class TaskDetails:
    """What a page shows of a task's answers.

    Attributes:
        measure: name of the number that decides about right and wrong; None without scores.
        answers: how many answers were looked at.
        complete: whether these are all answers of the task.
        kinds: the kinds that occur, failures first.
        distribution: answers by score; empty where they are right or wrong.
        lengths: answers by length, with the mean score of each bin.
        length_unit: ``tokens`` or ``characters``.
        reasons: why rows failed.
        worst: the slices that take most from the task's score.
        sampling: request parameters besides the messages.
    """

    measure: str | None = None
    answers: int = 0
    complete: bool = True
    kinds: tuple[KindOfAnswer, ...] = ()
    distribution: tuple[Bin, ...] = ()
    lengths: tuple[Bin, ...] = ()
    length_unit: str = "tokens"
    reasons: tuple[Reason, ...] = ()
    worst: tuple[SliceScore, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Answers by kind. The lowest and the highest are the same answers, of which none is right or wrong."""
        return {
            "scored" if group.kind == "highest" else group.kind: group.count
            for group in self.kinds
            if group.kind != "lowest"
        }


@dataclass(frozen=True)
class SliceChange:
    """How the score of a slice changed.

    Attributes:
        name: ``field = value``.
        n: pairs.
        difference: positive is better.
        bounds: the two-sided 95 % interval, not adjusted for the number of slices; None where it is unknown.
        stands_out: whether it changed otherwise than the other samples, beyond chance (Welch's test, Holm over slices).
    """

    name: str
    n: int
    difference: float
    bounds: tuple[float, float] | None = None
    stands_out: bool = False

    @property
    def text(self) -> str:
        """``topic = algebra −0.120 (−0.190 … −0.050, n 166)``."""
        bounds = "" if self.bounds is None else f"{signed_ends(self.bounds)}, "
        return f"{self.name} {signed_text(self.difference)} ({bounds}n {self.n:,})"


@dataclass(frozen=True)
class Flip:
    """An answer whose score differs between two runs.

    Attributes:
        sample_id, replicate: which answer.
        a, b: its score in both runs; None where it has none.
        cause: the first thing that differs.
        detail: what exactly differs, one line.
        labels: what else differs: dtype, engine, the end of one answer, …
    """

    sample_id: str
    replicate: int
    a: float | None
    b: float | None
    cause: str
    detail: str
    labels: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "labels": list(self.labels)}


@dataclass(frozen=True)
class Cause:
    """The first thing that differs behind some scores.

    Attributes:
        name, meaning: in words.
        flips, worse, better: how many answers, and how many of them got worse and better.
        answers: the first of them.
    """

    name: str
    meaning: str
    flips: int
    worse: int
    better: int
    answers: tuple[Flip, ...]


@dataclass(frozen=True)
class Causes:
    """Why the scores of a task moved.

    Attributes:
        task_id, sentence: of which task, and the numbers in a line.
        causes: those that occur.
        notes: what differs too, and what the runs do not store.
    """

    task_id: str
    sentence: str
    causes: tuple[Cause, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ComparedTask:
    """One number of a task against the baseline.

    Attributes:
        task_id, metric: which number.
        numbers: both scores and their difference; negative for a loss, also where lower scores are better.
        p: p value; None without a test.
        test: its name.
        verdict: a word such as ``regressed``; empty without a gate.
        better, worse: ids of the samples that moved.
        slices: those that moved most.
        notes: what else a reader must know.
        trend: the number in this run and in those before it, oldest first.
        causes: why its scores moved; None where that is not shown.
    """

    task_id: str
    metric: str
    numbers: Evidence
    p: float | None = None
    test: str = ""
    verdict: str = ""
    better: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    slices: tuple[SliceChange, ...] = ()
    notes: tuple[str, ...] = ()
    trend: tuple[TrendPoint, ...] = ()
    causes: Causes | None = None


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
        commit: of the config's repository.
        config_source, config_digest, config_text: the config as written; references to secrets are not replaced.
        options: the run's options.
        packages: versions by package.
        probes: whether each model under test repeats its answers, where that was measured.
        digests: task, stage, key and artifact ids of each stage.
        tasks: details by task id.
        comparison: with a baseline.
    """

    began: datetime | None = None
    commit: str = ""
    config_source: str = ""
    config_digest: str = ""
    config_text: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    probes: tuple[str, ...] = ()
    digests: tuple[tuple[str, str, str], ...] = ()
    tasks: Mapping[str, TaskDetails] = field(default_factory=dict)
    comparison: Comparison | None = None
