"""The models of a pipeline config.

Keys are strict everywhere except in ``backends[].config`` (checked by the backend's own model) and in
``datasets[].params`` (undeclared keys go to the loader). Types are strict too: ``limit: "5"`` is a mistake.
A key with nothing after it counts as absent.
Every field carries its mark (see `gage_eval.base.marks`). A role adapter's and a prompt's fields are marked for
``infer``; for a judge or a support adapter the planner puts the same values into the key of that stage.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    field_validator,
    model_validator,
)

from gage_eval.base.canonical import JsonValue
from gage_eval.base.field_paths import compile_path
from gage_eval.base.marks import identity, nested, scheduling, semantic
from gage_eval.config.against import AgainstConfig as AgainstConfig
from gage_eval.config.agent import AgentConfig as AgentConfig
from gage_eval.config.base_model import ConfigModel as ConfigModel
from gage_eval.config.execution import BOX_TOOLS
from gage_eval.config.execution import BoxConfig as BoxConfig
from gage_eval.config.execution import EpisodeLimitsConfig as EpisodeLimitsConfig
from gage_eval.config.execution import ExecutionConfig as ExecutionConfig
from gage_eval.config.execution import ExecutionLimitsConfig as ExecutionLimitsConfig
from gage_eval.config.execution import McpServerConfig as McpServerConfig
from gage_eval.config.execution import SimulatorConfig as SimulatorConfig
from gage_eval.config.judging import JudgeRuleConfig as JudgeRuleConfig
from gage_eval.config.judging import SecondJudgeConfig as SecondJudgeConfig
from gage_eval.config.labels import LabelsConfig as LabelsConfig
from gage_eval.config.observability import ObservabilityConfig as ObservabilityConfig
from gage_eval.config.observability import SinkConfig as SinkConfig
from gage_eval.config.observability import SinkParams as SinkParams
from gage_eval.config.stopping import DecidedConfig as DecidedConfig
from gage_eval.config.stopping import StopConfig as StopConfig
from gage_eval.config.sugar import metric_form
from gage_eval.config.verdicts import VerdictForm, wrong_labels

API_VERSION = "gage/v1alpha1"

# Ids are used in paths of runs and names of results: no separators, no leading dot, no control characters. The length
# is checked separately, because a counted repetition of Unicode letters takes a tenth of a second to compile.
LONGEST_ID = 128
ID = r"^\w[\w.@+-]*$"
Id: TypeAlias = Annotated[str, StringConstraints(pattern=ID, max_length=LONGEST_ID)]
# The other patterns of texts, which errors say in words (`gage_eval.config.validation_messages`).
FIELD = r"^[^\W\d]\w*$"
PARAMETER = r"^runtime(\.[^\s.${}][^\s${}.]*)+$"

RoleType: TypeAlias = Literal["dut_model", "judge_model", "support", "user"]
StepName: TypeAlias = Literal["support", "inference", "judge", "auto_eval", "report"]
Export: TypeAlias = Literal[
    "jsonl",
    "csv",
    "parquet",
    "per_sample_json",
    "canonical_answers",
    "media",
    "lm-eval",
    "inspect",
    "atif",
    "every-eval-ever",
    "eval-results",
    "otel",
]

ROLE_SPELLINGS: Mapping[str, RoleType] = {
    "inference": "dut_model",
    "dut": "dut_model",
    "judge": "judge_model",
    "helper": "support",
}
STEP_SPELLINGS: Mapping[str, StepName] = {"infer": "inference"}

LOADER_BY_SUFFIX: Mapping[str, str] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
}


def is_id(value: Any) -> bool:
    """Whether a value is a valid id."""
    return isinstance(value, str) and len(value) <= LONGEST_ID and re.fullmatch(ID, value) is not None


class Metadata(ConfigModel):
    """Name and purpose of a config. A run shows them; stages do not read them."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    name: str | None = scheduling(None)
    description: str | None = scheduling(None)
    version: str | None = scheduling(None)
    tags: list[str] = scheduling([])
    owner: str | None = scheduling(None)


