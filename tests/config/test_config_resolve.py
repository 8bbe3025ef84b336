"""What a config leaves out follows from fixed rules; what is ambiguous or leads nowhere is refused."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from gage_eval.base.errors import ConfigError
from gage_eval.config import models
from gage_eval.config.load import LoadedConfig, parse_config
from tests.support.marked_fields import walk_fields

LOCAL = {"backend_id": "local", "type": "dummy"}
OTHER = {"backend_id": "other", "type": "dummy"}
DATA = {"dataset_id": "mine", "params": {"path": "mine.jsonl"}}
DUT = {"adapter_id": "dut_text", "role_type": "dut_model", "backend_id": "local"}
JUDGE = {"adapter_id": "judge_text", "role_type": "judge_model", "backend_id": "other"}
TASK = {"task_id": "t", "dataset_id": "mine"}


def resolved(**sections: Any) -> LoadedConfig:
    data = {"datasets": [DATA], "backends": [LOCAL], "metrics": ["exact_match"], **sections}
    return parse_config(yaml.safe_dump(data, sort_keys=False), env={})


def refused(**sections: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolved(**sections)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


class TestWhatFollows:
    def test_one_task_for_each_dataset_on_the_only_backend(self) -> None:
        out = resolved(datasets=[DATA, {**DATA, "dataset_id": "yours"}])
        assert [(task.task.task_id, task.dataset.dataset_id) for task in out.tasks] == [
            ("mine", "mine"),
            ("yours", "yours"),
        ]
        assert out.tasks[0].dut.adapter.adapter_id == "dut"
        assert out.tasks[0].dut.backend.backend_id == "local"
        assert [(step.step, step.adapter_id) for step in out.tasks[0].steps] == [
            ("inference", "dut"),
            ("auto_eval", None),
        ]

    def test_without_adapters_each_of_several_backends_has_one_of_its_name(self) -> None:
        tasks = [{**TASK, "task_id": name, "adapter_id": name} for name in ("local", "other")]
        out = resolved(backends=[LOCAL, OTHER], tasks=tasks)
        assert [task.dut.backend.backend_id for task in out.tasks] == ["local", "other"]
        assert refused(backends=[LOCAL, {**OTHER, "backend_id": "local"}], tasks=tasks[:1]) == [
            "backends[1]: the id 'local' is taken by backends[0]; give each its own."
        ]

    def test_a_declared_judge_judges(self) -> None:
        out = resolved(backends=[LOCAL, OTHER], role_adapters=[DUT, JUDGE])
        (task,) = out.tasks
        assert [step.step for step in task.steps] == ["inference", "judge", "auto_eval"]
        assert task.judge is not None
        assert task.judge.backend.backend_id == "other"
        assert task.support is None

    def test_a_helper_comes_before_inference(self) -> None:
        helper = {"adapter_id": "h", "role_type": "helper", "backend_id": "local"}
        (task,) = resolved(role_adapters=[{**DUT, "role_type": "inference"}, helper]).tasks
        assert [step.step for step in task.steps] == ["support", "inference", "auto_eval"]
        assert task.support is not None

    def test_an_adapter_without_backend_takes_the_only_one(self) -> None:
        adapter = {"adapter_id": "a", "role_type": "dut_model"}
        assert resolved(role_adapters=[adapter]).tasks[0].dut.backend.backend_id == "local"

    @pytest.mark.parametrize("section", ["custom", "builtin"])
    def test_tasks_take_over_shared_steps(self, section: str) -> None:
        out = resolved(
            backends=[LOCAL, OTHER],
            role_adapters=[DUT, JUDGE],
            **{section: {"steps": ["infer", {"step": "auto_eval"}]}},
        )
        assert [step.step for step in out.tasks[0].steps] == ["inference", "auto_eval"]
        assert out.tasks[0].judge is None

    def test_own_steps_count_before_shared_ones(self) -> None:
        out = resolved(custom={"steps": ["inference", "auto_eval"]}, tasks=[{**TASK, "steps": ["inference"]}])
        assert [step.step for step in out.tasks[0].steps] == ["inference"]

    def test_the_task_s_adapter_counts_before_the_shared_step_s(self) -> None:
        second = {**DUT, "adapter_id": "second"}
        out = resolved(
            role_adapters=[DUT, second],
            custom={"steps": [{"step": "inference", "adapter_id": "dut_text"}]},
            tasks=[TASK, {**TASK, "task_id": "u", "adapter_id": "second"}],
        )
        assert [task.dut.adapter.adapter_id for task in out.tasks] == ["dut_text", "second"]

    def test_a_prompt_is_bound_to_its_adapter(self) -> None:
        out = resolved(prompts=[{"prompt_id": "p", "template": "x"}], role_adapters=[{**DUT, "prompt_id": "p"}])
        prompt = out.tasks[0].dut.prompt
        assert prompt is not None
        assert prompt.template == "x"

    def test_an_inline_backend_wins_with_a_warning(self) -> None:
        out = resolved(role_adapters=[{**DUT, "backend": {"type": "replay", "config": {"path": "x"}}}])
        backend = out.tasks[0].dut.backend
        assert (backend.type, backend.backend_id) == ("replay", "dut_text")
        assert out.warnings == (
            "role_adapters[0]: 'backend' and 'backend_id' are both given; the inline backend is used, not 'local'.",
        )

    @pytest.mark.parametrize(
        ("mode", "overrides", "ids"),
        [
            ("replace", [], ["exact_match", "contains"]),
            ("replace", ["latency"], ["latency"]),
            ("extend", ["latency"], ["exact_match", "contains", "latency"]),
            ("extend", [{"contains": {"case_sensitive": True}}], ["exact_match", "contains"]),
        ],
    )
    def test_metrics_of_a_task(self, mode: str, overrides: list[Any], ids: list[str]) -> None:
        task = {**TASK, "metrics_mode": mode, "metric_overrides": overrides}
        out = resolved(metrics=["exact_match", "contains"], tasks=[task])
        assert [metric.metric_id for metric in out.tasks[0].metrics] == ids

    def test_the_override_of_a_metric_stands_in_its_place(self) -> None:
        task = {
            **TASK,
            "metrics_mode": "extend",
            "metric_overrides": [{"contains": {"case_sensitive": True}}],
        }
        out = resolved(metrics=["contains"], tasks=[task])
        assert out.tasks[0].metrics[0].params == {"case_sensitive": True}

    def test_a_task_without_metrics_is_said(self) -> None:
        assert resolved(metrics=[]).warnings == ("tasks[0]: no metrics; answers are stored and nothing is scored.",)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("sections", "lines"),
        [
            (
                {"tasks": [{**TASK, "dataset_id": "mime"}]},
                ["tasks[0].dataset_id: no dataset 'mime' here. Known: mine. Did you mean 'mine'?"],
            ),
            (
                {"role_adapters": [{**DUT, "backend_id": "locla"}]},
                ["role_adapters[0].backend_id: no backend 'locla' here. Known: local. Did you mean 'local'?"],
            ),
            (
                {"role_adapters": [{**DUT, "prompt_id": "p"}]},
                ["role_adapters[0].prompt_id: no prompt 'p' here; there are none at all."],
            ),
            (
                {"tasks": [{**TASK, "adapter_id": "dutt"}]},
                ["tasks[0].adapter_id: no adapter 'dutt' here. Known: dut. Did you mean 'dut'?"],
            ),
            (
                {
                    "role_adapters": [DUT, {**JUDGE, "backend_id": "local"}],
                    "tasks": [{**TASK, "adapter_id": "judge_text"}],
                },
                [
                    "tasks[0].adapter_id: adapter 'judge_text' is not a dut_model; "
                    "the step 'inference' needs one (dut_text)."
                ],
            ),
            (
                {"role_adapters": [DUT, {**DUT, "adapter_id": "dut_docvqa"}]},
                [
                    "tasks[0]: 2 adapters are dut_model (dut_text, dut_docvqa); say which with 'adapter_id'. "
                    "(implied: a config without tasks has one task per dataset)"
                ],
            ),
            (
                {"backends": [LOCAL, OTHER]},
                [
                    "tasks[0]: 2 adapters are dut_model (local, other); say which with 'adapter_id'. "
                    "(implied: a config without tasks has one task per dataset)"
                ],
            ),
            ({"backends": []}, ["backends: a config needs a model: add one under 'backends'."]),
            (
                {
                    "backends": [LOCAL, OTHER],
                    "role_adapters": [{"adapter_id": "a", "role_type": "dut_model"}],
                },
                ["role_adapters[0]: adapter 'a' needs a 'backend_id' (local, other)."],
            ),
            (
                {"role_adapters": [{**JUDGE, "backend_id": "local"}]},
                ["role_adapters: no adapter has role_type 'dut_model', and a step needs one."],
            ),
            ({"datasets": []}, ["datasets: a config needs at least one dataset."]),
            (
                {"datasets": [DATA, DATA], "tasks": [TASK]},
                ["datasets[1]: the id 'mine' is taken by datasets[0]; give each its own."],
            ),
            (
                {"metrics": ["contains", "contains"]},
                ["metrics[1]: the id 'contains' is taken by metrics[0]; give each its own."],
            ),
            (
                {"builtin": {"steps": ["inference"]}, "custom": {"steps": ["inference"]}},
                ["custom: steps are given in both 'builtin' and 'custom'; remove one."],
            ),
            (
                {"tasks": [{**TASK, "steps": ["auto_eval"]}]},
                ["tasks[0].steps: the steps lack 'inference'; every task asks a model."],
            ),
            (
                {"tasks": [{**TASK, "steps": ["inference", "inference"]}]},
                ["tasks[0].steps[1]: the step 'inference' comes twice; a task has one of each."],
            ),
            (
                {"tasks": [{**TASK, "judge_adapter_id": "x"}]},
                [
                    "tasks[0].judge_adapter_id: the task's steps have no 'judge'; "
                    "add the step or remove 'judge_adapter_id'."
                ],
            ),
            (
                {"tasks": [{**TASK, "few_shot": {"k": 2, "dataset_id": "train"}}]},
                ["tasks[0].few_shot.dataset_id: no dataset 'train' here. Known: mine."],
            ),
        ],
    )
    def test_it_is_said_where(self, sections: dict[str, Any], lines: list[str]) -> None:
        assert refused(**sections) == lines

    def test_everything_at_once(self) -> None:
        tasks = [{**TASK, "dataset_id": "a"}, {**TASK, "dataset_id": "b", "adapter_id": "c"}]
        assert len(refused(tasks=tasks)) == 4


def test_every_field_of_every_model_carries_a_mark() -> None:
    specs = [spec for spec in vars(models).values() if isinstance(spec, type) and issubclass(spec, models.ConfigModel)]
    assert len(specs) > 15
    for spec in specs:
        for name, mark, stage in walk_fields(spec):
            assert (stage is not None) == (mark in ("semantic", "identity")), f"{spec.__name__}.{name}"


def test_models_cannot_be_changed() -> None:
    frozen: BaseModel = resolved().config
    with pytest.raises(ValueError):
        frozen.tasks = []  # type: ignore[attr-defined]


def test_passed_through_loader_keys_are_semantic_for_load() -> None:
    from gage_eval.base.marks import semantic_values

    params: Mapping[str, Any] = {
        "path": "a.jsonl",
        "labels_path": "b.lst",
        "limit": 3,
        "preprocess": "default",
    }
    dataset = models.DatasetConfig.model_validate({"dataset_id": "a", "params": params})
    values = semantic_values(dataset, "load")
    assert values["params"]["labels_path"] == "b.lst"
    assert "path" not in values["params"]
    assert "preprocess" not in values["params"]


class TestGroups:
    def test_a_group_names_tasks_those_implied_by_datasets_too(self) -> None:
        out = resolved(groups=[{"group_id": "all", "tasks": ["mine"], "metrics": ["exact_match"]}])
        assert out.config.groups[0].tasks == ["mine"]

    def test_the_field_of_a_groups_slices_must_be_one_that_a_metric_has_slices_by(self) -> None:
        sliced = [{"metric_id": "exact_match", "slices": ["data_tag.topic"]}]
        groups = [{"group_id": "g", "tasks": ["mine"], "by": "data_tag.topik"}]
        assert refused(metrics=sliced, groups=groups) == [
            "groups[0].by: no field of slices 'data_tag.topik' here. Known: data_tag.topic. Did you mean "
            "'data_tag.topic'? Name one of a metric's 'slices'."
        ]

    def test_what_a_group_names_must_be_there_and_once(self) -> None:
        assert refused(
            groups=[
                {"group_id": "g", "tasks": ["mien", "mine", "mine"], "metrics": ["exact"]},
                {"group_id": "g", "tasks": ["mine"]},
            ]
        ) == [
            "groups[0].tasks[0]: no task 'mien' here. Known: mine. Did you mean 'mine'?",
            "groups[0].tasks[2]: the task 'mine' is in the group twice; keep one.",
            "groups[0].metrics[0]: no metric 'exact' here. Known: exact_match. Did you mean 'exact_match'?",
            "groups[1]: the id 'g' is taken by groups[0]; give each its own.",
        ]
