"""summary.json: every key typed and described. `docs/summary.schema.json` is generated from here."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from pydantic import Field

from gage_eval.base.stages import StageResult
from gage_eval.base.statuses import NOT_OK, RESPONSE_STATUSES
from gage_eval.base.strict_model import StrictModel
from gage_eval.base.version import __version__
from gage_eval.report.calibration import Calibration
from gage_eval.report.drawn import OF_BENCHMARK, Drawn
from gage_eval.report.headline import headline_first
from gage_eval.report.judging import Judging
from gage_eval.report.metric_names import metric_name
from gage_eval.report.model_run import ModelRun
from gage_eval.report.stopped import Stopped
from gage_eval.report.suite_run import SuiteRun, noted, titled
from gage_eval.report.timings import Consumption, Timings, Usage, run_timings, run_usage
from gage_eval.scoring.scorecards.card import CardRule, ScoreCard, task_scores
from gage_eval.stats.intervals import LEAST_SHOWN, Interval

SUMMARY_VERSION = 1
LOWER_IS_BETTER = "↓"
# Of a status, in a sentence.
_MOST_KINDS = 10


class MetricNumber(StrictModel):
    """Which number of which metric."""

    metric_id: str = Field(description="The metric's name in the config.")
    filter: str | None = Field(description="The filter the answers went through; null for none.")
    value_key: str = Field(description="Which of the metric's numbers this is.")
    aggregation: str = Field(description="How values of samples became one number.")
    higher_is_better: bool | None = Field(
        default=True, description="Whether higher is better; false where lower is, null where neither is."
    )

    @property
    def name(self) -> str:
        """As it is shown: ``exact_match,strict-match``, with the value key and the aggregation where not plain."""
        return metric_name(self.metric_id, self.filter, self.value_key, self.aggregation)

    @property
    def marked_name(self) -> str:
        """The name, with an arrow where lower is better: ``ter ↓``."""
        return f"{self.name} {LOWER_IS_BETTER}" if self.higher_is_better is False else self.name

    @property
    def key(self) -> tuple[str, str | None, str, str]:
        """What tells the numbers of a task apart."""
        return self.metric_id, self.filter, self.value_key, self.aggregation


class MetricSummary(MetricNumber):
    """One aggregated number with all it takes to judge it."""

    implementation: str = Field(description="The registered metric, or its import path.")
    bound_low: float | None = Field(default=None, description="The smallest value that is possible; null for no end.")
    bound_high: float | None = Field(default=None, description="The largest value that is possible; null for no end.")
    slice_field: str | None = Field(default=None, description="The field of a slice; null: over all rows.")
    slice_value: str | None = Field(
        default=None, description="The field's value in a slice; null with a field: the rows without it."
    )
    raw_values: dict[str, float | None] = Field(
        description="The number under its value key, unrounded; null when no row counted."
    )
    values: dict[str, str] = Field(description="The same, formatted for reading.")
    stderr: float | None = Field(description="Standard error over samples; null for fewer than two.")
    ci_low: float | None = Field(description="Lower bound of the 95 % interval.")
    ci_high: float | None = Field(description="Upper bound of the 95 % interval.")
    interval: str | None = Field(description="Which interval: wilson, t, order, bootstrap, or null for none.")
    n: int = Field(description="Samples the number is made of; replicates of a sample count once.")
    rows: int = Field(description="Score rows that count: scored and unparsed ones, each replicate one.")
    unparsed: int = Field(description="Rows whose answer could not be read; in rows and n, mostly as 0.")
    unparsed_credited: int = Field(
        default=0, description="Unparsed rows with a value above 0, such as a drawn option that is right."
    )
    unscored: int = Field(description="Rows without a score (no answer, missing field, failure): not in rows.")
    overridden: int = Field(default=0, description="Rows scored under parameters that their sample's eval_config sets.")
    truncated: int = Field(description="Responses that ended at the token limit; scored like any other.")
    looped: int = Field(default=0, description="Responses cut while they repeated themselves; scored like any other.")
    limit: int = Field(default=0, description="Responses that still called tools at the end; scored like any other.")
    refused: int = Field(description="Responses the model or endpoint refused; scored like any other.")
    error: int = Field(description="Responses that infrastructure failed to get; not in rows.")
    skipped: int = Field(description="Responses never asked for (empty prompt); not in rows.")
    scores: str | None = Field(default=None, description="Artifact id of the score rows.")
    marks: list[str] = Field(default=[], description="What to keep in mind with it, as not contained.")

    @property
    def marked_name(self) -> str:
        """The name, with its marks: ``execution_passed (forgeable)``."""
        return f"{super().marked_name} ({', '.join(self.marks)})" if self.marks else super().marked_name

    @property
    def slice_name(self) -> str | None:
        """As a slice is shown: ``data_tag.topic = algebra``; None over all rows."""
        if self.slice_field is None:
            return None
        return f"{self.slice_field} = {'(none)' if self.slice_value is None else self.slice_value}"

    @property
    def value(self) -> float | None:
        """The number."""
        return self.raw_values.get(self.value_key)

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends of the interval as it is shown. None without one, and for Student's of fewer than 5 samples."""
        if self.ci_low is None or self.ci_high is None or (self.n < LEAST_SHOWN and self.interval != "wilson"):
            return None
        return self.ci_low, self.ci_high

    @property
    def all_rows(self) -> int:
        """All score rows, counted or not: the base of every share."""
        return self.rows + self.unscored


