"""Promises of groups and slices: micro and macro agree with the tasks, unknown stays unknown, names stay text."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from run_summaries import Stage, metric_row

from gage_eval.report.console import group_lines, score_rows, slice_lines
from gage_eval.report.groups import group_summaries
from gage_eval.report.html import report_html
from gage_eval.report.metric_names import metric_name
from gage_eval.report.summary import Summary, TaskSummary, run_summary, task_summary
from gage_eval.stats import wilson_interval


@dataclass(frozen=True)
class Group:
    group_id: str = "all"
    tasks: list[str] = field(default_factory=lambda: ["a", "b"])
    metrics: list[str] = field(default_factory=list)
    description: str | None = None
    by: str | None = None
    values: list[str] = field(default_factory=list)


def task(task_id: str, *rows: dict[str, Any]) -> TaskSummary:
    return task_summary(
        task_id=task_id, dataset_id=task_id, metrics=rows, sample_count=100, statuses={"ok": 100}, model="m"
    )


def row(value: float | None, samples: int, stderr: float | None = 0.05, **more: Any) -> dict[str, Any]:
    return metric_row(value=value, stderr=stderr, rows=samples, n=samples, filter=None, **more)


def summary(tasks: list[TaskSummary], groups: list[Group]) -> Summary:
    return run_summary(
        run_id="r",
        name="n",
        tasks=tasks,
        stages=[Stage("load")],
        wall_s=1.0,
        groups=group_summaries(groups, tasks),
    )


def test_micro_weighs_samples_and_macro_weighs_tasks() -> None:
    (group,) = group_summaries([Group()], [task("a", row(0.9, 300, 0.01)), task("b", row(0.5, 100, 0.05))])
    (metric,) = group.metrics
    assert metric.n == 400
    assert metric.micro.value == pytest.approx(0.8)
    assert metric.macro.value == pytest.approx(0.7)
    pooled = ((299 * 300 * 0.01**2 + 99 * 100 * 0.05**2) / (400 - 2) / 400) ** 0.5
    assert metric.micro.stderr == pytest.approx(pooled)
    assert metric.macro.stderr == pytest.approx((0.01**2 + 0.05**2) ** 0.5 / 2)
    for score in (metric.micro, metric.macro):
        assert score.ci_low is not None
        assert score.ci_high is not None
        assert score.value is not None
        assert score.ci_low < score.value < score.ci_high


def right(task_id: str, right: int, samples: int) -> TaskSummary:
    """A task of right and wrong answers."""
    interval = wilson_interval(right, samples)
    assert interval is not None
    share = right / samples
    stderr = (share * (1 - share) / (samples - 1)) ** 0.5
    return task(task_id, row(share, samples, stderr, ci_low=interval.low, ci_high=interval.high))


def test_a_group_of_right_answers_has_the_interval_of_its_tasks() -> None:
    (group,) = group_summaries([Group()], [right("a", 3, 3), right("b", 2, 2)])
    for score in (group.metrics[0].micro, group.metrics[0].macro):
        assert (score.value, score.stderr, score.ci_high) == (1.0, 0.0, 1.0)
        assert score.ci_low is not None
        assert 0.4 < score.ci_low < 0.7
    # Zou and Donner's formula, with the tasks' own limits.
    (group,) = group_summaries([Group()], [right("a", 30, 40), right("b", 5, 10)])
    limits = [wilson_interval(30, 40), wilson_interval(5, 10)]
    for score, weights in ((group.metrics[0].micro, (0.8, 0.2)), (group.metrics[0].macro, (0.5, 0.5))):
        below = [
            w * (mean - interval.low)
            for w, mean, interval in zip(weights, (0.75, 0.5), limits, strict=True)
            if interval
        ]
        assert score.value is not None
        assert score.ci_low == pytest.approx(score.value - (below[0] ** 2 + below[1] ** 2) ** 0.5)


def test_a_group_of_other_values_keeps_students_interval() -> None:
    numbers = [row(1.0, n, 0.01, interval="t") for n in (300, 100)]
    (group,) = group_summaries([Group()], [task("a", numbers[0]), task("b", numbers[1])])
    micro = group.metrics[0].micro
    assert micro.stderr is not None
    assert micro.ci_high == pytest.approx(1 + 1.966 * micro.stderr, abs=1e-4)


def test_a_task_without_a_score_leaves_the_group_unknown_and_not_smaller() -> None:
    (group,) = group_summaries([Group()], [task("a", row(0.9, 300)), task("b", row(None, 0, None))])
    assert (group.metrics[0].micro.value, group.metrics[0].macro.value) == (None, None)


def test_only_numbers_that_all_tasks_have_and_that_are_means_are_put_together() -> None:
    numbers = [row(0.5, 10), row(0.4, 10, metric_id="other"), row(3.0, 10, aggregation="median")]
    tasks = [task("a", *numbers, row(0.1, 10, value_key="extra")), task("b", *numbers)]
    groups = group_summaries([Group(), Group("one", metrics=["other"])], tasks)
    assert [[metric.metric_id for metric in group.metrics] for group in groups] == [["exact_match", "other"], ["other"]]


def by_topic(value: float, samples: int, topic: str | None) -> dict[str, Any]:
    return row(value, samples, slice_field="data_tag.topic", slice_value=topic)


def test_a_group_of_slices_weighs_samples_or_slices() -> None:
    slices = [by_topic(0.9, 300, "sums"), by_topic(0.5, 100, "words"), by_topic(0.1, 100, "law")]
    whole = task("a", row(0.66, 500), *slices, row(0.2, 7, slice_field="data_tag.level", slice_value="sums"))
    named = Group("two", ["a"], by="data_tag.topic", values=["words", "sums"])
    groups = group_summaries([Group("all", ["a"], by="data_tag.topic"), named], [whole])
    numbers = [
        (group.members, metric.n, metric.micro.value, metric.macro.value)
        for group in groups
        for metric in group.metrics
    ]
    assert numbers == [
        (3, 500, pytest.approx(0.66), pytest.approx(0.5)),
        (2, 400, pytest.approx(0.8), pytest.approx(0.7)),
    ]
    assert group_lines(summary([whole], [named]))[0].endswith("400 samples of 2 slices")
    assert "2 slices by data_tag.topic of: a. " in report_html(summary([whole], [named]))


def test_a_slice_that_is_named_and_has_no_rows_leaves_the_group_unknown() -> None:
    (group,) = group_summaries(
        [Group("two", ["a"], by="data_tag.topic", values=["law", "sums"])],
        [task("a", row(0.9, 300), by_topic(0.9, 300, "sums"))],
    )
    assert [(metric.n, metric.micro.value, metric.macro.value) for metric in group.metrics] == [(300, None, None)]


def test_slices_are_beside_the_numbers_and_never_among_them() -> None:
    sliced = task("a", row(0.5, 10), row(1.0, 2, slice_field="data_tag.topic", slice_value="sums"))
    assert ([m.value for m in sliced.metrics], [m.value for m in sliced.slices]) == ([0.5], [1.0])
    assert sliced.slices[0].slice_name == "data_tag.topic = sums"
    result = summary([sliced], [])
    assert len(result.metrics) == len(score_rows(result)) == 1


def sliced(value: float, half: float, name: str | None) -> dict[str, Any]:
    ends = {"ci_low": value - half, "ci_high": value + half}
    return row(value, 10, slice_field="data_tag.topic", slice_value=name, **ends)


def test_the_console_names_the_slices_that_stand_out_and_no_lucky_handful() -> None:
    lucky, unlucky = sliced(1.0, 0.9, "lucky"), sliced(0.0, 0.9, "unlucky")
    with_outliers = task("a", row(0.5, 10), lucky, unlucky, sliced(0.8, 0.05, "\x1b[31msums"), sliced(0.3, 0.05, None))
    (line,) = slice_lines(summary([with_outliers], []))
    assert line.startswith("a  exact_match  by data_tag.topic (4 slices): lowest (none) 0.300 ")
    assert " · highest \N{REPLACEMENT CHARACTER}[31msums 0.800 " in line


def test_of_many_sliced_metrics_the_first_are_shown_and_the_others_counted() -> None:
    slices = [{**sliced(0.5, 0.1, name), "metric_id": f"m{n}"} for n in range(5) for name in ("x", "y")]
    lines = slice_lines(summary([task("a", row(0.5, 10), *slices)], []))
    assert [line.split()[1] for line in lines] == ["m0", "m1", "m2", "2"]
    assert lines[-1] == "a  2 more metrics by data_tag.topic are in the report"


def test_a_single_slice_and_equal_slices_name_no_extremes() -> None:
    single = task("a", row(0.5, 10), sliced(0.5, 0.1, "x"))
    equal = task("b", row(0.5, 10), sliced(0.5, 0.1, "x"), sliced(0.5, 0.2, "y"))
    (line,) = slice_lines(summary([single, equal], []))
    assert line == "b  exact_match  by data_tag.topic (2 slices): all 0.500"


def test_the_page_shows_slices_and_groups_as_text_whatever_they_hold() -> None:
    bad = "<script>alert(1)</script>"
    sliced = [row(1.0, 2, slice_field=f"x.{bad}", slice_value=value) for value in (bad, None)]
    tasks = [task("a", row(0.5, 10), *sliced), task("b", row(0.7, 10))]
    page = report_html(summary(tasks, [Group(description=bad)]))
    assert "<script" not in page
    assert "All 2 slices" in page
    assert "&lt;script&gt;" in page
    assert "(none)" in page
    assert "exact_match, micro" in page
    assert "exact_match, macro" in page


def test_the_console_shows_a_line_for_each_number_of_a_group() -> None:
    tasks = [task("a", row(0.5, 10, interval="t")), task("b", row(0.7, 10, interval="t"))]
    (line,) = group_lines(summary(tasks, [Group("\x1b[31mall")]))
    assert "micro 0.600 ±" in line
    assert "macro 0.600 ±" in line
    assert line.endswith("20 samples of 2 tasks")
    assert "\x1b" not in line


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("gsm8k", "strict-match", "score", "mean"), "gsm8k,strict-match"),
        (("latency", None, "latency_ms", "p95"), "latency p95"),
        (("bleu", None, "bleu", "corpus_bleu"), "bleu"),
        (("code", None, "acc", "pass@5"), "code pass@5"),
        (("ifeval", None, "inst_strict", "ratio"), "ifeval inst_strict"),
    ],
)
def test_names_tell_numbers_of_one_metric_apart(parts: tuple[str, str | None, str, str], name: str) -> None:
    assert metric_name(*parts) == name
