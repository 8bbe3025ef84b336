"""run.json: the options of a run and what it did, stage by stage. It is the only source of both."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from gage_eval.base.canonical import decode
from gage_eval.base.errors import InputError
from gage_eval.base.stages import STAGES, Stage, StageResult
from gage_eval.report.model_run import ModelRun, model_title, under_test
from gage_eval.report.suite_run import SuiteRun, noted, titled

RunStatus: TypeAlias = Literal["running", "completed", "failed", "interrupted"]
StageState: TypeAlias = Literal["running", "finished", "cached", "failed", "stopped"]

_DIGEST = r"^[0-9a-f]{64}$"


class _Model(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, protected_namespaces=(), defer_build=True)


class StageRecord(_Model):
    """The state of a task's stage."""

    state: StageState = Field(description="stopped: the run ended before the stage, without an error of the stage.")
    started: AwareDatetime | None = Field(None, description="When the stage was last started.")
    seconds: float | None = Field(None, description="Wall time of the finished stage.")
    key: str | None = Field(None, pattern=_DIGEST, description="Key of the finished stage's action.")
    outputs: dict[str, Annotated[str, Field(pattern=_DIGEST)]] = Field(
        {}, description="Artifact ids by output, of the last time the stage finished."
    )
    complete: bool = Field(default=True, description="False if rows ended in error and will be asked again.")
    counts: dict[str, int] = Field({}, description="Counts of the finished stage: rows by output, sent, reused, ….")
    done: int = Field(0, description="Rows done so far, while the stage runs.")
    total: int | None = Field(None, description="Total number of rows, if known.")
    figures: dict[str, int | float] = Field(
        {}, description="in_flight, retried, errors, rows_per_s, while the stage runs."
    )
    error: str | None = Field(None, description="Why it failed.")

    @classmethod
    def of(cls, result: StageResult) -> "StageRecord":
        """The record of a stage that finished."""
        return cls(
            state="cached" if result.cached else "finished",
            started=datetime.fromtimestamp(result.started, UTC) if result.started else None,
            seconds=round(result.seconds, 6),
            key=result.key,
            outputs=result.outputs,
            complete=result.complete,
            counts=result.counts,
        )


class ConfigRecord(_Model):
    """The config of a run."""

    source: str
    digest: str
    text: str = Field(description="The config as written; references to secrets are not replaced.")
    blocks: dict[str, dict[str, Any]] = Field({}, description="Backends that Prefect blocks gave, by the block's name.")


class ProcessRecord(_Model):
    """The process that carries out a run."""

    host: str
    pid: int
    born: int = Field(description="Start time: distinguishes the process from a later one with the same pid.")


class FlowRunRecord(_Model):
    """The Prefect flow run of a run."""

    flow_run_id: str
    flow_run_name: str
    url: str | None = None
    bundle: str | None = Field(None, description="Name of the bundle that a retry reads the config and its files from.")
    unreported_at: str | None = Field(
        None,
        description="API that does not know yet how the run ended; None if it knows.",
    )
    queued_s: float | None = Field(
        None, description="Seconds between the time it was scheduled for and its last start; None without a worker."
    )


class ProbeRecord(_Model):
    """A model under test that `gage probe` had measured when the run began: whether it repeats its answers in a crowd.

    The verdict holds for one model, engine, device, settings and concurrency, whose digest is ``identity``.
    """

    model: str
    tasks: list[str] = Field(description="The tasks that ask it.")
    identity: str = Field(pattern=_DIGEST, description="Name of the verdict's file in the store, below probes/.")
    verdict: Literal["exact", "near", "drifting"]
    text: str = Field(description="The verdict in a sentence.")
    probed: AwareDatetime


class RescoredRecord(_Model):
    """For a run of `gage score --save`: which run's responses it scored, and with which metrics."""

    run_id: str
    metrics: list[dict[str, Any]]


