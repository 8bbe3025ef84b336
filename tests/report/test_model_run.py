"""A model is shown under a short name that says what it is: its file or hub name, its quantisation, its engine."""

from pathlib import Path
from typing import Any

import pytest

from gage_eval.models.backends.base import BackendContext
from gage_eval.pipeline.generate_spec import GenerateSpec
from gage_eval.report.model_run import ModelRun, model_title


def described(base_dir: Path, backend: str = "vllm", **config: Any) -> ModelRun:
    context = BackendContext(base_dir=base_dir)
    return GenerateSpec("t", "dut_model", "dut", backend, config, context).described()


@pytest.mark.parametrize(
    ("config", "title"),
    [
        ({"model_path": "Qwen/Qwen3-8B", "quantization": "fp8"}, "Qwen/Qwen3-8B · fp8 · vllm"),
        ({"model_path": "here/mine"}, "mine · vllm"),
        ({"model_path": "here/mine", "lora_path": "ada/pter"}, "mine + pter · vllm"),
        ({"model_path": "Qwen/Qwen3-8B-AWQ", "quantization": "awq"}, "Qwen/Qwen3-8B-AWQ · vllm"),
        ({"model": "/srv/models/qwen", "base_url": "http://x/v1"}, "qwen · vllm"),
        ({"model": "openai/gpt-oss-20b", "base_url": "http://x/v1"}, "openai/gpt-oss-20b · vllm"),
        ({"model_path": "models--Qwen--Qwen3-8B/snapshots/b968"}, "Qwen/Qwen3-8B · vllm"),
    ],
)
def test_the_name_says_model_quantisation_and_engine(config: dict[str, Any], title: str, tmp_path: Path) -> None:
    for folder in ("here/mine", "models--Qwen--Qwen3-8B/snapshots/b968"):
        (tmp_path / folder).mkdir(parents=True)
    assert described(tmp_path, **config).title == title


def test_a_model_without_a_name_is_called_like_its_backend(tmp_path: Path) -> None:
    assert described(tmp_path, "dummy").title == "dummy"


def test_of_several_models_the_first_is_named_and_judges_are_not_under_test() -> None:
    models = [
        ModelRun(role=role, name=name, engine="vllm") for role, name in (("judge_model", "j"), ("dut_model", "a"))
    ]
    assert model_title(models) == "a · vllm"
    assert model_title([*models, ModelRun(role="dut_model", name="b", engine="vllm")]) == "a · vllm and 1 more"
    assert model_title(models[:1]) is None