class DatasetParams(ConfigModel):
    """The source of the rows, the choice of rows, and how they become samples. Other keys go to the loader."""

    model_config = ConfigDict(extra="allow")
    ALIASES: ClassVar[Mapping[str, str]] = {
        "max_samples": "limit",
        "shuffle_seed": "seed",
        "image_root": "content_root",
    }
    PASS_THROUGH: ClassVar[str] = "load"  # noqa: S105, a stage

    path: str | Annotated[list[str], Field(min_length=1)] | None = identity("load", None, min_length=1)
    origin: str | None = identity("load", None, min_length=1)
    limit: int | None = semantic("load", None, ge=1)
    shuffle: bool = semantic("load", default=False)
    seed: int = semantic("load", 123)
    filter: JsonValue = semantic("load", None)
    sample: int | None = semantic("load", None, ge=1)
    # How rows are read, never which ones.
    streaming: bool = scheduling(default=False)
    preprocess: str = semantic("standardize", "default", min_length=1)
    preprocess_kwargs: dict[str, JsonValue] = semantic("standardize", {})
    doc_to_text: str | None = semantic("standardize", None)
    doc_to_text_kwargs: dict[str, JsonValue] = semantic("standardize", {})
    doc_to_visual: str | None = semantic("standardize", None)
    doc_to_visual_kwargs: dict[str, JsonValue] = semantic("standardize", {})
    doc_to_audio: str | None = semantic("standardize", None)
    doc_to_audio_kwargs: dict[str, JsonValue] = semantic("standardize", {})
    content_root: str | None = identity("preprocess", None)
    allow_outside: bool = semantic("preprocess", default=False)
    embed_local_media: bool = semantic("preprocess", default=False)
    private_media_hosts: list[str] = semantic("preprocess", [])
    image_min_pixels: int | None = semantic("preprocess", None, ge=1)
    image_max_pixels: int | None = semantic("preprocess", None, ge=1)
    image_factor: int | None = semantic("preprocess", None, ge=1, le=1024)
    pdf: Literal["images", "text"] | None = semantic("preprocess", None)
    pdf_dpi: int = semantic("preprocess", 144, ge=18, le=1200)
    pdf_max_pages: int = semantic("preprocess", 50, ge=1, le=2000)
    audio_rate: int | None = semantic("preprocess", None, ge=8_000, le=192_000)
    audio_max_seconds: int = semantic("preprocess", 600, ge=1, le=14_400)
    video_frames: int | None = semantic("preprocess", None, ge=1, le=10_000)
    video_fps: float | None = semantic("preprocess", None, ge=0.001, le=240)
    video_times: bool = semantic("preprocess", default=False)
    video_form: Literal["images", "video"] = semantic("preprocess", "images")
    video_max_seconds: int = semantic("preprocess", 3_600, ge=1, le=14_400)
    max_reject_share: float = scheduling(0.0, ge=0.0, le=1.0)
    on_reject: Literal["fail", "skip"] = scheduling("fail")

    @field_validator("private_media_hosts")
    @classmethod
    def _names_hosts(cls, names: list[str]) -> list[str]:
        if names:
            from gage_eval.data.prepare.remote import PrivateHosts

            PrivateHosts(names)
        return names

    @model_validator(mode="after")
    def _has_places_for_times(self) -> "DatasetParams":
        if self.video_times and self.video_form == "video":
            raise ValueError("video_times writes texts between images: remove it, or video_form: video")
        return self


def origin_patterns(params: DatasetParams) -> dict[str, list[str]]:
    """The files of its origin that a dataset needs, as paths and patterns by the parameter that names them."""
    labels = (params.model_extra or {}).get("labels_path")
    root = params.content_root
    wanted = {
        "path": _paths(params.path) if params.path is not None else [],
        "labels_path": [labels] if isinstance(labels, str) else [],
        "content_root": [f"{root.rstrip('/')}/**" if root not in ("", ".") else "**"] if root is not None else [],
    }
    return {key: patterns for key, patterns in wanted.items() if patterns}


class HubData(ConfigModel):
    """A dataset of the Hugging Face hub."""

    hub: str = scheduling(min_length=1)
    revision: str = scheduling("main")
    commit: str | None = scheduling(None)