class RunRecord(_Model):
    """The content of run.json."""

    schema_version: Literal[2] = 2
    run_id: str = ""
    gage_eval: str | None = Field(None, description="Version of gage-eval that last ran it.")
    name: str = Field(description="Name of the config or suite.")
    status: RunStatus
    created: AwareDatetime
    resumed: AwareDatetime | None = Field(None, description="When it was last resumed.")
    updated: AwareDatetime | None = Field(None, description="When this file was last written: a sign of life.")
    finished: AwareDatetime | None = None
    error: str | None = Field(None, description="Why it failed.")
    tasks: list[str]
    options: dict[str, Any] = Field(description="`RunOptions`, used to resume the run.")
    config: ConfigRecord
    process: ProcessRecord | None = None
    prefect: FlowRunRecord | None = None
    packages: dict[str, str] = Field({}, description="Versions of Python and of packages that results may depend on.")
    rescored: RescoredRecord | None = None
    suite: SuiteRun | None = Field(None, description="The suite; None for a run of another config.")
    models: list[ModelRun] = Field([], description="The models that it asks.")
    probes: list[ProbeRecord] = Field([], description="What gage probe knew of its models under test at that time.")
    tool_lists: dict[str, str] = Field({}, description="Digests of what MCP servers listed, by server.")
    commit: str | None = Field(None, description="Git commit of the config's folder; None outside of a repository.")
    pinned: bool = Field(default=True, description="Whether all its data are fixed: files, or commits of the hub.")
    refreshed: list[str] = Field([], description="Stages that --refresh has computed again, as task/stage.")
    stages: dict[str, StageRecord] = Field({}, description="Stages by task/stage, in the order of their start.")

    @field_validator("stages", "refreshed")
    @classmethod
    def _stages(cls, value: dict[str, StageRecord] | list[str]) -> dict[str, StageRecord] | list[str]:
        for name in value:
            task_id, _, stage = name.rpartition("/")
            if not task_id or stage not in STAGES:
                raise ValueError(f"'{name[:80]}' does not name a task and a stage")
        return value

    @classmethod
    def read(cls, data: bytes, location: str | PurePath) -> "RunRecord":
        """Read the record from a run.json.

        Raises:
            InputError: it is damaged; the message names the field.
        """
        try:
            value = decode(data)
        except ValueError as error:
            raise _damaged(location, f"it is not JSON ({error})") from error
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            raise _damaged(location, f"{where}: {problem['msg']}" if where else problem["msg"]) from error

    def text(self) -> bytes:
        """The content of run.json."""
        return self.model_dump_json(indent=2, exclude_none=True).encode() + b"\n"

    def probe_of(self, task_id: str) -> ProbeRecord | None:
        """What gage probe knew of the model that a task asks."""
        return next((probe for probe in self.probes if task_id in probe.tasks), None)

    @property
    def title(self) -> str:
        """What was run; of a suite with its version, and whether it was modified; whether it is a subset."""
        return titled(self.name, self.suite, bool(self.subset))

    @property
    def label(self) -> str:
        """What stands next to each score of the run: `` (modified)``, `` (subset)``, or nothing."""
        return noted(self.suite, bool(self.subset))

    @property
    def subset(self) -> tuple[str, ...]:
        """The choices of a run of some samples only, as ``mmlu[anatomy]`` or ``200 samples at random``."""
        drawn = self.options.get("quick")
        return tuple(choice for choice in self.options.get("task_ids") or () if "[" in choice) + (
            () if drawn is None else (f"{drawn} samples at random",)
        )

    @property
    def model(self) -> str | None:
        """The models under test, as they are shown; None where none is recorded."""
        return model_title(self.models)

    @property
    def tested(self) -> tuple[str, ...]:
        """The declared names of the models under test: runs with the same ones are of one line in a trend."""
        return tuple(dict.fromkeys(model.name for model in under_test(self.models)))

    @property
    def by_stage(self) -> dict[tuple[str, Stage], StageRecord]:
        """The stages by (task id, stage)."""
        return {stage_id_of(name): stage for name, stage in self.stages.items()}

    def with_stages(self, stages: Mapping[str, StageRecord]) -> "RunRecord":
        """The record with these stages replaced or added."""
        return self.model_copy(update={"stages": {**self.stages, **stages}})

    def with_stopped_stages(self) -> "RunRecord":
        """The record with all running stages marked as stopped."""
        running = {name: stage for name, stage in self.stages.items() if stage.state == "running"}
        return self.with_stages(
            {name: stage.model_copy(update={"state": "stopped"}) for name, stage in running.items()}
        )


def reported(record: RunRecord) -> RunRecord:
    """The record after the run's end was reported to Prefect."""
    assert record.prefect is not None
    return record.model_copy(update={"prefect": record.prefect.model_copy(update={"unreported_at": None})})


def stage_name(task_id: str, stage: str) -> str:
    """The name of a task's stage in run.json."""
    return f"{task_id}/{stage}"


def stage_id_of(name: str) -> tuple[str, Stage]:
    """(task id, stage) of a `stage_name`."""
    task_id, _, stage = name.rpartition("/")
    return task_id, cast("Stage", stage)


def _damaged(location: str | PurePath, why: str) -> InputError:
    return InputError(f"{location} is not a run record ({why.rstrip('.')}). Restore it, or remove the run's folder.")
