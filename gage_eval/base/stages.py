"""What a stage is, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Stage: TypeAlias = Literal["load", "standardize", "preprocess", "support", "infer", "judge", "auto_eval", "report"]
Phase: TypeAlias = Literal["data", "inference", "judging", "scoring", "report"]


@dataclass(frozen=True)
class StageDescription:
    """The description of a stage, for planning, timing, display and reading.

    Attributes:
        phase: the part of a run that its time counts for.
        inputs: the inputs that it may read. Each but ``few_shot`` is named after the output that it takes.
        outputs: the outputs that it always writes, the main one first. Judges that only samples name and adapters
            that parse answers add more.
        more_outputs: those that it writes for some tasks.
        noun: what it counts, in the singular; None if its count is not worth a word.
        count: the name of that count; the main output by default.
        tone: its colour in charts, as the report's style sheet names it.
    """

    phase: Phase
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    noun: str | None = "row"
    count: str | None = None
    tone: str = "line"
    more_outputs: tuple[str, ...] = ()

    @property
    def asks_a_model(self) -> bool:
        """Whether it sends requests."""
        return self.phase in ("inference", "judging")

    @property
    def counted(self) -> str:
        """The name of the count that says how much it did."""
        return self.count or self.outputs[0]


# In the order in which they run.
STAGES: Mapping[Stage, StageDescription] = {
    "load": StageDescription("data", (), ("raw",)),
    "standardize": StageDescription("data", ("raw",), ("samples", "rejects")),
    "preprocess": StageDescription(
        "data", ("samples", "few_shot"), ("prepared", "prepare_rejects"), noun="request", count="requests"
    ),
    "support": StageDescription(
        "inference", ("prepared", "samples"), ("support_responses", "support_response_telemetry"), tone="plain"
    ),
    "infer": StageDescription(
        "inference", ("prepared", "samples", "support_responses"), ("responses", "response_telemetry"), tone="accent"
    ),
    "judge": StageDescription(
        "judging",
        ("prepared", "samples", "responses", "support_responses"),
        ("judgments",),
        noun="judgment",
        tone="warn",
    ),
    "auto_eval": StageDescription(
        "scoring",
        ("samples", "responses", "response_telemetry", "judgments"),
        ("metrics",),
        noun="score",
        tone="soft",
        more_outputs=("executions", "execution_telemetry"),
    ),
    "report": StageDescription(
        "report",
        ("metrics", "samples", "rejects", "prepare_rejects", "responses", "judgments", "executions"),
        ("report",),
        noun=None,
    ),
}
# The stages that ask models.
ASKING: tuple[Stage, ...] = tuple(stage for stage, info in STAGES.items() if info.asks_a_model)
_WRITERS: Mapping[str, Stage] = {
    output: stage for stage, info in STAGES.items() for output in (*info.outputs, *info.more_outputs)
}


def writer_of(output: str) -> Stage:
    """The stage that writes one of the `StageDescription.outputs`."""
    return _WRITERS[output]


def stages_before(stage: Stage) -> tuple[Stage, ...]:
    """The stages before a stage, in their order."""
    order = tuple(STAGES)
    return order[: order.index(stage)]


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

    stage: Stage
    task_id: str
    key: str
    outputs: dict[str, str]
    cached: bool
    complete: bool = True
    counts: dict[str, int] = field(default_factory=dict)
    started: float = 0.0
    seconds: float = 0.0
