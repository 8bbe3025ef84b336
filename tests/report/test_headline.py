"""One function decides which number of a task people quote; it is first in every list."""

import pytest

from gage_eval.report.headline import headline_first
from gage_eval.report.summary import TaskSummary, task_summary
from gage_eval.scoring.scorecards.card import CardRule
from tests.report.run_summaries import metric_row

ROWS = [
    metric_row(),
    metric_row(filter="flexible-extract"),
    metric_row(filter="flexible-extract", aggregation="pass@2"),
    metric_row(metric_id="ifeval", filter=None, value_key="prompt_strict"),
]


def scored(rows: list[dict[str, object]] = ROWS, **settings: object) -> TaskSummary:
    task = {"task_id": "gsm8k", "dataset_id": "d", "sample_count": 9, "statuses": {}, "metrics": rows}
    return task_summary(**task | settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("quoted", "primary", "first"),
    [
        ("exact_match,flexible-extract", None, "exact_match,flexible-extract"),
        ("exact_match,flexible-extract pass@2", None, "exact_match,flexible-extract pass@2"),
        ("ifeval prompt_strict", "exact_match,flexible-extract", "ifeval prompt_strict"),
        ("ifeval", None, "ifeval prompt_strict"),
        ("acc", "exact_match,flexible-extract", "exact_match,flexible-extract"),
        ("acc", "f1", "exact_match,strict-match"),
        (None, None, "exact_match,strict-match"),
    ],
)
def test_the_suites_own_number_comes_first_then_the_profiles_then_the_configs(
    quoted: str | None, primary: str | None, first: str
) -> None:
    numbers = headline_first(scored().metrics, quoted, primary)
    assert numbers[0].name == first
    others = [number.name for number in scored().metrics if number.name != first]
    assert [number.name for number in numbers[1:]] == others


def test_a_quoted_number_with_other_aggregations_only_is_still_the_headline() -> None:
    task = scored([ROWS[0], ROWS[2]], headline="exact_match,flexible-extract")
    assert task.metrics[0].name == "exact_match,flexible-extract pass@2"


def test_a_task_without_numbers_has_no_headline() -> None:
    assert headline_first([], "acc") == []


def test_slices_and_the_score_card_begin_with_the_headline_too() -> None:
    slices = [row | {"slice_field": "topic", "slice_value": "algebra"} for row in ROWS]
    task = scored([*ROWS, *slices], headline="ifeval prompt_strict", card=CardRule("text"))
    assert task.slices[0].name == "ifeval prompt_strict"
    assert task.score_card is not None
    assert task.score_card.primary_metric == "ifeval"
