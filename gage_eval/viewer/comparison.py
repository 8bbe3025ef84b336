"""The comparison of two runs, as the list shows it in one chip and the page of the comparison in full."""

from typing import Literal, TypeAlias

from gage_eval.regression.compare import Compared, compare
from gage_eval.regression.evidence import Evidence
from gage_eval.runs.results.reading import RunReader
from gage_eval.viewer.opened import WAIT_S, Opened

Tone: TypeAlias = Literal["good", "bad", "plain"]


def compared(
    opened: Opened,
    run: RunReader,
    other: RunReader,
    *,
    task_id: str | None = None,
    metric: str | None = None,
    allowed: tuple[str, ...] = (),
    wait_s: float = WAIT_S,
) -> list[Compared]:
    """The tasks of a run against those of another one, remembered until one of them changes.

    Args:
        opened: the runs.
        run, other: the run, and what it is compared with.
        task_id: this task only.
        metric: this metric instead of each task's first one.
        allowed: kinds of differences that do not stop the comparison.
        wait_s: how long to wait for it.

    Raises:
        InputError: they measure different things, or share no task.
        StillIndexing: it takes longer.
    """
    key = ("compare", *_version(run), *_version(other), task_id, metric, allowed)
    what = f"the comparison of {run.run_id} and {other.run_id}"
    return opened.computed(
        key, what, lambda: compare(other, run, task_id=task_id, metric=metric, allowed=allowed), wait_s=wait_s
    )


def _version(run: RunReader) -> tuple[str, str]:
    """What changes when the run does."""
    return run.run_id, str(run.stored.record.updated)


def change_tone(evidence: Evidence) -> Tone:
    """Whether a difference is good or bad; ``plain`` while its interval holds 0."""
    if evidence.test == "none" or evidence.low <= 0 <= evidence.high:
        return "plain"
    return "good" if evidence.low > 0 else "bad"
