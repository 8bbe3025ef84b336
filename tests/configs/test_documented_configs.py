"""The configs that README and docs show can be pasted: they load, and the first one is short."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.base.stages import StageResult
from gage_eval.config.load import load_config
from gage_eval.data.sample.table import messages_from_array
from gage_eval.observability.observer import Observers
from gage_eval.pipeline import stages
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.plan import make_plan
from gage_eval.pipeline.specs import TaskPlan
from gage_eval.store import Store

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/first-config.md", "docs/few-shot.md", "docs/multimodal.md")


def yaml_blocks(page: str) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_every_section_of_the_config_page_fits_the_first_config(tmp_path: Path) -> None:
    """Three ways to write a metric stand together on the page; each of them means the same."""
    first = yaml.safe_load(yaml_blocks("README.md")[0])
    for sections in map(yaml.safe_load, yaml_blocks("docs/config.md")):
        metrics = []
        for metric in sections.pop("metrics", first["metrics"]):
            config = {**first, **sections, "metrics": [metric]}
            write_data(tmp_path, config)
            file = tmp_path / "config.yaml"
            file.write_text(yaml.safe_dump(config), encoding="utf-8")
            loaded = load_config(file)
            assert loaded.warnings == ()
            metrics.append(loaded.config.metrics)
        assert [other for other in metrics if other != metrics[0]] == []


def write_data(folder: Path, config: dict[str, Any]) -> None:
    if "include" in config:
        (folder / config["include"]).parent.mkdir(exist_ok=True)
        (folder / config["include"]).write_text("metadata: {name: shared}\n", encoding="utf-8")
    for dataset in config["datasets"]:
        params = {"path": dataset} if isinstance(dataset, str) else dataset["params"]
        file = folder / params["path"].replace("*", "one")
        file.parent.mkdir(parents=True, exist_ok=True)
        (folder / params.get("content_root", ".")).mkdir(parents=True, exist_ok=True)
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
        assert make_plan(loaded).tasks


def test_the_few_shot_page_shows_examples_of_the_same_subject(tmp_path: Path) -> None:
    (config,) = [yaml.safe_load(block) for block in yaml_blocks("docs/few-shot.md")]
    for split, rows in (("test", 1), ("dev", 5)):
        (tmp_path / "mmlu" / split).mkdir(parents=True)
        for subject in ("law", "art"):
            lines = [f"{subject} {split} {n}?,a,b,c,d,A\n" for n in range(rows)]
            (tmp_path / "mmlu" / split / f"{subject}_{split}.csv").write_text("".join(lines))
    prompts = prepared(tmp_path, config)
    assert [text.count("law dev") for text in prompts] == [0, 5]
    assert [text.count("art dev") for text in prompts] == [5, 0]


def test_the_record_of_the_multimodal_page_is_one_with_an_image(tmp_path: Path) -> None:
    pictures = pytest.importorskip("support.pictures", reason="needs the extra media", exc_type=ImportError)
    config = yaml.safe_load(yaml_blocks("docs/multimodal.md")[0])
    page = (ROOT / "docs/multimodal.md").read_text(encoding="utf-8")
    (record,) = re.findall(r"^```json\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    pictures.write_image(tmp_path / "data" / "scans" / "img" / "r1.jpg")
    (tmp_path / "data" / "receipts.jsonl").write_text(json.dumps(json.loads(record)), encoding="utf-8")
    (prompt,) = prepared(tmp_path, config)
    assert "media://sha256/" in prompt


def prepared(folder: Path, config: dict[str, Any]) -> list[str]:
    """The messages that the config's only task would send, as JSON."""
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    (task,) = make_plan(load_config(file)).tasks
    store = Store.open(str(folder / "store"))
    env = StageContext(store, None, Observers(), "the-run")

    def samples(of: TaskPlan) -> StageResult:
        return stages.standardize(env, of.standardize, raw=stages.load(env, of.load))

    ready = stages.preprocess(env, task.preprocess, samples=samples(task), few_shot=task.pool and samples(task.pool))
    table = store.artifact(ready.outputs["prepared"]).table()
    return [json.dumps(messages) for messages in messages_from_array(table["messages"], collapse=True)]


def test_the_first_config_has_at_most_ten_lines() -> None:
    assert len(yaml_blocks("README.md")[0].splitlines()) <= 10


@pytest.mark.parametrize(
    "page", [page.relative_to(ROOT).as_posix() for page in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])]
)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    path = ROOT / page
    links = re.findall(r"\]\((?!https?://)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []
