"""Where a model is served: by the run itself, or on a work pool."""

from dataclasses import dataclass

# The work pool that stands for the machine of the run itself.
HERE = "local"


@dataclass(frozen=True)
class Placement:
    """A work pool whose machines serve a model. It determines no result.

    Attributes:
        work_pool: its name.
        gpus: GPUs that the engine's servers need together.
    """

    work_pool: str
    gpus: int = 0
