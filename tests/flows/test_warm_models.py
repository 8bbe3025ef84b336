"""The deployment that fetches models: it takes names on the hub, each with a revision if there is one."""

import inspect
import logging
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from flows import warm_models as module
from flows.warm_models import Models, warm_models


def test_each_model_is_fetched_at_its_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[tuple[str, str | None]] = []

    def fetch(name: str, revision: str | None) -> Path:
        fetched.append((name, revision))
        return Path("/models")

    monkeypatch.setattr(module, "fetch_model", fetch)
    monkeypatch.setattr(module, "get_run_logger", logging.getLogger)
    state = inspect.unwrap(warm_models.fn)(["Qwen/Qwen3-8B", "org/model@refs/pr/1"])
    assert fetched == [("Qwen/Qwen3-8B", None), ("org/model", "refs/pr/1")]
    assert state.message == "2 models in the cache."


@pytest.mark.parametrize("models", [[], ["Qwen3-8B"], ["/var/lib/model"], ["org/model@"], ["https://hub/org/model"]])
def test_what_is_no_name_on_the_hub_is_refused_by_the_form(models: list[str]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Models).validate_python(models)
