"""Schedules that Prefect cannot read are refused before anything is deployed."""

import pytest

from flows.deploy import check_schedule
from gage_eval.errors import InputError
from gage_eval.regression.nightly import Schedule


@pytest.mark.parametrize("cron", ["61 2 * * *", "0 25 * * *", "0 2 * * someday"])
def test_a_schedule_that_is_no_cron_expression_is_refused(cron: str) -> None:
    with pytest.raises(InputError, match="is not a cron expression: give minute, hour"):
        check_schedule(Schedule(cron=cron))


@pytest.mark.parametrize("cron", ["0 2 * * *", "*/30 1-5 * * MON-FRI", "0 2 1,15 * *"])
def test_schedules_of_cron_are_taken(cron: str) -> None:
    check_schedule(Schedule(cron=cron, timezone="Europe/Berlin"))
