"""What commands print with ``--json``, typed. `docs/outputs.schema.json` is made from here.

A command of this list keeps its keys: a new version may add some, and removes none without a line in the changelog.
"""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

# That of the standard library works with pydantic from Python 3.12.
from typing_extensions import TypedDict

from gage_eval.authoring.self_test import TaskSelfTest
from gage_eval.cli.doctor import Check
from gage_eval.engine.probe import Verdict
from gage_eval.pipeline.forecast import Forecast
from gage_eval.regression.baselines import BaselineScore
from gage_eval.regression.definitions import Difference
from gage_eval.report.summary import Summary
from gage_eval.report.trend_chart import TrendPoint
from gage_eval.runs.lengths import ShortLimit
from gage_eval.runs.record import RunRecord
from gage_eval.runs.results.calls import ModelCall
from gage_eval.runs.results.explain import ExplainedAnswer, Tally
from gage_eval.runs.results.listing import RunRow, ShownStage
from gage_eval.runs.results.rejects import Reject
from gage_eval.store import ArtifactEntry, Finding

Json = dict[str, Any]


class ShownRun(TypedDict):
    """A run: run.json, its stages, and summary.json once it has completed."""

    run_id: str
    folder: str
    status: str
    record: RunRecord
    stages: list[ShownStage]
    summary: Summary | None


@dataclass(frozen=True)
class ShownAnswer(ExplainedAnswer):
    """An answer and why it has its score; sent are the requests."""

    sent: list[Json]


@dataclass(frozen=True)
class Outcomes(Tally):
    """Answers of a task with an outcome: how many of how many, and the first of them."""

    task_id: str
    metric: str | None
    shown: list[ShownAnswer]


class ShownSample(TypedDict):
    """A sample with everything that was sent, answered and scored."""

    run_id: str
    task_id: str
    sample_id: str
    question: str
    expected: str | None
    sample: Json
    calls: list[ModelCall]
    judgments: list[Json]
    executions: list[Json]
    scores: list[Json]


class Entry(TypedDict):
    """What a config can name. Other keys depend on the kind."""

    name: str
    summary: str
    version: NotRequired[int | str | None]
    versions: NotRequired[list[str]]
    origin: NotRequired[str]
    info: NotRequired[Json]
    step: NotRequired[str]
    spellings: NotRequired[list[str]]
    config: NotRequired[str]
    tasks: NotRequired[int]
    rows: NotRequired[int | None]
    metric: NotRequired[str | None]
    needs: NotRequired[list[str]]
    licence: NotRequired[str | None]
    download_bytes: NotRequired[int | None]


@dataclass(frozen=True)
class TaskDifference(Difference):
    """A recorded value of a task that differs between two runs; of the whole run the task is empty."""

    task_id: str


class SliceChange(TypedDict):
    """How a slice moved; positive is better."""

    slice: str
    n: int
    difference: float
    ci_low: float | None
    ci_high: float | None
    stands_out: bool


class NoiseFloor(TypedDict):
    """How many of the rows score differently in two of these identical runs (A/A), on average."""

    runs: int
    rows: int
    flips: float


class ComparedTask(TypedDict):
    """A task in two runs, paired by sample; positive differences are better. p_holm is adjusted over the tasks."""

    task_id: str
    metric: str
    n: int
    baseline: float | None
    current: float | None
    difference: float | None
    ci_low: float | None
    ci_high: float | None
    test: str
    p: float | None
    p_holm: float | None
    detectable_loss: float | None
    noise_floor: NoiseFloor | None
    unpaired: int
    better: list[str]
    worse: list[str]
    slices: list[SliceChange]
    differences: list[Difference]
    allowed_different: list[str]
    notes: list[str]
    corrected_labels: NotRequired[int]
    corrected_difference: NotRequired[float | None]
    corrected_ci_low: NotRequired[float | None]
    corrected_ci_high: NotRequired[float | None]
    corrected_labels_needed: NotRequired[int | None]
    corrected_why_not: NotRequired[str | None]
    whole_samples: NotRequired[int]
    whole_score: NotRequired[float | None]
    whole_ci_low: NotRequired[float | None]
    whole_ci_high: NotRequired[float | None]
    whole_gain: NotRequired[float | None]


class Compared(TypedDict):
    """A run against the first one."""

    baseline: str
    current: str
    tasks: list[ComparedTask]


class MatrixCell(TypedDict):
    """A run of a matrix, or why there is none."""

    row: str
    model: str
    run: str | None
    error: str | None


class Standing(TypedDict):
    """A model's score on a task with the ranks, best to worst, that chance leaves open."""

    row: str
    task_id: str
    metric: str
    model: str
    run: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    best: int
    worst: int


class Average(TypedDict):
    """A model's mean over tasks, every task the same: over how many, of how many."""

    model: str
    value: float | None
    low: float | None
    high: float | None
    tasks: int
    of: int


class Rating(TypedDict):
    """A model's win rate and Bradley–Terry rating in a pairwise task; no rating exists without a win and a loss."""

    row: str
    task_id: str
    model: str
    win_rate: float | None
    win_rate_low: float | None
    win_rate_high: float | None
    rating: float | None
    rating_low: float | None
    rating_high: float | None
    exists: bool
    rating_at_equal_style: float | None
    rating_at_equal_style_low: float | None
    rating_at_equal_style_high: float | None
    win_rate_at_equal_length: float | None
    win_rate_at_equal_length_low: float | None
    win_rate_at_equal_length_high: float | None
    better_than: int
    consistent: float | None
    position_bias: float | None
    n: int


class Matrix(TypedDict):
    """Suites × models."""

    name: str
    cells: list[MatrixCell]
    standings: list[Standing]
    averages: list[Average]
    ratings: list[Rating]


