"""What would tell a Prefect server a secret is refused before the server is asked."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.runs import write_config

from flows.launch import launch, submit
from gage_eval.base.errors import InputError
from gage_eval.runs import RunOptions
from gage_eval.store import Store

NO_API = "http://127.0.0.1:9/api"
SECRET = "sk-abcdefghijklmnopqrstuvwx"


def submitted(options: RunOptions, api_url: str) -> None:
    submit(options, api_url, tell=lambda text: None)


@pytest.mark.parametrize("start", [launch, submitted])
@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"overrides": (f"backends.mock.config.api_key={SECRET}",)}, "--set backends.mock.config.api_key: "),
        ({"overrides": (f"backends[0].config.headers.x={SECRET}",)}, r"--set backends\[0\].config.headers.x: "),
        ({"model": "m", "endpoint": "https://joe:hunter2hunter2@localhost/v1"}, "--endpoint: this looks like"),
        ({"judges": ("m", SECRET)}, "--judges: this looks like"),
    ],
)
def test_options_with_a_secret_are_refused(
    start: Callable[..., object], more: dict[str, object], named: str, tmp_path: Path
) -> None:
    options = RunOptions.of({"config": "suite:demo", "store": str(tmp_path / "store"), **more})
    with pytest.raises(InputError, match=named) as refused:
        start(options, NO_API)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("start", [launch, submitted])
def test_a_config_with_a_secret_does_not_reach_the_store(start: Callable[..., object], tmp_path: Path) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1", rows=2, backend={"api_key": SECRET})
    options = RunOptions.of({"config": str(config), "store": str(tmp_path / "store")})
    with pytest.raises(InputError, match=r"api_key: a config must not contain a literal secret"):
        start(options, NO_API)
    kept = [file for file in (tmp_path / "store").rglob("*") if file.is_file()]
    assert not any(SECRET.encode() in file.read_bytes() for file in kept)
    assert Store.open(str(tmp_path / "store")).ls() == []
