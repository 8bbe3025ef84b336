"""A config names Prefect blocks in place of backends: their values count as written, their secrets stay references."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import ConfigError, InputError
from gage_eval.config.load import LoadedConfig, parse_config
from gage_eval.config.model_choice import ModelChoice
from gage_eval.models.backends.base import BackendContext

ENDPOINT = {"base_url": "http://team/v1", "model": "m-1", "api_key": "block:model-endpoint/team", "max_concurrency": 4}


class Known:
    """One block of the name ``team``."""

    def __init__(self, **changed: Any) -> None:
        self._config = {**ENDPOINT, **changed}

    def secret(self, name: str) -> str:
        raise AssertionError("a config is read without secrets")

    def backend(self, name: str) -> Mapping[str, Any]:
        if name != "team":
            raise InputError(f"the Prefect API has no Model Endpoint or vLLM Engine block '{name}'.")
        return {"type": "openai_http", "config": self._config}


def read(text: str, blocks: Known | None = None, **changes: Any) -> LoadedConfig:
    return parse_config(text, base_dir=Path(), context=BackendContext(blocks=blocks or Known()), **changes)


def test_a_block_gives_a_backend_its_type_and_config_and_the_own_config_counts_first(small: Callable[..., str]) -> None:
    loaded = read(small(backends=[{"backend_id": "local", "block": "team", "config": {"max_concurrency": 9}}]))
    backend = loaded.config.backends[0]
    assert (backend.type, backend.config) == ("openai_http", {**ENDPOINT, "max_concurrency": 9})
    assert str(loaded.origins["backends[0].config.base_url"]) == "block team"
    assert loaded.blocks == {"team": {"type": "openai_http", "config": ENDPOINT}}
    written = read(small(backends=[{"backend_id": "local", "type": "openai_http", "config": backend.config}]))
    assert loaded.digest == written.digest


def test_a_block_inside_an_adapter_and_one_without_a_name_are_read_too(small: Callable[..., str]) -> None:
    inline = read(
        small(
            backends=None, role_adapters=[{"adapter_id": "a", "role_type": "dut_model", "backend": {"block": "team"}}]
        )
    )
    assert inline.config.role_adapters[0].backend is not None
    assert inline.config.role_adapters[0].backend.config["base_url"] == "http://team/v1"
    assert read(small(backends=[{"block": "team"}])).config.backends[0].config["model"] == "m-1"


def test_an_option_names_the_block_of_the_model_under_test(small: Callable[..., str]) -> None:
    chosen = read(small(), models=ModelChoice(model_block="team", model="m-2")).config.backends[0]
    assert (chosen.type, chosen.config["base_url"], chosen.config["model"]) == ("openai_http", "http://team/v1", "m-2")
    back = read(small(backends=[{"block": "team"}]), models=ModelChoice(model="m", endpoint="http://other/v1"))
    assert back.config.backends[0].config == {"base_url": "http://other/v1", "model": "m"}
    assert back.blocks == {}


@pytest.mark.parametrize(
    ("backend", "choice", "message"),
    [
        (
            {"block": "taem"},
            {},
            "backends[0].block: the Prefect API has no Model Endpoint or vLLM Engine block 'taem'.",
        ),
        ({"block": "team", "type": "vllm"}, {}, "backends[0].block: block 'team' gives the type: remove 'type'."),
        ({"block": 5}, {}, "backends[0].block: the name of a block is a text."),
        (
            {"block": "team"},
            {"model_block": "team", "endpoint": "http://h/v1"},
            "the block 'team' says it: leave out --e",
        ),
    ],
)
def test_a_wrong_block_is_one_sentence(
    small: Callable[..., str], backend: dict[str, Any], choice: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(small(backends=[backend]), models=ModelChoice(**choice))
    assert message in str(refused.value)


def test_without_an_api_a_block_is_refused(small: Callable[..., str]) -> None:
    with pytest.raises(ConfigError, match="block 'team' needs a Prefect API: set PREFECT_API_URL"):
        parse_config(small(backends=[{"block": "team"}]), base_dir=Path())
