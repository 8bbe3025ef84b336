"""GPUs an adapter asks for: engines of its backend, or calls at a time."""

from typing import Any

import pytest
import yaml

from gage_eval.base.errors import ConfigError
from gage_eval.config.load import LoadedConfig, parse_config


def resolved(type_: str, config: dict[str, Any], *requirements: dict[str, Any]) -> LoadedConfig:
    """A config whose adapters, a model under test and judges, share one backend."""
    adapters = [
        {
            "adapter_id": f"a{number}",
            "role_type": "judge_model" if number else "dut_model",
            # With one backend there is nothing to name.
            **({"backend_id": "model"} if number else {}),
            "resource_requirement": requirement,
        }
        for number, requirement in enumerate(requirements)
    ]
    return parse_config(
        yaml.safe_dump(
            {
                "datasets": [{"dataset_id": "d", "params": {"path": "d.jsonl"}}],
                "backends": [{"backend_id": "model", "type": type_, "config": config}],
                "role_adapters": adapters,
            }
        )
    )


@pytest.mark.parametrize("type_", ["vllm", "vllm_native"])
@pytest.mark.parametrize(
    ("config", "gpus", "replicas"),
    [
        ({}, 8, 8),
        ({"tensor_parallel_size": 2}, 8, 4),
        ({"tensor_parallel_size": 2, "data_parallel_size": 2}, 7, 1),
        ({"replicas": 2}, 8, 2),
    ],
)
def test_as_many_engines_start_as_fit_on_the_gpus(type_: str, config: dict[str, Any], gpus: int, replicas: int) -> None:
    (task,) = resolved(type_, {"model_path": "m", **config}, {"gpus": gpus}).tasks
    assert task.dut.backend.config["replicas"] == replicas
    assert task.dut.adapter.resource_requirement.pool_size is None


def test_an_engine_of_transformers_has_one_gpu() -> None:
    (task,) = resolved("transformers", {"model_path": "m"}, {"gpus": 4}).tasks
    assert task.dut.backend.config["replicas"] == 4


def test_only_servers_are_served_on_a_work_pool() -> None:
    (task,) = resolved("vllm", {"model_path": "m", "tensor_parallel_size": 2}, {"work_pool": "h100", "gpus": 4}).tasks
    assert task.dut.placement is not None
    assert (task.dut.placement.work_pool, task.dut.placement.gpus) == ("h100", 4)
    (here,) = resolved("vllm", {"model_path": "m"}, {"work_pool": "local"}).tasks
    assert here.dut.placement is None
    with pytest.raises(ConfigError, match=r"work_pool: .*transformers.*--submit --work-pool h100"):
        resolved("transformers", {"model_path": "m"}, {"work_pool": "h100"})


def test_adapters_of_one_backend_share_its_engines() -> None:
    (task,) = resolved("vllm", {"model_path": "m"}, {"gpus": 2}, {"gpus": 4}).tasks
    assert task.judge is not None
    assert task.dut.backend == task.judge.backend
    assert task.dut.backend.config["replicas"] == 4


@pytest.mark.parametrize(
    ("type_", "config", "said"),
    [
        ("vllm", {"model_path": "m", "tensor_parallel_size": 8}, "backend 'model' needs 8 GPUs .*, and gpus is 4"),
        ("vllm", {"model_path": "m", "replicas": 8}, "backend 'model' needs 8 GPUs .*, and gpus is 4"),
        ("vllm", {"base_url": "http://h/v1", "model": "m"}, "gpus has no effect on backend 'model'.*pool_size"),
        ("openai_http", {"model": "m"}, "gpus has no effect on backend 'model'.*pool_size"),
    ],
)
def test_gpus_that_cannot_be_had_are_said_at_their_place(type_: str, config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=rf"role_adapters\[0\].resource_requirement.gpus: {said}"):
        resolved(type_, config, {"gpus": 4})


@pytest.mark.parametrize(
    ("requirement", "pool"), [({}, None), ({"gpus": 0}, None), ({"gpus": 2}, 2), ({"gpus": 2, "pool_size": 5}, 5)]
)
def test_a_class_of_ones_own_is_called_once_a_gpu(requirement: dict[str, Any], pool: int | None) -> None:
    (task,) = resolved("custom_script", {"file_path": "m.py", "class_name": "M"}, requirement).tasks
    assert task.dut.adapter.resource_requirement.pool_size == pool
    assert "replicas" not in task.dut.backend.config