class GatedTask(TypedDict):
    """The verdict on a task; details has the test, its bounds and the samples that moved."""

    task_id: str
    metric: str
    tier: Literal["critical", "supporting", "advisory"] | None
    verdict: Literal["regressed", "improved", "passed", "inconclusive"]
    baseline_score: float | None
    current_score: float | None
    delta: float | None
    regressed: bool
    details: Json


class Gated(TypedDict):
    """The verdict on a run."""

    run: str
    baseline: str
    entry: int
    suite: str
    rule: Json
    verdict: str
    regressed: bool
    unwatched: list[str]
    policy: Json | None
    tasks: list[GatedTask]
    anchor: NotRequired["Gated | None"]


class Baseline(TypedDict):
    """A state of a baseline."""

    suite: str
    name: str
    number: int
    created: str
    by: str
    why: str
    runs: list[str]
    tasks: list[str]
    scores: NotRequired[list[BaselineScore]]


class NumberPower(TypedDict):
    """What the gate could find of a number (`regression.power.NumberPower`)."""

    task_id: str
    metric: str
    against: str
    rows: int
    detectable_loss: float | None
    point: float | None
    rows_for_point: int | None
    tolerance: float
    alpha: float


class Planned(TypedDict):
    """A run that was planned only."""

    name: str
    store: str
    fetch: list[Json]
    stages: list[Forecast]
    power: list[NumberPower]
    short_limits: list[ShortLimit]
    notes: list[str]


@dataclass(frozen=True)
class SelfTested(TaskSelfTest):
    """The same with whether all is as expected."""

    ok: bool


class Doctor(TypedDict):
    """The state of the installation; from is where a setting's value comes from."""

    ok: bool
    checks: list[Check]
    settings: list[Json]


class ServerState(TypedDict):
    """Which services of this folder are running, and their addresses."""

    running: bool
    worker: bool
    url: str | None
    viewer: str | None


class Error(TypedDict):
    """A mistake or failure, on standard error. A config's has its source and problems."""

    kind: str
    message: str
    exit_code: int
    source: NotRequired[str]
    problems: NotRequired[list[Json]]


class HarnessTask(TypedDict):
    """A task, group or tag of the lm-eval harness."""

    name: str
    kind: Literal["task", "group", "tag"]


class ErrorLine(TypedDict):
    """The line on standard error."""

    error: Error


class Why(TypedDict):
    """Answers of a task whose score differs, each with the first thing that differs (`regression.why.Flip`)."""

    task_id: str
    metric: str
    answers: int
    counts: dict[str, int]
    flips: list[Json]
    also_differing: list[Json]
    lacking: list[str]


class DatasetHealth(TypedDict):
    """What is notable about the items of a dataset, over all stored runs (`regression.health.Health`)."""

    dataset_id: str
    metric: str
    items: int
    effective: int | None
    flip_rate: float | None
    models: list[Json]
    counts: dict[str, int]
    findings: list[Json]
    lacking: list[str]
    left_out: dict[str, int]


class BenchmarkHealth(TypedDict):
    """The health of each dataset of a suite; left_out counts runs by the reason."""

    suite: str
    datasets: list[DatasetHealth]
    left_out: dict[str, int]


class Probed(Verdict):
    """A model that was asked the same alone and in crowds.

    ``properties`` has the verdicts of the check of its endpoint; ``reference`` and ``recorded`` are digests of files.
    """

    model: str
    tasks: list[str]
    reference: str | None
    recorded: str | None
    properties: list[Json]


OUTPUTS: dict[str, Any] = {
    "show": list[RunRow],
    "show RUN": ShownRun,
    "show RUN --wrong": list[Outcomes],
    "show RUN --sample ID": list[ShownSample],
    "show RUN --rejects": list[Reject],
    "list": dict[str, list[Entry] | str],
    "list KIND": list[Entry],
    "list suites --lm-eval TEXT": list[HarnessTask],
    "list runs": list[RunRow],
    **dict.fromkeys(("run", "suite", "resume", "score", "judge"), Summary),
    "suite --self-test": list[SelfTested],
    "compare": list[Compared],
    "diff": list[TaskDifference],
    "why": list[Why],
    "health": BenchmarkHealth,
    "probe": list[Probed],
    "matrix": Matrix,
    "gate": Gated,
    "baseline list": list[Baseline],
    "baseline history": list[Baseline],
    "baseline show": Baseline,
    "baseline trend": list[TrendPoint],
    "plan": Planned,
    "sql": list[Json],
    "cache ls": list[ArtifactEntry],
    "cache verify": list[Finding],
    "doctor": Doctor,
    "server status": ServerState,
    **dict.fromkeys(("validate", "preview", "plan --expanded", "cache gc", "deploy", "blocks register", "pin"), Json),
    "error": ErrorLine,
}
"""Types by command, without ``gage``."""


class _WholeDataclasses(GenerateJsonSchema):
    """Of a dataclass every key is printed, also one that has its default."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return field["type"] == "dataclass-field" or super().field_is_required(field, total)


def json_schema() -> dict[str, Any]:
    """JSON Schema of all outputs: each command's is ``#/properties/COMMAND``. Objects have no further keys."""
    adapters = [(name, "serialization", TypeAdapter(kind)) for name, kind in OUTPUTS.items()]
    by_command, schema = TypeAdapter.json_schemas(adapters, schema_generator=_WholeDataclasses)  # type: ignore[arg-type]
    definitions = {name: {"additionalProperties": False, **kind} for name, kind in schema["$defs"].items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The output of commands with --json",
        "type": "object",
        "properties": {name: by_command[name, "serialization"] for name in OUTPUTS},
        "$defs": dict(sorted(definitions.items())),
    }