class DatasetConfig(ConfigModel):
    """A source of rows."""

    dataset_id: Id = semantic("report")
    loader: str = semantic("load", min_length=1)
    hub: str | None = identity("load", None, min_length=1)
    hub_params: dict[str, JsonValue] = semantic("load", {})
    built_from: list[HubData] = nested([])
    description: str | None = scheduling(None)
    params: DatasetParams = nested(DatasetParams())

    @model_validator(mode="before")
    @classmethod
    def _default_loader(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("loader") is not None:
            return data
        loader = implied_loader(data)
        if loader is not None:
            return {**data, "loader": loader}
        params = data.get("params")
        path = params.get("path") if isinstance(params, Mapping) else None
        paths = _paths(path)
        if not paths:
            raise ValueError("needs 'loader' and 'params', or 'params.path' with a file")
        loaders = [_loader_of(path) for path in paths]
        if None not in loaders:
            raise ValueError("the files of 'params.path' have different endings; name one loader for all with 'loader'")
        raise ValueError(
            f"no loader is known for the ending of '{paths[loaders.index(None)]}'; name one with 'loader', "
            f"or use {', '.join(LOADER_BY_SUFFIX)}"
        )


def implied_loader(dataset: Mapping[str, Any]) -> str | None:
    """The default loader of a dataset: by its hub, its records, or the ending of its file."""
    params = dataset.get("params")
    if dataset.get("hub"):
        return "hf_hub"
    if not isinstance(params, Mapping):
        return None
    if "records" in params:
        return "inline"
    loaders = {_loader_of(path) for path in _paths(params.get("path"))}
    return loaders.pop() if len(loaders) == 1 else None


def _paths(value: Any) -> list[str]:
    """The files that ``path`` names; empty if it is not text."""
    paths = value if isinstance(value, list) else [value]
    return paths if all(isinstance(path, str) for path in paths) else []


def _loader_of(path: str) -> str | None:
    """The loader for the ending of a file."""
    name = path.lower().removesuffix(".gz").removesuffix(".zst").removesuffix(".bz2").removesuffix(".xz")
    return next((loader for suffix, loader in LOADER_BY_SUFFIX.items() if name.endswith(suffix)), None)


class InlineBackend(ConfigModel):
    """A backend written inside a role adapter."""

    type: str = semantic("infer", min_length=1)
    config: dict[str, JsonValue] = identity("infer", {})


class BackendEntry(InlineBackend):
    """A model behind an endpoint or engine. Keys contain its identity, by the marks in the backend's config model."""

    backend_id: Id = identity("infer")


class ResourceRequirement(ConfigModel):
    """Resources that an adapter may use at a time."""

    pool_size: int | None = scheduling(None, ge=1)
    gpus: int | None = scheduling(None, ge=0)
    work_pool: str | None = scheduling(None, min_length=1)


# Outputs with what a judge was asked again are named so.
_LIKE_A_RETRY = re.compile(r"(^|_)retry_\d+$")


class RoleAdapterConfig(ConfigModel):
    """A model in a role: the model under test, a judge, or a support model before inference."""

    ALIASES: ClassVar[Mapping[str, str]] = {"generation_params": "sampling_params"}

    adapter_id: Id = identity("infer")
    role_type: RoleType = semantic("infer")
    backend: InlineBackend | None = nested(None)
    backend_id: str | None = identity("infer", None)
    capabilities: list[str] = scheduling([])
    prompt_id: str | None = identity("infer", None)
    prompt_params: dict[str, JsonValue] = semantic("infer", {})
    params: dict[str, JsonValue] = semantic("infer", {})
    sampling_params: dict[str, JsonValue] = semantic("infer", {})
    class_path: str | None = semantic("infer", None)
    # The parser of a judge's verdicts: a name or {name: {parameters}}.
    verdict_parser: str | dict[str, dict[str, JsonValue] | None] | None = semantic("judge", None)
    verdict: VerdictForm = semantic("judge", "text")
    # Labels, or labels with their scores.
    verdict_labels: list[str] | dict[str, float] | None = semantic("judge", None)
    # The judge reasons first, and its verdict is a second request.
    verdict_reasoning: bool = semantic("judge", default=False)
    embeds: bool | Literal["question"] = semantic("judge", default=False)
    # How often a judge is asked again where its answer holds no verdict.
    verdict_retries: int = semantic("judge", 0, ge=0, le=16)
    # Names of tools, or `file.py:function`; a class is several tools.
    tools: list[str] = semantic("infer", [])
    mcp_servers: list[McpServerConfig] = nested([])
    box: BoxConfig | None = nested(None)
    tool_rounds: int = semantic("infer", 0, ge=0, le=500)
    agent: AgentConfig | None = nested(None)
    limits: EpisodeLimitsConfig | None = nested(None)
    simulator: SimulatorConfig | None = nested(None)
    resource_requirement: ResourceRequirement = nested(ResourceRequirement())

    @model_validator(mode="before")
    @classmethod
    def _role_spelling(cls, data: Any) -> Any:
        return _respell(data, "role_type", ROLE_SPELLINGS)

    @model_validator(mode="after")
    def _parses_verdicts_of_judges(self) -> Self:
        if self.verdict_parser is not None and self.role_type != "judge_model":
            raise ValueError("only a judge_model has verdicts to parse: remove 'verdict_parser'")
        if self.verdict_retries and self.role_type != "judge_model":
            raise ValueError("only a judge_model has verdicts to ask for again: remove 'verdict_retries'")
        if self.role_type == "judge_model" and _LIKE_A_RETRY.search(self.adapter_id):
            raise ValueError(
                "a judge's 'adapter_id' does not end in retry_ and a number, as stored retries do: rename it"
            )
        self._check_verdict_form()
        if self.embeds and (self.role_type != "judge_model" or self.prompt_id is not None):
            raise ValueError("'embeds' is for a judge_model without a prompt: it compares answers by their embeddings")
        return self

    def _check_verdict_form(self) -> None:
        if self.verdict_reasoning and self.verdict != "labels":
            raise ValueError("'verdict_reasoning' is for verdict: labels; with schema, a judge reasons by itself")
        if self.verdict == "text" and self.verdict_labels is None:
            return
        if self.role_type != "judge_model":
            raise ValueError("only a judge_model gives verdicts: remove 'verdict' and 'verdict_labels'")
        if self.verdict == "text":
            raise ValueError("'verdict_labels' are for verdict: labels, schema or auto")
        if self.embeds:
            raise ValueError("a judge with 'embeds' gives no verdict by labels: remove 'verdict'")
        if (wrong := wrong_labels(self.verdict, self.verdict_labels)) is not None:
            raise ValueError(f"verdict: {self.verdict} {wrong}")
        if self.verdict != "auto" and self.verdict_parser is not None:
            raise ValueError(f"verdict: {self.verdict} reads no text: remove 'verdict_parser'")
        if self.verdict == "labels" and self.verdict_retries and not self.verdict_reasoning:
            raise ValueError("probabilities are the same each time: remove 'verdict_retries'")

    @model_validator(mode="after")
    def _runs_tools_in_rounds(self) -> Self:
        if (self.tools or self.mcp_servers) and not self.tool_rounds:
            raise ValueError("'tools' need 'tool_rounds', the most rounds of tool calls that are answered")
        if self.agent is not None and (self.tools or self.tool_rounds or self.mcp_servers):
            raise ValueError("an 'agent' has tools of its own: remove 'tools' and 'tool_rounds', or 'agent'")
        if self.agent is not None and self.role_type != "dut_model":
            raise ValueError("only a dut_model has an 'agent': remove it")
        if self.limits is not None and not self.tool_rounds and self.agent is None:
            raise ValueError("'limits' are for an agent or rounds of tool calls: set 'tool_rounds', or remove them")
        for name in ("same_calls", "rounds_per_turn") if self.agent is not None else ():
            if getattr(self.limits, name, None) is not None:
                raise ValueError(f"'limits.{name}' counts calls of tools that we run: remove it, or 'agent'")
        paths = [path for server in self.mcp_servers for path in server.files]
        if twice := sorted({path for path in paths if paths.count(path) > 1}):
            raise ValueError(f"two MCP servers put a file at '{twice[0]}' of one box: rename it for one of them")
        if self.box is not None and not self.has_box:
            tools = " and ".join(sorted(BOX_TOOLS))
            raise ValueError(f"'box' is for an agent, an MCP server and the tools {tools}: name one, or remove it")
        return self

    @property
    def has_box(self) -> bool:
        """Whether its episodes have a box."""
        is_served = any(server.is_boxed for server in self.mcp_servers)
        return self.agent is not None or is_served or bool(BOX_TOOLS & {*self.tools})

    @model_validator(mode="after")
    def _simulates_users(self) -> Self:
        if self.role_type != "user":
            if self.simulator is not None:
                raise ValueError("'simulator' is for role_type: user: remove it")
            return self
        named = {"mcp_servers": self.mcp_servers, "class_path": self.class_path, "limits": self.limits}
        if wrong := [name for name, value in named.items() if value]:
            raise ValueError(f"a simulated user takes no '{wrong[0]}': remove it")
        if boxed := sorted(BOX_TOOLS & {*self.tools}):
            raise ValueError(f"the tool '{boxed[0]}' is for the model under test: remove it")
        is_scripted = self.simulator is not None and self.simulator.script is not None
        if is_scripted == (self.prompt_id is not None):
            raise ValueError("a simulated user needs either 'prompt_id', with its instructions, or 'simulator.script'")
        return self


class PromptMessage(ConfigModel):
    """One message of a prompt: its content is a template."""

    role: Literal["system", "user", "assistant"] = semantic("infer")
    content: str = semantic("infer")


def _template_kind(value: Any) -> str:
    return "messages" if isinstance(value, list) else "text"


Template: TypeAlias = Annotated[
    Annotated[str, Tag("text")] | Annotated[list[PromptMessage], Tag("messages")],
    Discriminator(_template_kind),
]


class PromptConfig(ConfigModel):
    """A prompt template: one text (the user's message) or several messages."""

    prompt_id: Id = identity("infer")
    template: Template = semantic("infer")
    renderer: Literal["jinja"] = semantic("infer", "jinja")
    system_prompt: str | None = semantic("infer", None)
    params: dict[str, JsonValue] = semantic("infer", {})
    description: str | None = scheduling(None)


class MetricConfig(ConfigModel):
    """A metric in its full form. `gage_eval.config.sugar` has the short forms."""

    # Part of the metrics table's names, not of the samples' scores.
    metric_id: Id = semantic("auto_eval")
    implementation: str = semantic("auto_eval", min_length=1)
    params: dict[str, JsonValue] = semantic("auto_eval", {})
    aggregation: str | list[str] | None = semantic("auto_eval", None)
    cluster_field: str | None = semantic("auto_eval", None, min_length=1)
    weight_field: str | None = semantic("auto_eval", None, min_length=1)
    slices: list[str] = semantic("auto_eval", [])
    filters: list[JsonValue] = semantic("auto_eval", [])
    value_key: str | None = semantic("auto_eval", None)
    on_missing_field: Literal["ignore", "warn", "error"] = semantic("auto_eval", "warn")
    references: Literal["any", "all"] = semantic("auto_eval", "any")
    description: str | None = scheduling(None)

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, data: Any) -> Any:
        return metric_form(data, cls.model_fields)


