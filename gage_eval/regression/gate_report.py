"""The report of a run that was measured against a baseline: it gets the verdict and the trend."""

import logging
from collections.abc import Sequence

from gage_eval.regression.gating import GateResult
from gage_eval.regression.report_adapter import gated_comparison
from gage_eval.report.trend_chart import TrendPoint
from gage_eval.runs.folder import REPORT_FILE, RunFolder
from gage_eval.runs.results.reading import RunReader
from gage_eval.runs.results.report_details import stored_report

_log = logging.getLogger(__name__)


def write_report(run: RunReader, newest: GateResult, anchor: GateResult | None, points: Sequence[TrendPoint]) -> bool:
    """Write report.html of a run again, with the gate's verdict and the trend.

    Args:
        run: the run.
        newest: the result against the newest entry of the baseline.
        anchor: that against its first entry, where this is another one.
        points: the trends of the tasks, up to this run.

    Returns:
        Whether it could be written. The verdict does not depend on it.
    """
    try:
        comparison = gated_comparison(newest, anchor, points)
        # Listings open folders read-only.
        folder = RunFolder.open(run.stored.folder.locations, run.run_id)
        folder.write(REPORT_FILE, stored_report(run, comparison).encode())
    except Exception as error:  # noqa: BLE001 - whatever it is, the verdict is there
        _log.warning("report.html of run %s has no verdict, because it could not be written: %s", run.run_id, error)
        return False
    return True
