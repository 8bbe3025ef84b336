"""Schedules that Prefect cannot read, or that never come, are refused before anything is deployed."""

import pytest

from flows.deploy import check_schedule
from gage_eval.base.errors import InputError
from gage_eval.regression.nightly import Schedule


@pytest.mark.parametrize("cron", ["61 2 * * *", "0 25 * * *", "0 2 * * someday"])
def test_a_schedule_that_is_no_cron_expression_is_refused(cron: str) -> None:
    with pytest.raises(InputError, match="is not a cron expression: give minute, hour"):
        check_schedule(Schedule(cron=cron))


@pytest.mark.parametrize("cron", ["0 2 * * *", "*/30 1-5 * * MON-FRI", "0 2 1,15 * *", "0 3 29 2 *", "0 3 31 2,3 *"])
def test_schedules_of_cron_are_taken(cron: str) -> None:
    check_schedule(Schedule(cron=cron, timezone="Europe/Berlin"))


@pytest.mark.parametrize("cron", ["0 3 30 2 *", "0 3 31 4,6,9,11 *"])
def test_a_schedule_that_never_comes_is_refused(cron: str) -> None:
    with pytest.raises(InputError, match=r"never comes: .* change one of the two"):
        check_schedule(Schedule(cron=cron, timezone="Europe/Berlin"))
