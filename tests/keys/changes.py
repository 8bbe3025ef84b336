"""For every field of every config model: another value, and where names take part also one that means the same.

A new field fails the test until it has its line here.
"""

import typing
from typing import Any

from five_rows import TASK, Change
from pydantic import BaseModel

from gage_eval.config.models import PipelineConfig


def models_of(model: type[BaseModel]) -> list[type[BaseModel]]:
    """A model and all models its fields hold."""
    classes: list[type[BaseModel]] = []

    def visit(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in classes:
            classes.append(annotation)
            for field in annotation.model_fields.values():
                visit(field.annotation)
        for argument in typing.get_args(annotation):
            visit(argument)

    visit(model)
    return classes


MODELS = {model.__name__: model for model in models_of(PipelineConfig)}


_NOT_YET = "does not carry it out yet"
_NO_LONGER = "nothing reads this section"


def _at(path: str, value: Any, base: str = "main", **said: Any) -> Change:
    return Change({path: value}, base, **said)


def _task(field: str, value: Any, base: str = "main", **said: Any) -> Change:
    return _at(f"tasks.0.{field}", value, base, **said)


def _data(field: str, value: Any, base: str = "main", **said: Any) -> Change:
    return _at(f"datasets.0.params.{field}", value, base, **said)


def _with_recipe(**params: Any) -> Change:
    return Change({f"datasets.0.params.{name}": value for name, value in params.items()})


def _run(field: str, value: Any, **said: Any) -> Change:
    return _task(f"execution.{field}", value, "programs", **said)


_SERVER = "role_adapters.0.mcp_servers.0"


def _mcp(field: str, value: Any, **said: Any) -> Change:
    return _at(f"{_SERVER}.{field}", value, "served", **said)


def _limit(field: str, value: Any, **said: Any) -> Change:
    return _at("role_adapters.0.limits", {field: value}, "boxed", **said)


def _simulator(field: str, value: Any, **said: Any) -> Change:
    return _at(f"role_adapters.9.simulator.{field}", value, "talked", **said)


def _few_shot(*, same: bool = False, **fields: Any) -> Change:
    return Change({f"tasks.0.few_shot.{name}": value for name, value in fields.items()}, "few_shot", same=same)


def _sink(**fields: Any) -> Change:
    return _at("observability.sinks", [fields])


# Nothing listens there.
_NOWHERE = "http://127.0.0.1:9/events"
_HTTP = {"batch": 2, "timeout": 1.0, "fail_pct": 1.0, "headers": {"X-Team": "a"}}


def _swapped(path: str, first: int, second: int, field: str, names: tuple[str, str]) -> Change:
    """Two definitions exchange their names: what refers to one of them now means the other."""
    return Change({f"{path}.{first}.{field}": names[1], f"{path}.{second}.{field}": names[0]})


_METADATA = {
    name: [_at(f"metadata.{name}", value)]
    for name, value in {"name": "n", "description": "d", "version": "2", "owner": "o", "tags": ["t"]}.items()
}
_TEMPLATE = "prompts.0.template.1"

# By model and field; the marks say what must happen.
CONFIG: dict[str, dict[str, list[Change]]] = {
    "PipelineConfig": {
        # One value each: refused otherwise.
        "api_version": [_at("api_version", "gage/v9", refused="api_version")],
        "kind": [_at("kind", "Other", refused="kind")],
        "export": [_at("export", ["jsonl"])],
        "models": [_at("models", ["m"], refused=_NO_LONGER)],
        "parameters": [_at("parameters", {"a": 1}, refused=_NO_LONGER)],
    },
    "Metadata": _METADATA,
    "DatasetConfig": {
        "dataset_id": [Change({"datasets.0.dataset_id": "renamed", "tasks.0.dataset_id": "renamed"})],
        "loader": [_at("datasets.0.loader", "keys_plugins:OtherLoader")],
        "hub": [_at("datasets.0.hub", "org/set", refused="reads no hub")],
        "hub_params": [_at("datasets.0.hub_params", {"split": "test"}, refused="no parameter 'split'")],
        "description": [_at("datasets.0.description", "Sums of two.")],
    },
    "HubData": {
        name: [_at("datasets.0.built_from", [{"hub": "owner/name", name: value}])]
        for name, value in {"hub": "other/name", "revision": "v1", "commit": "0" * 40}.items()
    },
    "DatasetParams": {
        "origin": [_data("origin", "nowhere", refused="no origin 'nowhere'")],
        "path": [_data("path", "copy.jsonl", same=True), _data("path", "other.jsonl")],
        "limit": [_data("limit", 3)],
        "shuffle": [_data("shuffle", False)],  # noqa: FBT003
        "seed": [_data("seed", 2)],
        "filter": [_data("filter", {"id": ["r1", "r2"]})],
        "sample": [_data("sample", 3)],
        "streaming": [_data("streaming", True)],  # noqa: FBT003
        "preprocess": [_data("preprocess", "keys_plugins:other_preprocess")],
        "preprocess_kwargs": [_data("preprocess_kwargs", {"system_prompt": "Add."})],
        "doc_to_text": [_data("doc_to_text", "keys_plugins:words")],
        "doc_to_visual": [_data("doc_to_visual", "keys_plugins:nothing")],
        "doc_to_audio": [_data("doc_to_audio", "keys_plugins:nothing")],
        **{
            f"{name}_kwargs": [_data(f"{name}_kwargs", {"a": 1}, "called")]
            for name in ("doc_to_text", "doc_to_visual", "doc_to_audio")
        },
        "content_root": [
            _data("content_root", "pictures_copy", "pictures", same=True),
            _data("content_root", "pictures_other", "pictures"),
        ],
        "allow_outside": [_data("allow_outside", True)],  # noqa: FBT003
        "embed_local_media": [_data("embed_local_media", True)],  # noqa: FBT003
        "image_min_pixels": [_data("image_min_pixels", 100)],
        "image_max_pixels": [_data("image_max_pixels", 10_000)],
        "image_factor": [_data("image_factor", 14)],
        "private_media_hosts": [_data("private_media_hosts", ["10.0.0.0/8"])],
        "pdf": [_data("pdf", "text")],
        "pdf_dpi": [_with_recipe(pdf="images", pdf_dpi=72)],
        "pdf_max_pages": [_with_recipe(pdf="text", pdf_max_pages=3)],
        "audio_rate": [_data("audio_rate", 8_000)],
        "audio_max_seconds": [_with_recipe(audio_rate=8_000, audio_max_seconds=3)],
        "video_frames": [_data("video_frames", 4)],
        "video_fps": [_data("video_fps", 0.5)],
        "video_times": [_with_recipe(video_frames=4, video_times=True)],
        "video_form": [_with_recipe(video_frames=4, video_form="video")],
        "video_max_seconds": [_with_recipe(video_frames=4, video_max_seconds=60)],
        "max_reject_share": [_data("max_reject_share", 0.5)],
        "on_reject": [_data("on_reject", "skip")],
    },
    "BackendEntry": {
        "backend_id": [
            Change({"backends.0.backend_id": "new", "role_adapters.0.backend_id": "new",
                    "role_adapters.1.backend_id": "new", "role_adapters.5.backend_id": "new",
                    "role_adapters.8.backend_id": "new"}, same=True),
            _swapped("backends", 0, 2, "backend_id", ("model", "model_other")),
        ],
        "type": [_at("backends.0.type", "keys_plugins:OtherModel")],
        "config": [
            _at("backends.0.config.max_concurrency", 7, same=True),
            _at("backends.0.config.choices", ["2", "4"]),
        ],
    },
    "InlineBackend": {
        "type": [_at("role_adapters.0.backend.type", "keys_plugins:OtherModel", "inline")],
        "config": [
            _at("role_adapters.0.backend.config.timeout", 3.0, "inline", same=True),
            _at("role_adapters.0.backend.config.seed", 3, "inline"),
        ],
    },
    "ResourceRequirement": {
        "pool_size": [_at("role_adapters.0.resource_requirement.pool_size", 2)],
        "gpus": [_at("role_adapters.0.resource_requirement.gpus", 1)],
        "work_pool": [_at("role_adapters.0.resource_requirement.work_pool", "local")],
    },
    "RoleAdapterConfig": {
        "adapter_id": [
            Change({"role_adapters.0.adapter_id": "new", "tasks.0.adapter_id": "new"}, same=True),
            _swapped("role_adapters", 0, 2, "adapter_id", ("dut", "dut_other")),
        ],
        "role_type": [
            Change({"role_adapters.6.role_type": "dut_model", "tasks.0.adapter_id": "helper"}),
        ],
        "backend_id": [
            _at("role_adapters.0.backend_id", "model_twin", same=True),
            _at("role_adapters.0.backend_id", "model_other"),
        ],
        "capabilities": [
            _at("role_adapters.0.capabilities", ["chat_completion"]),
            _at("role_adapters.0.capabilities", ["likelihood"], refused="backend 'dummy' lacks 'likelihood'"),
        ],
        "prompt_id": [
            _at("role_adapters.0.prompt_id", "ask_twin", same=True),
            _at("role_adapters.0.prompt_id", "ask_other"),
        ],
        "prompt_params": [_at("role_adapters.0.prompt_params", {"tone": "Be long."})],
        "params": [_at("role_adapters.0.params", {"top_p": 0.5})],
        "sampling_params": [_at("role_adapters.0.sampling_params", {"temperature": 1.0})],
        "class_path": [
            _at("role_adapters.0.class_path", "keys_plugins:Shouting"),
            _at("role_adapters.0.class_path", "keys_plugins:Nothing", refused="has neither 'prepare' nor 'parse'"),
        ],
        "verdict_parser": [
            _at("role_adapters.3.verdict_parser", {"filters": {"answer": {"regex": {"pattern": "yes"}}}}),
            _at("role_adapters.3.verdict_parser", "lines", refused="no verdict parser 'lines'"),
            _at("role_adapters.0.verdict_parser", "default", refused="only a judge_model has verdicts"),
        ],
        "tools": [
            Change({"role_adapters.0.tools": ["keys_plugins:double"], "role_adapters.0.tool_rounds": 2}),
            _at("role_adapters.0.tools", ["keys_plugins:double"], refused="'tools' need 'tool_rounds'"),
        ],
        "verdict_retries": [
            _at("role_adapters.3.verdict_retries", 2),
            _at("role_adapters.0.verdict_retries", 2, refused="only a judge_model has verdicts"),
        ],
        "verdict": [
            Change({"role_adapters.3.verdict": "schema", "role_adapters.3.verdict_labels": ["yes", "no"]}),
            _at("role_adapters.3.verdict", "labels", refused="needs 'verdict_labels'"),
        ],
        "verdict_reasoning": [_at("role_adapters.3.verdict_reasoning", bool(1), refused="is for verdict: labels")],
        "verdict_labels": [
            Change({"role_adapters.3.verdict": "schema", "role_adapters.3.verdict_labels": {"yes": 1, "no": 0}}),
            _at("role_adapters.3.verdict_labels", ["yes", "no"], refused="are for verdict: labels"),
        ],
        "embeds": [_at("role_adapters.3.embeds", bool(1), refused="without a prompt")],
        "tool_rounds": [_at("role_adapters.0.tool_rounds", 2)],
    },
    "PromptMessage": {
        "role": [_at(f"{_TEMPLATE}.role", "assistant")],
        "content": [_at(f"{_TEMPLATE}.content", "What is it?")],
    },
    "PromptConfig": {
        "prompt_id": [
            Change({"prompts.0.prompt_id": "new",
                    **{f"role_adapters.{n}.prompt_id": "new" for n in (0, 1, 2, 6, 7, 8)}}, same=True),
            _swapped("prompts", 0, 2, "prompt_id", ("ask", "ask_other")),
        ],
        "template": [_at("prompts.0.template", "What is it?")],
        "renderer": [_at("prompts.0.renderer", "mako", refused="renderer")],
        "system_prompt": [_at("prompts.0.system_prompt", "Add.")],
        "params": [_at("prompts.0.params", {"tone": "Be long."})],
        "description": [_at("prompts.0.description", "Asks.")],
    },
    "MetricConfig": {
        "metric_id": [_at("metrics.0.metric_id", "renamed")],
        "implementation": [_at("metrics.0.implementation", "contains")],
        "params": [_at("metrics.0.params", {"case_sensitive": True})],
        "aggregation": [
            _at("metrics.0.aggregation", "median"),
            _at("metrics.0.aggregation", ["mean", "p90"]),
            _at("metrics.0.aggregation", "medain", refused="no aggregation 'medain'"),
        ],
        "cluster_field": [
            _at("metrics.0.cluster_field", "id"),
            _at("metrics.0.cluster_field", "metadata.nowhere", refused="its cluster_field"),
        ],
        # No field of the five rows is a number; a weight that can be read is tried in tests/scoring/metrics.
        "weight_field": [_at("metrics.0.weight_field", "id", refused="its weight_field")],
        "slices": [_at("metrics.0.slices", ["metadata.topic"])],
        "filters": [_at("metrics.0.filters", ["last_number"])],
        "value_key": [_at("metrics.0.value_key", "hits")],
        "on_missing_field": [_at("metrics.0.on_missing_field", "error")],
        # exact_match compares with one text; metrics that can need all are in tests/scoring/metrics/test_references.py.
        "references": [_at("metrics.0.references", "all", refused="cannot need all references")],
        "description": [_at("metrics.0.description", "Right or wrong.")],
    },
    "GroupConfig": {
        "group_id": [_at("groups", [{"group_id": "g", "tasks": [TASK]}])],
        "tasks": [_at("groups", [{"group_id": "g", "tasks": ["other"]}], refused="no task 'other'")],
        "by": [_at("groups", [{"group_id": "g", "tasks": [TASK], "by": "topic"}], refused="no field of slices")],
        "values": [_at("groups", [{"group_id": "g", "tasks": [TASK], "values": ["a"]}], refused="name it with 'by'")],
        "metrics": [_at("groups", [{"group_id": "g", "tasks": [TASK], "metrics": ["right"]}])],
        "description": [_at("groups", [{"group_id": "g", "tasks": [TASK], "description": "All."}])],
    },
    "StepConfig": {
        "step": [_task("steps.3.step", "support", "one_helper")],
        "adapter_id": [
            _task("steps.0.adapter_id", "dut_twin", "steps", same=True),
            _task("steps.0.adapter_id", "dut_other", "steps"),
        ],
    },
    "FewShotConfig": {
        "k": [_few_shot(k=1)],
        "dataset_id": [_few_shot(dataset_id="main_other_twin", same=True), _few_shot(dataset_id="main")],
        "match": [_few_shot(match="topic")],
        "strategy": [_few_shot(strategy="first"), _few_shot(strategy="balanced")],
        "seed": [_few_shot(seed=7)],
        "ids": [_few_shot(ids=["r1", "r2"])],
        "form": [_few_shot(form="text")],
        "delimiter": [_few_shot(delimiter="\n")],
    },
    "TaskConfig": {
        "task_id": [_task("task_id", f"{TASK}2")],
        "dataset_id": [_task("dataset_id", "main_twin", same=True, shown=True), _task("dataset_id", "main_other")],
        "description": [_task("description", "Sums of two.")],
        "adapter_id": [_task("adapter_id", "dut_twin", same=True), _task("adapter_id", "dut_other")],
        "judge_adapter_id": [
            _task("judge_adapter_id", "grader_twin", same=True),
            _task("judge_adapter_id", "grader_other"),
        ],
        "both_orders": [
            Change({"tasks.0.both_orders": True}, refused="has one order"),
        ],
        "judges": [
            _task("judges", ["grader_twin", "grader_other"], refused="are both given"),
        ],
        "judge_draws": [_task("judge_draws", 2, refused="reads one verdict")],
        "support_adapter_id": [
            _task("support_adapter_id", "helper_twin", "support", same=True),
            _task("support_adapter_id", "helper_other", "support"),
        ],
        "user": [
            _task("user", "caller", "talked", same=True),
            _task("user", "dut", "talked", refused="no simulated user 'dut'"),
        ],
        "max_samples": [_task("max_samples", 2)],
        "shuffle": [_task("shuffle", False)],  # noqa: FBT003
        "shuffle_seed": [_task("shuffle_seed", 2)],
        "sampling_params": [_task("sampling_params", {"temperature": 0.5})],
        "replicates": [_task("replicates", 2)],
        "mode": [_task("mode", "completion")],
        "choices": [_task("choices", "id")],
        "target_delimiter": [_task("target_delimiter", ": ", "completion")],
        "metrics_mode": [_task("metrics_mode", "extend", "overrides")],
        "answer_type": [_task("answer_type", "choice")],
        # A profile that is not a file and not among ours; one of another content is tried in tests/contract.
        "scoring_profile": [
            _task("scoring_profile", "default", "typed", same=True),
            _task("scoring_profile", "elsewhere.yaml", "typed", refused="scoring profile"),
        ],
        "max_unscored_share": [_task("max_unscored_share", 0.5)],
        "max_error_share": [_task("max_error_share", 0.5)],
    },
    "JudgeRuleConfig": {
        "metric": [
            _task("judge_rule", {"metric": "rigt"}, refused="Did you mean 'right'"),
            _task("judge_rule", {"metric": "graded"}, refused="a rule reads the sample"),
        ],
        "values": [_task("judge_rule", {"metric": "right", "values": [2]}, refused="never has the value 2")],
        "scale": [_task("judge_rule", {"metric": "right", "scale": [2, 1]}, refused="a scale is")],
    },
    "SecondJudgeConfig": {
        "adapter_id": [_task("second_judge", {"adapter_id": "grader"}, refused="is one of the first")],
        "below": [_task("second_judge", {"adapter_id": "grader_other", "below": 0.5}, refused="no probabilities")],
        "spread": [_task("second_judge", {"adapter_id": "grader_other", "spread": 1}, refused="cannot disagree")],
    },
    "DecidedConfig": {
        "baseline": [_task("stop_when", {"decided": {"baseline": "main"}}, refused="has no baseline 'main'")],
        "tolerance": [_task("stop_when", {"decided": {"baseline": "main", "tolerance": -1}}, refused="tolerance")],
    },
    "StopConfig": {
        "half_width": [_task("stop_when.half_width", 0.3, "stopping")],
        "metric": [
            _task("stop_when.metric", "graded", "stopping"),
            _task("stop_when", {"half_width": 0.1, "metric": "rigt"}, refused="no metric 'rigt'"),
        ],
    },
    "AgainstConfig": {
        "run": [_task("against", {"run": "nowhere"}, refused="shows no pair")],
        "task": [_task("against", {"field": "label", "task": "x"}, refused="give 'run', too")],
        "adapter": [_task("against", {"adapter": "nobody"}, refused="have no 'support'")],
        "field": [_task("against", {"field": "label"}, refused="shows no pair")],
    },
    "LabelsConfig": {
        "path": [_task("labels", {"path": "nowhere.jsonl"}, refused="is not a file")],
        "field": [
            _task("labels", {"field": "people"}, "labelled"),
            _task("labels", {"field": "id", "path": "x"}, refused="give 'path' or 'field'"),
        ],
        "metric": [_task("labels", {"field": "id", "metric": "exact_match"}, refused="reads a judge's verdicts")],
        "scale": [_task("labels", {"field": "id", "scale": [2, 1]}, refused="a scale is")],
    },
    "ExecutionConfig": {
        "mode": [Change({"tasks.0.execution.mode": "calls", "tasks.0.execution.entry": "id"}, "programs")],
        "program": [_run("program", "sample.label")],
        "filters": [_run("filters", ["strip_thinking"]), _run("filters", ["no"], refused="no filter 'no'")],
        "entry": [_run("entry", "id")],
        "prelude": [_run("prelude", "id")],
        "expected": [_run("expected", "sample.label")],
        "tests": [_run("tests", "sample.label"), _run("tests", "judge_output.text", refused="name a field of")],
        "inputs": [_task("execution.inputs", "sample.label", "stdio")],
        "outputs": [_task("execution.outputs", "topic", "stdio")],
        "compat": [_run("compat", "official")],
        "check": [
            _task("execution.check", "rows.jsonl", "checked"),
            _run("check", "rows.jsonl", refused="reads no 'check'"),
        ],
        "command": [_task("execution.command", ["sh", "program"], "stdio")],
        "file": [_task("execution.file", "main.sh", "stdio")],
        "image": [_run("image", "debian")],
        "executor": [_run("executor", "bubblewrap"), _run("executor", "podman")],
        "slots": [_run("slots", 3)],
        "allow_unsafe": [_run("allow_unsafe", True)],  # noqa: FBT003
        "roots": [_run("roots", {"debian": "roots/debian"})],
        "work_pool": [_run("work_pool", "local"), _run("work_pool", "boxes", refused="needs a Prefect API")],
        "replicas": [_run("replicas", 2)],
    },
    "BoxConfig": {
        name: [_at(f"role_adapters.0.box.{name}", value, "boxed")]
        for name, value in {
            "image": "debian", "cpu_s": 2.0, "memory_mb": 512, "processes": 8, "files": 64, "files_mb": 8,
            "output_kb": 8, "executor": "bubblewrap", "slots": 3, "allow_unsafe": bool(1),
            "roots": {"debian": "roots/debian"}, "artifacts": ["out"],
        }.items()
    },
    "EpisodeLimitsConfig": {
        "tokens": [_limit("tokens", 100), _at("role_adapters.0.limits", {"tokens": 9}, refused="set 'tool_rounds'")],
        "cost": [_limit("cost", 0.5, refused="needs input_price")],
        "model_s": [_limit("model_s", 3.0)],
        "same_calls": [_limit("same_calls", 3), _limit("same_calls", 1, refused="at least 2")],
        "rounds_per_turn": [_limit("rounds_per_turn", 2)],
    },
    "SimulatorConfig": {
        "stop": [_simulator("stop", "yes")],
        "max_turns": [_simulator("max_turns", 2)],
        "script": [_simulator("script", "metadata.user_turns", refused="either 'prompt_id'")],
    },
    "McpServerConfig": {
        "command": [_mcp("command", ["python3", "./tools.py"])],
        "url": [_mcp("url", "http://127.0.0.1:1/mcp", refused="either a 'command'")],
        "names": [_mcp("names", ["half"]), _mcp("names", ["third"], refused="has no tool 'third'")],
        "files": [
            _mcp("files", {"tools.py": "tools.py", "a.txt": "rows.jsonl"}),
            _mcp("files", {"../a.txt": "rows.jsonl"}, refused="not a path below"),
        ],
        "allow_unsafe": [Change({f"{_SERVER}.allow_unsafe": bool(1), f"{_SERVER}.files": {}}, "served")],
        "token": [_mcp("token", "env:TOKEN", refused="no secret enters a box")],
        "effects": [_mcp("effects", "none"), _mcp("effects", "state", same=True)],
        "repeatable": [_mcp("repeatable", bool(1))],
        "timeout_s": [_mcp("timeout_s", 5.0)],
    },
    "AgentConfig": {
        name: [_at(f"role_adapters.0.agent.{name}", value, "program")]
        for name, value in {
            "command": ["true", "{prompt_file}"], "files": {"a.txt": "rows.jsonl"}, "env": {"A": "b"},
            "answer_file": "out.txt", "max_turns": 7, "wall_s": 60.0,
        }.items()
    },
    "ExecutionLimitsConfig": {
        **{
            name: [_run(f"limits.{name}", value)]
            for name, value in {
                "cpu_s": 2.0, "memory_mb": 512, "processes": 8, "files": 64, "files_mb": 8, "output_kb": 8,
            }.items()
        },
        "wall_s": [_run("limits.wall_s", 70.0), _run("limits.wall_s", 7.0, refused="a busy machine")],
    },
    "LimitsConfig": {
        "tokens": [_at("limits.tokens", 1_000_000)],
        "cost": [_at("limits.cost", 100.0)],
        "wall_s": [_at("limits.wall_s", 600.0)],
    },
    "ParseFieldConfig": {
        "field": [_task("parse_schema.0.field", "sum", "typed")],
        "type": [_task("parse_schema.0", {"field": "answer", "type": "text"}, "typed")],
        "values": [_task("parse_schema.0.values", ["yes"], "typed")],
    },
    "ObservabilityConfig": {
        "enabled": [_at("observability.enabled", False)],  # noqa: FBT003
        "level": [_at("observability.level", "DEBUG")],
        "sample_rate": [_at("observability.sample_rate", 1.0)],
        "stage_sample_rates": [_at("observability.stage_sample_rates", {"infer": 0.5})],
    },
    "SinkConfig": {
        "type": [_sink(type="console")],
        "output_path": [_sink(type="file", output_path="more.jsonl")],
        "url": [_sink(type="http", url=_NOWHERE)],
    },
    "SinkParams": {
        **{name: [_sink(type="http", url=_NOWHERE, params={name: value})] for name, value in _HTTP.items()},
        "service_name": [_sink(type="otel", url=_NOWHERE, params={"service_name": "a"})],
    },
}  # fmt: skip

_PLAIN_SETTINGS = {
    "store_patience": "5", "save_dir": "{folder}/elsewhere", "data_cache": "{folder}/cache",
    "viewer_cache": "{folder}/cache", "viewer_token": "secret", "viewer_url": "https://runs.example",
    "data_dir": "{folder}", "data_url": "http://127.0.0.1:9", "plugins": "numpy", "travel_mib": "1", "threads": "3",
    "max_inflight": "3", "serve_host": "127.0.0.2", "serve_tls": "1",
    "suites": "{folder}", "tau2": "{folder}", "prefetch_factor": "3", "future_timeout": "7",
    "disable_buffered_writer": "1", "enable_buffered_writer": "1",
    "sequential": "1", "autoeval_workers": "2", "max_samples": "2", "shuffle": "1", "observability": "1",
    "enable_log_sink": "0", "log_sink_level": "DEBUG", "otel": "1", "report_http_url": _NOWHERE,
    "report_http_batch": "2", "report_http_fail_pct": "1", "report_http_timeout": "1",
}  # fmt: skip

SETTINGS: dict[str, list[Change]] = {
    "shuffle_seed": [Change({"datasets.0.params.shuffle": True}, "plain", env={"GAGE_EVAL_SHUFFLE_SEED": "3"})],
    "embed_media_threads": [Change(base="pictures", env={"GAGE_EVAL_EMBED_MEDIA_THREADS": "3"})],
    "embed_local_media": [Change(base="pictures", env={"GAGE_EVAL_EMBED_LOCAL_MEDIA": "1"})],
    "image_min_pixels": [Change(base="pictures", env={"GAGE_EVAL_IMAGE_MIN_PIXELS": "4000"})],
    "image_max_pixels": [Change(base="pictures", env={"GAGE_EVAL_IMAGE_MAX_PIXELS": "4000"})],
    "image_factor": [Change(base="pictures", env={"GAGE_EVAL_IMAGE_FACTOR": "14"})],
    **{
        name: [Change(base="plain", env={f"GAGE_EVAL_{name.upper()}": value})]
        for name, value in _PLAIN_SETTINGS.items()
    },
}

OPTIONS: dict[str, list[Change]] = {
    "output_dir": [Change(options={"output_dir": "{folder}/elsewhere"})],
    "run_id": [Change(options={"run_id": "named"})],
    "concurrency": [Change(options={"concurrency": 2})],
    "max_samples": [Change(options={"max_samples": 2})],
    "shuffle_seed": [Change(options={"shuffle_seed": 7})],
    "task_ids": [Change(options={"task_ids": ["sums"]})],
    "sample_ids": [Change(options={"sample_ids": ["r1"]})],
    "data_dir": [Change(options={"data_dir": "{folder}"})],
    "overrides": [Change(options={"overrides": ["datasets.main.params.limit=3"]})],
    "only_errors": [Change(options={"only_errors": True})],
    "quick": [Change(options={"quick": 3})],
    "judge_only": [Change(options={"judge_only": True})],
    "freshness": [Change(options={"freshness": "2030-01-01"})],
    "verify": [Change(options={"verify": True})],
    "work_pool": [Change(options={"work_pool": "local"})],
}

# By backend type: a config that is whole, and another value for every field. `same` names the same content.
_COMMON: dict[str, list[tuple[Any, bool]]] = {
    "default_params": [({"temperature": 0.7}, False)],
    "freshness": [("2030-01-01", False)],
    "deterministic": [(True, False)],
    "max_concurrency": [(7, False)],
    "timeout": [(7.0, False)],
    "connect_timeout": [(7.0, False)],
    "max_attempts": [(7, False)],
    "max_elapsed_s": [(7.0, False)],
    "input_price": [(0.5, False)],
    "output_price": [(1.5, False)],
}
_KEYED: dict[str, list[tuple[Any, bool]]] = {
    "api_key": [("env:SOME_KEY", False)],
    "adaptive": [(False, False)],
    "requests_per_minute": [(100.0, False)],
    "tokens_per_minute": [(1000.0, False)],
    "idle_timeout": [(7.0, False)],
    "give_up_after": [(7.0, False)],
}
_CHECKPOINT: dict[str, list[tuple[Any, bool]]] = {
    "replicas": [(2, False)],
    "model_path": [("checkpoint_copy", True), ("checkpoint_other", False), ("org/name", False)],
    "revision": [("abc", False)],
    "dtype": [("float32", False)],
    "max_model_len": [(512, False)],
    "lora_path": [("adapter", False)],
    "trust_remote_code": [(True, False)],
    "add_bos_token": [(True, False)],
    "prefix_token_id": [(0, False)],
    "python": [("some/python", False)],
    "start_timeout": [(7.0, False)],
}
_THINKING: dict[str, list[tuple[Any, bool]]] = {
    "think_start": [("<thought>", False)],
    "think_end": [("</thought>", False)],
    "stop_after_thinking": [(True, False)],
}
_VLLM: dict[str, list[tuple[Any, bool]]] = {
    **_CHECKPOINT,
    **_THINKING,
    "reasoning_effort": [("low", False)],
    "thinking_budget": [(64, False)],
    "quantization": [("fp8", False)],
    "gpu_memory_utilization": [(0.5, False)],
    "tensor_parallel_size": [(2, False)],
    "data_parallel_size": [(2, False)],
    "replicas": [(2, False)],
    "enforce_eager": [(True, False)],
    "prefill_chunk": [(64, False)],
    "env": [({"VLLM_CPU_KVCACHE_SPACE": "1"}, False)],
}
_ENDPOINT = {"base_url": "http://127.0.0.1:9/v1", "model": "m"}
_AT_ENDPOINT: dict[str, list[tuple[Any, bool]]] = {
    **_COMMON,
    **_KEYED,
    "base_url": [("http://127.0.0.1:10/v1", False)],
    "model": [("n", False)],
    "identity": [("rev-2", False)],
    "shared": [(True, False)],
}

_TRANSFORMERS: dict[str, list[tuple[Any, bool]]] = {
    **_COMMON,
    **_CHECKPOINT,
    **_THINKING,
    "batch_size": [(3, False)],
    "device": [("cpu", False)],
    "threads": [(1, False)],
}
BACKENDS: dict[str, tuple[dict[str, Any], dict[str, list[tuple[Any, bool]]]]] = {
    "dummy": (
        {"mode": "choice"},
        {
            **_COMMON,
            "mode": [("fixed", False)],
            "answer": [("4", False)],
            "choices": [(["2", "4"], False)],
            "seed": [(9, False)],
            "latency_ms": [(1.0, False)],
            "error_rate": [(1.0, False)],
            "fail_sample_ids": [(["r1"], False)],
        },
    ),
    "replay": (
        {"path": "answers.jsonl", "answer_field": "text"},
        {
            **_COMMON,
            "path": [("answers_copy.jsonl", True), ("more.jsonl", False)],
            "format": [("jsonl", False)],
            "records_path": [("rows", False)],
            "match": [("row", False)],
            "id_field": [("id", False)],
            "sample_field": [("sample.id", False)],
            "answer_field": [("wrong", False)],
            "replicate_field": [("round", False)],
            "on_missing": [("skip", False)],
        },
    ),
    "custom_script": (
        {"file_path": "script.py", "class_name": "Model"},
        {
            **_COMMON,
            "file_path": [("script_copy.py", True), ("script_other.py", False)],
            "class_name": [("Other", False)],
            "start_timeout": [(7.0, False)],
        },
    ),
    "openai_images": (_ENDPOINT, {**_AT_ENDPOINT, "response_format": [(None, False)]}),
    "openai_speech": (_ENDPOINT, {**_AT_ENDPOINT, "response_format": [("mp3", False)], "voice": [("verse", False)]}),
    "openai_transcriptions": (_ENDPOINT, {**_AT_ENDPOINT, "language": [("de", False)]}),
    "openai_videos": (_ENDPOINT, {**_AT_ENDPOINT, "poll_s": [(1.0, True)], "max_job_s": [(60.0, True)]}),
    "openai_http": (
        _ENDPOINT,
        {
            **_AT_ENDPOINT,
            "max_tokens_field": [("max_completion_tokens", False)],
            "reasoning_effort": [("low", False)],
            "thinking_budget": [(64, False)],
            "thinking_budget_field": [("budget", False)],
            **_THINKING,
            "stream": [(True, False)],
            "audio_part": [("input_audio", False)],
            "file_part": [("file", False)],
            "media_source": [("url", False), ("store", False)],
            "echo_logprobs": [(True, False)],
        },
    ),
    "llama_cpp": (
        {"model_path": "model.gguf"},
        {
            **_COMMON,
            "model_path": [("model_copy.gguf", True), ("other.gguf", False)],
            "n_ctx": [(512, False)],
            "n_gpu_layers": [(2, False)],
            "n_parallel": [(2, False)],
            "n_threads": [(2, False)],
            "start_timeout": [(7.0, False)],
        },
    ),
    "vllm": (
        {"model_path": "checkpoint"},
        {
            **_COMMON,
            **_VLLM,
            **{name: values for name, values in _KEYED.items() if name != "api_key"},
            "media_source": [("url", False), ("store", False)],
        },
    ),
    "vllm_native": ({"model_path": "checkpoint"}, {**_COMMON, **_VLLM}),
    "transformers": ({"model_path": "checkpoint"}, _TRANSFORMERS),
    "vlm_transformers": ({"model_path": "checkpoint"}, _TRANSFORMERS),
}

# The other way to configure a backend: a vLLM server that runs already.
RUNNING: dict[str, tuple[dict[str, Any], dict[str, list[tuple[Any, bool]]]]] = {
    "vllm": (
        {"base_url": "http://127.0.0.1:9/v1", "model": "m"},
        {
            "base_url": [("http://127.0.0.1:10/v1", False)],
            "model": [("n", False)],
            "identity": [("rev-2", False)],
            "api_key": [("env:SOME_KEY", False)],
            "adaptive": [(False, False)],
        },
    )
}
