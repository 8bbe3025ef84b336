"""The configs that README and docs show can be pasted: they load, and the first one is short."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.config.load import load_config

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/first-config.md")


def yaml_blocks(page: str) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def write_data(folder: Path, config: dict[str, Any]) -> None:
    for dataset in config["datasets"]:
        file = folder / dataset["params"]["path"]
        file.write_text('{"question": "q", "choices": ["x", "y"], "answer": "A"}\n', encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_config_of_a_page_loads(page: str, tmp_path: Path) -> None:
    """A fragment counts as the page's first config with the fragment's sections in place of its own."""
    first, *fragments = [yaml.safe_load(block) for block in yaml_blocks(page)]
    for number, sections in enumerate([first, *fragments]):
        config = {**first, **sections}
        write_data(tmp_path, config)
        file = tmp_path / f"config{number}.yaml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        loaded = load_config(file, env={"MY_API_KEY": "set"})
        assert [dataset.dataset_id for dataset in loaded.config.datasets] == [
            dataset["dataset_id"] for dataset in config["datasets"]
        ]
        assert loaded.warnings == ()


def test_the_first_config_has_at_most_ten_lines() -> None:
    assert len(yaml_blocks("README.md")[0].splitlines()) <= 10


@pytest.mark.parametrize(
    "page", [*PAGES, "docs/index.md", "docs/concepts.md", "docs/install.md", "docs/uncertainty.md", "CONTRIBUTING.md"]
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!https?://)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []
