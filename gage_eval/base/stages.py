"""The result of a stage. It is passed between stages, reported to observers, and recorded in run.json."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class StageResult:
    """Names of artifacts, never data.

    Attributes:
        stage: the stage's name.
        task_id: the task it ran for.
        key: the action's key.
        outputs: artifact id by output name.
        cached: the action was there and complete; nothing was computed.
        complete: False when rows ended in error and will be asked again.
        counts: rows of the main output and what else the stage counts.
        started: when the stage started in this run, seconds since the epoch.
        seconds: wall time the stage took in this run.
    """

    stage: str
    task_id: str
    key: str
    outputs: dict[str, str]
    cached: bool
    complete: bool = True
    counts: dict[str, int] = field(default_factory=dict)
    started: float = 0.0
    seconds: float = 0.0
