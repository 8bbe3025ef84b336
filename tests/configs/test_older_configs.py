"""Configs of the first architecture work after the key changes that docs/older-configs.md lists.

Each example is one of the architecture document, with those changes, made whole by `REST` where it shows a part.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.base.errors import ConfigError
from gage_eval.config.load import LoadedConfig, parse_config

REST: dict[str, Any] = {
    "datasets": [{"dataset_id": "rest", "params": {"path": "rest.jsonl"}}],
    "backends": [{"backend_id": "qwen3_openai_http", "type": "dummy"}],
    "metrics": ["exact_match"],
}

JUDGE = """\
  - {adapter_id: dut, role_type: dut_model, backend_id: qwen3_openai_http}
  - {adapter_id: judge, role_type: judge_model, backend_id: qwen3_openai_http}
"""

EXAMPLES = {
    "verdicts of a judge as answers": f"""\
metrics:
  - metric_id: judge_acc
    implementation: multi_choice_accuracy
    params: {{prediction_field: judge_output.answer, label_field: sample.metadata.correct_choice}}
role_adapters:
{JUDGE}""",
    "images with a model of transformers": """\
datasets:
  - dataset_id: mmmu_val_local
    loader: jsonl
    params: {path: /data/mmmu_val_500.jsonl}
role_adapters:
  - adapter_id: mmmu_qwen25_vl
    role_type: dut_model
    backend:
      type: vlm_transformers
      config: {model_name_or_path: MODEL, dtype: bfloat16}
    capabilities: [vision_chat]
""",
    "one backend for two roles": """\
backends:
  - backend_id: qwen3_openai_http
    type: openai_http
    config:
      base_url: http://127.0.0.1:1234/v1
      model: qwen/qwen3-vl-30b
      timeout: 300
      default_params: {max_new_tokens: 128, temperature: 0.1}
role_adapters:
  - {adapter_id: dut_text, role_type: dut_model, backend_id: qwen3_openai_http, capabilities: [chat_completion]}
  - {adapter_id: judge_text, role_type: judge_model, backend_id: qwen3_openai_http, capabilities: [chat_completion]}
""",
    "shared steps": "custom: {steps: [{step: inference}, {step: auto_eval}]}\n",
    "structure in the data, words in the prompt": """\
datasets:
  - dataset_id: piqa_val
    params:
      path: piqa.jsonl
      preprocess: multi_choice_struct_only
      preprocess_kwargs: {question_field: goal, choices_field: choices, answer_field: label}
prompts:
  - prompt_id: piqa_multi_choice_zh
    template: |
      {{ sample.metadata.question_text }}
      {{ sample.metadata.option_map }}
role_adapters:
  - adapter_id: dut_qwen3
    role_type: dut_model
    backend_id: qwen3_openai_http
    prompt_id: piqa_multi_choice_zh
    prompt_params: {subject: piqa, dataset_name: piqa_val}
""",
    "a metric without parameters": "metrics: [{metric_id: multi_choice_acc, implementation: multi_choice_accuracy}]\n",
    "settings that are passed on": """\
backends:
  - backend_id: docvqa_qwen_vl_backend
    type: openai_http
    config:
      base_url: http://127.0.0.1:1234/v1
      model: qwen/qwen3-vl-30b
      default_params: {max_new_tokens: 128, temperature: 0.1}
      async_max_concurrency: 2
""",
    "a support model": """\
backends: [{backend_id: retriever_backend, type: dummy}, {backend_id: dut_backend, type: dummy}]
role_adapters:
  - {adapter_id: retriever_agent, role_type: support, backend_id: retriever_backend}
  - {adapter_id: dut_agent, role_type: inference, backend_id: dut_backend}
""",
    "documents": """\
datasets:
  - dataset_id: docvqa_val
    loader: jsonl
    params:
      path: local-datasets/HLE/hle_test_prompted.jsonl
      preprocess: docvqa_image_standardizer
      preprocess_kwargs:
        question_field: messages.0.content.1.text
        answers_field: choices.0.message.content.0.text
        image_field: messages.0.content.0.image_url.url
""",
    "a backend of one's own": """\
backends:
  - backend_id: my_custom_backend
    type: custom_script
    config: {module_path: my_pkg.custom_backends.my_backend_impl, class_name: MyEngineBackend, some_extra_flag: true}
""",
    "rouge": "metrics: [{metric_id: rouge_l, implementation: rouge}]\n",
    "a folder of data from the environment": """\
datasets:
  - dataset_id: mmmu_val_local
    loader: jsonl
    params: {path: "${LOCAL_DATASETS_ROOT:-./local-datasets}/MMMU/mmmu_val_500.jsonl", image_max_pixels: 12845056}
""",
    "fields of a metric": """\
metrics:
  - metric_id: mmmu_acc
    implementation: mmmu_accuracy
    params: {label_field: sample.choices.0.message.content.0.text, prediction_field: model_output.answer}
""",
}


def loaded(text: str, folder: Path) -> LoadedConfig:
    data = yaml.safe_load(text.replace("MODEL", str(folder)))
    return parse_config(yaml.safe_dump({**REST, **data}, sort_keys=False), base_dir=folder, env={})


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_loads(example: str, tmp_path: Path) -> None:
    assert loaded(EXAMPLES[example], tmp_path).tasks


def test_what_the_examples_say_is_what_runs(tmp_path: Path) -> None:
    backend = loaded(EXAMPLES["settings that are passed on"], tmp_path).config.backends[0]
    assert backend.config["async_max_concurrency"] == 2
    (task,) = loaded(EXAMPLES["shared steps"], tmp_path).tasks
    assert [step.step for step in task.steps] == ["inference", "auto_eval"]
    (task,) = loaded(EXAMPLES["a support model"], tmp_path).tasks
    assert task.support is not None
    assert (task.support.adapter.adapter_id, task.dut.adapter.adapter_id) == ("retriever_agent", "dut_agent")
    (task,) = loaded(EXAMPLES["structure in the data, words in the prompt"], tmp_path).tasks
    assert task.dut.prompt is not None
    assert task.dut.adapter.prompt_params["subject"] == "piqa"
    config = loaded(EXAMPLES["a folder of data from the environment"], tmp_path).config
    assert config.datasets[0].params.path == "./local-datasets/MMMU/mmmu_val_500.jsonl"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metrics: [rouge_l]\n", "Did you mean 'rouge'?"),
        (
            "role_adapters: [{adapter_id: a, role_type: dut, class_path: gage_eval.role.adapters.dut.DUTAdapter}]\n",
            "DUT",
        ),
    ],
)
def test_what_must_change_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(text, tmp_path)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.line is not None
