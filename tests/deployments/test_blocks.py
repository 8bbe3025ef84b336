"""The blocks: every field has a default, each gives a config that its backend takes, and secrets stay inside."""

import json
import os

import pytest
from prefect.blocks.core import Block
from pydantic import SecretStr

from blocks import BLOCKS, ArtifactStore, ModelEndpoint, PrefectBlocks, VLLMEngine, by_name, open_store
from flows.launch import deploy
from gage_eval.base.errors import InputError
from gage_eval.local.deployments import DeployOptions
from gage_eval.models.backends.build import parse_config

CANARY = "canary-0b6f-swordfish"


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_says_what_each_field_is_and_needs_none(block: type[Block]) -> None:
    block()
    assert "Example" not in (block.get_description() or "Example")
    assert "block" in (block.get_code_example() or "")
    assert str(block._documentation_url).endswith("docs/prefect.md#blocks")
    for field in block.model_json_schema()["properties"].values():
        assert field["title"]
        assert field["description"]
        assert "default" in field


def test_a_block_gives_its_backend_a_config_without_its_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = ModelEndpoint(base_url="http://h/v1", model="m", api_key=SecretStr(CANARY), max_concurrency=3)
    engine = VLLMEngine(model_path="owner/name", max_model_len=4096, enforce_eager=True)
    kept = {(ModelEndpoint, "a"): endpoint, (VLLMEngine, "b"): engine, (ModelEndpoint, "empty"): ModelEndpoint()}
    kept |= {(ModelEndpoint, "two"): endpoint, (VLLMEngine, "two"): engine}
    monkeypatch.setattr(by_name, "_read", lambda kind, name: kept.get((kind, name)))
    blocks = PrefectBlocks()

    for name in ("a", "b"):
        backend = blocks.backend(name)
        parse_config(backend["type"], backend["config"])
        assert CANARY not in json.dumps(backend)
    assert blocks.backend("a")["config"] == {
        "base_url": "http://h/v1", "model": "m", "max_concurrency": 3, "api_key": "block:model-endpoint/a",
    }  # fmt: skip
    assert blocks.secret("model-endpoint/a") == CANARY
    assert blocks.backend("vllm-engine/two")["type"] == "vllm"
    for name, message in {
        "none": "no Model Endpoint or vLLM Engine block 'none'. Create it",
        "vllm-engine/a": "no vLLM Engine block 'a'. Create it",
        "two": "two blocks are named 'two': write model-endpoint/two or vllm-engine/two.",
        "empty": "the block 'empty' has no URL.",
    }.items():
        with pytest.raises(InputError, match=message):
            blocks.backend(name)
    with pytest.raises(InputError, match="no Secret block 'a'"):
        blocks.secret("a")


def test_an_api_that_does_not_answer_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"the Prefect API did not give the block 'team' \(.*\): see that it runs"):
        PrefectBlocks("http://127.0.0.1:9/api").backend("team")


def test_a_store_by_name_brings_its_keys_for_the_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    block = ArtifactStore(url="s3://b/p", access_key_id="id", secret_access_key=SecretStr(CANARY), region="eu")
    monkeypatch.setattr(by_name, "_read", lambda kind, name: block if name == "team" else None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert open_store("block:team") == open_store("block:artifact-store/team") == "s3://b/p"
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == CANARY
    assert CANARY not in repr(block)
    assert open_store("folder") == "folder"
    with pytest.raises(InputError, match="no Artifact Store block 'other'"):
        open_store("block:other")


def test_deployments_are_not_given_a_store_that_no_block_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_name, "_read", lambda kind, name: None)
    with pytest.raises(InputError, match="no Artifact Store block 'other'"):
        deploy("http://127.0.0.1:9/api", DeployOptions(store="block:other"), tell=print)
