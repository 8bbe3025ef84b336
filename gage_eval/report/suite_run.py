"""Which suite a run is a run of, as run.json and summary.json keep it."""

from pydantic import Field

from gage_eval.base.strict_model import StrictModel


class SuiteRun(StrictModel):
    """The suite that a run is a run of."""

    name: str = Field(description="Name of the suite.")
    version: str = Field(description="Its version.")
    digest: str = Field(description="Digest of its definition, as it was released.")
    metric: str | None = Field(default=None, description="The number that people quote, as it is printed.")
    modified: list[str] = Field(
        default=[], description="Values of its logic that were changed for this run; then no score is the suite's."
    )


def noted(suite: SuiteRun | None, subset: bool) -> str:
    """What stands next to each score: `` (modified)``, `` (subset)`` for some subjects of a task only, or nothing."""
    return " (modified)" if suite is not None and suite.modified else " (subset)" if subset else ""


def titled(name: str, suite: SuiteRun | None, subset: bool) -> str:
    """What was run, as it is shown: ``gsm8k v1``, ``gsm8k v1, modified``, ``mmlu v1, subset``."""
    what = name if suite is None else f"{suite.name} {suite.version}"
    return f"{what}{', modified' if suite is not None and suite.modified else ''}{', subset' if subset else ''}"
