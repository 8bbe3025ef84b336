"""Promises of aggregation: replicates first, intervals by kind, counts beside every number."""

import math
from typing import Any

import pyarrow as pa
import pytest
from score_tables import answers, responses, sample, samples

from gage_eval.scoring.metrics import BoundMetric, bind
from gage_eval.stats import t_interval, wilson_interval


def _table(bound: BoundMetric, rows: list[tuple[int, int, str]]) -> pa.Table:
    """Scores of (row, replicate, answer); every label is "1"."""
    wanted = samples([sample(i, "1") for i in range(max((row for row, _, _ in rows), default=-1) + 1)])
    return bound.score_table(
        {
            "samples": wanted,
            "responses": responses([{"row_index": row, "replicate": k, "answer": text} for row, k, text in rows]),
        }
    )


def _one(bound: BoundMetric, tables: list[pa.Table], counts: dict[str, int] | None = None) -> dict[str, Any]:
    (row,) = bound.aggregate(tables, counts or {})
    return row


def test_a_zero_one_metric_has_wilsons_interval() -> None:
    bound = bind("exact_match")
    row = _one(bound, [_table(bound, [(0, 0, "1"), (1, 0, "1"), (2, 0, "0"), (3, 0, "1")])])
    assert (row["value"], row["n"], row["rows"], row["interval"]) == (0.75, 4, 4, "wilson")
    assert (row["ci_low"], row["ci_high"]) == wilson_interval(3, 4)
    assert row["stderr"] == pytest.approx(0.25)


def test_other_values_have_students_interval() -> None:
    bound = bind("text_length")
    row = _one(bound, [_table(bound, [(0, 0, "a" * 103), (1, 0, "a" * 102), (2, 0, "a" * 107)])])
    assert (row["value"], row["interval"]) == (104.0, "t")
    assert (row["ci_low"], row["ci_high"]) == t_interval(104.0, row["stderr"], 2)


@pytest.mark.parametrize("label", ["x", "1"])
def test_continuous_values_that_are_all_equal_have_no_interval(label: str) -> None:
    """All F1 of four answers are 0, or 1: that says nothing about how far F1 spreads."""
    bound = bind("token_f1")
    table = _table(bound, [(row, 0, label) for row in range(4)])
    f1, exact = bound.aggregate([table], {})
    assert (f1["value"], f1["stderr"]) == (float(label == "1"), 0.0)
    assert (f1["interval"], f1["ci_low"], f1["ci_high"]) == (None, None, None)
    assert (exact["interval"], exact["value"]) == ("wilson", f1["value"])


def test_continuous_values_that_happen_to_be_zero_and_one_have_students_interval() -> None:
    bound = bind("token_f1")
    f1, _ = bound.aggregate([_table(bound, [(0, 0, "1"), (1, 0, "x"), (2, 0, "1")])], {})
    assert f1["interval"] == "t"


def test_a_renamed_number_keeps_what_its_metric_declares() -> None:
    bound = bind("exact_match", value_key="hits")
    row = _one(bound, [_table(bound, [(0, 0, "1"), (1, 0, "1")])])
    assert (row["value_key"], row["interval"]) == ("hits", "wilson")


def test_replicates_are_reduced_to_their_mean_before_anything_else() -> None:
    bound = bind("exact_match")
    table = _table(bound, [(0, 0, "1"), (0, 1, "1"), (0, 2, "0"), (0, 3, "0"), (1, 0, "1")])
    row = _one(bound, [table])
    # Samples 0.5 and 1.0: not the mean 3/5 of the rows.
    assert (row["value"], row["rows"], row["n"], row["interval"]) == (0.75, 5, 2, "t")
    assert row["stderr"] == pytest.approx(0.25)


def test_parts_and_their_order_do_not_change_the_number() -> None:
    bound = bind("text_length")
    whole = _table(bound, [(i, 0, "x" * (i % 7)) for i in range(50)])
    parts = [whole.slice(0, 20), whole.slice(20, 0), whole.slice(20)]
    assert _one(bound, parts) == _one(bound, [whole])
    assert _one(bound, parts[::-1]) == _one(bound, [whole])


def test_one_sample_has_no_standard_error() -> None:
    bound = bind("text_length")
    row = _one(bound, [_table(bound, [(0, 0, "abc")])])
    assert (row["value"], row["stderr"], row["ci_low"], row["interval"]) == (3.0, None, None, None)


def test_nothing_scored_is_null_and_never_zero() -> None:
    bound = bind("exact_match", on_missing_field="ignore")
    table = bound.score_table({"samples": samples([sample(0, None)]), "responses": responses([{"answer": "a"}])})
    for tables in ([table], []):
        row = _one(bound, tables, {"error": 3})
        assert (row["value"], row["stderr"], row["ci_low"], row["n"], row["error"]) == (None, None, None, 0, 3)


def test_response_statuses_stand_beside_the_number() -> None:
    bound = bind("exact_match")
    counts = {"ok": 5, "truncated": 4, "refused": 3, "error": 2, "skipped": 1, "rows": 15}
    row = _one(bound, [_table(bound, [(0, 0, "1")])], counts)
    assert {key: row[key] for key in ("truncated", "refused", "error", "skipped")} == {
        "truncated": 4,
        "refused": 3,
        "error": 2,
        "skipped": 1,
    }


def test_standard_error_is_that_of_the_sample() -> None:
    bound = bind("text_length")
    lengths = [1, 4, 4, 7]
    row = _one(bound, [_table(bound, [(i, 0, "x" * length) for i, length in enumerate(lengths)])])
    spread = math.sqrt(sum((x - 4) ** 2 for x in lengths) / 3)
    assert row["stderr"] == pytest.approx(spread / 2, rel=1e-15)


def test_unparsed_rows_with_a_value_are_counted_beside_the_unparsed_ones() -> None:
    metric = bind("mmmu_accuracy", {"on_unparsed": "random"}, on_missing_field="ignore")
    rows = [sample(i, "B", options=[{"id": "A", "content": "x"}, {"id": "B", "content": "y"}]) for i in range(20)]
    table = metric.score_table({"samples": samples(rows), "responses": answers(["no idea"] * 19 + ["(B)"])})
    right = sum(dict(row["values"])["acc"] for row in table.to_pylist()[:19])
    (number,) = metric.aggregate([table], {"ok": 20})
    assert 0 < right < 19
    assert (number["unparsed"], number["unparsed_credited"]) == (19, int(right))
