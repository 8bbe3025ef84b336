"""Where a model is served: by the run itself, or by shards."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """Where shards serve a model. It determines no result.

    Attributes:
        work_pool: name of the work pool; None for processes on the run's own machine.
        shards: processes that share the work, each with an engine.
        gpus: GPUs that each of them needs; 0 for all that it sees.
    """

    work_pool: str | None
    shards: int = 1
    gpus: int = 0