class StepConfig(ConfigModel):
    """A step of a task with its adapter."""

    step: StepName = semantic("support")
    adapter_id: str | None = identity("infer", None)

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, data: Any) -> Any:
        return _respell({"step": data} if isinstance(data, str) else data, "step", STEP_SPELLINGS)


class StepsConfig(ConfigModel):
    """The steps of tasks without their own."""

    steps: list[StepConfig] = nested(min_length=1)


class FewShotConfig(ConfigModel):
    """Examples put before each sample: ``k`` of them, or those named by ``ids``.

    They come from another dataset, or without ``dataset_id`` from the sample's own ``few_shot_examples``.
    """

    ALIASES: ClassVar[Mapping[str, str]] = {"selector": "strategy", "as": "form"}

    k: int | None = semantic("preprocess", None, ge=0, le=1024)
    dataset_id: str | None = identity("preprocess", None)
    match: str | None = semantic("preprocess", None, min_length=1)
    strategy: Literal["first", "random", "balanced"] = semantic("preprocess", "first")
    seed: int = semantic("preprocess", 123)
    ids: list[str] = semantic("preprocess", [])
    # chat: turns of user and assistant; text: before the question. The default depends on the task's mode.
    form: Literal["chat", "text"] | None = semantic("preprocess", None)
    delimiter: str = semantic("preprocess", "\n\n")

    @model_validator(mode="after")
    def _says_how_many(self) -> Self:
        if self.k is None and not self.ids:
            raise ValueError("needs 'k', how many examples, or 'ids', which ones")
        if self.ids and self.dataset_id is None:
            raise ValueError("'ids' are those of another dataset: name it with 'dataset_id'")
        if self.match is not None and (self.dataset_id is None or self.ids):
            raise ValueError("'match' chooses among the rows of another dataset: give 'dataset_id', and no 'ids'")
        if len(set(self.ids)) < len(self.ids):
            raise ValueError("'ids' names an example twice")
        if self.ids and self.k is not None and self.k > len(self.ids):
            raise ValueError(f"'k' asks for {self.k} examples and 'ids' names {len(self.ids)}")
        return self

    @field_validator("match")
    @classmethod
    def _is_a_field_of_samples(cls, value: str | None) -> str | None:
        if value is not None and (not all(value.split(".")) or compile_path(value).root != "sample"):
            raise ValueError("examples are matched by a field of the sample, as data_tag.subject")
        return value


