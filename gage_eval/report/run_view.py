"""What the page of a run shows: one model for report.html and for the page of the viewer.

Details of a task's answers come from the columns of its answers in a report, and from the index in the viewer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gage_eval.report.console import closing_facts, counted
from gage_eval.report.details import SliceScore, TaskDetails
from gage_eval.report.model_run import ModelRun, model_title, role_titles
from gage_eval.report.shares import share_text
from gage_eval.report.summary import GroupSummary, MetricSummary, Summary, TaskSummary, signed_text

_WORST_SLICES = 12


class Links(Protocol):
    """Where a page leads to."""

    def answers(self, task_id: str, *, q: str = "", metric: str = "", against: str = "") -> str:
        """The address of a task's answers; empty where the page has none.

        Args:
            task_id: the task.
            q: the search line that the answers match.
            metric: by this metric instead of the first one.
            against: paired with this run.
        """

    def sample(self, task_id: str, sample_id: str) -> str:
        """The address of the answer to a sample; empty where the page has none."""


@dataclass(frozen=True)
class TaskView:
    """A task on the page of its run.

    Attributes:
        metrics: its numbers, the headline first; empty before scoring.
        details: of its answers.
        summary: its part of the summary; None while the run has none.
        facts: its dataset, model and tokens in a line.
        flips: how many answers are worse and better than those of the run that it is compared with.
        problem: why its answers cannot be shown.
        waiting: the share of its index that is made; None when it is there, or not needed.
    """

    task_id: str
    metrics: Sequence[MetricSummary]
    details: TaskDetails = field(default_factory=TaskDetails)
    summary: TaskSummary | None = None
    facts: str = ""
    flips: tuple[int, int] | None = None
    problem: str = ""
    waiting: float | None = None

    @property
    def metric(self) -> MetricSummary | None:
        """The headline."""
        return self.metrics[0] if self.metrics else None

    @property
    def has_table(self) -> bool:
        """Whether the numbers need a table besides the headline."""
        return len(self.metrics) > 1 or any(map(problems, self.metrics))


@dataclass(frozen=True)
class RunView:
    """The page of a run.

    Attributes:
        facts: what the run is of, and what it took.
        remarks: what to look at.
        links: where the page leads to.
        label: the note next to each score.
        rival: the run that it is compared with; empty for none.
    """

    facts: Sequence[tuple[str, str]]
    remarks: Sequence[str]
    groups: Sequence[GroupSummary]
    tasks: Sequence[TaskView]
    links: Links
    label: str = ""
    rival: str = ""


def run_facts(
    models: Iterable[ModelRun],
    summary: Summary | None,
    *,
    parameters: str = "",
    commit: str | None = None,
    probes: Iterable[str] = (),
) -> list[tuple[str, str]]:
    """What a run is of: models, whether they repeat their answers, parameters, commit. At its end: what it took."""
    took = [] if summary is None else [*closing_facts(summary), f"{counted(summary.run.sent, 'request')} sent"]
    facts = [*role_titles(models), *(("probe", text) for text in probes), ("parameters", parameters)]
    facts += [("commit", commit or ""), ("took", " · ".join(took))]
    return [(name, text) for name, text in facts if text]


def task_facts(task: TaskSummary, models: Sequence[ModelRun]) -> str:
    """A task's dataset, model, failures and tokens in a line."""
    facts = [f"dataset {task.dataset_id}", counted(task.sample_count, "sample")]
    if model := model_title(models, task.task_id):
        facts.insert(1, f"model {model}")
    for status, count in task.responses.items():
        if count and status != "ok":
            kinds = task.kinds_text(status)
            facts.append(f"{count:,} {status}" + (f" ({kinds})" if kinds else ""))
    if task.rejects:
        facts.append(f"{task.rejects:,} rejected")
    if task.tokens.total is not None:
        facts.append(f"{task.tokens.total:,} tokens")
    if task.score_card is not None and task.score_card.pass_threshold is not None:
        facts.append("passed" if task.score_card.passed else "not passed")
    return " · ".join(facts)


def problems(metric: MetricSummary) -> str:
    """The answers that a number does not say enough about: ``4.1 % unparsed · 3 error``."""
    names = ("truncated", "looped", "refused", "unparsed", "unscored")
    shares = [f"{share_text(n, metric.all_rows)} {name}" for name in names if (n := getattr(metric, name))]
    return " · ".join([*shares, *([f"{metric.error:,} error"] if metric.error else [])])


def worst_slices(
    slices: Iterable[SliceScore], whole: float | None, *, higher_is_better: bool | None
) -> tuple[SliceScore, ...]:
    """The slices that take most from a number, each with its distance from it: points below it, times n, rank them."""
    if whole is None or higher_is_better is None:
        return ()
    sign = 1.0 if higher_is_better else -1.0
    deficits = [(sign * (whole - entry.value) * entry.n, entry) for entry in slices]
    ranked = sorted((pair for pair in deficits if pair[0] > 0), key=lambda pair: (-pair[0], pair[1].name))
    return tuple(replace(entry, change=signed_text(entry.value - whole)) for _, entry in ranked[:_WORST_SLICES])