class Tokens(StrictModel):
    """Tokens as the endpoints counted them."""

    prompt: int | None = Field(default=None, description="Prompt tokens; null when none were reported.")
    completion: int | None = Field(default=None, description="Completion tokens, thinking included.")

    @property
    def total(self) -> int | None:
        """Both together; None when neither was reported."""
        known = [count for count in (self.prompt, self.completion) if count is not None]
        return sum(known) if known else None


class Executions(StrictModel):
    """How the programs of a task's answers ended."""

    mode: str = Field(description="How they were tested: calls, stdio or script.")
    containment: str = Field(description="What kept them in: namespaces, container, or none.")
    statuses: dict[str, int] = Field(
        description="Programs by status: passed, failed, timed_out, out_of_memory, crashed, refused, tampered or "
        "box_error."
    )
    near_limit: int = Field(
        default=0,
        description="Programs that used more than half of their CPU time or memory: another machine may "
        "decide otherwise.",
    )
    attacks: str | None = Field(
        default=None,
        description="Of mode script: how many programs that try to pass without solving do pass, as 6 of 31; null "
        "where that is not known.",
    )
    official: bool = Field(
        default=False, description="Whether wall time decided, as in the official executors (compat: official)."
    )

    @property
    def marks(self) -> list[str]:
        """What is shown with every score: ``forgeable: 6 of 31 attacks pass``, ``not contained``, ``by wall time``."""
        known = "forgeable, not attacked" if self.attacks is None else f"forgeable: {self.attacks} attacks pass"
        return [
            *([known] if self.mode == "script" else []),
            *(["not contained"] if self.containment == "none" else []),
            *(["by wall time"] if self.official else []),
        ]

    @property
    def text(self) -> str:
        """All of it in one line: ``160 passed · 3 failed · 1 timed out · 2 near a limit · forgeable, not attacked``."""
        parts = [f"{count:,} {status.replace('_', ' ')}" for status, count in self.statuses.items() if count]
        near = [f"{self.near_limit:,} near a limit"] if self.near_limit else []
        return " · ".join([*parts, *near, *self.marks]) or "none"


