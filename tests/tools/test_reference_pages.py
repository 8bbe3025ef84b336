"""The generated reference pages are those of the code, and every field of a config has a text."""

import importlib
from pathlib import Path

import pytest

from gage_eval.config import models
from gage_eval.config.field_docs import TEXTS


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("config_page", "config-reference"),
        ("commands_page", "commands"),
        ("suites_page", "suites-reference"),
        ("events_page", "events"),
    ],
)
def test_the_page_is_fresh(repo_root: Path, tool: str, name: str) -> None:
    page = importlib.import_module(f"tools.{tool}").page()
    assert (repo_root / "docs" / f"{name}.md").read_text(encoding="utf-8") == page, (
        f"docs/{name}.md is stale; write it by python -m tools.{tool}"
    )


def test_every_field_of_a_config_has_a_text() -> None:
    fields = {
        name: set(model.model_fields)
        for name, model in vars(models).items()
        if isinstance(model, type) and issubclass(model, models.ConfigModel) and model is not models.ConfigModel
    }
    assert {name: set(texts) for name, texts in TEXTS.items()} == fields
    assert all(field.description for field in models.TaskConfig.model_fields.values())
