"""A small config to change one thing of, and what a reader of its mistakes sees."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import yaml

from gage_eval.base.errors import ConfigError
from gage_eval.config.load import LoadedConfig, parse_config

Small = Callable[..., str]


@pytest.fixture
def small() -> Small:
    """The smallest config as YAML text; keyword arguments replace or add sections."""

    def text(**sections: Any) -> str:
        data: dict[str, Any] = {
            "datasets": [{"dataset_id": "mine", "params": {"path": "mine.jsonl"}}],
            "backends": [
                {
                    "backend_id": "local",
                    "type": "openai_http",
                    "config": {"base_url": "http://h/v1", "model": "m"},
                }
            ],
            "metrics": ["exact_match"],
        }
        data.update(sections)
        return yaml.safe_dump({key: value for key, value in data.items() if value is not None}, sort_keys=False)

    return text


@pytest.fixture
def refusal() -> Callable[..., list[str]]:
    """The problems of a config as `path: message` lines, in the order a user sees them."""

    def lines(text: str, env: Mapping[str, str] | None = None, overrides: Sequence[str] = ()) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, env, overrides)
        return [f"{problem.path}: {problem.message}".removeprefix(": ") for problem in caught.value.problems]

    return lines


def load(text: str, env: Mapping[str, str] | None = None, overrides: Sequence[str] = ()) -> LoadedConfig:
    return parse_config(text, source="mine.yaml", env=env or {}, overrides=overrides)


@pytest.fixture(name="load")
def load_fixture() -> Callable[..., LoadedConfig]:
    """`parse_config` with an empty environment."""
    return load