class TaskSummary(StrictModel):
    """One task: a dataset, a model, and what was measured."""

    task_id: str = Field(description="The task's name in the config.")
    dataset_id: str = Field(description="The dataset's name in the config.")
    model: str | None = Field(default=None, description="The model under test, as configured.")
    description: str | None = Field(default=None, description="The task's description.")
    subset: list[str] = Field(default=[], description="The subjects that were chosen of it; empty for the whole task.")
    sample_count: int = Field(description="Samples that were standardised.")
    metrics: list[MetricSummary] = Field(description="The numbers: the headline, then the others as configured.")
    score_card: ScoreCard | None = Field(
        default=None, description="The primary score and whether it passes; null for a task without an answer type."
    )
    slices: list[MetricSummary] = Field(default=[], description="The same numbers over slices of the rows.")
    responses: dict[str, int] = Field(
        description="Responses by status: ok, truncated, looped, limit, refused, error, skipped."
    )
    error_kinds: dict[str, dict[str, int]] = Field(
        default={},
        description="Responses by status and error kind: at which limit they ended (turns, rounds, tokens, cost, "
        "time), or what failed (tool_error, box_error, diverged, simulator_leak, timeout, …).",
    )
    rejects: int = Field(default=0, description="Rejected rows; they are part of no number.")
    first_rejects: list[str] = Field(default=[], description="Place and reason of the first rejected rows.")
    complete: bool = Field(default=True, description="False while responses are missing for errors.")
    tokens: Tokens = Field(default=Tokens(), description="Tokens of the responses.")
    executions: Executions | None = Field(
        default=None, description="How the programs of the answers ended; null for a task that runs none."
    )
    calibration: Calibration | None = Field(
        default=None, description="The judge against the labels of people; null without labels."
    )
    judging: Judging | None = Field(default=None, description="The verdicts of judges; null without a judge.")
    stopped: Stopped | None = Field(default=None, description="What stop_when found; null without it.")
    drawn: Drawn | None = Field(default=None, description="How many samples --quick drew; null for all.")

    def kinds_text(self, status: str) -> str:
        """The error kinds of a status, the most frequent first: ``3 simulator_leak, 1 tool_error``; empty for none."""
        kinds = sorted(self.error_kinds.get(status, {}).items(), key=lambda entry: (-entry[1], entry[0]))
        shown = [f"{count:,} {kind}" for kind, count in kinds[:_MOST_KINDS]]
        return ", ".join([*shown, *(["…"] if len(kinds) > _MOST_KINDS else [])])


class RunSummary(StrictModel):
    """The run as a whole."""

    run_id: str = Field(description="The run's name.")
    name: str = Field(description="What was run: the config's or the suite's name.")
    gage_eval_version: str = Field(description="Version of gage-eval.")
    timings: Timings = Field(description="Seconds and rates.")
    usage: Usage = Field(default=Usage(), description="Tokens, cost and GPU time of this run.")
    cached_stages: list[str] = Field(description="Stages that computed nothing in this run, for any task.")
    sent: int = Field(description="Requests sent in this run, judges included.")
    reused: int = Field(description="Responses that were there already, judges included.")


class GroupScore(StrictModel):
    """One way to put several tasks or slices together."""

    value: float | None = Field(default=None, description="The score; null while a member of the group has none.")
    stderr: float | None = Field(default=None, description="Its standard error; null where one is not known.")
    ci_low: float | None = Field(default=None, description="Lower bound of the 95 % interval.")
    ci_high: float | None = Field(default=None, description="Upper bound of the 95 % interval.")

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends of the interval; None without one."""
        return None if self.ci_low is None or self.ci_high is None else (self.ci_low, self.ci_high)


class GroupMetric(MetricNumber):
    """A number that all members of a group have."""

    n: int = Field(description="Samples of all members.")
    micro: GroupScore = Field(description="Every sample counts the same.")
    macro: GroupScore = Field(description="Every member counts the same.")


class GroupSummary(StrictModel):
    """Several tasks, or slices of tasks, as one number."""

    group_id: str = Field(description="The group's name in the config.")
    description: str | None = Field(default=None, description="The group's description.")
    tasks: list[str] = Field(description="The tasks it is made of.")
    by: str | None = Field(default=None, description="The field of the slices it is made of; null for whole tasks.")
    members: int = Field(description="How many tasks or slices it is made of.")
    metrics: list[GroupMetric] = Field(description="The numbers that all of them have.")

    @property
    def members_text(self) -> str:
        """How many of what, as it is shown: ``27 slices``."""
        return f"{self.members} {'task' if self.by is None else 'slice'}{'' if self.members == 1 else 's'}"


class TaskMetric(MetricSummary):
    """A metric of a task, in the run's flat list."""

    task_id: str = Field(description="The task it belongs to.")