class ParseFieldConfig(ConfigModel):
    """A field that is parsed from answers and read as ``model_output.parsed.<field>``."""

    field: str = semantic("auto_eval", pattern=FIELD, max_length=LONGEST_ID)
    type: Literal["enum", "number", "list", "text"] = semantic("auto_eval")
    values: list[str] = semantic("auto_eval", [])

    @model_validator(mode="after")
    def _values_of_an_enum(self) -> Self:
        if self.type == "enum" and not all([self.values, *map(str.strip, self.values)]):
            raise ValueError("an enum needs 'values', texts that are not empty")
        if self.type != "enum" and self.values:
            raise ValueError(f"'values' are those of an enum; this is a {self.type}")
        return self


class TaskConfig(ConfigModel):
    """One dataset, evaluated with one model."""

    ALIASES: ClassVar[Mapping[str, str]] = {
        "generation_params": "sampling_params",
        "metrics": "metric_overrides",
        "epochs": "replicates",
        "request_kind": "mode",
    }

    task_id: Id = semantic("report")
    dataset_id: str = identity("load")
    description: str | None = semantic("report", None)
    steps: list[StepConfig] | None = nested(None, min_length=1)
    adapter_id: str | None = identity("infer", None)
    judge_adapter_id: str | None = identity("judge", None)
    # A panel: each gives every answer a verdict.
    judges: list[str] = semantic("judge", [])
    # Each judge is asked twice, with prompt_params.swapped false and true.
    both_orders: bool = semantic("judge", default=False)
    # Each judge gives so many verdicts.
    judge_draws: int = semantic("judge", 1, ge=1, le=16)
    judge_rule: JudgeRuleConfig | None = nested(None)
    second_judge: SecondJudgeConfig | None = nested(None)
    support_adapter_id: str | None = identity("support", None)
    user: str | None = identity("infer", None)
    max_samples: int | None = semantic("load", None, ge=1)
    shuffle: bool | None = semantic("load", None)
    shuffle_seed: int | None = semantic("load", None)
    sampling_params: dict[str, JsonValue] = semantic("preprocess", {})
    replicates: int = semantic("preprocess", 1, ge=1, le=10_000)
    few_shot: FewShotConfig | None = nested(None)
    mode: Literal["chat", "completion", "likelihood", "chat_likelihood", "partial_likelihood"] = semantic(
        "preprocess", "chat"
    )
    # What likelihood compares, and the text between a question and its answer.
    choices: Literal["content", "id"] = semantic("preprocess", "content")
    target_delimiter: str = semantic("preprocess", " ")
    metric_overrides: list[MetricConfig] = nested([])
    metrics_mode: Literal["replace", "extend"] = semantic("auto_eval", "replace")
    # The kind of answer. The profile (a name or a file) has a preset of metrics for it.
    answer_type: str | None = semantic("auto_eval", None, min_length=1)
    scoring_profile: str | None = identity("auto_eval", None, min_length=1)
    parse_schema: list[ParseFieldConfig] = nested([])
    execution: ExecutionConfig | None = nested(None)
    labels: LabelsConfig | None = nested(None)
    stop_when: StopConfig | None = nested(None)
    against: AgainstConfig | None = nested(None)
    max_error_share: float = scheduling(0.01, ge=0.0, le=1.0)
    # The largest allowed share of answered rows that a metric leaves unscored.
    max_unscored_share: float = scheduling(0.05, ge=0.0, le=1.0)

    @model_validator(mode="after")
    def _panel(self) -> Self:
        if self.judges and self.judge_adapter_id is not None:
            raise ValueError("'judges' and 'judge_adapter_id' are both given; keep one")
        if len(self.judges) == 1:
            raise ValueError("a panel needs two judges; name a single one with 'judge_adapter_id'")
        if len(set(self.judges)) < len(self.judges):
            raise ValueError("'judges' names a judge twice")
        if self.judge_rule is not None and self.both_orders:
            raise ValueError("'judge_rule' decides one answer, and 'both_orders' compares two: remove one of them")
        second = self.second_judge
        if second is not None and second.adapter_id in (self.judge_adapter_id, *self.judges):
            raise ValueError(f"the second judge '{second.adapter_id}' is one of the first; name another one")
        return self


