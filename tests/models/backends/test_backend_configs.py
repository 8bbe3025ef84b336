from pathlib import Path
from typing import Any

import pytest

from gage_eval.base.errors import InputError
from gage_eval.extend import registry
from gage_eval.models.backends.base import BackendConfig, BackendContext
from gage_eval.models.backends.build import parse_config
from tests.support.marked_fields import walk_fields


def test_every_field_of_every_backend_carries_a_mark() -> None:
    names = registry.backends.names()
    assert {"openai_http", "dummy", "replay", "llama_cpp"} <= set(names)
    for plugin in registry.backends:
        model = plugin.info["config"]
        assert issubclass(model, BackendConfig)
        assert all(mark in {"semantic", "identity", "scheduling", "nested"} for _, mark, _ in walk_fields(model))


def test_listing_backends_loads_no_client_and_no_engine(repo_root: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from gage_eval.extend import registry; registry.backends.names(); "
        "import gage_eval.models.client.http, gage_eval.engine.wal, gage_eval.engine.runtime; "
        "print([m for m in ('aiohttp', 'uvloop', 'xllamacpp', 'prefect', 'pandas', 's3fs') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repo_root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_older_name_of_max_concurrency_is_understood() -> None:
    assert parse_config("dummy", {"async_max_concurrency": 7}).max_concurrency == 7


def test_an_unknown_backend_is_answered_with_the_closest_name() -> None:
    with pytest.raises(InputError, match="Did you mean 'openai_http'"):
        parse_config("openai_htp", {})


def test_the_context_shows_no_environment() -> None:
    assert "planted" not in repr(BackendContext(Path(), env={"KEY": "planted"}))


@pytest.mark.parametrize("config", [{"timeout": 0}, {"max_attempts": 0}, {"default_params": 3}])
def test_wrong_values_are_named_by_field(config: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"backend 'dummy': {next(iter(config))}: "):
        parse_config("dummy", config)