class Summary(StrictModel):
    """summary.json."""

    schema_version: int = Field(default=SUMMARY_VERSION, description="Version of this layout.")
    sample_count: int = Field(description="Samples of all tasks.")
    run: RunSummary = Field(description="The run.")
    metrics: list[TaskMetric] = Field(description="The metrics of all tasks, each with its task_id.")
    tasks: list[TaskSummary] = Field(description="The tasks, in the config's order.")
    groups: list[GroupSummary] = Field(default=[], description="Groups of tasks, in the config's order.")
    suite: SuiteRun | None = Field(default=None, description="The suite; null for a run of another config.")
    models: list[ModelRun] = Field(default=[], description="The models that were asked.")

    @property
    def name(self) -> str:
        """What was run."""
        return self.run.name

    @property
    def title(self) -> str:
        """What was run; of a suite with its version, and whether it was modified; whether it is a subset."""
        return titled(self.run.name, self.suite, self._is_subset)

    @property
    def label(self) -> str:
        """The note next to each score: `` (modified)``, `` (subset)``, or nothing."""
        return noted(self.suite, self._is_subset)

    @property
    def _is_subset(self) -> bool:
        return any(task.subset or task.drawn for task in self.tasks)


def arrow_note(summary: "Summary") -> str | None:
    """What the arrow means; None where no metric has one."""
    # A group's metrics are those of its tasks.
    lower = any(metric.higher_is_better is False for metric in summary.metrics)
    return f"{LOWER_IS_BETTER} lower is better" if lower else None


def task_summary(
    *,
    metrics: Iterable[Mapping[str, Any]],
    statuses: Mapping[str, int],
    tokens: Mapping[str, int] | None = None,
    card: CardRule | None = None,
    headline: str | None = None,
    executions: Executions | None = None,
    drawn: Drawn | None = None,
    **fields: Any,
) -> TaskSummary:
    """A task's part of the summary; it holds no time, so that equal results are equal bytes.

    Args:
        metrics: rows of `tables.METRICS`, those of slices among them.
        statuses: responses by status; other counts are left out.
        tokens: ``prompt_tokens`` and ``completion_tokens`` of the responses; 0 means not reported.
        card: how its score card is made, None for no card.
        headline: the number that people quote, as the suite's card has it; None where nothing says so.
        executions: how its programs ended.
        drawn: how many of its samples were drawn; None for all.
        fields: the other fields of `TaskSummary`.
    """
    counted = tokens or {}
    numbers = [metric_summary(row, [] if executions is None else executions.marks) for row in metrics]
    whole = headline_first(
        [number for number in numbers if number.slice_field is None], headline, None if card is None else card.primary
    )
    slices = [number for number in numbers if number.slice_field is not None]
    if drawn is not None:
        whole = [_of_benchmark(number, drawn) for number in whole]
    return TaskSummary(
        metrics=whole,
        score_card=None if card is None else card.card(task_scores(whole), _error_tags(whole, statuses)),
        slices=sorted(slices, key=lambda number: number.key != whole[0].key),
        responses={status: int(statuses.get(status, 0)) for status in RESPONSE_STATUSES},
        executions=executions,
        drawn=drawn,
        tokens=Tokens(prompt=counted.get("prompt_tokens") or None, completion=counted.get("completion_tokens") or None),
        **fields,
    )


def run_summary(
    *,
    run_id: str,
    name: str,
    tasks: Sequence[TaskSummary],
    stages: Sequence[StageResult],
    wall_s: float,
    spent: Consumption | None = None,
    **fields: Any,
) -> Summary:
    """The whole summary of a run.

    Args:
        run_id: the run's name.
        name: the config's or suite's name.
        tasks: in the config's order.
        stages: the result of every stage of every task.
        wall_s: seconds since the run began.
        spent: what its requests took.
        fields: the other fields of `Summary`.
    """
    samples = {task.task_id: task.sample_count for task in tasks}
    names = list(dict.fromkeys(item.stage for item in stages))
    computed = {item.stage for item in stages if not item.cached}
    stage_counts = [item.counts for item in stages if not item.cached]
    return Summary(
        sample_count=sum(samples.values()),
        run=RunSummary(
            run_id=run_id,
            name=name,
            gage_eval_version=__version__,
            timings=run_timings(stages, samples=samples, wall_s=wall_s),
            usage=run_usage(stages, spent or Consumption()),
            cached_stages=[stage for stage in names if stage not in computed],
            sent=sum(counts.get("sent", 0) for counts in stage_counts),
            reused=sum(counts.get("reused", 0) for counts in stage_counts),
        ),
        metrics=[TaskMetric(task_id=task.task_id, **metric.model_dump()) for task in tasks for metric in task.metrics],
        tasks=list(tasks),
        **fields,
    )


