"""Limits and the seeded order: the same rows everywhere, and a smaller limit is a prefix."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gage_eval.data.datasets import Record, select

ROWS: list[Record] = [(number, f"row {number} ü") for number in range(1, 41)]


def test_without_shuffle_the_first_rows_are_taken_and_no_more_is_read() -> None:
    read = []

    def source() -> Iterator[Record]:
        for row in ROWS:
            read.append(row)
            yield row

    assert list(select(source(), 3)) == ROWS[:3]
    assert len(read) == 3
    assert list(select(ROWS)) == ROWS
    assert list(select(ROWS, 0)) == []


@settings(deadline=None)
@given(seed=st.integers(), limit=st.integers(0, 45))
def test_a_smaller_limit_is_a_prefix_of_the_same_order(seed: int, limit: int) -> None:
    everything = list(select(ROWS, shuffle=True, seed=seed))
    assert sorted(everything) == ROWS
    assert list(select(ROWS, limit, shuffle=True, seed=seed)) == everything[:limit]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_limit_may_be_larger_than_any_number_of_rows(shuffle: bool) -> None:
    assert sorted(select(ROWS, 10**30, shuffle=shuffle)) == sorted(ROWS)


def test_the_order_is_fixed_for_ever() -> None:
    assert [line for line, _ in select(ROWS, 5, shuffle=True, seed=123)] == [27, 7, 31, 17, 35]
    assert list(select(ROWS, 5, shuffle=True, seed=124)) != list(select(ROWS, 5, shuffle=True, seed=123))


def test_the_order_of_a_row_does_not_depend_on_rows_that_come_later() -> None:
    longer = [*ROWS, *((number, "later") for number in range(41, 60))]
    kept = [row for row in select(longer, shuffle=True, seed=5) if row[0] <= 40]
    assert kept == list(select(ROWS, shuffle=True, seed=5))


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        select(ROWS, -1)