class GroupConfig(ConfigModel):
    """Several tasks, or slices of tasks, as one number; made from the tasks' reports when a run is published."""

    group_id: Id = scheduling()
    tasks: list[str] = scheduling(min_length=1)
    by: str | None = scheduling(None, min_length=1)
    values: list[str] = scheduling([])
    metrics: list[str] = scheduling([])
    description: str | None = scheduling(None)

    @model_validator(mode="after")
    def _values_of_a_field(self) -> Self:
        if self.values and self.by is None:
            raise ValueError("'values' are those of a field; name it with 'by'")
        if len(set(self.values)) < len(self.values):
            raise ValueError("'values' names a slice twice")
        return self


class LimitsConfig(ConfigModel):
    """Limits of one run. When it reaches one, it stops; a resume has the same limits again."""

    tokens: int | None = scheduling(None, ge=1)
    cost: float | None = scheduling(None, gt=0.0)
    wall_s: float | None = scheduling(None, gt=0.0)


class PipelineConfig(ConfigModel):
    """A whole evaluation: data, models, prompts, metrics and the tasks that combine them."""

    api_version: Literal["gage/v1alpha1"] = scheduling(API_VERSION)
    kind: Literal["PipelineConfig"] = scheduling("PipelineConfig")
    metadata: Metadata = nested(Metadata())
    datasets: list[DatasetConfig] = nested([])
    backends: list[BackendEntry] = nested([])
    role_adapters: list[RoleAdapterConfig] = nested([])
    prompts: list[PromptConfig] = nested([])
    metrics: list[MetricConfig] = nested([])
    builtin: StepsConfig | None = nested(None)
    custom: StepsConfig | None = nested(None)
    tasks: list[TaskConfig] = nested([])
    groups: list[GroupConfig] = nested([])
    limits: LimitsConfig = nested(LimitsConfig())
    observability: ObservabilityConfig = nested(ObservabilityConfig())
    export: list[Export] = scheduling([])
    # Sections of older configs; nothing reads them, so only empty ones are accepted.
    models: list[JsonValue] = scheduling([], max_length=0)
    parameters: dict[str, JsonValue] = scheduling({}, max_length=0)


def _respell(data: Any, key: str, spellings: Mapping[str, str]) -> Any:
    if isinstance(data, Mapping) and isinstance(data.get(key), str) and data[key] in spellings:
        return {**data, key: spellings[data[key]]}
    return data