def format_value(value: float | None, *, like: float | None = None) -> str:
    """A number for reading: three decimals below 100, one and thousands separators from there on.

    Args:
        value: the number.
        like: use as many decimals as this number would get, for values shown next to it.

    >>> format_value(0.8612), format_value(15234.56), format_value(2.5, like=15234.56), format_value(None)
    ('0.861', '15,234.6', '2.5', '–')
    """
    if value is None:
        return "–"
    return f"{value:.3f}" if abs(value if like is None else like) < 100 else f"{value:,.1f}"


def signed_text(value: float | None) -> str:
    """A difference with its sign; a dash for none."""
    if value is None:
        return "–"
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{format_value(abs(value))}"


def signed_ends(ends: tuple[float, float] | None) -> str:
    """Both ends of the interval of a difference; a dash for none."""
    return " … ".join(map(signed_text, ends or (None,)))


def p_text(value: float) -> str:
    """A p value."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def format_interval(value: float | None, low: float | None, high: float | None) -> str:
    """A number with its interval for reading; without one, the number alone.

    ``±`` is half of the interval where that is symmetric: the middle is at most one in the last digit shown, and a
    tenth of the half, away from the number. Else both ends are shown, with two significant digits of the half.

    >>> format_interval(0.8612, 0.8422, 0.8802), format_interval(1.0, 0.4385, 1.0)
    ('0.861 ± 0.019', '1.000 [0.44, 1.00]')
    """
    text = format_value(value)
    if value is None or low is None or high is None:
        return text
    half, off = (high - low) / 2, abs((high + low) / 2 - value)
    decimals = len(text.rpartition(".")[2])
    if off < 1.5 * 10**-decimals and off <= half / 10:
        return f"{text} ± {format_value(half, like=value)}"
    needed = decimals if half == 0 else min(max(1 - math.floor(math.log10(half)), 0), decimals)
    return f"{text} [{low:,.{needed}f}, {high:,.{needed}f}]"


def json_schema() -> bytes:
    """The JSON schema of summary.json, as kept in docs/summary.schema.json."""
    schema = Summary.model_json_schema(mode="serialization")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _error_tags(numbers: Sequence[MetricSummary], statuses: Mapping[str, int]) -> list[str]:
    """What went wrong in any row."""
    tags = [status for status in NOT_OK if statuses.get(status)]
    if any(number.unparsed for number in numbers):
        tags.append("unparsed")
    if any(number.unscored > number.error + number.skipped for number in numbers):
        tags.append("unscored")
    return tags


def _of_benchmark(number: MetricSummary, drawn: Drawn) -> MetricSummary:
    """A mean over all samples with the interval of the benchmark's own score, and a mark that says so."""
    value, low, high = number.value, number.ci_low, number.ci_high
    if value is None or low is None or high is None or number.interval not in ("wilson", "t"):
        return number
    low, high = drawn.narrowed(value, Interval(low, high), number.n, number.interval)
    stderr = None if number.stderr is None else number.stderr * drawn.factor(number.n)
    update = {"ci_low": low, "ci_high": high, "stderr": stderr, "marks": [*number.marks, OF_BENCHMARK]}
    return number.model_copy(update=update)


def metric_summary(row: Mapping[str, Any], marks: Sequence[str] = ()) -> MetricSummary:
    """The number in a row of `tables.METRICS`.

    Args:
        row: the row.
        marks: what is shown next to every score of the task, such as that programs can forge it.
    """
    plain = {name: row[name] for name in MetricSummary.model_fields if name in row}
    key, value = row["value_key"], row["value"]
    return MetricSummary(**plain, marks=list(marks), raw_values={key: value}, values={key: format_value(value)})
