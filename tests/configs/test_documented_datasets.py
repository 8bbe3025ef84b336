"""The worked examples of docs/datasets.md do what the page says, step by step."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gage_eval.config.load import load_config
from gage_eval.data.sample.table import rows_of
from gage_eval.extend import registry
from gage_eval.observability.observer import Observers
from gage_eval.pipeline import stages
from gage_eval.pipeline.action import StageContext
from gage_eval.pipeline.plan import make_plan
from gage_eval.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "datasets.md"
FILE = re.compile(r"`([\w/]+\.(?:csv|jsonl|json|py))`:\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
CONFIG = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Takes the page's N-th config through load, standardize and preprocess, beside the page's files."""
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    for name, content in FILE.findall(text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    configs = [yaml.safe_load(block) for block in CONFIG.findall(text)]

    def run(number: int) -> list[dict[str, Any]]:
        file = tmp_path / "config.yaml"
        # A fragment stands for its datasets; the model and the metrics are those of the example before it.
        whole = {**configs[number - 1], **configs[number]} if number else configs[0]
        file.write_text(yaml.safe_dump(whole), encoding="utf-8")
        loaded = load_config(file)
        assert loaded.warnings == ()
        (task,) = make_plan(loaded).tasks
        store = Store.open(str(tmp_path / "store"))
        env = StageContext(store, None, Observers(), "the-run")
        standard = stages.standardize(env, task.standardize, raw=stages.load(env, task.load))
        prepared = stages.preprocess(env, task.preprocess, samples=standard)
        made = rows_of(store.artifact(standard.outputs["samples"]).table())
        assert store.artifact(prepared.outputs["prepared"]).rows == len(made)
        return made

    return run


def test_the_quiz(samples: Any) -> None:
    made = samples(0)
    assert [(sample["label"], sample["data_tag"]) for sample in made] == [
        ("C", {"topic": "space"}),
        ("A", {"topic": "numbers"}),
    ]


def test_the_reviews_by_fields_and_by_code(samples: Any) -> None:
    by_fields, by_code = samples(1), samples(2)
    assert [(sample["id"], sample["label"]) for sample in by_fields] == [("17", "1"), ("18", "4")]
    assert by_fields[0]["messages"][0]["content"][0]["text"].startswith("Arrived broken, nobody answers.\n\nHow many")
    assert [(sample["id"], sample["label"]) for sample in by_code] == [("17", "no"), ("18", "yes")]


def test_the_receipts(samples: Any, tmp_path: Path) -> None:
    pictures = pytest.importorskip("support.pictures", reason="needs the extra media", exc_type=ImportError)
    (tmp_path / "scans" / "img").mkdir(parents=True)
    (tmp_path / "scans" / "img" / "001.png").write_bytes(pictures.image())
    (made,) = samples(3)
    assert (made["id"], made["label"]) == ("001", "9.00")
    assert made["messages"][0]["content"][0] == {"type": "image_url", "image_url": {"url": "img/001.png"}}


def test_the_hub_dataset_is_planned(samples: Any, tmp_path: Path) -> None:
    fragment = yaml.safe_load(CONFIG.findall(PAGE.read_text(encoding="utf-8"))[4])
    file = tmp_path / "hub.yaml"
    backends = [{"backend_id": "model", "type": "dummy", "config": {}}]
    file.write_text(yaml.safe_dump({**fragment, "backends": backends, "metrics": ["gsm8k"]}), encoding="utf-8")
    (task,) = make_plan(load_config(file)).tasks
    assert task.load.loader == "hf_hub"
    assert dict(task.load.params) == {"hub": "openai/gsm8k", "subset": "main", "split": "test"}


@pytest.mark.parametrize("kind", ["loaders", "preprocessors"])
def test_the_page_names_everything_there_is(kind: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    builtin = [plugin.name for plugin in registry.ALL[kind] if plugin.origin == "builtin"]
    assert [name for name in builtin if f"`{name}`" not in text] == []
