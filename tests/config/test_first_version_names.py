"""Names of the first version of GAGE in a config mean what they meant there, and become ours when it is read."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.authoring.catalog import entries, kinds
from gage_eval.base.errors import ConfigError
from gage_eval.config.legacy_names import BACKENDS, CONVERTERS, FIRST_VERSIONS_CONVERTERS, PREPROCESSORS
from gage_eval.config.load import load_config
from gage_eval.data.standardize.converters import embed_local_image_as_data_url, embed_local_message_images
from gage_eval.extend.loading import load_object
from gage_eval.extend.registry import backends, preprocessors


def _written(tmp_path: Path, **changes: Any) -> Path:
    (tmp_path / "rows.jsonl").write_text('{"question": "x", "answer": "y"}\n')
    config = {
        "datasets": [
            {"dataset_id": "d", "loader": "jsonl", "params": {"path": "rows.jsonl", **changes.get("params", {})}}
        ],
        "backends": [changes.get("backend", {"backend_id": "m", "type": "dummy", "config": {}})],
        "metrics": ["exact_match"],
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize("name", ["model_name_or_path", "model_path"])
def test_hf_inference_is_transformers_and_its_model_has_both_names(tmp_path: Path, name: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    backend = {"backend_id": "m", "type": "hf_inference", "config": {name: "model"}}
    config = load_config(_written(tmp_path, backend=backend)).config
    assert config.backends[0].type == "transformers"
    assert config.backends[0].config == {"model_path": "model"}


def test_both_names_of_the_model_at_once_are_refused(tmp_path: Path) -> None:
    both = {"model_path": "a", "model_name_or_path": "b"}
    with pytest.raises(ConfigError, match=r"name the same model\. Keep one"):
        load_config(_written(tmp_path, backend={"backend_id": "m", "type": "vlm_transformers", "config": both}))


@pytest.mark.parametrize(("theirs", "ours"), PREPROCESSORS.items())
def test_a_preprocessor_has_its_first_name_too(tmp_path: Path, theirs: str, ours: str) -> None:
    config = load_config(_written(tmp_path, params={"preprocess": theirs})).config
    assert config.datasets[0].params.preprocess == ours
    assert ours in preprocessors.names()


@pytest.mark.parametrize("form", ["{name}", "{module}:{name}", "{module}.{name}"])
@pytest.mark.parametrize("name", CONVERTERS)
def test_a_converter_is_found_by_its_name_or_its_first_path(tmp_path: Path, form: str, name: str) -> None:
    path = form.format(name=name, module=FIRST_VERSIONS_CONVERTERS)
    config = load_config(_written(tmp_path, params={"doc_to_visual": path})).config
    converter = config.datasets[0].params.doc_to_visual
    assert converter == CONVERTERS[name]
    assert callable(load_object(converter)[0])


def test_converters_give_the_addresses_of_pictures() -> None:
    segments = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": "a.png"}}]
    sample = {"messages": [], "extra": {"pages": segments}, "metadata": {"image_url": "b.png"}}
    assert embed_local_message_images(sample, content_field="pages") == ["a.png"]
    assert embed_local_message_images(sample, content_field="pages", content_root="img") == ["img/a.png"]
    assert embed_local_message_images(sample) == []
    assert embed_local_image_as_data_url(sample) == ["b.png"]


def test_every_name_stands_for_something_that_exists() -> None:
    assert set(BACKENDS.values()) <= set(backends.names())
    assert set(PREPROCESSORS.values()) <= set(preprocessors.names())


def test_roles_prompts_and_datasets_are_listed() -> None:
    assert {"roles", "prompts", "datasets"} <= set(kinds())
    assert [entry["name"] for entry in entries("roles")] == ["dut_model", "judge_model", "support", "user"]
    assert ("rate_turn_1", "suite mt_bench") in {(prompt["name"], prompt["config"]) for prompt in entries("prompts")}
    assert any(dataset["config"] == "pipelines/gsm8k.yaml" for dataset in entries("datasets"))


@pytest.mark.parametrize(
    ("name", "record", "field"),
    [
        ("multi_choice", {"question": "q", "choices": ["a", "b"], "answer": None}, "answer"),
        ("multi_choice_struct_only", {"question": "q", "choices": ["a", "b"], "answer": None}, "answer"),
        ("docvqa", {"question": "q", "image": "a.png", "answers": None}, "answers"),
        ("simple", {"question": "q", "answer": None}, "answer"),
        ("mmmu", {"question": "q", "options": "['a', 'b']", "answer": None}, "answer"),
        ("default", {"question": "q", "label": None}, "label"),
    ],
)
def test_a_null_label_is_a_missing_field_not_a_rejected_row(name: str, record: dict[str, Any], field: str) -> None:
    from gage_eval.data.standardize.compose import build

    sample = build(preprocessors.get(name), {})(record)
    assert not sample.get("references")
    if name != "default":
        with pytest.raises(Exception, match="Fields here"):
            build(preprocessors.get(name), {})({key: value for key, value in record.items() if key != field})
